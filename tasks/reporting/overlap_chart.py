"""Which features several sets have in common, drawn: a row per set, a column per feature."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from chaffinch.tasks.reporting.drawing import ACCENT, figure_of, markup
from chaffinch.tasks.reporting.wording import number

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_NAMES = 40  # more cannot be read beside each other
_LONGEST = 28  # letters of a name
_ROW = 0.32  # inches
_BAR = 0.7  # of a row


def overlap_chart(sets: Mapping[str, Collection[str]]) -> Markup:
    """Draw which of all their features each set has; what most have stands first.

    Parameters
    ----------
    sets : mapping of str to collection of str
        The features of each set by its name, at least one feature in all; sets stand from the top
        down in this order.
    """
    features = [*dict.fromkeys(name for one in sets.values() for name in one)]
    held = {name: tuple(name in one for one in map(set, sets.values())) for name in features}
    features.sort(key=lambda name: (-sum(held[name]), [not has for has in held[name]]))
    in_all = sum(map(all, held.values()))
    counts = ", ".join(f"{name} {number(len(one))}" for name, one in sets.items())
    label = (
        f"Features of {number(len(sets))} sets ({counts}): {number(len(features))} different "
        f"ones, {number(in_all)} of them in every set."
    )
    are_named = len(features) <= _MOST_NAMES
    with figure_of("overlap", 9.0, 0.7 + _ROW * len(sets) + (1.1 if are_named else 0)) as figure:
        axes = figure.add_subplot()
        for row, is_in in enumerate(zip(*(held[name] for name in features), strict=True)):
            axes.broken_barh(_stretches(is_in), (row - _BAR / 2, _BAR), facecolor=ACCENT)
        axes.set_yticks(
            range(len(sets)),
            [f"{name}, {number(len(one))} features" for name, one in sets.items()],
            parse_math=False,
        )
        axes.set_ylim(len(sets) - 0.5, -0.5)
        axes.set_xlim(0, len(features))
        if are_named:
            places = [place + 0.5 for place in range(len(features))]
            axes.set_xticks(places, map(_cut, features), rotation=45, ha="right", parse_math=False)
        else:
            axes.set_xticks([])
        said = f"{number(len(features))} features, {number(in_all)} of them in every set"
        axes.set_title(said, loc="left", fontsize=10)
        return markup(figure, label)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _stretches(is_in: Collection[bool]) -> list[tuple[float, float]]:
    """Return the start and width of each unbroken stretch of true values, from the left."""
    stretches: list[tuple[float, float]] = []
    start = 0
    for has, run in groupby(is_in):
        length = len(list(run))
        if has:
            stretches.append((start, length))
        start += length
    return stretches
