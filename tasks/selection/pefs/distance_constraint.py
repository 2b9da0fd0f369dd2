"""Masks that differ from previous sets: each mask that is drawn is repaired until it does.

A feature that a mask shares with a previous set leaves the mask, until the mask is far enough from
every set. It is drawn at random, weighted by the odds against keeping it. For the final mask the
least probable leaves. A feature that is the same in all rows is in no mask: it would only disguise
an equal set.

The more features a mask has, the more of a set it may share. So uninformative features would make
room for shared features: a mask larger than the requested number, or than a previous set if none is
requested, may share no more than a mask of just that size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.pefs.distribution import Masks


class Repair:
    """Takes masks to masks that are at least `tau` from every previous set.

    Sets are of features in 0..d-1; the final mask has `size` features, if set. Features that do
    not vary are never in a mask. InputError if a set is empty, `tau` is out of range, or no mask of
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
                raise InputError(f"previous set {position + 1} is empty; leave it out")
            if any(not 0 <= j < n_features for j in features):
                raise InputError(
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
                raise InputError(f"n_features must be in 1..{n_features} but is {size}")
            self._as_if = [size] * len(self._sets)
        self._legal = self._find_legal_mask(size)

    def __call__(self, masks: Masks, probabilities: Floats, random: np.random.Generator) -> Masks:
        """Repair masks (m, d) that were drawn by probabilities (d,); they are not changed."""
        repaired = masks & self._varying
        for mask in repaired:
            # the larger the exponential time, scaled by the rate, the later a feature leaves
            rates = np.maximum(1 - probabilities, np.finfo(np.float64).tiny)
            when = random.exponential(size=len(mask)) / rates
            self._reduce(mask, when)
            if not mask.any():
                mask[:] = self._replace_empty(probabilities, when)
        return repaired

    def final(self, mask: Mask, probabilities: Floats) -> Mask:
        """Return a mask (d,) repaired by dropping what is least probable by probabilities (d,)."""
        repaired = mask & self._varying
        self._reduce(repaired, probabilities)
        return repaired if repaired.any() else self._replace_empty(probabilities, probabilities)

    def most_probable(self, probabilities: Floats, n_features: int) -> Mask:
        """Return the mask of `n_features` features that takes the most probable it may, in turn.

        If that ends too early, it is the mask of that size with the largest sum of probabilities.
        InputError if there is none.
        """
        most = self._max_shared(n_features)
        mask = self._fill_greedily(probabilities, n_features, most)
        if mask is None:
            mask = self._solve(probabilities, n_features, most)
        if mask is None:
            raise InputError(self._explain_size(n_features))
        return mask

    def is_far(self, mask: Mask) -> bool:
        """Return whether a mask (d,) shares few enough features with every previous set."""
        return not self._violated(mask).any()

    def _max_shared(self, size: int, as_if: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Return how many features a mask of a size may share with each set, shape (m,).

        With `as_if`, larger masks may share no more with a set than a mask of that size.
        """
        of_sets = self._sets.sum(axis=1).tolist()
        sizes = [size] * len(of_sets) if as_if is None else [min(size, most) for most in as_if]
        overlaps = [
            largest_overlap(mask_size, of_set, self._tau, self._kind)
            for mask_size, of_set in zip(sizes, of_sets, strict=True)
        ]
        return np.array(overlaps, dtype=np.int64)

    def _violated(self, mask: Mask) -> NDArray[np.bool_]:
        most = self._max_shared(int(mask.sum()), self._as_if)
        return np.asarray((self._sets & mask).sum(axis=1) > most)

    def _reduce(self, mask: Mask, when: Floats) -> None:
        """Drop features that are shared with a set too near, the earliest first, in place."""
        while (violated := self._violated(mask)).any():
            shared = np.flatnonzero(mask & self._sets[violated].any(axis=0))
            mask[shared[np.argmin(when[shared])]] = False

    def _fill_greedily(self, worth: Floats, size: int, most: NDArray[np.int64]) -> Mask | None:
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

    def _solve(self, worth: Floats, size: int, most: NDArray[np.int64]) -> Mask | None:
        """Return the mask of a size with the largest sum of worth; None if there is none.

        A mixed integer program, solved exactly by HiGHS: a variable for each feature, a
        constraint for each set, that the mask shares at most so many features with it.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        d = len(worth)
        solution = milp(
            -worth,
            integrality=np.ones(d, dtype=np.int64),
            bounds=Bounds(0, self._varying.astype(np.float64)),
            constraints=[
                LinearConstraint(np.ones((1, d)), size, size),
                LinearConstraint(self._sets.astype(np.float64), -np.inf, most),
            ],
        )
        return None if solution.x is None else np.asarray(solution.x > 0.5)

    def _any_mask(self, size: int, as_if: Sequence[int] | None = None) -> Mask | None:
        """Return a mask of a size that is far enough, or None; faster if counts decide."""
        most, among = self._max_shared(size, as_if), self._sets[:, self._varying]
        fewest_of_each = size - among.shape[1] + among.sum(axis=1)
        fewest_of_all = np.sort(among.sum(axis=0))[:size].sum()
        if (fewest_of_each > most).any() or fewest_of_all > most.sum():
            return None
        return self._solve(np.zeros(len(self._varying)), size, most)

    def _replace_empty(self, probabilities: Floats, when: Floats) -> Mask:
        """Return a mask in place of an empty mask."""
        if self._outside.any():
            best = int(np.argmax(np.where(self._outside, probabilities, -1.0)))
            return np.asarray(np.arange(len(probabilities)) == best)
        size = int(self._legal.sum())
        mask = self._fill_greedily(when, size, self._max_shared(size, self._as_if))
        return self._legal.copy() if mask is None else mask

    def _find_legal_mask(self, size: int | None) -> Mask:
        """Return some mask that is far enough; InputError if there is none."""
        d = self._sets.shape[1]
        if size is not None:
            return self.most_probable(np.full(d, 0.5), size)
        if self._outside.any():
            return np.asarray(np.arange(d) == np.argmax(self._outside))
        for as_if in (self._as_if, None):  # a mask larger than the sets may yet be far enough
            self._as_if = as_if
            for n_features in range(1, int(self._varying.sum()) + 1):
                mask = self._any_mask(n_features, as_if)
                if mask is not None:
                    return mask
        raise InputError(self._explain_none())

    def _explain_size(self, size: int) -> str:
        """Return the message for a size of which no mask is far enough."""
        n_varying = int(self._varying.sum())
        far = (
            f"of features that {'' if self._varying.all() else 'vary and '}are tau {self._tau:g} "
            f"from all {len(self._sets)} previous sets"
        )
        for other in (*range(size - 1, 0, -1), *range(size + 1, n_varying + 1)):
            if self._any_mask(other) is not None:
                limit = "most" if other < size else "least"
                return (
                    f"n_features must be at {limit} {other}, {far}, but is {size}; ask for that, "
                    "or lower tau"
                )
        return self._explain_none()

    def _explain_none(self) -> str:
        which = "features" if self._varying.all() else "features that vary"
        return (
            f"previous sets must leave one that is tau {self._tau:g} from all {len(self._sets)} of "
            f"them, but no set of the {self._varying.sum()} {which} is; lower tau, or give fewer"
        )
