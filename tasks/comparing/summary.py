"""Summary of a comparison: the only input of its report and its lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.tasks.comparing.plan import ALL, NONE, Contender, Planned, SeedAndFold
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.losses import is_mean_over_rows
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.paired_tests import (
    CONFIDENCE,
    FEWEST_PAIRS,
    OverConstant,
    PairedDifference,
    corrected_p_values,
    over_constants,
    p_value_below,
    paired_difference,
    pareto_front,
    standard_error,
    verdict_on,
)
from chaffinch.tasks.statistics.ranks_and_stability import (
    Stability,
    critical_difference,
    friedman_p_value,
    groups_alike,
    mean_ranks,
    stability_of,
)
from chaffinch.tasks.statistics.verdict import Verdict

ALL_IN_WORDS = "all features"
FEWEST_TABLES = 5  # of a critical difference; with fewer it is hardly ever reached
_FIGURES = ("n_features", "n_total", "selection_seconds", "training_seconds")

_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scores:
    """Measurements of k contenders in c cells, on a table with a model.

    A contender is a method at a size; a cell is an outer fold of a seed.
    """

    table: str
    model: str
    loss_name: str
    contenders: tuple[Contender, ...]  # the first has all features
    cells: tuple[SeedAndFold, ...]
    losses: Floats  # shape (k, c); NaN for a missing row and for an error
    failed: NDArray[np.bool_]  # shape (k, c); whether there is an error instead of a loss
    test_share: Floats  # shape (k, c); test rows per training row, NaN without a loss
    figures: Mapping[str, Floats]  # those of `_FIGURES`, shape (k, c)
    metrics: Mapping[str, Floats]  # by name, shape (k, c); NaN where undefined
    features: Mapping[Contender, Sequence[frozenset[str]]]  # its sets in the order of the cells
    errors: tuple[tuple[Contender, str, int], ...]  # with their numbers of cells
    constant: Floats  # shape (c,); losses of a constant prediction, which is not a contender
    constant_metrics: Mapping[str, Floats]  # its metrics, shape (c,)


def read_scores(results: pa.Table, planned: Planned) -> list[Scores]:
    """Return the scores of each table and model with any row; the order of rows does not matter."""
    rows: dict[tuple[str, str], list[_Row]] = {}
    for row in results.to_pylist():
        rows.setdefault((row["table"], row["model"]), []).append(row)
    return [_scores(*pair, rows[pair], planned) for pair in sorted(rows)]


def _scores(table: str, model: str, rows: Sequence[_Row], planned: Planned) -> Scores:
    contenders, cells = planned.contenders[table], planned.cells
    shape = len(contenders), len(cells)
    position_of = {contender: i for i, contender in enumerate(contenders)}
    column_of = {cell: j for j, cell in enumerate(cells)}
    scored: dict[tuple[int, ...], _Row] = {}
    constants: dict[tuple[int, ...], _Row] = {}
    failed = np.zeros(shape, dtype=bool)
    errors: dict[tuple[Contender, str], list[int]] = {}
    for row in rows:
        contender = Contender(row["method"], row["size"])
        column = column_of[row["seed"], row["fold"]]
        if contender.method == NONE:
            if row["error"] is None:
                constants[(column,)] = row
        elif row["error"] is None:
            scored[position_of[contender], column] = row
        else:
            # without a size the whole method failed
            has_failed = [
                other == contender or (contender.size is None and other.method == contender.method)
                for other in contenders
            ]
            failed[has_failed, column] = True
            errors.setdefault((contender, row["error"]), []).append(column)
    for at in scored:
        failed[at] = False

    measured, of_constant = partial(_values, scored, shape), partial(_values, constants, shape[1:])
    return Scores(
        table=table,
        model=model,
        loss_name=rows[0]["loss_name"],
        contenders=contenders,
        cells=cells,
        losses=measured("loss"),
        failed=failed,
        test_share=measured("n_test") / measured("n_train"),
        figures={name: measured(name) for name in _FIGURES},
        metrics={name: measured(name) for name in METRICS},
        features={
            contender: [frozenset(scored[at]["features"]) for at in sorted(scored) if at[0] == i]
            for contender, i in position_of.items()
        },
        errors=tuple(
            (contender, reason, len(columns))
            for (contender, reason), columns in sorted(
                errors.items(),
                key=lambda error: (position_of[error[0][0]], min(error[1]), error[0][1]),
            )
        ),
        constant=of_constant("loss"),
        constant_metrics={name: of_constant(name) for name in METRICS},
    )


def _values(rows: Mapping[tuple[int, ...], _Row], shape: tuple[int, ...], name: str) -> Floats:
    """Return the values of a column; NaN if it is missing, as in results of earlier releases."""
    values = np.full(shape, np.nan)
    for at, row in rows.items():
        value = row.get(name)
        values[at] = np.nan if value is None else value
    return values


@dataclass(frozen=True)
class NearBest:
    """The sizes of a method: the best, and the smallest within one standard error of it."""

    method: str
    best: int  # the size with the lowest mean loss
    smallest: int  # the smallest size near the best
    fewest: int  # the smallest compared size
    beats_constant: bool | None  # whether the best has a lower mean loss than a constant


def near_best_of(
    scores: Scores, compared: NDArray[np.bool_], shared: NDArray[np.bool_]
) -> Iterator[NearBest]:
    """Yield the `NearBest` of each method with at least two compared sizes."""
    sized: dict[str, list[tuple[int, int]]] = {}
    for i, (contender, is_compared) in enumerate(zip(scores.contenders, compared, strict=True)):
        if contender.size is not None and is_compared:
            sized.setdefault(contender.method, []).append((contender.size, i))
    for method, of_method in sized.items():
        sizes, rows = zip(*of_method, strict=True)
        if len(sizes) < 2:
            continue
        losses, constant = scores.losses[list(rows)][:, shared], scores.constant[shared]
        near_best = smallest_near_best(losses, scores.test_share[rows[0], shared], constant)
        if near_best is not None:
            best, smallest = near_best
            is_better = beats(losses[best], constant)
            yield NearBest(method, sizes[best], sizes[smallest], sizes[0], is_better)


def smallest_near_best(
    losses: Floats, test_share: Floats, constant: Floats
) -> tuple[int, int] | None:
    """Return the best of s sizes, and the smallest within one standard error of it.

    The one-standard-error rule is from Breiman, Friedman, Olshen and Stone (1984).

    Losses (s, c) have the smallest size first; share and constant have shape (c,). None if fewer
    than `FEWEST_PAIRS` cells have a loss at every size.
    """
    # Breiman's standard error is that of the best size's mean loss, which includes the variation
    # between cells that all sizes share. The standard error of the difference excludes it, but is
    # large for an unstable size. The excess loss must not exceed either.
    shared = np.isfinite(losses).all(axis=0)
    if not len(losses) or shared.sum() < FEWEST_PAIRS:
        return None
    best = int(losses[:, shared].mean(axis=1).argmin())
    share, own = test_share[shared], losses[best, shared]
    for size, of_size in enumerate(losses[:best, shared]):
        excess = of_size - own
        error = min(standard_error(own, share), standard_error(excess, share))
        if excess.mean() <= error and beats(of_size, constant[shared]) is not False:
            return best, size
    return best, best


def beats(losses: Floats, constant: Floats) -> bool | None:
    """Return whether losses are on average below a constant's; None if no cell has both."""
    excess = losses - constant
    known = np.isfinite(excess)
    return bool(excess[known].mean() < 0) if known.any() else None


