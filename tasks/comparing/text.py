"""Summary of a comparison as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from rich.cells import cell_len

from chaffinch.tasks.comparing.plan import Contender
from chaffinch.tasks.comparing.summary import Outcome, Ranking, Summary, TableSummary
from chaffinch.tasks.comparing.wording import (
    allowance_of,
    cells_of,
    choices_of,
    cut,
    errors_of,
    gaps_of,
    heading_of,
    means_of,
    name_of,
    ranks_of,
    reasons_of,
    sizes_left_out,
    sizes_of,
    verdicts_of,
)
from chaffinch.tasks.reporting.text import NOTHING, interval, number, visible
from chaffinch.tasks.selection.losses import loss_in_words

_COLUMNS = (
    *("method", "kept", "loss", "deviation", "difference", "95 % interval"),
    *("verdict", "stability", "seconds"),
)
_AS_TEXT = {0, 6}  # left-aligned columns
_LONGEST_NAME = 36


def lines_of(summary: Summary) -> list[str]:
    """Return a compact table for every table and model, then ranks, gaps and errors.

    The lines are plain text: rich would parse square brackets in names as markup.
    """
    lines: list[str] = []
    for table in summary.tables:
        lines += [*_of_table(table), ""]
    for model, rankings in groupby(summary.rankings, attrgetter("model")):
        lines += [*_of_rankings(model, list(rankings)), ""]
    lines += sizes_left_out(summary.tables)
    lines += gaps_of(summary)
    lines += errors_of(summary)
    lines += summary.remarks
    while lines and not lines[-1]:
        lines.pop()
    return [visible(line) for line in lines]


def _of_table(table: TableSummary) -> Iterator[str]:
    cells = cells_of(table)
    yield f"{heading_of(table)}: {loss_in_words(table.loss_name)}, lower is better; {cells}"
    everyone = table.contenders
    yield from _aligned([_COLUMNS, *(_row(outcome, everyone) for outcome in table.outcomes)])
    if table.has_further_cells:
        yield means_of(table)
    if allowance := allowance_of(table):
        yield allowance
    yield verdicts_of(table)
    yield from reasons_of(table)
    yield from choices_of(table)


def _row(outcome: Outcome, everyone: Sequence[Contender]) -> tuple[str, ...]:
    difference, stability = outcome.difference, outcome.stability
    seconds = (outcome.selection_seconds or 0) + (outcome.training_seconds or 0)
    return (
        cut(name_of(outcome.contender, everyone), _LONGEST_NAME),
        number(outcome.n_features),
        number(outcome.mean_loss),
        number(outcome.deviation),
        NOTHING if difference is None else number(difference.mean, "+"),
        NOTHING if difference is None or not difference.interval else interval(difference.interval),
        outcome.verdict or NOTHING,
        NOTHING if stability is None else f"{stability.value:.2f}",
        f"{seconds:,.2f}" if outcome.n_scored else NOTHING,
    )


def _of_rankings(model: str, rankings: Sequence[Ranking]) -> Iterator[str]:
    """Yield the ranks with one model, a column for each size, and their interpretation."""
    yield f"Mean ranks, {model}"
    by_size = [dict(zip(r.methods, r.mean_ranks, strict=True)) for r in rankings]
    rows = [
        (cut(method, _LONGEST_NAME), *(_rank(ranks.get(method)) for ranks in by_size))
        for method in dict.fromkeys(method for ranks in by_size for method in ranks)
    ]
    sizes = [sizes_of(ranking) for ranking in rankings]
    yield from _aligned([("method", *(size or "rank" for size in sizes)), *rows])
    sentences = [ranks_of(ranking) for ranking in rankings]
    if len(set(sentences)) == 1:
        yield sentences[0]
    else:
        yield from (f"{size}: {words}" for size, words in zip(sizes, sentences, strict=True))


def _rank(rank: float | None) -> str:
    return NOTHING if rank is None else f"{rank:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with aligned columns."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [
            cell + " " * (width - cell_len(cell))
            if place in _AS_TEXT
            else " " * (width - cell_len(cell)) + cell
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(padded)}".rstrip()
