"""Recursive feature elimination, and its size by cross-validation.

Guyon, Weston, Barnhill and Vapnik, "Gene selection for cancer classification using support vector
machines", Machine Learning 46 (2002): fit, drop the features with the least importance, fit again
on what is left. scikit-learn has it as `RFE` and `RFECV`.

========================  ==============================
there                     here
========================  ==============================
`RFE`                     `eliminate_by_refits`
a share for its `step`    `sizes_on_the_way`
`RFECV`                   `CrossValidatedPath.best_size`
========================  ==============================

A share is one of the features that are left, so that the last ones leave one at a time; there it is
one of all. What leaves together leaves in the order of the importances, so that every size can be
read off one path. Of equal importances the lowest index leaves first. The size may be the smallest
whose loss lies within one standard error of the lowest: Breiman, Friedman, Olshen and Stone,
"Classification and regression trees" (1984), section 3.4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaffinch.tasks.selection.rivals.ranking import RankedPath
from chaffinch.tasks.selection.vocabulary import Floats, Mask


def sizes_on_the_way(n_features: int, fewest: int, share: float) -> list[int]:
    """Return the numbers of features that models are fitted on, from all down to the fewest.

    Parameters
    ----------
    n_features : int
        d, how many there are.
    fewest : int in 1..d
        How many are left at the end.
    share : float in 0..1, above 0 and below 1
        Of those left, how much leaves at a time: rounded down, and at least one feature.
    """
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

    Parameters
    ----------
    importances : callable
        Takes a mask (d,) to the importances of its k features in a model fitted on them alone,
        shape (k,), higher is better. Asked once for each size on the way but the last.
    n_features : int
        d, how many there are.
    share : float
        See `sizes_on_the_way`.
    keep : collection of int
        Features that never leave.
    on_round : callable, optional
        Called after each refit with the number done and the number in all.

    Returns
    -------
    RankedPath
        A feature's score is its place in the order of leaving, from 1; all that outlast the path
        have the one after the last.
    """
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
    """The order of leaving, with what cross-validation says of some of the sizes on the way.

    Attributes
    ----------
    scores, removed
        See `RankedPath`.
    sizes : tuple of int
        Numbers of features, falling.
    losses : tuple of float
        Mean loss over the folds at each size, on the rows that a fold holds out.
    standard_errors : tuple of float
        Of these means.
    """

    sizes: tuple[int, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...]

    @classmethod
    def from_folds(cls, path: RankedPath, sizes: list[int], losses: Floats) -> CrossValidatedPath:
        """Return the path with what its folds say, losses of shape (folds, sizes)."""
        errors = losses.std(axis=0, ddof=1) / np.sqrt(len(losses))
        means = losses.mean(axis=0)
        return cls(
            path.scores, path.removed, tuple(sizes), tuple(means.tolist()), tuple(errors.tolist())
        )

    def best_size(
        self, *, at_most: int | None = None, within_one_standard_error: bool = False
    ) -> int:
        """Return the size with the lowest mean loss; of equals, the smaller.

        Parameters
        ----------
        at_most : int, optional
            Largest size that may be chosen; by default any.
        within_one_standard_error : bool
            Choose the smallest size whose mean loss is at most the lowest plus its standard error.

        Raises
        ------
        ValueError
            If every size is larger than `at_most`.
        """
        limit = self.n_features if at_most is None else at_most
        allowed = [i for i, size in enumerate(self.sizes) if size <= limit]
        if not allowed:
            raise ValueError(f"at_most must be at least {self.sizes[-1]} but is {at_most}")
        best = min(allowed, key=lambda i: (self.losses[i], self.sizes[i]))
        if not within_one_standard_error:
            return self.sizes[best]
        ceiling = self.losses[best] + self.standard_errors[best]
        return min(self.sizes[i] for i in allowed if self.losses[i] <= ceiling)
