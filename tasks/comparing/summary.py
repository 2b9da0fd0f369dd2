"""What a comparison found; the report and the lines of a terminal are made of it alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.comparing.plan import ALL, NONE, RESULTS, Contender, Planned, SeedAndFold
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.losses import is_mean_over_rows
from chaffinch.tasks.statistics.paired_tests import (
    CONFIDENCE,
    FEWEST_PAIRS,
    OverConstant,
    PairedDifference,
    holm,
    over_constants,
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

# The results of a comparison, read into arrays: contenders by cells, for each table and model.
#
# A contender is a method at a size; a cell is an outer fold under a seed. A row that is not there,
# or that says why it has no loss, leaves NaN.

ALL_IN_WORDS = "all features"
_NAMED = ("table", "model", "method", "seed", "fold", "loss_name")  # of every row
_MEASURED = (  # of every row with a loss
    *("n_features", "n_total", "features", "n_train", "n_test"),
    *("selection_seconds", "training_seconds"),
)
_FIGURES = ("n_features", "n_total", "selection_seconds", "training_seconds")

_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scores:
    """What was measured on one table with one model, of k contenders in c cells.

    Attributes
    ----------
    table, model, loss_name : str
        What they are of.
    contenders : tuple of Contender
        The first is that with all features.
    cells : tuple of (int, int)
        Seed and fold of each cell.
    losses : ndarray, shape (k, c)
        NaN where there is none.
    failed : ndarray of bool, shape (k, c)
        Whether there is a row that says that the loss could not be computed.
    test_share : ndarray, shape (k, c)
        Test rows per row inside the fold; NaN where there is no loss, as in the figures.
    figures : mapping
        ``n_features``, ``n_total``, ``selection_seconds`` and ``training_seconds``, shape (k, c).
    features : mapping
        Contender -> the sets it kept, in the order of the cells.
    errors : tuple of (Contender, str, int)
        What went wrong, and in how many cells; of each contender in the order of these.
    constant : ndarray, shape (c,)
        Losses of a constant, which looks at no feature and is no contender.
    """

    table: str
    model: str
    loss_name: str
    contenders: tuple[Contender, ...]
    cells: tuple[SeedAndFold, ...]
    losses: Floats
    failed: NDArray[np.bool_]
    test_share: Floats
    figures: Mapping[str, Floats]
    features: Mapping[Contender, Sequence[frozenset[str]]]
    errors: tuple[tuple[Contender, str, int], ...]
    constant: Floats


def read_scores(results: pa.Table, planned: Planned | None = None) -> tuple[list[Scores], Planned]:
    """Return the scores of each table and model with any row, and what was meant to be measured.

    The plan is not in the results. Without it, it is read off them: each model that occurs is taken
    to have been meant for each table, and on a table each contender that occurs there, and all
    features, for each seed that occurs with each fold. The order of the rows is of no matter.

    Parameters
    ----------
    results : pyarrow.Table
        Columns as in `RESULTS`; others are ignored.
    planned : Planned, optional
        What was meant; a contender that occurs beyond it is taken in.

    Raises
    ------
    InputError
        If a column is missing or of another type, a row lacks what it must have, two rows are of
        the same cell, or the losses of a table are not of one name.
    """
    rows = [_named_rightly(row) for row in _typed(results).to_pylist()]
    if not rows:
        raise InputError("the results hold no rows; a comparison needs one at least")
    _refuse_twice(rows)
    by_table: dict[str, list[_Row]] = {}
    for row in rows:
        by_table.setdefault(row["table"], []).append(row)
    meant = _planned(by_table, planned)
    reached = sorted({(row["table"], row["model"]) for row in rows})
    return [_scores(*pair, by_table[pair[0]], meant) for pair in reached], meant


def _typed(results: pa.Table) -> pa.Table:
    missing = [name for name in RESULTS.names if name not in results.column_names]
    if missing:
        raise InputError(
            f"results must have a column {missing[0]!r} but have "
            f"{', '.join(results.column_names) or 'none'}; give the table as a comparison wrote it"
        )
    chosen = results.select(RESULTS.names)
    try:
        return chosen.cast(RESULTS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"results must have the types of a comparison's ({reason}); "
            "give the table as a comparison wrote it"
        ) from error


def _named_rightly(row: _Row) -> _Row:
    """Return the row, with the reference under its one name, if it has all that it must have."""
    needed = _NAMED if _reason_of(row) is not None else _NAMED + _MEASURED
    lacking = next((name for name in needed if row[name] is None), None)
    if lacking is not None:
        raise InputError(f"each row of results must have {lacking!r} but one has none: {_at(row)}")
    if row["n_train"] is not None and row["n_train"] < 1 and "n_train" in needed:
        raise InputError(f"n_train must be at least 1 but is {row['n_train']}: {_at(row)}")
    return {**row, "size": None} if row["method"] == ALL else row


def _reason_of(row: _Row) -> str | None:
    """Return why a row has no loss to go by, or None if it has one."""
    if row["error"] is not None:
        return str(row["error"])
    if row["loss"] is None:
        return "no loss, and no reason given"
    return None if math.isfinite(row["loss"]) else f"the loss is not finite ({row['loss']})"


def _refuse_twice(rows: Iterable[_Row]) -> None:
    seen = set()
    for row in rows:
        key = tuple(row[name] for name in ("table", "model", "method", "size", "seed", "fold"))
        if key in seen:
            raise InputError(f"results must hold a cell once but hold one twice: {_at(row)}")
        seen.add(key)


def _at(row: _Row) -> str:
    names = ("table", "model", "method", "size", "seed", "fold")
    return ", ".join(f"{name} {row[name]!r}" for name in names if row[name] is not None)


def _scores(table: str, model: str, rows: Sequence[_Row], meant: Planned) -> Scores:
    """Return the scores of a model, given the rows of a table with every model."""
    contenders, cells = meant.contenders[table], meant.cells
    shape = len(contenders), len(cells)
    position_of = {contender: i for i, contender in enumerate(contenders)}
    column_of = {cell: j for j, cell in enumerate(cells)}
    scored: dict[tuple[int, int], _Row] = {}
    failed, constant = np.zeros(shape, dtype=bool), np.full(len(cells), np.nan)
    errors: dict[tuple[Contender, str], list[int]] = {}
    for row in rows:
        if row["model"] != model:
            continue
        contender, reason = _contender(row), _reason_of(row)
        column = column_of[row["seed"], row["fold"]]
        if contender.method == NONE:
            constant[column] = row["loss"] if reason is None else np.nan
            continue
        at = position_of[contender], column
        if reason is None:
            scored[at] = row
        else:
            failed[
                [contender == other or _goes_for(row, other) for other in contenders], column
            ] = True
            errors.setdefault((contender, reason), []).append(column)

    for at in scored:
        failed[at] = False

    def measured(value_of: Callable[[_Row], float]) -> Floats:
        values = np.full(shape, np.nan)
        for at, row in scored.items():
            values[at] = value_of(row)
        return values

    return Scores(
        table=table,
        model=model,
        loss_name=_loss_name(table, rows),
        contenders=contenders,
        cells=cells,
        losses=measured(itemgetter("loss")),
        failed=failed,
        test_share=measured(lambda row: row["n_test"] / row["n_train"]),
        figures={name: measured(itemgetter(name)) for name in _FIGURES},
        features={
            contender: [frozenset(scored[at]["features"]) for at in sorted(scored) if at[0] == i]
            for contender, i in position_of.items()
        },
        errors=tuple(
            (contender, reason, len(columns))
            for (contender, reason), columns in sorted(
                errors.items(), key=lambda found: (found[0][0].place, min(found[1]), found[0][1])
            )
        ),
        constant=constant,
    )


def _planned(by_table: Mapping[str, Sequence[_Row]], planned: Planned | None) -> Planned:
    """Return what was meant to be measured, with every contender that occurs."""
    rows = [row for of_table in by_table.values() for row in of_table]
    occurring = {
        table: {_contender(row) for row in of_table if row["method"] != NONE}
        for table, of_table in by_table.items()
    }
    if planned is None:
        seeds, folds = (sorted({row[name] for row in rows}) for name in ("seed", "fold"))
        models = tuple(sorted({row["model"] for row in rows}))
        planned = Planned({}, models, tuple(product(seeds, folds)))
    contenders = {
        table: {Contender(ALL, None), *planned.contenders.get(table, ()), *occurring.get(table, ())}
        for table in dict.fromkeys([*planned.contenders, *sorted(occurring)])
    }
    by_place = {
        table: tuple(sorted(named, key=lambda contender: contender.place))
        for table, named in contenders.items()
    }
    return replace(planned, contenders=by_place)


def _goes_for(row: _Row, contender: Contender) -> bool:
    """Return whether a failure is also that of a contender: with its own choice a method fails."""
    return row["size"] is None and row["method"] == contender.method


def _contender(row: _Row) -> Contender:
    return Contender(row["method"], row["size"])


def _loss_name(table: str, rows: Iterable[_Row]) -> str:
    first, *others = sorted({row["loss_name"] for row in rows})
    if others:
        raise InputError(
            f"a table must have one loss but {table!r} has {', '.join([first, *others])}; "
            "compare under one loss at a time"
        )
    return str(first)


# Of the sizes a method was asked for, the best and the smallest that is about as good.
#
# The rule of one standard error is that of Breiman, Friedman, Olshen and Stone (1984).


@dataclass(frozen=True)
class NearBest:
    """The sizes of one method: the best, and the smallest within one standard error of it.

    Attributes
    ----------
    method : str
        Whose they are.
    best : int
        The size with the lowest mean loss.
    smallest : int
        The smallest that is near it; see `smallest_near_best`.
    fewest : int
        The smallest of all that were compared.
    beats_constant : bool or None
        Whether the best has a lower mean loss than a constant; None where that is not known.
    """

    method: str
    best: int
    smallest: int
    fewest: int
    beats_constant: bool | None


def near_best_of(
    scores: Scores, compared: NDArray[np.bool_], shared: NDArray[np.bool_]
) -> Iterator[NearBest]:
    """Yield what to say of each method with two compared sizes or more."""
    sized: dict[str, list[tuple[int, int]]] = {}
    for i, (contender, is_compared) in enumerate(zip(scores.contenders, compared, strict=True)):
        if contender.size is not None and is_compared:
            sized.setdefault(contender.method, []).append((contender.size, i))
    for method, of_method in sized.items():
        sizes, rows = zip(*of_method, strict=True)
        if len(sizes) < 2:
            continue
        losses, constant = scores.losses[list(rows)][:, shared], scores.constant[shared]
        found = smallest_near_best(losses, scores.test_share[rows[0], shared], constant)
        if found is not None:
            best, smallest = found
            is_better = beats(losses[best], constant)
            yield NearBest(method, sizes[best], sizes[smallest], sizes[0], is_better)


def smallest_near_best(
    losses: Floats, test_share: Floats, constant: Floats
) -> tuple[int, int] | None:
    """Return the best size, and the smallest whose loss is within one standard error of its own.

    Breiman's standard error is that of the best's own mean loss, which also holds what makes a
    cell hard for every size; that of the difference to the best does not, but spares a size much
    that is very unsteady. So neither may be exceeded. No size is spared either that does no better
    than a constant, which looks at no feature. None where fewer than `FEWEST_PAIRS` cells have a
    loss at every size, of which no error is to be trusted.

    Parameters
    ----------
    losses : ndarray, shape (s, c)
        At s sizes, the smallest first, in c cells.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, of each cell.
    constant : ndarray, shape (c,)
        Losses of a constant; NaN where there is none.
    """
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
    """Return whether losses are on average below a constant's; None where no cell has both."""
    excess = losses - constant
    known = np.isfinite(excess)
    return bool(excess[known].mean() < 0) if known.any() else None


