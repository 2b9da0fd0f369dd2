"""Mean ranks of methods, over tables or, where there is one alone, over its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chaffinch.tasks.comparing.outcomes import TableSummary
from chaffinch.tasks.comparing.rank_statistics import (
    critical_difference,
    friedman_p_value,
    groups_alike,
    mean_ranks,
)
from chaffinch.tasks.comparing.results import ALL
from chaffinch.tasks.comparing.scores import ALL_IN_WORDS, Scores
from chaffinch.tasks.comparing.statistics import CONFIDENCE
from chaffinch.tasks.selection.vocabulary import Floats


@dataclass(frozen=True)
class Ranking:
    """Methods by their mean rank with one model, the best first.

    Attributes
    ----------
    model : str
        What they were trained with.
    sizes : tuple of int
        What the methods that are asked for a number of features were asked for, on each table in
        turn; empty where all chose by themselves.
    methods : tuple of str
        In the order of their mean ranks.
    mean_ranks : tuple of float
        1 is best.
    over : "tables" or "cells"
        What they were ranked on: the mean losses of each table, or the losses of each cell of one
        table. Cells are not independent, so nothing is tested over them.
    n_blocks : int
        Number of tables or cells.
    friedman_p : float or None
        How likely ranks as far apart are if no method is better than another.
    critical_difference : float or None
        By how much two mean ranks must differ to be told apart at 95 %.
    groups : tuple of (int, int)
        First and last position of methods that are not told apart: all of them, unless Friedman's
        test says that some are better than others.
    left_out : tuple of str
        Methods that have too few cells on some table.
    """

    model: str
    sizes: tuple[int, ...]
    methods: tuple[str, ...]
    mean_ranks: tuple[float, ...]
    over: Literal["tables", "cells"]
    n_blocks: int
    friedman_p: float | None
    critical_difference: float | None
    groups: tuple[tuple[int, int], ...]
    left_out: tuple[str, ...]


Measured = tuple[Scores, TableSummary]
_Part = tuple[str, bool]  # a method, and whether it was asked for a size


def rankings_of(measured: Sequence[Measured]) -> Iterator[Ranking]:
    """Yield the rankings with each model: one for each size that methods were asked for.

    Methods that choose their size, and all features, take part in each. Tables of unlike width
    have unlike sizes; they go by their place, the smallest of one with the smallest of another. If
    tables have unlike numbers of sizes, only those that choose by themselves are ranked.

    Parameters
    ----------
    measured : sequence of (Scores, TableSummary)
        Of every table and model.
    """
    for model in dict.fromkeys(summary.model for _, summary in measured):
        tables = [
            (scores, summary)
            for scores, summary in measured
            if summary.model == model and is_ranked(summary)
        ]
        for sizes in _sizes_by_place([summary for _, summary in tables]):
            ranking = _ranking(model, tables, sizes)
            if ranking is not None:
                yield ranking


def is_ranked(table: TableSummary) -> bool:
    """Return whether a table has part in the ranks: two contenders at least are compared on it."""
    return sum(outcome.is_compared for outcome in table.outcomes) > 1


def _sizes_by_place(tables: Sequence[TableSummary]) -> list[tuple[int, ...]]:
    """Return, for each place of a size, that size on every table; of none, an empty one."""
    by_table = [
        sorted({o.contender.size for o in table.outcomes if o.contender.size is not None})
        for table in tables
    ]
    is_uneven = len({len(sizes) for sizes in by_table}) != 1
    return [()] if is_uneven or not by_table[0] else list(zip(*by_table, strict=True))


def _ranking(model: str, tables: Sequence[Measured], sizes: tuple[int, ...]) -> Ranking | None:
    """Return the ranking at one place of the sizes, or None where fewer than two have part."""
    taking_part = [
        {
            (outcome.contender.method, outcome.contender.size is not None): (i, outcome)
            for i, outcome in enumerate(summary.outcomes)
            if outcome.contender.size in (None, size)
        }
        for (_, summary), size in zip(tables, sizes or [None] * len(tables), strict=True)
    ]
    parts = sorted({part for table in taking_part for part in table}, key=_first_all)
    ranked = [
        part
        for part in parts
        if all(part in table and table[part][1].is_compared for table in taking_part)
    ]
    if len(ranked) < 2:
        return None
    if len(tables) > 1:
        losses = np.array([[table[part][1].mean_loss for part in ranked] for table in taking_part])
    else:
        of_cells = tables[0][0].losses[[taking_part[0][part][0] for part in ranked]]
        losses = of_cells[:, np.isfinite(of_cells).all(axis=0)].T
    left_out = tuple(_name(part, parts) for part in parts if part not in ranked)
    names = [_name(part, parts) for part in ranked]
    return _ranked(model, sizes, names, losses.astype(np.float64), left_out, len(tables) > 1)


def _ranked(
    model: str,
    sizes: tuple[int, ...],
    names: Sequence[str],
    losses: Floats,
    left_out: tuple[str, ...],
    is_over_tables: bool,
) -> Ranking:
    ranks = mean_ranks(losses)
    order = np.argsort(ranks, kind="stable")
    difference = critical_difference(len(names), len(losses)) if is_over_tables else None
    friedman_p = friedman_p_value(losses) if is_over_tables else None
    groups = [] if difference is None else groups_alike(ranks[order], difference)
    if friedman_p is not None and friedman_p > 1 - CONFIDENCE:
        groups = [(0, len(names) - 1)]
    return Ranking(
        model=model,
        sizes=sizes,
        methods=tuple(names[i] for i in order),
        mean_ranks=tuple(float(ranks[i]) for i in order),
        over="tables" if is_over_tables else "cells",
        n_blocks=len(losses),
        friedman_p=friedman_p,
        critical_difference=difference,
        groups=tuple(groups),
        left_out=left_out,
    )


def _first_all(part: _Part) -> tuple[bool, _Part]:
    return part[0] != ALL, part


def _name(part: _Part, parts: Sequence[_Part]) -> str:
    """Return the method in words; of one that also chose its own size, that is said."""
    method, is_sized = part
    if method == ALL:
        return ALL_IN_WORDS
    return method if is_sized or (method, True) not in parts else f"{method}, its own size"
