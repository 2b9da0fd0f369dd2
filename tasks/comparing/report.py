"""The report of a comparison: one HTML page without scripts, made of sections and tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaffinch.tasks.comparing import charts, text
from chaffinch.tasks.comparing.charts import front_of
from chaffinch.tasks.comparing.summary import FEWEST_TABLES, Outcome, Ranking, Summary, TableSummary
from chaffinch.tasks.reporting.page import template
from chaffinch.tasks.reporting.section import (
    Block,
    Bullets,
    Definitions,
    Figure,
    Kind,
    Section,
    Subheading,
    Table,
    folded,
    note,
    numbers,
    paragraph,
    section,
)
from chaffinch.tasks.reporting.text import NOTHING, counted, listed, number, share
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.paired_tests import FEWEST_PAIRS
from chaffinch.tasks.statistics.verdict import VERDICTS

_TEMPLATE = Path(__file__).parent / "comparison.html"
_MOST_OPEN = 3  # more tables are opened on demand
_MOST_IN_WORDS = 6  # with more tables, one sentence covers all
_MOST_IN_TITLE = 3


_DIFFERENCES = (
    "Difference of the loss to that with all features, each with its 95 % interval; below zero "
    "is better. Filled: decided, with all methods and sizes allowed for, also where the "
    "tolerance decides; hollow: cannot tell. The number after a name is that of the features "
    "asked for. Intervals that reach very far are cut."
)
_LOSSES = (
    "Mean loss over folds and seeds; shaded, one standard deviation to each side. It holds what "
    "makes a fold hard for every method, so bands overlap even where the differences above are "
    "clear. Grey: the other methods; dashed: all features."
)
_FRONT = (
    "Every method and size. No other has fewer features and as low a loss as one on the front, "
    "or as few and a lower one. Dashed: all features."
)
_REPEATS = (
    "Stability is 1 if a method keeps the same features on other folds and seeds, and about 0 "
    "if it may as well draw them at random. A cell is one outer fold under one seed."
)


def render_comparison(summary: Summary, *, name: str) -> bytes:
    """Return the report as an HTML file in UTF-8, without scripts and links."""
    names = [*dict.fromkeys(table.table for table in summary.tables)]
    is_single, is_long = len(summary.tables) == 1, len(summary.tables) > _MOST_IN_WORDS
    sections = [made for made in _sections(summary) if made.blocks]
    how_to_read = section("How to read it", [how_to_read_it()])
    tables = [
        (f"table-{place}", table.table, table.model, list(_of_table(summary, place - 1)))
        for place, table in enumerate(summary.tables, 1)
    ]
    page = template(_TEMPLATE).render(
        title=f"{listed(names, _MOST_IN_TITLE)}: methods of selection compared",
        name=name,
        scope=_scope(summary),
        overall=text.verdict_over(summary.tables) if is_long else None,
        sentences=[
            (t.table, t.model, text.recommendation_of(t), text.verdicts_of(t))
            for t in summary.tables
        ],
        first=verdicts(summary.tables[0]) if is_single else verdict_counts(summary),
        tolerance=share(summary.planned.tolerance),
        contents=[
            *((section.id, section.heading) for section in sections),
            *((place, f"{table}, {model}") for place, table, model, _ in tables),
            (how_to_read.id, how_to_read.heading),
        ],
        sections=sections,
        tables=tables,
        is_open=len(tables) <= _MOST_OPEN,
        how_to_read=how_to_read,
    )
    return page.encode()


def _scope(summary: Summary) -> str:
    n_tables, n_models = (
        len({getattr(table, what) for table in summary.tables}) for what in ("table", "model")
    )
    methods = {outcome.contender.method for t in summary.tables for outcome in t.rivals}
    scope = (
        f"{counted(len(methods), 'method')} against all features, on "
        f"{counted(n_tables, 'table')} with {counted(n_models, 'model')}."
    )
    if n_lacking := len(summary.not_reached):
        every = counted(len(summary.planned.pairs), "combination")
        scope += f" Of {every} of table and model {number(n_lacking)} were not reached."
    return scope


def _sections(summary: Summary) -> Iterator[Section]:
    warnings = {
        "What is missing": [*text.gaps_of(summary), *text.errors_of(summary)],
        "Warnings about the data": summary.warnings,
        "Warnings of libraries": summary.remarks,
    }
    for heading, texts in warnings.items():
        yield section(heading, [Bullets("warnings", texts)] if texts else [])
    yield section("Ranks", ranks(summary))


def ranks(summary: Summary) -> Iterator[Block]:
    """Return each ranking as a chart or a table; sentences that all share come last, once."""
    if not summary.rankings:
        return
    sentences = {text.ranks_of(ranking) for ranking in summary.rankings}
    is_shared = len(sentences) == 1
    for place, ranking in enumerate(summary.rankings):
        sizes, said = text.sizes_of(ranking), "" if is_shared else text.ranks_of(ranking)
        yield Subheading(ranking.model, f", {sizes}" if sizes else "")
        if _is_drawn(ranking):
            yield Figure(charts.rank_chart(ranking, f"ranks-{place}"), said)
        else:
            yield mean_ranks(ranking)
            if said:
                yield note(said)
    if is_shared:
        yield note(*sentences)
    for sentence in text.sizes_left_out(summary.tables):
        yield note(sentence)
    yield note(
        "The lower the mean rank, the better; of equal losses each has the mean of their ranks. A "
        "contender is a method at the size that it was asked for or at its own, or all features; "
        "the last two stand in each ranking. A bar joins those that are not shown to differ."
    )


def _of_table(summary: Summary, place: int) -> Iterator[Block]:
    """Return the blocks of a table with a model."""
    table, n_tables = summary.tables[place], len(summary.tables)
    yield note(
        f"{loss_in_words(table.loss_name)}, lower is better; {text.cells_of(table)}. "
        f"{text.means_of(table)}"
    )
    if n_tables > 1:
        yield Subheading("Verdicts")
        if n_tables > _MOST_IN_WORDS:
            yield paragraph(text.verdicts_of(table))
        if (table_of_verdicts := verdicts(table)).rows:
            yield table_of_verdicts
    yield Subheading("Differences")
    if (chart := charts.differences_chart(table, f"differences-{place}")) is not None:
        yield Figure(chart, _DIFFERENCES)
    yield Subheading("Loss against number of features")
    if (chart := charts.losses_chart(table, f"losses-{place}")) is not None:
        yield Figure(chart, _LOSSES)
    if choices := text.choices_of(table):
        yield Bullets("sentences", choices)
    if len((of_metrics := metrics(table)).columns) > 2:
        yield Subheading("Metrics")
        yield note(
            "Means over the same cells as the losses; no decision uses them. Lower is better for "
            "RMSE, MAE and log loss, higher for the others."
        )
        yield folded(of_metrics)
    yield Subheading("Pareto front")
    if (chart := charts.front_chart(table, f"front-{place}")) is not None:
        yield Figure(chart, _FRONT)
    if (on_front := front(table)).rows:
        yield on_front
    yield Subheading("Stability and time")
    if (chart := charts.repeats_chart(table, f"repeats-{place}")) is not None:
        yield Figure(chart, _REPEATS)
    yield folded(figures(table))


def how_to_read_it() -> Definitions:
    return Definitions(
        {
            "Cell": "is an outer fold under a seed, of one table with one model: selection and "
            "training see its training rows alone, and the loss is that of its test rows. Each "
            "seed deals the rows into folds again.",
            "Difference": "is the loss of a method less that with all features, averaged over the "
            "cells that have both.",
            "Interval": "holds the true difference in about 95 % of cases. Training rows of folds "
            "overlap, so the differences of cells are not independent: this is Student’s interval "
            "with the variance corrected for that (Nadeau and Bengio 2003), and takes "
            f"{FEWEST_PAIRS} pairs at least. It is about other rows of the same kind, not about "
            "other tables.",
            "Pairs": "are the cells that have the loss of the method and that with all features.",
            "Corrected p": "is the p value of a difference of zero, corrected for all methods and "
            "sizes of the same table and model (Holm 1979). The verdict goes by it, at 5 %, so "
            "that one lucky method of many is no win. The p values of a difference to the "
            "constant’s loss, and of a loss beyond the tolerated one, are corrected likewise; all "
            "features are compared with the constant once. Over several tables and models, each "
            "has that chance of a wrong verdict again.",
            "Mean rank": "says how a method does among the others. Whether any differ at all is "
            "Friedman’s test, which of them Nemenyi’s critical difference (Demsar 2006).",
            "Stability": "follows Nogueira, Sechidis and Brown (2018). Its interval takes the "
            "sets for independent, which they are not quite, and so is rather too short.",
            "Near the best": "is a size whose mean loss exceeds that of the best size by no more "
            "than one standard error, the smaller of that of the best’s own mean loss (Breiman "
            "and others 1984) and that of the excess, both corrected for folds that share their "
            "rows, and is below a constant’s.",
        }
    )


def _is_drawn(ranking: Ranking) -> bool:
    """Return whether there are enough tables for a critical difference that is of use."""
    return ranking.over == "cells" or ranking.n_blocks >= FEWEST_TABLES


def mean_ranks(ranking: Ranking) -> Table:
    rows = [
        (method, f"{rank:.2f}")
        for method, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)
    ]
    return Table("Mean ranks", {"Contender": "name", "Mean rank": "number"}, rows)


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
            text.name_of(outcome.contender, table.contenders),
            number(outcome.n_features),
            str(outcome.verdict).replace(" ", "\N{NO-BREAK SPACE}"),
            text.reason_of(outcome, table),
            *text.difference_of(outcome),
        )
        for outcome in by_verdict
    ]
    columns: dict[str, Kind] = {"Method": "name", "Kept": "number", "Verdict": "text"}
    columns |= {"Why": "text", **numbers("Difference", "95 % interval")}
    return Table(f"Verdicts ({loss_in_words(table.loss_name)})", columns, rows)


def figures(table: TableSummary) -> Table:
    rows = [
        (
            *_named(outcome),
            *map(number, (outcome.n_features, outcome.mean_loss, outcome.deviation)),
            *text.stability_of(outcome),
            _seconds(outcome.selection_seconds),
            _seconds(outcome.training_seconds),
            number(outcome.n_scored),
            number(outcome.difference.n_pairs if outcome.difference else None),
            number(outcome.corrected_p),
        )
        for outcome in table.outcomes
    ]
    columns: dict[str, Kind] = {"Method": "name"}
    columns |= numbers("Size", "Kept", "Mean loss", "Deviation", "Stability", "95 % interval")
    columns |= numbers("Selection, s", "Training, s", "Cells", "Pairs", "Corrected p")
    return Table("What was measured", columns, rows, 0)


def metrics(table: TableSummary) -> Table:
    """Return the mean metrics of each contender and of the constant."""
    measured = [*(outcome.metrics for outcome in table.outcomes), table.constant_metrics]
    names = [name for name in METRICS if any(name in means for means in measured)]
    named = [*map(_named, table.outcomes), ("a constant", NOTHING)]
    rows = [
        (*name, *(number(means.get(key)) for key in names))
        for name, means in zip(named, measured, strict=True)
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


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:,.2f}"
