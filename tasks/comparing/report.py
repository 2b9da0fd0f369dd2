"""The report of a comparison: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaffinch.tasks.comparing import charts, tables
from chaffinch.tasks.comparing.gaps import errors_of, gaps_of, sizes_left_out
from chaffinch.tasks.comparing.outcomes import TableSummary
from chaffinch.tasks.comparing.rank_chart import rank_chart
from chaffinch.tasks.comparing.ranking import Ranking
from chaffinch.tasks.comparing.statistics import FEWEST_PAIRS
from chaffinch.tasks.comparing.summary import Summary
from chaffinch.tasks.comparing.wording import (
    cells_of,
    choices_of,
    means_of,
    ranks_of,
    sizes_of,
    verdict_over,
    verdicts_of,
)
from chaffinch.tasks.reporting.page import template
from chaffinch.tasks.reporting.tables import Table
from chaffinch.tasks.reporting.wording import counted, number
from chaffinch.tasks.selection.losses import loss_in_words

_TEMPLATE = Path(__file__).parent / "comparison.html"
_MOST_OPEN = 3  # more tables are opened on demand
_MOST_IN_WORDS = 6  # more are put into words together


def render_comparison(summary: Summary, *, title: str) -> bytes:
    """Return the report as one HTML file in UTF-8.

    The file asks nothing of the network and runs nothing; equal summaries give equal bytes.

    Parameters
    ----------
    summary : Summary
        What was found.
    title : str
        Of the comparison.
    """
    return template(_TEMPLATE).render(_view(summary, title)).encode()


def _view(summary: Summary, title: str) -> Mapping[str, Any]:
    """Return what the template names."""
    n_tables = len({table.table for table in summary.tables})
    n_models = len({table.model for table in summary.tables})
    methods = {outcome.contender.method for t in summary.tables for outcome in t.rivals}
    scope = (
        f"{counted(len(methods), 'method')} against all features, on "
        f"{counted(n_tables, 'table')} with {counted(n_models, 'model')}."
    )
    if n_lacking := len(summary.not_reached):
        every = counted(len(summary.planned.pairs), "combination")
        scope += f" Of {every} of table and model {number(n_lacking)} were not reached."
    ranks_said = {ranks_of(ranking) for ranking in summary.rankings}
    return {
        "title": title,
        "scope": scope,
        "overall": verdict_over(summary.tables) if len(summary.tables) > _MOST_IN_WORDS else None,
        "is_single": len(summary.tables) == 1,
        "first": _first_table(summary),
        "gaps": gaps_of(summary),
        "errors": list(errors_of(summary)),
        "warnings": summary.warnings,
        "remarks": summary.remarks,
        "rankings": [_ranking(ranking, i) for i, ranking in enumerate(summary.rankings)],
        "sizes_left_out": list(sizes_left_out(summary.tables)),
        "ranks_said": ranks_said.pop() if len(ranks_said) == 1 else None,
        "tables": [_table(table, i) for i, table in enumerate(summary.tables)],
        "is_open": len(summary.tables) <= _MOST_OPEN,
        "fewest_pairs": FEWEST_PAIRS,
    }


def _first_table(summary: Summary) -> Table:
    """Return the verdicts: each of them, or for many tables their counts."""
    if len(summary.tables) == 1:
        return tables.verdicts(summary.tables[0])
    return tables.verdict_counts(summary)


def _ranking(ranking: Ranking, place: int) -> Mapping[str, Any]:
    return {
        "model": ranking.model,
        "sizes": sizes_of(ranking),
        "chart": rank_chart(ranking, f"ranks-{place}"),
        "said": ranks_of(ranking),
    }


def _table(table: TableSummary, place: int) -> Mapping[str, Any]:
    return {
        "name": table.table,
        "model": table.model,
        "loss_name": loss_in_words(table.loss_name),
        "cells": cells_of(table),
        "means": means_of(table),
        "sentence": verdicts_of(table),
        "verdicts": tables.verdicts(table),
        "figures": tables.figures(table),
        "front": tables.front(table),
        "choices": choices_of(table),
        "losses_chart": charts.losses_chart(table, f"losses-{place}"),
        "differences_chart": charts.differences_chart(table, f"differences-{place}"),
        "repeats_chart": charts.repeats_chart(table, f"repeats-{place}"),
        "front_chart": charts.front_chart(table, f"front-{place}"),
    }
