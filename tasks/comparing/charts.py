"""The charts of a comparison's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.comparing import text
from chaffinch.tasks.comparing.summary import Outcome, Ranking, TableSummary
from chaffinch.tasks.reporting.charts import (
    ACCENT,
    HOLLOW,
    INK,
    MUTED,
    PAPER,
    REFERENCE,
    RULE,
    figure_of,
    markup,
    plain_ticks,
    scale_sizes,
)
from chaffinch.tasks.reporting.text import counted, cut, number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from chaffinch.tasks.selection.core import Floats


_WIDTH = 9.0  # inches, as of the page
_ROW = 0.24
_PANELS_A_ROW = 3
_LONGEST_NAME = 30
_FARTHEST = 4.0  # intervals are cut at this multiple of the greatest mean difference


def losses_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw the loss against the number of features in a panel for each method; None without any."""
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
        f"{text.heading_of(table)}: mean loss against the number of features, "
        f"{counted(len(curves), 'method')}, and that with all features as a line."
    )
    everywhere = _sizes([outcome for outcome in table.outcomes if outcome.is_compared])
    with figure_of(name, _WIDTH, height) as figure:
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (method, curve) in zip(panels, curves.items(), strict=False):
            for other in curves.values():
                axes.plot(_sizes(other), _losses(other), color=RULE, linewidth=1, marker=".")
            _draw_curve(axes, curve)
            _draw_reference(axes, table.reference)
            axes.set_title(cut(method, _LONGEST_NAME), loc="left", fontsize=10, parse_math=False)
            plain_ticks(axes.yaxis)
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
    """Draw losses with their deviations: a band, or a bar for a single size."""
    sizes, losses = _sizes(curve), _losses(curve)
    deviations = np.array([outcome.deviation or 0.0 for outcome in curve])
    if len(curve) > 1:
        axes.fill_between(
            sizes, losses - deviations, losses + deviations, color=ACCENT, alpha=0.15, linewidth=0
        )
    else:
        ends = losses[0] - deviations[0], losses[0] + deviations[0]
        _draw_bar(axes, [sizes[0], sizes[0]], ends, 0.3)
    axes.plot(sizes, losses, color=ACCENT, marker="o", markersize=5, markeredgecolor=PAPER)


def differences_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw the difference of each contender to all features with its interval; None without one."""
    drawn = [(outcome, outcome.difference) for outcome in table.rivals if outcome.difference]
    if not drawn:
        return None
    label = (
        f"{text.heading_of(table)}: difference of the loss to that with all features, of "
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
            is_decided = outcome.verdict != "cannot tell"
            if difference.interval:
                _draw_bar(axes, difference.interval, [place, place], 1 if is_decided else 0.35)
            _draw_point(axes, difference.mean, place, is_filled=is_decided)
        _name_rows(axes, [outcome for outcome, _ in drawn], table)
        axes.set_xlim(float(seen.min()) - margin, float(seen.max()) + margin)
        plain_ticks(axes.xaxis, "+")
        axes.set_xlabel("loss less that with all features")
        return markup(figure, label)


def repeats_chart(table: TableSummary, name: str) -> Markup | None:
    """Draw the stability and the seconds of each contender; None without results."""
    drawn = [outcome for outcome in table.outcomes if outcome.n_scored]
    if not drawn:
        return None
    label = (
        f"{text.heading_of(table)}: stability of the feature sets, and seconds for selection and "
        f"for training, of {counted(len(drawn), 'method')} or sizes."
    )
    with figure_of(name, _WIDTH, 1.1 + _ROW * len(drawn)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, stability in enumerate(outcome.stability for outcome in drawn):
            if stability is None:
                continue
            if stability.interval:
                _draw_bar(left, stability.interval, [place, place], 0.35)
            _draw_point(left, stability.value, place, is_filled=True)
        _draw_seconds(right, drawn)
        _name_rows(left, drawn, table)
        left.set_xlim(min(0.0, left.get_xlim()[0]), 1.03)
        left.set_xlabel("stability of the feature sets")
        right.tick_params(axis="y", labelleft=False, length=0)
        right.spines["left"].set_visible(False)
        return markup(figure, label)


def _draw_seconds(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    """Draw the seconds of each contender on a logarithmic axis."""
    from matplotlib.ticker import LogLocator

    shown = []
    for place, outcome in enumerate(outcomes):
        times = (outcome.training_seconds, False), (outcome.selection_seconds, True)
        for seconds, is_selection in times:
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
    """Draw all compared contenders by number of features and loss; None without any."""
    drawn = [outcome for outcome in table.outcomes if outcome.is_compared]
    if not drawn:
        return None
    front = front_of(table)
    label = (
        f"{text.heading_of(table)}: mean loss against the number of features of "
        f"{counted(len(drawn), 'method')} or sizes; {number(len(front))} are on the Pareto front."
    )
    with figure_of(name, _WIDTH, 3.6) as figure:
        axes = figure.add_subplot()
        axes.plot(_sizes(drawn), _losses(drawn), "o", color=MUTED, markersize=5, alpha=0.6)
        axes.step(_sizes(front), _losses(front), where="post", color=ACCENT, linewidth=1)
        for place, outcome in enumerate(front, 1):
            at = outcome.n_features or 0.0, outcome.mean_loss or 0.0
            axes.plot(*at, "o", color=ACCENT, markersize=15, markeredgecolor=PAPER)
            middle: Any = {"ha": "center", "va": "center_baseline"}
            axes.annotate(str(place), at, color=PAPER, fontsize=10, **middle)
        _draw_reference(axes, table.reference)
        scale_sizes(axes, _whole(_sizes(drawn)), "features")
        axes.margins(y=0.15)
        plain_ticks(axes.yaxis)
        axes.set_ylabel("mean loss")
        return markup(figure, label)


def front_of(table: TableSummary) -> list[Outcome]:
    """Return the Pareto front, the fewest features first."""
    front = [outcome for outcome in table.outcomes if outcome.is_on_front]
    return sorted(front, key=lambda outcome: outcome.n_features or 0.0)


def _draw_bar(axes: Axes, x: Sequence[float], y: Sequence[float], alpha: float | None) -> None:
    axes.plot(x, y, color=ACCENT, alpha=alpha, linewidth=4, solid_capstyle="butt")


def _draw_reference(axes: Axes, reference: Outcome) -> None:
    """Draw the mean loss of all features as a dashed line."""
    if reference.is_compared:
        axes.axhline(reference.mean_loss or 0.0, **REFERENCE)


def _draw_point(axes: Axes, value: float, place: float, *, is_filled: bool) -> None:
    style: Any = {
        **HOLLOW,
        "markerfacecolor": ACCENT if is_filled else PAPER,
        "markeredgewidth": 1.4,
    }
    axes.plot([value], [place], "o", **style, markersize=7, zorder=3)


def _name_rows(axes: Axes, outcomes: Sequence[Outcome], table: TableSummary) -> None:
    """Label the rows with the contenders' names, the first on top."""
    names = [text.short_name_of(o.contender, table.contenders, _LONGEST_NAME) for o in outcomes]
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
    """Return the range of sizes as whole numbers of at least 1."""
    return np.maximum(1, [np.floor(sizes.min()), np.ceil(sizes.max())])


