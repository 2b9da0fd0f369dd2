"""The charts of one table with one model: losses by size, differences, stability, Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.comparing.outcomes import Outcome, TableSummary
from chaffinch.tasks.comparing.wording import cut, heading_of, short_name_of
from chaffinch.tasks.reporting.drawing import (
    ACCENT,
    INK,
    MUTED,
    PAPER,
    RULE,
    figure_of,
    markup,
    scale_sizes,
)
from chaffinch.tasks.reporting.wording import counted, number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from chaffinch.tasks.selection.vocabulary import Floats

_WIDTH = 9.0  # inches, as of the page
_ROW = 0.24
_PANELS_A_ROW = 3
_LONGEST_NAME = 30
_FARTHEST = 4.0  # times the greatest mean difference; intervals are cut where they reach further
_DASHED = (0, (4, 3))


def losses_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw the loss of each method against its number of features, a panel for each method.

    None where nothing was compared but all features.

    Parameters
    ----------
    table : TableSummary
        What was found.
    name : str
        Of the chart; no two of one page may share it.
    """
    curves: dict[str, list[Outcome]] = {}
    for outcome in table.rivals:
        if outcome.is_compared:
            curves.setdefault(outcome.contender.method, []).append(outcome)
    for curve in curves.values():
        curve.sort(key=lambda outcome: outcome.n_features or 0.0)
    if not curves:
        return None
    columns = min(_PANELS_A_ROW, len(curves))
    rows = -(-len(curves) // columns)
    height = 3.6 if rows == 1 and columns < _PANELS_A_ROW else 0.5 + 2.0 * rows
    label = (
        f"{heading_of(table)}: mean loss against the number of features, "
        f"{counted(len(curves), 'method')}, and that with all features as a line."
    )
    everywhere = _sizes([outcome for outcome in table.outcomes if outcome.is_compared])
    with figure_of(name, _WIDTH, height) as figure:
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (method, curve) in zip(panels, curves.items(), strict=False):
            for other in curves.values():
                axes.plot(_sizes(other), _losses(other), color=RULE, linewidth=1, marker=".")
            _draw_curve(axes, curve)
            if table.reference.is_compared:
                axes.axhline(
                    table.reference.mean_loss or 0.0, color=INK, linewidth=1, linestyle=_DASHED
                )
            axes.set_title(cut(method, _LONGEST_NAME), loc="left", fontsize=10, parse_math=False)
            axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        for axes in panels[len(curves) :]:
            axes.set_visible(False)
        for i, axes in enumerate(panels[: len(curves)]):
            scale_sizes(axes, _whole(everywhere), "features", most_ticks=6)
            is_lowest = i + columns >= len(curves)
            axes.tick_params(labelbottom=is_lowest)
            if not is_lowest:
                axes.set_xlabel("")
            if i % columns == 0:
                axes.set_ylabel("mean loss")
        return markup(figure, label)


def _draw_curve(axes: Axes, curve: Sequence[Outcome]) -> None:
    """Draw losses with a deviation to each side: as a band, or of a single size as a bar."""
    sizes, losses = _sizes(curve), _losses(curve)
    deviations = np.array([outcome.deviation or 0.0 for outcome in curve])
    if len(curve) > 1:
        axes.fill_between(
            sizes, losses - deviations, losses + deviations, color=ACCENT, alpha=0.15, linewidth=0
        )
    else:
        axes.plot(
            [sizes[0], sizes[0]],
            [losses[0] - deviations[0], losses[0] + deviations[0]],
            color=ACCENT,
            alpha=0.3,
            linewidth=4,
            solid_capstyle="butt",
        )
    axes.plot(sizes, losses, color=ACCENT, marker="o", markersize=5, markeredgecolor=PAPER)


def differences_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw the difference of each contender to all features with its interval; None without one.

    Parameters
    ----------
    table : TableSummary
        What was found.
    name : str
        Of the chart; no two of one page may share it.
    """
    drawn = [(outcome, outcome.difference) for outcome in table.rivals if outcome.difference]
    if not drawn:
        return None
    label = (
        f"{heading_of(table)}: difference of the loss to that with all features, of "
        f"{counted(len(drawn), 'method')} or sizes; below zero is better."
    )
    means = [difference.mean for _, difference in drawn]
    farthest = _FARTHEST * max(map(abs, means)) or np.inf
    ends = [end for _, difference in drawn for end in difference.interval or ()]
    seen = np.clip([0.0, *means, *ends], -farthest, farthest)
    margin = 0.06 * float(np.ptp(seen)) or 1.0
    with figure_of(name, _WIDTH, 0.9 + _ROW * len(drawn)) as figure:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1)
        for place, (outcome, difference) in enumerate(drawn):
            is_told = outcome.verdict != "cannot tell"
            if difference.interval:
                axes.plot(
                    difference.interval,
                    [place, place],
                    color=ACCENT,
                    linewidth=4,
                    alpha=1 if is_told else 0.35,
                    solid_capstyle="butt",
                )
            _draw_point(axes, difference.mean, place, is_filled=is_told)
        _name_rows(axes, [outcome for outcome, _ in drawn], table)
        axes.set_xlim(float(seen.min()) - margin, float(seen.max()) + margin)
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12), "+"))
        axes.set_xlabel("loss less that with all features")
        return markup(figure, label)


def repeats_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw how stable the sets of each contender are, and the seconds it took; None without any.

    Parameters
    ----------
    table : TableSummary
        What was found.
    name : str
        Of the chart; no two of one page may share it.
    """
    drawn = [outcome for outcome in table.outcomes if outcome.n_scored]
    if not drawn:
        return None
    label = (
        f"{heading_of(table)}: stability of the feature sets, and seconds for selection and for "
        f"training, of {counted(len(drawn), 'method')} or sizes."
    )
    with figure_of(name, _WIDTH, 1.1 + _ROW * len(drawn)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, outcome in enumerate(drawn):
            stability = outcome.stability
            if stability is None:
                continue
            if stability.interval:
                left.plot(
                    stability.interval,
                    [place, place],
                    color=ACCENT,
                    alpha=0.35,
                    linewidth=4,
                    solid_capstyle="butt",
                )
            _draw_point(left, stability.value, place, is_filled=True)
        _draw_seconds(right, drawn)
        _name_rows(left, drawn, table)
        left.set_xlim(min(0.0, left.get_xlim()[0]), 1.03)
        left.set_xlabel("stability of the feature sets")
        right.tick_params(axis="y", labelleft=False, length=0)
        right.spines["left"].set_visible(False)
        return markup(figure, label)


def _draw_seconds(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    """Draw the seconds of each contender, by logarithm where there are any but zero."""
    from matplotlib.ticker import LogLocator

    shown = []
    for place, outcome in enumerate(outcomes):
        for seconds, is_selection in (
            (outcome.training_seconds, False),
            (outcome.selection_seconds, True),
        ):
            if seconds:
                shown.append(seconds)
                _draw_point(axes, seconds, place, is_filled=is_selection)
    if shown:
        least, most = min(shown) / 1.5, max(shown) * 1.5
        axes.set_xscale("log")
        axes.set_xlim(least, most)
        subs = (1.0, 2.0, 5.0) if most < 100 * least else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axes.xaxis.set_major_formatter(lambda value, _: number(float(f"{value:.3g}")))
        axes.minorticks_off()
    axes.set_xlabel("seconds a cell: selection (filled), training (hollow)")
    axes.grid(axis="x")


def front_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw all compared contenders by number of features and loss; None without any.

    Parameters
    ----------
    table : TableSummary
        What was found.
    name : str
        Of the chart; no two of one page may share it.
    """
    drawn = [outcome for outcome in table.outcomes if outcome.is_compared]
    if not drawn:
        return None
    front = front_of(table)
    label = (
        f"{heading_of(table)}: mean loss against the number of features of "
        f"{counted(len(drawn), 'method')} or sizes; {number(len(front))} are on the Pareto front."
    )
    with figure_of(name, _WIDTH, 3.6) as figure:
        axes = figure.add_subplot()
        axes.plot(_sizes(drawn), _losses(drawn), "o", color=MUTED, markersize=5, alpha=0.6)
        axes.step(_sizes(front), _losses(front), where="post", color=ACCENT, linewidth=1)
        for place, outcome in enumerate(front, 1):
            at = outcome.n_features or 0.0, outcome.mean_loss or 0.0
            axes.plot(*at, "o", color=ACCENT, markersize=15, markeredgecolor=PAPER)
            axes.annotate(
                str(place), at, color=PAPER, ha="center", va="center_baseline", fontsize=9
            )
        if table.reference.is_compared:
            axes.axhline(
                table.reference.mean_loss or 0.0, color=INK, linewidth=1, linestyle=_DASHED
            )
        scale_sizes(axes, _whole(_sizes(drawn)), "features")
        axes.margins(y=0.15)
        axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        axes.set_ylabel("mean loss")
        return markup(figure, label)


def front_of(table: TableSummary) -> list[Outcome]:
    """Return the Pareto front, the fewest features first."""
    front = [outcome for outcome in table.outcomes if outcome.is_on_front]
    return sorted(front, key=lambda outcome: outcome.n_features or 0.0)


def _draw_point(axes: Axes, value: float, place: float, *, is_filled: bool) -> None:
    axes.plot(
        [value],
        [place],
        "o",
        markersize=7,
        markerfacecolor=ACCENT if is_filled else PAPER,
        markeredgecolor=ACCENT,
        markeredgewidth=1.4,
        zorder=3,
    )


def _name_rows(axes: Axes, outcomes: Sequence[Outcome], table: TableSummary) -> None:
    """Put the contenders' names beside the rows, the first on top."""
    names = [short_name_of(o.contender, table.contenders, _LONGEST_NAME) for o in outcomes]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.tick_params(axis="y", labelcolor=INK, length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _sizes(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([outcome.n_features or 0.0 for outcome in outcomes])


def _losses(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([outcome.mean_loss or 0.0 for outcome in outcomes])


def _whole(sizes: Floats) -> Floats:
    """Return the whole numbers of features that sizes reach from and to, 1 at least."""
    return np.maximum(1, [np.floor(sizes.min()), np.ceil(sizes.max())])