@dataclass(frozen=True)
class Outcome:
    """What one contender, a method at a size, came to on one table with one model.

    Attributes
    ----------
    contender : Contender
        The method and the number of features it was asked for.
    n_scored, n_failed, n_missing : int
        Cells with a loss, with an error in its place, and without any row.
    is_compared : bool
        Whether it has enough cells to be compared with all others at once: by its mean loss, in
        the ranks and on the Pareto front.
    mean_loss, deviation : float or None
        Over the cells that all compared contenders have, or over its own where it is not one of
        them. None without a loss; the deviation also with a single one.
    n_features : float or None
        Mean number of features kept, over the same cells.
    n_total : int or None
        How many there were to choose from; the most of any cell.
    keeps_all : bool
        Whether it kept every feature in every cell.
    difference : PairedDifference or None
        Of its loss to that with all features, over all cells that have both. None without such a
        cell, and of all features itself.
    over_constant : OverConstant or None
        Of its loss to that of a constant, which looks at no feature. None without such a cell, of
        all features, and of what kept all of them, whose verdicts do not hang on it.
    corrected_p : float or None
        Its p value, corrected for all that were tested on this table and model; None untested.
    verdict : "helps", "does not help", "cannot tell" or None
        None for all features itself.
    stability : Stability or None
        Of the sets it kept.
    selection_seconds, training_seconds : float or None
        Mean over its cells.
    is_on_front : bool
        Whether no compared contender is better in loss or number of features and no worse in both.
    """

    contender: Contender
    n_scored: int
    n_failed: int
    n_missing: int
    is_compared: bool
    mean_loss: float | None
    deviation: float | None
    n_features: float | None
    n_total: int | None
    keeps_all: bool
    difference: PairedDifference | None
    over_constant: OverConstant | None
    corrected_p: float | None
    verdict: Verdict | None
    stability: Stability | None
    selection_seconds: float | None
    training_seconds: float | None
    is_on_front: bool


