"""Backward elimination with models trained on masked rows, judged across folds; our own method.

GBMO evaluates masks with one model, on one set of rows. That model has never seen a masked feature:
it takes the mean of an income for an income, and of two redundant features it may need both. And
the difference of two losses on a few rows is mostly noise. So here

- models are trained on the rows and on masked copies of them (`with_masked_copies`): a copy masks
  each feature with a chance of its own, drawn for the row, so that all numbers of features occur;
- each fold has a model, judged on the rows that the fold holds out, so that every row judges once;
- a feature leaves if no other is better by more than one standard error of the difference over the
  folds; of several such features the least used by the models;
- when three quarters of the features have left, the models are trained again on the rest.

What each of these is worth, measured, stands in `README.md`. The order of leaving serves every
number of features; which of them to keep is decided by refits on the way down (`on_the_way_down`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss, Rows

SHARE_KEPT = 0.25  # of the features that a stage begins with
_STEP_DOWN = 0.5**0.5  # from a number of features to the next that is refitted
_WORSE_IN_A_ROW = 2  # numbers that end the way down
_ROUNDING = 1e-12  # of a loss: what a sum's order may change


@dataclass(frozen=True)
class Judge:
    """A fold's model, evaluated on the rows that the fold holds out."""

    engine: MaskedLoss  # new, over the k features of a stage
    weight: float  # of the rows held out
    importances: Floats  # (k,), at least 0


def with_masked_copies(
    rows: Rows, baseline: Floats, random: np.random.Generator, *, never: Collection[int] = ()
) -> Rows:
    """Return 2 n rows: the n rows, then a copy of each with a random share of features masked."""
    X = rows.X
    is_masked = random.random(X.shape) < random.random(len(X))[:, np.newaxis]
    is_masked[:, sorted(never)] = False
    twice = None if rows.weight is None else np.tile(rows.weight, 2)
    both = np.concatenate([X, np.where(is_masked, baseline, X)])
    return Rows(both, np.concatenate([rows.y, rows.y]), twice)


def eliminate_in_stages(
    judges: Callable[[Mask, int], Sequence[Judge]],
    n_features: int,
    *,
    keep: Collection[int] = (),
    on_removal: Callable[[int, int], None] | None = None,
) -> RankedPath:
    """Remove features in turn until one is left, or only `keep`."""
    # `judges` takes a mask and the number of its stage, from 0, to a judge for each fold, at
    # least two
    kept = set(keep)
    sizes = stage_sizes(n_features, max(1, len(kept)))
    mask = np.ones(n_features, dtype=bool)
    removed: list[int] = []
    for stage, size in enumerate(sizes[1:]):
        left = np.flatnonzero(mask)
        protected = np.isin(left, sorted(kept))
        stage_judges = judges(mask.copy(), stage)
        while mask.sum() > size:
            place = _next_to_remove(stage_judges, protected)
            for judge in stage_judges:
                judge.engine.remove(place)
            removed.append(int(left[place]))
            mask[left[place]] = False
            if on_removal is not None:
                on_removal(len(removed), n_features - sizes[-1])
    return RankedPath.from_removals(n_features, removed)


def on_the_way_down(
    fold_losses: Callable[[int], Floats], n_features: int, fewest: int
) -> tuple[list[int], Floats]:
    """Refit ever fewer features until clearly worse; return sizes and losses (folds, sizes).

    The way ends where two sizes in a row are clearly worse than the best before them: their
    mean loss over the folds is above its mean by more than its standard error, and by more than
    that of the difference. `fold_losses` takes a size to the losses of refits on held-out rows.
    """
    all_sizes = sizes_down(n_features, fewest)
    best = fold_losses(n_features)
    losses, n_worse = [best], 0
    for size in all_sizes[1:]:
        losses.append(fold_losses(size))
        difference = losses[-1] - best
        if difference.mean() <= 0:
            best, n_worse = losses[-1], 0
        else:
            n_folds = len(difference)
            error = max(best.std(ddof=1), difference.std(ddof=1)) / np.sqrt(n_folds)
            n_worse = n_worse + 1 if difference.mean() > error else 0
        if n_worse == _WORSE_IN_A_ROW:
            break
    return all_sizes[: len(losses)], np.array(losses).T


def sizes_down(n_features: int, fewest: int) -> list[int]:
    """Return the numbers of features that are refitted at most, from all down to the fewest."""
    sizes = [n_features]
    while sizes[-1] > fewest:
        sizes.append(max(fewest, min(sizes[-1] - 1, round(_STEP_DOWN * sizes[-1]))))
    return sizes


def stage_sizes(n_features: int, fewest: int) -> list[int]:
    """Return the numbers of features at which stages begin, and at last the fewest."""
    sizes = [n_features]
    while sizes[-1] > fewest:
        sizes.append(max(fewest, int(SHARE_KEPT * sizes[-1])))
    return sizes


def _next_to_remove(judges: Sequence[Judge], protected: Mask) -> int:
    """Return the place of the next feature to leave; of equals the lowest."""
    by_fold = np.array([judge.engine.without_each() for judge in judges])
    open_places = np.flatnonzero(np.isfinite(by_fold).all(axis=0) & ~protected)
    by_fold = by_fold[:, open_places]
    weights = np.array([judge.weight for judge in judges])
    losses = np.average(by_fold, axis=0, weights=weights)
    best = int(losses.argmin())
    differences = by_fold - by_fold[:, [best]]
    errors = differences.std(axis=0, ddof=1) / np.sqrt(len(judges))
    near = losses - losses[best] <= errors + _ROUNDING * abs(losses[best])
    used = np.sum([shares_of(judge.importances)[open_places] for judge in judges], axis=0)
    return int(open_places[min(np.flatnonzero(near), key=lambda place: used[place])])


def shares_of(importances: Floats) -> Floats:
    total = importances.sum()
    return importances / total if total > 0 else np.zeros_like(importances)