@dataclass(frozen=True)
class Outcome:
    """Result of a contender, a method at a size, on a table with a model."""

    contender: Contender
    n_scored: int  # number of cells with a loss
    n_failed: int  # number of cells with an error
    n_missing: int  # number of cells without a row
    is_compared: bool  # whether it has enough cells for mean losses, ranks and the Pareto front
    # Over the cells that all compared contenders share, or over its own if it is not compared.
    mean_loss: float | None
    deviation: float | None  # None with a single loss
    metrics: Mapping[str, float]  # mean of each metric, over the same cells where defined
    n_features: float | None  # mean number of kept features
    n_total: int | None  # largest number of candidate features of any cell
    keeps_all: bool  # whether it kept every feature in every cell
    difference: PairedDifference | None  # to all features, over all cells with both
    over_constant: OverConstant | None  # None if it keeps all features
    corrected_p: float | None  # None if not tested
    # One-sided, corrected, of a loss beyond the tolerated one; None if not tested.
    beyond_p: float | None
    verdict: Verdict | None  # None for all features
    stability: Stability | None
    selection_seconds: float | None  # mean over its cells
    training_seconds: float | None
    is_on_front: bool
    leaks: tuple[str, ...] = ()  # chosen features that alone determine the target


@dataclass(frozen=True)
class TableSummary:
    """Results of a comparison on a table with a model."""

    table: str
    model: str
    loss_name: str
    n_seeds: int
    n_folds: int
    n_shared: int  # number of cells that all compared contenders share
    outcomes: tuple[Outcome, ...]  # all features first, then by name and size
    near_best: tuple[NearBest, ...]  # of each method with at least two compared sizes
    errors: tuple[tuple[Contender, str, int], ...]  # with their numbers of cells
    constant_loss: float | None  # mean over the shared cells, or over all its cells without any
    is_informative: bool | None  # whether all features are shown to beat a constant; None untested
    tolerance: float
    constant_metrics: Mapping[str, float]  # likewise

    @property
    def reference(self) -> Outcome:
        return self.outcomes[0]

    @property
    def rivals(self) -> tuple[Outcome, ...]:
        return self.outcomes[1:]

    @property
    def contenders(self) -> tuple[Contender, ...]:
        return tuple(outcome.contender for outcome in self.outcomes)

    @property
    def has_further_cells(self) -> bool:
        """Whether a contender has losses outside the shared cells."""
        return any(o.n_scored and o.n_scored != self.n_shared for o in self.outcomes)

    @property
    def is_nothing_to_select_from(self) -> bool:
        """Whether neither all features nor any contender is shown to be better than a constant."""
        constants = [outcome.over_constant for outcome in self.rivals]
        return self.is_informative is False and not any(c and c.is_better for c in constants)

    @property
    def n_missing(self) -> int:
        return sum(outcome.n_missing for outcome in self.outcomes)

    @property
    def n_failed(self) -> int:
        return sum(outcome.n_failed for outcome in self.outcomes)

    @property
    def n_tested(self) -> int:
        """Number of tested differences, for which p values are corrected."""
        return sum(outcome.corrected_p is not None for outcome in self.outcomes)

    @property
    def n_tested_to_constant(self) -> int:
        constants = [outcome.over_constant for outcome in self.outcomes]
        return sum(
            difference is not None and difference.corrected_p is not None
            for difference in constants
        )


