"""Searches that refit the model: recursive elimination, sequential selection, particle swarm.

They ask for the losses, or the importances, of a model fitted on the features of a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.elimination.bmo import EliminationPath
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks


def sizes_on_the_way(n_features: int, fewest: int, share: float) -> list[int]:
    """Return falling numbers of features to fit; of those left a `share` leaves at a time."""
    sizes = [n_features]
    while sizes[-1] > fewest:
        sizes.append(max(fewest, sizes[-1] - max(1, int(share * sizes[-1]))))
    return sizes


def eliminate_by_refits(
    importances: Callable[[Mask], Floats],
    n_features: int,
    *,
    share: float,
    keep: Collection[int] = (),
    on_round: Callable[[int, int], None] | None = None,
) -> RankedPath:
    """Drop the least important features again and again, until one is left, or only `keep`.

    Guyon, Weston, Barnhill and Vapnik, "Gene selection for cancer classification using support
    vector machines", Machine Learning 46 (2002): fit, drop the features with the least importance,
    fit again on what is left. scikit-learn has it as `RFE` and `RFECV`. Here a share is one of the
    features that are left, so that the last leave singly; there it is a share of all.
    Features that leave together leave in the order of their importances, so that every size can be
    read off one path. The size may be the smallest whose loss lies within one standard error of the
    lowest: Breiman, Friedman, Olshen and Stone, "Classification and regression trees" (1984),
    section 3.4.3.
    """
    # `importances` takes a mask to the importances (k,) in a model fitted on its k features
    kept = set(keep)
    sizes = sizes_on_the_way(n_features, max(1, len(kept)), share)
    mask = np.ones(n_features, dtype=bool)
    removed: list[int] = []
    for done, (size, next_size) in enumerate(pairwise(sizes), start=1):
        left = np.flatnonzero(mask)
        in_order = left[np.argsort(importances(mask.copy()), kind="stable")]
        leaving = [int(j) for j in in_order if j not in kept][: size - next_size]
        mask[leaving] = False
        removed += leaving
        if on_round is not None:
            on_round(done, len(sizes) - 1)
    return RankedPath.from_removals(n_features, removed)


@dataclass(frozen=True)
class CrossValidatedPath(RankedPath):
    """The order of leaving, with cross-validated losses of some sizes."""

    sizes: tuple[int, ...]  # falling
    losses: tuple[float, ...]  # mean over the folds at each size, on held-out rows
    standard_errors: tuple[float, ...]  # of these means

    @classmethod
    def from_folds(cls, path: RankedPath, sizes: list[int], losses: Floats) -> CrossValidatedPath:
        # losses (folds, sizes)
        errors = losses.std(axis=0, ddof=1) / np.sqrt(len(losses))
        means = losses.mean(axis=0)
        return cls(
            path.scores, path.removed, tuple(sizes), tuple(means.tolist()), tuple(errors.tolist())
        )

    def best_size(
        self, *, at_most: int | None = None, within_one_standard_error: bool = False
    ) -> int:
        """Return the size with the lowest mean loss; of equals, the smaller."""
        limit = self.n_features if at_most is None else at_most
        allowed = [i for i, size in enumerate(self.sizes) if size <= limit]
        if not allowed:
            raise InputError(f"at_most must be at least {self.sizes[-1]} but is {at_most}")
        best = min(allowed, key=lambda i: (self.losses[i], self.sizes[i]))
        if not within_one_standard_error:
            return self.sizes[best]
        ceiling = self.losses[best] + self.standard_errors[best]
        return min(self.sizes[i] for i in allowed if self.losses[i] <= ceiling)


# Evaluation in a search with refits: masks (m, d) -> losses (m,) of models fitted again.
RefitLoss = Callable[[Sequence[Mask]], Sequence[float]]


@dataclass(frozen=True)
class MaskSequence:
    """Masks in the order of a search, at least one.

    A search that adds features, or moves whole masks, has no order in which features leave, only
    masks and losses, in the order of the search.
    """

    masks: tuple[Mask, ...]
    losses: tuple[float, ...]  # losses[i] is that of a model fitted on the features of masks[i]


# Keeps a probability between 0.0025 and 0.9975: Kennedy and Eberhart, section 4
_FASTEST = 6.0


@dataclass(frozen=True)
class Swarm:
    """How many particles there are, and how they move."""

    individuals: int
    generations: int  # how often each particle is judged
    inertia: float  # w: how much of its velocity a particle keeps
    cognitive: float  # c1: pull of a particle's own best mask
    social: float  # c2: pull of the best of all


def particle_swarm(
    refit_loss: RefitLoss,
    n_features: int,
    swarm: Swarm,
    seed: int,
    *,
    keep: Collection[int] = (),
    at_most: int | None = None,
    feasible: FeasibleMasks | None = None,
    on_generation: Callable[[int, int], None] | None = None,
) -> MaskSequence:
    """Search for the mask with the lowest loss; return the best after each generation.

    Kennedy and Eberhart, "A discrete binary version of the particle swarm algorithm", IEEE
    International Conference on Systems, Man, and Cybernetics (1997), with the inertia of Shi and
    Eberhart, "A modified particle swarm optimizer", IEEE World Congress on Computational
    Intelligence (1998). As a baseline it comes from Saito, Shirakawa and Akimoto, "Embedded feature
    selection using probabilistic model-based optimization", GECCO Companion (2018), where it is
    called ErFS and has 10 individuals, 25 generations, and a fitness from 30 % of the training
    data.

    =====================================================  ==================
    papers                                                 here
    =====================================================  ==================
    v = w v + c1 r1 (own best - x) + c2 r2 (best - x)      `_velocities`
    -6 <= v <= 6                                           `_FASTEST`
    x = 1 if a number drawn from 0..1 < 1 / (1 + exp -v)   `_masks`
    =====================================================  ==================

    Departs: a mask that would be empty, hold more features than are allowed, or break a constraint,
    has those nearest to being drawn instead. Of equal losses the smaller mask is better.
    All particles of a generation move at once, so that they can be judged at once; no mask is
    judged twice.
    """
    fewest, most = max(1, len(set(keep))), n_features if at_most is None else at_most
    if not fewest <= most <= n_features:
        raise InputError(f"at_most must be in {fewest}..{n_features} but is {at_most}")
    random = np.random.default_rng(seed)
    shape = (swarm.individuals, n_features)
    judge = _Judge(refit_loss)
    velocities = random.uniform(-1.0, 1.0, shape)
    masks = _masks(velocities, random, list(keep), most, feasible)
    own, own_worth = masks.copy(), judge(masks)
    history: list[tuple[Mask, float]] = []
    for generation in range(1, swarm.generations + 1):
        if generation > 1:
            velocities = _velocities(velocities, masks, own, own[_best(own_worth)], swarm, random)
            masks = _masks(velocities, random, list(keep), most, feasible)
            for i, worth in enumerate(judge(masks)):
                if worth < own_worth[i]:
                    own[i], own_worth[i] = masks[i], worth
        best = _best(own_worth)
        history.append((own[best].copy(), own_worth[best][0]))
        if on_generation is not None:
            on_generation(generation, swarm.generations)
    return MaskSequence(tuple(mask for mask, _ in history), tuple(loss for _, loss in history))


class _Judge:
    """Evaluates each distinct mask once; ordered by loss, then by size."""

    def __init__(self, refit_loss: RefitLoss) -> None:
        self._refit_loss = refit_loss
        self._losses: dict[bytes, float] = {}

    def __call__(self, masks: Mask) -> list[tuple[float, int]]:
        """Return (loss, number of features) of each of the masks (m, d)."""
        new = {mask.tobytes(): mask for mask in masks if mask.tobytes() not in self._losses}
        if new:
            losses = self._refit_loss(list(new.values()))
            self._losses.update(zip(new, losses, strict=True))
        return [(self._losses[mask.tobytes()], int(mask.sum())) for mask in masks]


def _best(worth: list[tuple[float, int]]) -> int:
    return min(range(len(worth)), key=worth.__getitem__)


def _velocities(
    velocities: Floats,
    masks: Mask,
    own: Mask,
    best: Mask,
    swarm: Swarm,
    random: np.random.Generator,
) -> Floats:
    """Return where each particle is drawn to next, shape (individuals, d)."""
    here = masks.astype(np.float64)
    to_own = swarm.cognitive * random.random(masks.shape) * (own - here)
    to_best = swarm.social * random.random(masks.shape) * (best - here)
    return np.clip(swarm.inertia * velocities + to_own + to_best, -_FASTEST, _FASTEST)


def _masks(
    velocities: Floats,
    random: np.random.Generator,
    keep: list[int],
    most: int,
    feasible: FeasibleMasks | None,
) -> Mask:
    """Draw a mask for each particle, shape (individuals, d)."""
    margins = 1 / (1 + np.exp(-velocities)) - random.random(velocities.shape)
    margins[:, keep] = np.inf
    masks = margins > 0
    for mask, margin in zip(masks, margins, strict=True):
        size, order = min(max(int(mask.sum()), 1), most), np.argsort(-margin, kind="stable")
        if feasible is not None:
            mask[:] = feasible.best(order.tolist(), size, most)
        elif size != mask.sum():
            mask[:] = False
            mask[order[:size]] = True
    return masks


def sequential_forward(
    refit_loss: RefitLoss, n_features: int, *, largest: int, keep: Collection[int] = ()
) -> MaskSequence:
    """Add the most useful feature to `keep` again and again; return a mask of each size.

    Whitney, "A direct method of nonparametric measurement selection", IEEE Transactions on
    Computers C-20 (1971), adds; Marill and Green, "On the effectiveness of receptors in recognition
    systems", IEEE Transactions on Information Theory 9 (1963), removes. scikit-learn has both as
    `SequentialFeatureSelector`.

    It judges by cross-validation; here a refit is judged on rows held out, since d features take
    some d^2 / 2 refits already, and every fold would take as many again. Of equal losses the lowest
    index is added, or removed, first.
    """
    mask = _mask_of(keep, n_features)
    _check_size("largest", largest, mask)
    masks: list[Mask] = []
    losses: list[float] = []
    if mask.any():
        masks.append(mask)
        losses += refit_loss([mask])
    while mask.sum() < largest:
        mask, loss = _best_mask(refit_loss, _flipped(mask, np.flatnonzero(~mask)))
        masks.append(mask)
        losses.append(loss)
    return MaskSequence(tuple(masks), tuple(losses))


def sequential_backward(
    refit_loss: RefitLoss, n_features: int, *, smallest: int, keep: Collection[int] = ()
) -> EliminationPath:
    """Remove the least useful feature but `keep` again and again, until `smallest` are left."""
    kept = _mask_of(keep, n_features)
    _check_size("smallest", smallest, kept)
    mask = np.ones(n_features, dtype=bool)
    (loss_of_all,) = refit_loss([mask])
    removed: list[int] = []
    losses: list[float] = []
    while mask.sum() > smallest:
        before = mask
        mask, loss = _best_mask(refit_loss, _flipped(before, np.flatnonzero(before & ~kept)))
        removed.append(int(np.flatnonzero(before & ~mask)[0]))
        losses.append(loss)
    return EliminationPath(n_features, loss_of_all, tuple(removed), tuple(losses))


def n_refits_forward(n_features: int, largest: int, n_kept: int) -> int:
    return sum(n_features - size for size in range(n_kept, largest)) + (n_kept > 0)


def n_refits_backward(n_features: int, smallest: int, n_kept: int) -> int:
    return 1 + sum(size - n_kept for size in range(smallest + 1, n_features + 1))


def _best_mask(refit_loss: RefitLoss, masks: list[Mask]) -> tuple[Mask, float]:
    losses = refit_loss(masks)
    best = int(np.argmin(losses))
    return masks[best], float(losses[best])


def _flipped(mask: Mask, features: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Mask]:
    """Return copies of the mask, each with a feature added, or removed if it was in."""
    masks = []
    for feature in features:
        other = mask.copy()
        other[feature] = not mask[feature]
        masks.append(other)
    return masks


def _mask_of(keep: Collection[int], n_features: int) -> Mask:
    if any(not 0 <= j < n_features for j in keep):
        raise InputError(f"keep must name features in 0..{n_features - 1} but is {sorted(keep)}")
    mask = np.zeros(n_features, dtype=bool)
    mask[list(keep)] = True
    return mask


def _check_size(name: str, size: int, kept: Mask) -> None:
    fewest = max(1, int(kept.sum()))
    if not fewest <= size <= len(kept):
        raise InputError(f"{name} must be in {fewest}..{len(kept)} but is {size}")
