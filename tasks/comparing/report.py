"""The report of a comparison: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.comparing import text
from chaffinch.tasks.comparing.summary import Outcome, Ranking, Summary, TableSummary
from chaffinch.tasks.reporting.charts import (
    ACCENT,
    INK,
    MUTED,
    PAPER,
    RULE,
    figure_of,
    markup,
    scale_sizes,
)
from chaffinch.tasks.reporting.page import template
from chaffinch.tasks.reporting.section import Kind, Table, numbers
from chaffinch.tasks.reporting.text import NOTHING, counted, cut, interval, listed, number, share
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.paired_tests import FEWEST_PAIRS
from chaffinch.tasks.statistics.verdict import VERDICTS

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
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12), "+"))
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
            axes.annotate(
                str(place), at, color=PAPER, ha="center", va="center_baseline", fontsize=10
            )
        _draw_reference(axes, table.reference)
        scale_sizes(axes, _whole(_sizes(drawn)), "features")
        axes.margins(y=0.15)
        axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
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
        loss = reference.mean_loss or 0.0
        axes.axhline(loss, color=INK, linewidth=1, linestyle=(0, (4, 3)))


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
        label = f"{named}  {rank:.2f}" if is_left else f"{rank:.2f}  {named}"
        axes.text(
            side - reach / 4 if is_left else side + reach / 4,
            y,
            label,
            ha="right" if is_left else "left",
            va="center_baseline",
            parse_math=False,
        )


def _draw_difference(axes: Axes, difference: float, n_methods: int) -> None:
    """Draw the critical difference, cut at the length of the axis."""
    y = 1.5
    end = min(1 + difference, float(n_methods))
    axes.plot([1, end], [y, y], color=MUTED, linewidth=1.2, marker="|", markersize=7)
    longer = ", longer than the axis" if 1 + difference > n_methods else ""
    axes.text(
        end + 0.02 * (n_methods - 1),
        y,
        f"critical difference {number(difference)}{longer}",
        color=MUTED,
        va="center_baseline",
    )


def verdict_counts(summary: Summary) -> Table:
    """Return the numbers of verdicts on each table with each model."""
    rows = []
    for table in summary.tables:
        verdicts = [outcome.verdict for outcome in table.rivals]
        gains = [o for o in table.rivals if o.verdict == "better" and o.mean_loss is not None]
        best = min(gains, key=lambda outcome: outcome.mean_loss or 0.0, default=None)
        rows.append(
            (
                table.table,
                table.model,
                *(number(verdicts.count(verdict)) for verdict in VERDICTS),
                NOTHING if best is None else text.name_of(best.contender, table.contenders),
                number(table.n_missing + table.n_failed),
            )
        )
    columns: dict[str, Kind] = {"Table": "name", "Model": "name"}
    columns |= numbers(*(verdict.capitalize() for verdict in VERDICTS))
    columns |= {"Best of the better": "name", "Losses missing": "number"}
    return Table("Methods and sizes by verdict", columns, rows)


def verdicts(table: TableSummary) -> Table:
    """Return the verdict on each contender, the better ones first."""
    by_verdict = [o for verdict in VERDICTS for o in table.rivals if o.verdict == verdict]
    rows = [
        (
            *_named(outcome),
            str(outcome.verdict).replace(" ", "\N{NO-BREAK SPACE}"),
            *_difference(outcome),
            text.reason_of(outcome, table),
        )
        for outcome in by_verdict
    ]
    columns: dict[str, Kind] = {"Method": "name", "Size": "number", "Verdict": "text"}
    columns |= numbers("Difference", "95 % interval", "Corrected p", "Pairs")
    caption = f"Verdicts ({loss_in_words(table.loss_name)})"
    return Table(caption, {**columns, "Why": "text"}, rows)


def figures(table: TableSummary) -> Table:
    rows = [
        (
            *_named(outcome),
            *map(number, (outcome.n_features, outcome.mean_loss, outcome.deviation)),
            *_stability(outcome),
            _seconds(outcome.selection_seconds),
            _seconds(outcome.training_seconds),
            number(outcome.n_scored),
        )
        for outcome in table.outcomes
    ]
    columns: dict[str, Kind] = {"Method": "name"}
    columns |= numbers("Size", "Kept", "Mean loss", "Deviation", "Stability", "95 % interval")
    columns |= numbers("Selection, s", "Training, s", "Cells")
    return Table("What was measured", columns, rows, 0)


def metrics(table: TableSummary) -> Table:
    """Return the mean metrics of each contender and of the constant."""
    found = [*(outcome.metrics for outcome in table.outcomes), table.constant_metrics]
    names = [name for name in METRICS if any(name in of_one for of_one in found)]
    named = [*map(_named, table.outcomes), ("a constant", NOTHING)]
    rows = [
        (*name, *(number(of_one.get(key)) for key in names))
        for name, of_one in zip(named, found, strict=True)
    ]
    columns: dict[str, Kind] = {"Method": "name"}
    columns |= numbers("Size", *(METRICS[name] for name in names))
    return Table("Mean metrics", columns, rows, 0)


def front(table: TableSummary) -> Table:
    """Return the Pareto front, numbered as in its chart."""
    rows = [
        (
            number(place),
            text.name_of(outcome.contender, table.contenders),
            number(outcome.n_features),
            number(outcome.mean_loss),
        )
        for place, outcome in enumerate(front_of(table), 1)
    ]
    columns: dict[str, Kind] = {"Place": "number", "Method": "name"}
    return Table("Pareto front", columns | numbers("Kept", "Mean loss"), rows)


def _named(outcome: Outcome) -> tuple[str, str]:
    contender = outcome.contender
    return text.method_of(contender), number(contender.size)


def _difference(outcome: Outcome) -> tuple[str, str, str, str]:
    difference = outcome.difference
    if difference is None:
        return NOTHING, NOTHING, NOTHING, "0"
    return (
        number(difference.mean, "+"),
        NOTHING if difference.interval is None else interval(difference.interval),
        number(outcome.corrected_p),
        number(difference.n_pairs),
    )


def _stability(outcome: Outcome) -> tuple[str, str]:
    stability = outcome.stability
    if stability is None:
        return NOTHING, NOTHING
    ends = stability.interval
    shown = NOTHING if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"
    return f"{stability.value:.2f}", shown


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:,.2f}"


_TEMPLATE = Path(__file__).parent / "comparison.html"
_MOST_OPEN = 3  # more tables are opened on demand
_MOST_IN_WORDS = 6  # with more tables, one sentence covers all
_MOST_IN_TITLE = 3
_FEWEST_TABLES = 5  # of a critical difference diagram


def render_comparison(summary: Summary, *, name: str) -> bytes:
    """Return the report as one HTML file in UTF-8, without scripts and links."""
    return template(_TEMPLATE).render(_view(summary, name)).encode()


def _view(summary: Summary, name: str) -> Mapping[str, Any]:
    tables = [*dict.fromkeys(table.table for table in summary.tables)]
    n_tables = len(tables)
    n_models = len({table.model for table in summary.tables})
    methods = {outcome.contender.method for t in summary.tables for outcome in t.rivals}
    scope = (
        f"{counted(len(methods), 'method')} against all features, on "
        f"{counted(n_tables, 'table')} with {counted(n_models, 'model')}."
    )
    if n_lacking := len(summary.not_reached):
        every = counted(len(summary.planned.pairs), "combination")
        scope += f" Of {every} of table and model {number(n_lacking)} were not reached."
    sentences_of_ranks = {text.ranks_of(ranking) for ranking in summary.rankings}
    return {
        "title": f"{listed(tables, _MOST_IN_TITLE)}: methods of selection compared",
        "name": name,
        "contents": [],  # headings, which the template collects
        "scope": scope,
        "overall": text.verdict_over(summary.tables)
        if len(summary.tables) > _MOST_IN_WORDS
        else None,
        "is_single": len(summary.tables) == 1,
        "first": verdicts(summary.tables[0])
        if len(summary.tables) == 1
        else verdict_counts(summary),
        "gaps": text.gaps_of(summary),
        "errors": list(text.errors_of(summary)),
        "warnings": summary.warnings,
        "remarks": summary.remarks,
        "rankings": [
            {
                "model": ranking.model,
                "sizes": text.sizes_of(ranking),
                "chart": rank_chart(ranking, f"ranks-{place}") if _is_drawn(ranking) else None,
                "ranks": mean_ranks(ranking),
                "sentences": text.ranks_of(ranking),
            }
            for place, ranking in enumerate(summary.rankings)
        ],
        "sizes_left_out": list(text.sizes_left_out(summary.tables)),
        "sentences_of_ranks": sentences_of_ranks.pop() if len(sentences_of_ranks) == 1 else None,
        "tables": [_table(table, i) for i, table in enumerate(summary.tables)],
        "is_open": len(summary.tables) <= _MOST_OPEN,
        "fewest_pairs": FEWEST_PAIRS,
        "tolerance": share(summary.planned.tolerance),
    }


def _is_drawn(ranking: Ranking) -> bool:
    """Return whether there are enough tables for a critical difference that is of use."""
    return ranking.over == "cells" or ranking.n_blocks >= _FEWEST_TABLES


def mean_ranks(ranking: Ranking) -> Table:
    rows = [
        (method, f"{rank:.2f}")
        for method, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)
    ]
    return Table("Mean ranks", {"Contender": "name", "Mean rank": "number"}, rows)


def _table(table: TableSummary, place: int) -> Mapping[str, Any]:
    return {
        "name": table.table,
        "model": table.model,
        "loss_name": loss_in_words(table.loss_name),
        "cells": text.cells_of(table),
        "means": text.means_of(table),
        "sentence": text.verdicts_of(table),
        "verdicts": verdicts(table),
        "figures": figures(table),
        "metrics": metrics(table),
        "front": front(table),
        "choices": text.choices_of(table),
        "losses_chart": losses_chart(table, f"losses-{place}"),
        "differences_chart": differences_chart(table, f"differences-{place}"),
        "repeats_chart": repeats_chart(table, f"repeats-{place}"),
        "front_chart": front_chart(table, f"front-{place}"),
    }