def summarise_table(
    scores: Scores, tolerance: float, leaks: frozenset[str] = frozenset()
) -> TableSummary:
    scored = np.isfinite(scores.losses)
    compared, shared = cells_in_common(scored)
    used = np.where(compared[:, None], shared, scored)
    of_constant = np.isfinite(scores.constant) & (shared | ~shared.any())
    over_constant = paired_difference(scores.losses[0], scores.constant, scores.test_share[0])
    is_informative = None
    if over_constant is not None and over_constant.p_value is not None:
        is_informative = over_constant.mean < 0 and over_constant.p_value <= 1 - CONFIDENCE
    return TableSummary(
        table=scores.table,
        model=scores.model,
        loss_name=scores.loss_name,
        n_seeds=len({seed for seed, _ in scores.cells}),
        n_folds=len({fold for _, fold in scores.cells}),
        n_shared=int(shared.sum()),
        outcomes=tuple(_outcomes(scores, compared, used, tolerance, is_informative, leaks)),
        near_best=tuple(near_best_of(scores, compared, shared)),
        errors=scores.errors,
        constant_loss=_known(_means(scores.constant[None], of_constant[None])[0]),
        is_informative=is_informative,
        tolerance=tolerance,
        constant_metrics=_mean_metrics(
            {name: values[None] for name, values in scores.constant_metrics.items()},
            of_constant[None],
        )[0],
    )


