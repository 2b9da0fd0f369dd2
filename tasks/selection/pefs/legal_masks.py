"""Whether there is a mask far enough from given sets, and which is the most probable: exactly.

A mixed integer program, solved by HiGHS: one variable for each feature, one constraint for each
set, that the mask shares no more with it than it may.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.pefs.distribution import Masks
from chaffinch.tasks.selection.vocabulary import Floats, Mask


def most_shared(
    size: int, sets: Masks, tau: float, kind: Dissimilarity, *, as_if: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """Return how many features a mask of a size may share with each set, shape (m,).

    Parameters
    ----------
    size : int
        Of the mask.
    sets : ndarray of bool, shape (m, d)
    tau : float in 0..1
        The least dissimilarity.
    kind : "dice" or "jaccard"
    as_if : sequence of int, length m, optional
        Larger masks may share no more with each set than one of this size.
    """
    of_sets = sets.sum(axis=1).tolist()
    sizes = [size] * len(of_sets) if as_if is None else [min(size, most) for most in as_if]
    return np.array(
        [
            largest_overlap(one, of_set, tau, kind)
            for one, of_set in zip(sizes, of_sets, strict=True)
        ],
        dtype=np.int64,
    )


def best_mask(
    worth: Floats, size: int, sets: Masks, most: NDArray[np.int64], varying: Mask
) -> Mask | None:
    """Return the mask of a size that is worth most and shares few enough features with each set.

    Parameters
    ----------
    worth : ndarray of float64, shape (d,)
        Of each feature.
    size : int in 1..d
    sets : ndarray of bool, shape (m, d)
    most : ndarray of int, shape (m,)
        How many features of each set it may have.
    varying : ndarray of bool, shape (d,)
        Features that it may have at all.

    Returns
    -------
    ndarray of bool, shape (d,), or None
        None if there is no such mask.
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
    """Return a smallest mask that is far enough from each set, but not empty; None without one.

    Parameters
    ----------
    sets, tau, kind, as_if
        See `most_shared`.
    varying
        See `best_mask`.
    """
    masks = (
        some_mask(size, sets, most_shared(size, sets, tau, kind, as_if=as_if), varying)
        for size in range(1, int(varying.sum()) + 1)
    )
    return next((mask for mask in masks if mask is not None), None)


def some_mask(size: int, sets: Masks, most: NDArray[np.int64], varying: Mask) -> Mask | None:
    """Return any mask that `best_mask` may return, or None; quicker where counts tell."""
    among = sets[:, varying]
    fewest_of_each = size - among.shape[1] + among.sum(axis=1)
    fewest_of_all = np.sort(among.sum(axis=0))[:size].sum()
    if (fewest_of_each > most).any() or fewest_of_all > most.sum():
        return None
    return best_mask(np.zeros(len(varying)), size, sets, most, varying)