_LINE = 0.27  # inches to a line of names or a bar
_LONGEST_NAME_OF_RANKS = 28


def rank_chart(ranking: Ranking, name: str) -> Markup:
    """Draw a ranking, the best on the left."""
    n_methods = len(ranking.methods)
    n_lines = -(-n_methods // 2)
    bars = len(ranking.groups)
    above = 2.2 if ranking.critical_difference else 1.0
    below = 0.6 + 0.55 * bars + n_lines
    sizes = text.sizes_of(ranking)
    label = f"Mean ranks with {ranking.model}{f', {sizes}' if sizes else ''}: " + ", ".join(
        f"{method} {number(rank)}"
        for method, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)
    )
    with figure_of(name, _WIDTH, _LINE * (above + below) + 0.1) as figure:
        axes = figure.add_subplot()
        axes.set_axis_off()
        width = n_methods - 1
        axes.set_xlim(1 - 0.5 * width, n_methods + 0.5 * width)
        axes.set_ylim(-below, above)
        _draw_axis(axes, n_methods)
        for place, (first, last) in enumerate(ranking.groups):
            y = -0.5 - 0.55 * place
            ends = ranking.mean_ranks[first], ranking.mean_ranks[last]
            margin = 0.006 * width
            _draw_bar(axes, [ends[0] - margin, ends[1] + margin], [y, y], None)
        _draw_names(axes, ranking, n_lines, start=0.6 + 0.55 * bars)
        if ranking.critical_difference:
            _draw_difference(axes, ranking.critical_difference, n_methods)
        return markup(figure, label)


def _draw_axis(axes: Axes, n_methods: int) -> None:
    axes.plot([1, n_methods], [0, 0], color=INK, linewidth=1)
    for rank in range(1, n_methods + 1):
        axes.plot([rank, rank], [0, 0.2], color=INK, linewidth=1)
        axes.text(rank, 0.3, str(rank), color=MUTED, ha="center", va="bottom")


def _draw_names(axes: Axes, ranking: Ranking, n_lines: int, start: float) -> None:
    """Draw each name next to the axis, the better half left, with a line from its rank."""
    n_methods = len(ranking.methods)
    reach = 0.04 * (n_methods - 1)
    for place, (method, rank) in enumerate(zip(ranking.methods, ranking.mean_ranks, strict=True)):
        is_left = place < n_lines
        line = place if is_left else n_methods - 1 - place
        y = -start - line - 0.4
        side = 1 - reach if is_left else n_methods + reach
        axes.plot([rank, rank, side], [0, y, y], color=INK, linewidth=0.8)
        axes.plot([rank], [0], "o", color=ACCENT, markersize=6, markeredgecolor=PAPER)
        named = cut(method, _LONGEST_NAME_OF_RANKS)
        label, at, ends = f"{rank:.2f}  {named}", side + reach / 4, "left"
        if is_left:
            label, at, ends = f"{named}  {rank:.2f}", side - reach / 4, "right"
        axes.text(at, y, label, ha=ends, va="center_baseline", parse_math=False)


def _draw_difference(axes: Axes, difference: float, n_methods: int) -> None:
    """Draw the critical difference, cut at the length of the axis."""
    y = 1.5
    end = min(1 + difference, float(n_methods))
    axes.plot([1, end], [y, y], color=MUTED, linewidth=1.2, marker="|", markersize=7)
    longer = ", longer than the axis" if 1 + difference > n_methods else ""
    about, right = f"critical difference {number(difference)}{longer}", 0.02 * (n_methods - 1)
    axes.text(end + right, y, about, color=MUTED, va="center_baseline")
