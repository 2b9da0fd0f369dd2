"""The tables of a comparison's report: rows of text made from the summary."""

from __future__ import annotations

from chaffinch.tasks.comparing.charts import front_of
from chaffinch.tasks.comparing.outcomes import Outcome, TableSummary
from chaffinch.tasks.comparing.summary import Summary
from chaffinch.tasks.comparing.wording import method_of, name_of, reason_of
from chaffinch.tasks.comparison import Verdict
from chaffinch.tasks.reporting.tables import Kind, Table
from chaffinch.tasks.reporting.wording import NOTHING, interval, number
from chaffinch.tasks.selection.losses import loss_in_words

_VERDICTS: tuple[Verdict, ...] = ("helps", "does not help", "cannot tell")  # in this order


def verdict_counts(summary: Summary) -> Table:
    """Return how many methods and sizes help on each table with each model."""
    rows = []
    for table in summary.tables:
        verdicts = [outcome.verdict for outcome in table.rivals]
        gains = [o for o in table.rivals if o.verdict == "helps" and o.mean_loss is not None]
        best = min(gains, key=lambda outcome: outcome.mean_loss or 0.0, default=None)
        rows.append(
            (
                table.table,
                table.model,
                *(number(verdicts.count(verdict)) for verdict in _VERDICTS),
                NOTHING if best is None else name_of(best.contender, table.contenders),
                number(table.n_missing + table.n_failed),
            )
        )
    columns: dict[str, Kind] = {
        "Table": "name",
        "Model": "name",
        "Helps": "number",
        "Does not help": "number",
        "Cannot tell": "number",
        "Best that helps": "name",
        "Losses missing": "number",
    }
    return Table("Methods and sizes by verdict", columns, rows)


def verdicts(table: TableSummary) -> Table:
    """Return the verdict on each contender, those that help first."""
    by_verdict = [o for verdict in _VERDICTS for o in table.rivals if o.verdict == verdict]
    rows = [
        (
            *_named(outcome),
            str(outcome.verdict).replace(" ", "\N{NO-BREAK SPACE}"),
            *_difference(outcome),
            reason_of(outcome, table.n_tested),
        )
        for outcome in by_verdict
    ]
    columns: dict[str, Kind] = {
        "Method": "name",
        "Size": "number",
        "Verdict": "text",
        "Difference": "number",
        "95 % interval": "number",
        "Corrected p": "number",
        "Pairs": "number",
        "Why": "text",
    }
    return Table(f"Verdicts ({loss_in_words(table.loss_name)})", columns, rows)


def figures(table: TableSummary) -> Table:
    """Return what was measured of each contender."""
    rows = [
        (
            *_named(outcome),
            number(outcome.n_features),
            number(outcome.mean_loss),
            number(outcome.deviation),
            *_stability(outcome),
            _seconds(outcome.selection_seconds),
            _seconds(outcome.training_seconds),
            number(outcome.n_scored),
        )
        for outcome in table.outcomes
    ]
    columns: dict[str, Kind] = {
        "Method": "name",
        "Size": "number",
        "Kept": "number",
        "Mean loss": "number",
        "Deviation": "number",
        "Stability": "number",
        "95 % interval": "number",
        "Selection, s": "number",
        "Training, s": "number",
        "Cells": "number",
    }
    return Table("What was measured", columns, rows, 0)


def front(table: TableSummary) -> Table:
    """Return the Pareto front, numbered as in its chart."""
    rows = [
        (
            number(place),
            name_of(outcome.contender, table.contenders),
            number(outcome.n_features),
            number(outcome.mean_loss),
        )
        for place, outcome in enumerate(front_of(table), 1)
    ]
    columns: dict[str, Kind] = {
        "Place": "number",
        "Method": "name",
        "Kept": "number",
        "Mean loss": "number",
    }
    return Table("Pareto front", columns, rows)


def _named(outcome: Outcome) -> tuple[str, str]:
    contender = outcome.contender
    return method_of(contender), number(contender.size)


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