def cells_in_common(scored: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which contenders are compared, shape (k,), and in which shared cells, shape (c,).

    A contender with few cells would reduce the shared cells of all others. Contenders are added by
    decreasing number of cells, while at least half of the largest number remains shared.
    """
    counts = scored.sum(axis=1)
    fewest = max(1.0, counts.max() / 2)
    compared = np.zeros(len(scored), dtype=bool)
    shared = np.ones(scored.shape[1], dtype=bool)
    for i in np.argsort(-counts, kind="stable"):
        remaining = shared & scored[i]
        if remaining.sum() >= fewest:
            shared, compared[i] = remaining, True
    return compared, shared & compared.any()


def _outcomes(
    scores: Scores,
    compared: NDArray[np.bool_],
    used: NDArray[np.bool_],
    tolerance: float,
    is_informative: bool | None,
    leaks: frozenset[str],
) -> Iterator[Outcome]:
    """Yield the outcome of each contender, with its loss averaged over the `used` cells."""
    figures, scored = scores.figures, np.isfinite(scores.losses)
    all_kept = ~scored | (figures["n_features"] == figures["n_total"])
    keeps_all = scored.any(axis=1) & all_kept.all(axis=1)
    differences = [None, *_differences(scores, scores.losses[0])[1:]]
    constants = over_constants(
        [
            difference if i and not keeps_all[i] else None
            for i, difference in enumerate(_differences(scores, scores.constant))
        ]
    )
    corrected = corrected_p_values(
        [
            None if is_all or difference is None else difference.p_value
            for is_all, difference in zip(keeps_all, differences, strict=True)
        ]
    )
    tolerated = (1 - tolerance) * scores.losses[0] + tolerance * scores.constant
    beyond = corrected_p_values(
        [
            p_value_below(difference) if i and not keeps_all[i] else None
            for i, difference in enumerate(_differences(scores, tolerated))
        ]
    )
    means, sizes = _means(scores.losses, used), _means(figures["n_features"], used)
    metrics = _mean_metrics(scores.metrics, used)
    front = pareto_front(np.where(compared, sizes, np.nan), np.where(compared, means, np.nan))
    for i, contender in enumerate(scores.contenders):
        is_all = bool(keeps_all[i])
        leaked = leaks & frozenset[str]().union(*scores.features[contender])
        verdict: Verdict = "cannot tell"
        if not leaked:
            verdict = verdict_on(
                differences[i],
                corrected[i],
                is_all=is_all,
                over_constant=constants[i],
                is_informative=bool(is_informative),
                beyond_p=beyond[i],
            )
        yield Outcome(
            contender=contender,
            n_scored=int(scored[i].sum()),
            n_failed=int(scores.failed[i].sum()),
            n_missing=int((~scored[i] & ~scores.failed[i]).sum()),
            is_compared=bool(compared[i]),
            mean_loss=_known(means[i]),
            deviation=float(scores.losses[i, used[i]].std(ddof=1)) if used[i].sum() > 1 else None,
            metrics=metrics[i],
            n_features=_known(sizes[i]),
            n_total=int(figures["n_total"][i, scored[i]].max()) if scored[i].any() else None,
            keeps_all=is_all,
            difference=differences[i],
            over_constant=constants[i],
            corrected_p=corrected[i],
            beyond_p=beyond[i],
            verdict=verdict if i else None,
            leaks=tuple(sorted(leaked)) if i else (),
            stability=_stability(scores, i),
            selection_seconds=_known(_means(figures["selection_seconds"], scored)[i]),
            training_seconds=_known(_means(figures["training_seconds"], scored)[i]),
            is_on_front=bool(front[i]),
        )


def _differences(scores: Scores, others: Floats) -> list[PairedDifference | None]:
    by_value = is_mean_over_rows(scores.loss_name)
    of_each = zip(scores.losses, scores.test_share, strict=True)
    return [paired_difference(own, others, share, is_by_value=by_value) for own, share in of_each]


def _stability(scores: Scores, i: int) -> Stability | None:
    sets = scores.features[scores.contenders[i]]
    names = {name: j for j, name in enumerate(sorted(frozenset[str]().union(*sets)))}
    if not sets:
        return None
    n_total = max(len(names), int(np.nanmax(scores.figures["n_total"][i])))
    chosen = np.zeros((len(sets), n_total), dtype=bool)  # features that are never chosen stay False
    for row, kept in zip(chosen, sets, strict=True):
        row[[names[name] for name in kept]] = True
    return stability_of(chosen)


def _means(values: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return the mean of the used cells of each row; NaN without cells."""
    counts = used.sum(axis=1)
    sums = np.where(used, values, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _mean_metrics(metrics: Mapping[str, Floats], used: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Return the mean metrics of each row over its used cells, without undefined ones."""
    means = {name: _means(of, used & np.isfinite(of)) for name, of in metrics.items()}
    return [
        {name: float(mean[i]) for name, mean in means.items() if np.isfinite(mean[i])}
        for i in range(len(used))
    ]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True)
class Ranking:
    """Methods by their mean rank with a model, the best first."""

    model: str
    sizes: tuple[int, ...]  # requested on each table; empty if all methods chose their own size
    methods: tuple[str, ...]
    mean_ranks: tuple[float, ...]  # 1 is best
    over: Literal["tables", "cells"]  # cells of one table are not independent and not tested
    n_blocks: int  # number of tables or cells
    friedman_p: float | None
    critical_difference: float | None  # of two mean ranks, at 95 % (Nemenyi)
    # First and last position of methods that do not differ significantly: all methods, unless
    # Friedman's test is significant.
    groups: tuple[tuple[int, int], ...]
    left_out: tuple[str, ...]  # methods with too few cells on some table


Measured = tuple[Scores, TableSummary]
_Part = tuple[str, bool]  # a method, and whether it has a requested size


def rankings_of(measured: Sequence[Measured]) -> Iterator[Ranking]:
    """Yield a ranking for each model and requested size.

    All features, and methods that choose their own size, are in each ranking. Sizes of different
    tables are matched by position: the smallest of one with the smallest of another. If tables have
    different numbers of sizes, only methods with their own size are ranked.
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
    return sum(outcome.is_compared for outcome in table.outcomes) > 1


def _sizes_by_place(tables: Sequence[TableSummary]) -> list[tuple[int, ...]]:
    """Return the sizes of every table for each position of a size; ``[()]`` without sizes."""
    by_table = [
        sorted({o.contender.size for o in table.outcomes if o.contender.size is not None})
        for table in tables
    ]
    is_uneven = len({len(sizes) for sizes in by_table}) != 1
    return [()] if is_uneven or not by_table[0] else list(zip(*by_table, strict=True))


def _ranking(model: str, tables: Sequence[Measured], sizes: tuple[int, ...]) -> Ranking | None:
    """Return the ranking at a position of sizes, or None with fewer than two methods."""
    taking_part = [
        {
            (outcome.contender.method, outcome.contender.size is not None): (i, outcome)
            for i, outcome in enumerate(summary.outcomes)
            if outcome.contender.size in (None, size)
        }
        for (_, summary), size in zip(tables, sizes or [None] * len(tables), strict=True)
    ]
    every = {part for table in taking_part for part in table}
    parts = sorted(every, key=lambda part: (part[0] != ALL, part))
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
    losses = losses.astype(np.float64)
    ranks = mean_ranks(losses)
    order = np.argsort(ranks, kind="stable")
    is_over_tables, k = len(tables) > 1, len(ranked)
    is_enough = is_over_tables and len(losses) >= FEWEST_TABLES
    difference = critical_difference(k, len(losses)) if is_enough else None
    friedman_p = friedman_p_value(losses) if is_over_tables else None
    groups = [] if difference is None else groups_alike(ranks[order], difference)
    if friedman_p is not None and friedman_p > 1 - CONFIDENCE:
        groups = [(0, k - 1)]
    return Ranking(
        model=model,
        sizes=sizes,
        methods=tuple(_name(ranked[i], parts) for i in order),
        mean_ranks=tuple(float(ranks[i]) for i in order),
        over="tables" if is_over_tables else "cells",
        n_blocks=len(losses),
        friedman_p=friedman_p,
        critical_difference=difference,
        groups=tuple(groups),
        left_out=tuple(_name(part, parts) for part in parts if part not in ranked),
    )


def _name(part: _Part, parts: Sequence[_Part]) -> str:
    """Return the name of a method, marked if it also has requested sizes."""
    method, is_sized = part
    if method == ALL:
        return ALL_IN_WORDS
    return method if is_sized or (method, True) not in parts else f"{method}, its own size"


@dataclass(frozen=True)
class Summary:
    """Summary of a comparison."""

    tables: tuple[TableSummary, ...]  # every table and model with results, sorted by name
    rankings: tuple[Ranking, ...]  # by model and requested size
    warnings: tuple[str, ...]  # data-quality warnings, each with the table's name
    remarks: tuple[str, ...]  # warnings of libraries, each with the table's name
    planned: Planned

    @property
    def not_reached(self) -> tuple[tuple[str, str], ...]:
        """Planned pairs of table and model without results."""
        reached = {(table.table, table.model) for table in self.tables}
        return tuple(pair for pair in self.planned.pairs if pair not in reached)

    @property
    def n_planned(self) -> int:
        return sum(self.planned.n_losses(table) for table, _ in self.planned.pairs)

    @property
    def n_missing(self) -> int:
        """Number of losses without a row."""
        not_reached = sum(self.planned.n_losses(table) for table, _ in self.not_reached)
        return not_reached + sum(table.n_missing for table in self.tables)

    @property
    def n_failed(self) -> int:
        return sum(table.n_failed for table in self.tables)


def summarise(
    results: pa.Table, planned: Planned, warnings: Sequence[str], remarks: Sequence[str]
) -> Summary:
    """Return the summary of a comparison's results, a table of `RESULTS`."""
    measured = [
        (
            scores,
            summarise_table(
                scores, planned.tolerance, planned.leaks.get(scores.table, frozenset())
            ),
        )
        for scores in read_scores(results, planned)
    ]
    tables = tuple(summary for _, summary in measured)
    return Summary(tables, tuple(rankings_of(measured)), tuple(warnings), tuple(remarks), planned)
