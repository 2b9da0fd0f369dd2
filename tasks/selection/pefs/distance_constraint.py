"""Masks that differ from given sets: each mask that is drawn is repaired until it does.

A feature that a mask shares with a given set leaves the mask, until the mask is far enough from
every set. It is drawn at random, weighted by the odds against keeping it. For the final mask the
least probable leaves. A feature that is the same in all rows is in no mask: it would only disguise
an equal set.

The more features a mask has, the more of a set it may share. So uninformative features would make
room for shared ones: a mask larger than the requested number, or larger than a given set without
one, may share no more than a mask of just that size.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.constraints import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.pefs.distribution import Masks

# Whether a mask far enough from given sets exists, and the most probable one: exactly.
#
# A mixed integer program, solved by HiGHS: one variable for each feature, one constraint for each
# set, that the mask shares no more with it than it may.


def most_shared(
    size: int, sets: Masks, tau: float, kind: Dissimilarity, *, as_if: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """Return how many features a mask of a size may share with each set (m, d), shape (m,).

    If `as_if` is given, larger masks may share no more with a set than one of that size.
    """
    of_sets = sets.sum(axis=1).tolist()
    sizes = [size] * len(of_sets) if as_if is None else [min(size, most) for most in as_if]
    overlaps = map(largest_overlap, sizes, of_sets, itertools.repeat(tau), itertools.repeat(kind))
    return np.array(list(overlaps), dtype=np.int64)


def best_mask(
    worth: Floats, size: int, sets: Masks, most: NDArray[np.int64], varying: Mask
) -> Mask | None:
    """Return the mask of a size with the largest sum of worth that shares at most `most` features.

    It has varying features only; None if there is no such mask.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    d = len(worth)
    found = milp(
        -worth,
        integrality=np.ones(d, dtype=np.int64),
        bounds=Bounds(0, varying.astype(np.float64)),
        constraints=[
            LinearConstraint(np.ones((1, d)), size, size),
            LinearConstraint(sets.astype(np.float64), -np.inf, most),
        ],
    )
    return None if found.x is None else np.asarray(found.x > 0.5)


def smallest_mask(
    sets: Masks,
    tau: float,
    kind: Dissimilarity,
    varying: Mask,
    *,
    as_if: Sequence[int] | None = None,
) -> Mask | None:
    """Return a smallest mask that is far enough from each set, but not empty; None without one."""
    masks = (
        some_mask(size, sets, most_shared(size, sets, tau, kind, as_if=as_if), varying)
        for size in range(1, int(varying.sum()) + 1)
    )
    return next((mask for mask in masks if mask is not None), None)


def some_mask(size: int, sets: Masks, most: NDArray[np.int64], varying: Mask) -> Mask | None:
    """Return any mask that `best_mask` may return, or None; faster if counts decide."""
    among = sets[:, varying]
    fewest_of_each = size - among.shape[1] + among.sum(axis=1)
    fewest_of_all = np.sort(among.sum(axis=0))[:size].sum()
    if (fewest_of_each > most).any() or fewest_of_all > most.sum():
        return None
    return best_mask(np.zeros(len(varying)), size, sets, most, varying)


