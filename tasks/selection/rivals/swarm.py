"""Binary particle swarm optimisation of a mask.

Kennedy and Eberhart, "A discrete binary version of the particle swarm algorithm", IEEE
International Conference on Systems, Man, and Cybernetics (1997), with the inertia of Shi and
Eberhart, "A modified particle swarm optimizer", IEEE World Congress on Computational Intelligence
(1998). As a rival it comes from Saito, Shirakawa and Akimoto, "Embedded feature selection using
probabilistic model-based optimization", GECCO Companion (2018), where it is called ErFS, has 10
individuals and 25 generations, and a fitness from 30 % of the training data.

=====================================================  ==================
papers                                                 here
=====================================================  ==================
v = w v + c1 r1 (own best - x) + c2 r2 (best - x)      `_velocities`
-6 <= v <= 6                                           `_FASTEST`
x = 1 if a number drawn from 0..1 < 1 / (1 + exp -v)   `_masks`
=====================================================  ==================

Departs: a mask that would be empty, or hold more features than are allowed, has those nearest to
being drawn instead. Of equal losses the smaller mask is the better one. All particles of a
generation move at once, so that they can be judged at once; no mask is judged twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.rivals.found import FoundMasks, RefitLoss
from chaffinch.tasks.selection.vocabulary import Floats, Mask

# Keeps a probability between 0.0025 and 0.9975: Kennedy and Eberhart, section 4
_FASTEST = 6.0


@dataclass(frozen=True)
class Swarm:
    """How many particles there are, and how they move.

    Attributes
    ----------
    individuals, generations : int, at least 1
        Particles, and how often each is judged.
    inertia : float, at least 0
        How much of its velocity a particle keeps, w.
    cognitive, social : float, at least 0
        Pull of a particle's own best mask, c1, and of the best of all, c2.
    """

    individuals: int
    generations: int
    inertia: float
    cognitive: float
    social: float


def particle_swarm(
    refit_loss: RefitLoss,
    n_features: int,
    swarm: Swarm,
    seed: int,
    *,
    keep: Collection[int] = (),
    at_most: int | None = None,
    on_generation: Callable[[int, int], None] | None = None,
) -> FoundMasks:
    """Let a swarm look for the mask with the lowest loss.

    Parameters
    ----------
    refit_loss : callable
        Masks to the losses of their refits; asked about each mask once at most.
    n_features : int
        d, how many there are.
    swarm : Swarm
        Its size and its ways.
    seed : int
        The only source of randomness.
    keep : collection of int
        Features that are in every mask.
    at_most : int, optional
        Most features of a mask, at least 1 and at least `keep`; by default all.
    on_generation : callable, optional
        Called after each generation with the number done and the number in all.

    Returns
    -------
    FoundMasks
        The best mask so far after each generation; the last is the best of all.

    Raises
    ------
    ValueError
        If `at_most` does not fit the number of features.
    """
    fewest, most = max(1, len(set(keep))), n_features if at_most is None else at_most
    if not fewest <= most <= n_features:
        raise ValueError(f"at_most must be in {fewest}..{n_features} but is {at_most}")
    random = np.random.default_rng(seed)
    shape = (swarm.individuals, n_features)
    judge = _Judge(refit_loss)
    velocities = random.uniform(-1.0, 1.0, shape)
    masks = _masks(velocities, random, list(keep), most)
    own, own_worth = masks.copy(), judge(masks)
    found: list[tuple[Mask, float]] = []
    for generation in range(1, swarm.generations + 1):
        if generation > 1:
            velocities = _velocities(velocities, masks, own, own[_best(own_worth)], swarm, random)
            masks = _masks(velocities, random, list(keep), most)
            for i, worth in enumerate(judge(masks)):
                if worth < own_worth[i]:
                    own[i], own_worth[i] = masks[i], worth
        best = _best(own_worth)
        found.append((own[best].copy(), own_worth[best][0]))
        if on_generation is not None:
            on_generation(generation, swarm.generations)
    return FoundMasks(tuple(mask for mask, _ in found), tuple(loss for _, loss in found))


class _Judge:
    """Asks about each distinct mask once; of what is worth more, the loss is lower, then size."""

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
    """Return the particle with the best mask; of equals the first."""
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


def _masks(velocities: Floats, random: np.random.Generator, keep: list[int], most: int) -> Mask:
    """Draw a mask for each particle, shape (individuals, d)."""
    margins = 1 / (1 + np.exp(-velocities)) - random.random(velocities.shape)
    margins[:, keep] = np.inf
    masks = margins > 0
    for mask, margin in zip(masks, margins, strict=True):
        size = min(max(int(mask.sum()), 1), most)
        if size != mask.sum():
            mask[:] = False
            mask[np.argsort(-margin, kind="stable")[:size]] = True
    return masks