@dataclass(frozen=True)
class TableSummary:
    """What a comparison found on one table with one model.

    Attributes
    ----------
    table, model, loss_name : str
        What it is of.
    n_seeds, n_folds : int
        Their product is the number of cells that each contender was meant to have.
    n_shared : int
        Number of cells that all compared contenders have.
    outcomes : tuple of Outcome
        All features first, then by name and size.
    near_best : tuple of NearBest
        Of each method with two compared sizes or more.
    errors : tuple of (Contender, str, int)
        What went wrong, and in how many cells.
    constant_loss : float or None
        Mean loss of a constant, which looks at no feature, over the cells that all compared
        contenders have; where there are none, over those that have one.
    """

    table: str
    model: str
    loss_name: str
    n_seeds: int
    n_folds: int
    n_shared: int
    outcomes: tuple[Outcome, ...]
    near_best: tuple[NearBest, ...]
    errors: tuple[tuple[Contender, str, int], ...]
    constant_loss: float | None

    @property
    def reference(self) -> Outcome:
        """What all features came to."""
        return self.outcomes[0]

    @property
    def rivals(self) -> tuple[Outcome, ...]:
        """What all others came to."""
        return self.outcomes[1:]

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """Of all outcomes, in their order."""
        return tuple(outcome.contender for outcome in self.outcomes)

    @property
    def has_further_cells(self) -> bool:
        """Whether a contender has losses in other cells than all that are compared have."""
        return any(o.n_scored and o.n_scored != self.n_shared for o in self.outcomes)

    @property
    def n_planned(self) -> int:
        """Number of losses that were meant to be: one for each contender in each cell."""
        return self.n_seeds * self.n_folds * len(self.outcomes)

    @property
    def n_missing(self) -> int:
        """Number of losses without a row."""
        return sum(outcome.n_missing for outcome in self.outcomes)

    @property
    def n_failed(self) -> int:
        """Number of losses with an error in their place."""
        return sum(outcome.n_failed for outcome in self.outcomes)

    @property
    def n_tested(self) -> int:
        """Number of differences that were tested, for which the p values are corrected."""
        return sum(outcome.corrected_p is not None for outcome in self.outcomes)

    @property
    def n_tested_to_constant(self) -> int:
        """Number of differences to a constant that were tested, likewise."""
        constants = [outcome.over_constant for outcome in self.outcomes]
        return sum(found is not None and found.corrected_p is not None for found in constants)