class Repair:
    """Takes masks to masks that are at least `tau` from every given set.

    Sets are of features in 0..d-1; the final mask has `size` features, if given. Features that do
    not vary are never in a mask. ValueError if a set is empty, `tau` is out of range, or no mask of
    that size is far enough from all sets.
    """

    def __init__(
        self,
        n_features: int,
        previous: Sequence[Collection[int]],
        tau: float,
        kind: Dissimilarity = "dice",
        size: int | None = None,
        *,
        varying: Mask | None = None,
    ) -> None:
        largest_overlap(1, 1, tau, kind)  # refuses what is no tau, and no dissimilarity
        self._sets = np.zeros((len(previous), n_features), dtype=bool)
        for position, features in enumerate(previous):
            if not features:
                raise ValueError(f"previous set {position + 1} is empty; leave it out")
            if any(not 0 <= j < n_features for j in features):
                raise ValueError(
                    f"previous sets must be of features in 0..{n_features - 1} but set "
                    f"{position + 1} is {sorted(features)}"
                )
            self._sets[position, list(features)] = True
        self._varying = np.ones(n_features, dtype=bool) if varying is None else varying
        self._outside = self._varying & ~self._sets.any(axis=0)
        self._tau, self._kind = tau, kind
        self._as_if: Sequence[int] | None = self._sets.sum(axis=1).tolist()
        if size is not None:
            if not 1 <= size <= n_features:
                raise ValueError(f"n_features must be in 1..{n_features} but is {size}")
            self._as_if = [size] * len(self._sets)
        self._legal = self._a_legal_mask(size)

    def __call__(self, masks: Masks, probabilities: Floats, random: np.random.Generator) -> Masks:
        """Repair masks (m, d) that were drawn by probabilities (d,); they are not changed."""
        repaired = masks & self._varying
        for mask in repaired:
            # the larger the exponential time, scaled by the rate, the later a feature leaves
            rates = np.maximum(1 - probabilities, np.finfo(np.float64).tiny)
            when = random.exponential(size=len(mask)) / rates
            self._reduce(mask, when)
            if not mask.any():
                mask[:] = self._instead(probabilities, when)
        return repaired

    def final(self, mask: Mask, probabilities: Floats) -> Mask:
        """Return a mask (d,) repaired by dropping what is least probable by probabilities (d,)."""
        repaired = mask & self._varying
        self._reduce(repaired, probabilities)
        return repaired if repaired.any() else self._instead(probabilities, probabilities)

    def most_probable(self, probabilities: Floats, n_features: int) -> Mask:
        """Return the mask of `n_features` features that takes the most probable it may, in turn.

        If that ends too early, it is the one of that size with the largest sum of probabilities.
        ValueError if there is none.
        """
        most = self._most(n_features)
        mask = self._in_turn(probabilities, n_features, most)
        if mask is None:
            mask = best_mask(probabilities, n_features, self._sets, most, self._varying)
        if mask is None:
            raise ValueError(self._why_none(n_features))
        return mask

    def is_far(self, mask: Mask) -> bool:
        """Return whether a mask (d,) shares few enough features with every given set."""
        return not self._violated(mask).any()

    def _most(self, size: int, as_if: Sequence[int] | None = None) -> NDArray[np.int64]:
        return most_shared(size, self._sets, self._tau, self._kind, as_if=as_if)

    def _violated(self, mask: Mask) -> NDArray[np.bool_]:
        most = self._most(int(mask.sum()), self._as_if)
        return np.asarray((self._sets & mask).sum(axis=1) > most)

    def _reduce(self, mask: Mask, when: Floats) -> None:
        """Drop features that are shared with a set too near, the earliest first, in place."""
        while (violated := self._violated(mask)).any():
            shared = np.flatnonzero(mask & self._sets[violated].any(axis=0))
            mask[shared[np.argmin(when[shared])]] = False

    def _in_turn(self, worth: Floats, size: int, most: NDArray[np.int64]) -> Mask | None:
        """Return the mask that takes the worthiest feature it may, in turn, if it gets that far."""
        mask = np.zeros(len(worth), dtype=bool)
        shared = np.zeros(len(self._sets), dtype=np.int64)
        order = np.argsort(-worth, kind="stable")
        for j in order[self._varying[order]]:
            if (shared + self._sets[:, j] <= most).all():
                mask[j] = True
                shared += self._sets[:, j]
                if mask.sum() == size:
                    return mask
        return None

    def _instead(self, probabilities: Floats, when: Floats) -> Mask:
        """Return a mask in place of one of which nothing was left."""
        if self._outside.any():
            best = int(np.argmax(np.where(self._outside, probabilities, -1.0)))
            return np.asarray(np.arange(len(probabilities)) == best)
        size = int(self._legal.sum())
        mask = self._in_turn(when, size, self._most(size, self._as_if))
        return self._legal.copy() if mask is None else mask

    def _a_legal_mask(self, size: int | None) -> Mask:
        """Return some mask that is far enough; ValueError if there is none."""
        d = self._sets.shape[1]
        if size is not None:
            return self.most_probable(np.full(d, 0.5), size)
        if self._outside.any():
            return np.asarray(np.arange(d) == np.argmax(self._outside))
        mask = smallest_mask(self._sets, self._tau, self._kind, self._varying, as_if=self._as_if)
        if mask is None:  # a mask larger than the sets may yet be far enough
            self._as_if = None
            mask = smallest_mask(self._sets, self._tau, self._kind, self._varying)
        if mask is None:
            raise ValueError(self._none_at_all())
        return mask

    def _why_none(self, size: int) -> str:
        """Return the message for a size of which no mask is far enough."""
        n_varying = int(self._varying.sum())
        far = (
            f"of features that {'' if self._varying.all() else 'vary and '}are tau {self._tau:g} "
            f"from all {len(self._sets)} previous sets"
        )
        for other in (*range(size - 1, 0, -1), *range(size + 1, n_varying + 1)):
            if some_mask(other, self._sets, self._most(other), self._varying) is not None:
                limit = "most" if other < size else "least"
                return (
                    f"n_features must be at {limit} {other}, {far}, but is {size}; ask for that, "
                    "or lower tau"
                )
        return self._none_at_all()

    def _none_at_all(self) -> str:
        which = "features" if self._varying.all() else "features that vary"
        return (
            f"previous sets must leave one that is tau {self._tau:g} from all {len(self._sets)} of "
            f"them, but no set of the {self._varying.sum()} {which} is; lower tau, or give fewer"
        )
