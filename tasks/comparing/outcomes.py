"""What a comparison found on one table with one model: an outcome for each method and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.comparing.near_best import NearBest, near_best_of
from chaffinch.tasks.comparing.planned import Contender
from chaffinch.tasks.comparing.scores import Scores
from chaffinch.tasks.comparing.stability import Stability, stability_of
from chaffinch.tasks.comparing.statistics import (
    PairedDifference,
    holm,
    paired_difference,
    pareto_front,
)
from chaffinch.tasks.comparing.verdicts import OverConstant, over_constants, verdict_on
from chaffinch.tasks.comparison import Verdict
from chaffinch.tasks.selection.losses import is_mean_over_rows
from chaffinch.tasks.selection.vocabulary import Floats


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
    """Return what was found on one table with one model.

    Parameters
    ----------
    scores : Scores
        Of the table and model.
    """
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

    Parameters
    ----------
    scored : ndarray of bool, shape (k, c)
        Which cells of each contender have a loss.
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