def summarise_table(scores: Scores) -> TableSummary:
    """Return what was found on one table with one model."""
    scored = np.isfinite(scores.losses)
    compared, shared = cells_in_common(scored)
    used = np.where(compared[:, None], shared, scored)
    of_constant = np.isfinite(scores.constant) & (shared | ~shared.any())
    return TableSummary(
        table=scores.table,
        model=scores.model,
        loss_name=scores.loss_name,
        n_seeds=len({seed for seed, _ in scores.cells}),
        n_folds=len({fold for _, fold in scores.cells}),
        n_shared=int(shared.sum()),
        outcomes=tuple(_outcomes(scores, compared, used)),
        near_best=tuple(near_best_of(scores, compared, shared)),
        errors=scores.errors,
        constant_loss=_known(_means(scores.constant[None], of_constant[None])[0]),
    )


def cells_in_common(scored: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which contenders are compared at once, shape (k,), and over which cells, shape (c,).

    A contender that has few cells would take them from all the others. So the contenders are taken
    in by their number of cells, as long as half of the most that any has remain in common.
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
    scores: Scores, compared: NDArray[np.bool_], used: NDArray[np.bool_]
) -> Iterator[Outcome]:
    """Yield the outcome of each contender, given the cells that its loss is averaged over."""
    figures, scored = scores.figures, np.isfinite(scores.losses)
    all_kept = ~scored | (figures["n_features"] == figures["n_total"])
    keeps_all = scored.any(axis=1) & all_kept.all(axis=1)
    differences = [None, *_differences(scores, scores.losses[0])[1:]]
    constants = over_constants(
        [
            found if i and not keeps_all[i] else None
            for i, found in enumerate(_differences(scores, scores.constant))
        ]
    )
    p_values = [
        np.nan if is_all or difference is None or difference.p_value is None else difference.p_value
        for is_all, difference in zip(keeps_all, differences, strict=True)
    ]
    corrected = holm(np.array(p_values))
    means, sizes = _means(scores.losses, used), _means(figures["n_features"], used)
    front = pareto_front(np.where(compared, sizes, np.nan), np.where(compared, means, np.nan))
    for i, contender in enumerate(scores.contenders):
        is_all = bool(keeps_all[i])
        yield Outcome(
            contender=contender,
            n_scored=int(scored[i].sum()),
            n_failed=int(scores.failed[i].sum()),
            n_missing=int((~scored[i] & ~scores.failed[i]).sum()),
            is_compared=bool(compared[i]),
            mean_loss=_known(means[i]),
            deviation=_deviation(scores.losses[i, used[i]]),
            n_features=_known(sizes[i]),
            n_total=int(figures["n_total"][i, scored[i]].max()) if scored[i].any() else None,
            keeps_all=is_all,
            difference=differences[i],
            over_constant=constants[i],
            corrected_p=_known(corrected[i]),
            verdict=verdict_on(
                differences[i], _known(corrected[i]), is_all=is_all, over_constant=constants[i]
            )
            if i
            else None,
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
    chosen = np.zeros((len(sets), n_total), dtype=bool)  # what nobody chose adds nothing
    for row, kept in zip(chosen, sets, strict=True):
        row[[names[name] for name in kept]] = True
    return stability_of(chosen)


def _means(values: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return the mean of the used cells of each row; NaN where there are none."""
    counts = used.sum(axis=1)
    sums = np.where(used, values, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _deviation(values: Floats) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


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


@dataclass(frozen=True)
class Summary:
    """What a comparison found.

    Attributes
    ----------
    tables : tuple of TableSummary
        Of every table with every model that anything was measured of, by their names.
    rankings : tuple of Ranking
        By model, and by the size that methods were asked for.
    warnings : tuple of str
        What is odd about the tables, each with the table's name.
    remarks : tuple of str
        What libraries warned of while cells were measured, each with the table's name.
    planned : Planned
        What was meant to be measured.
    """

    tables: tuple[TableSummary, ...]
    rankings: tuple[Ranking, ...]
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    planned: Planned

    @property
    def not_reached(self) -> tuple[tuple[str, str], ...]:
        """Tables and models that were meant together, and of which nothing was measured."""
        reached = {(table.table, table.model) for table in self.tables}
        return tuple(pair for pair in self.planned.pairs if pair not in reached)

    @property
    def n_planned(self) -> int:
        """Number of losses that were meant to be: of all tables, models, contenders and cells."""
        return sum(self.planned.n_losses(table) for table, _ in self.planned.pairs)

    @property
    def n_missing(self) -> int:
        """Number of losses without a row."""
        not_reached = sum(self.planned.n_losses(table) for table, _ in self.not_reached)
        return not_reached + sum(table.n_missing for table in self.tables)

    @property
    def n_failed(self) -> int:
        """Number of losses with an error in their place."""
        return sum(table.n_failed for table in self.tables)


def summarise(
    results: pa.Table,
    planned: Planned | None = None,
    warnings: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> Summary:
    """Return what a comparison found."""
    read, meant = read_scores(results, planned)
    measured = [(scores, summarise_table(scores)) for scores in read]
    tables = tuple(summary for _, summary in measured)
    return Summary(tables, tuple(rankings_of(measured)), tuple(warnings), tuple(remarks), meant)
