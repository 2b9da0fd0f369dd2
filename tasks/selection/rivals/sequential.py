"""Sequential forward and backward selection: one feature at a time, each by a refit.

Whitney, "A direct method of nonparametric measurement selection", IEEE Transactions on Computers
C-20 (1971), adds; Marill and Green, "On the effectiveness of receptors in recognition systems",
IEEE Transactions on Information Theory 9 (1963), removes. scikit-learn has both as
`SequentialFeatureSelector`.

It judges by cross-validation; here one refit is judged on rows held out, since d features take some
d^2 / 2 refits already, and every fold would take as many again. Of equal losses the lowest index
is added, or removed, first.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.rivals.found import FoundMasks, RefitLoss
from chaffinch.tasks.selection.vocabulary import Mask


def sequential_forward(
    refit_loss: RefitLoss, n_features: int, *, largest: int, keep: Collection[int] = ()
) -> FoundMasks:
    """Add the most useful feature again and again.

    Parameters
    ----------
    refit_loss : callable
        Masks to the losses of their refits.
    n_features : int
        d, how many there are.
    largest : int in len(keep)..d, at least 1
        Stop when this many are in.
    keep : collection of int
        Features that are in from the start.

    Returns
    -------
    FoundMasks
        One mask of each size up to `largest`: from 1, or from `keep` itself.

    Raises
    ------
    ValueError
        If `largest` does not fit the number of features.
    """
    mask = _mask_of(keep, n_features)
    _check_size("largest", largest, mask)
    masks: list[Mask] = []
    losses: list[float] = []
    if mask.any():
        masks.append(mask)
        losses += refit_loss([mask])
    while mask.sum() < largest:
        mask, loss = _best(refit_loss, _flipped(mask, np.flatnonzero(~mask)))
        masks.append(mask)
        losses.append(loss)
    return FoundMasks(tuple(masks), tuple(losses))


def sequential_backward(
    refit_loss: RefitLoss, n_features: int, *, smallest: int, keep: Collection[int] = ()
) -> EliminationPath:
    """Remove the least useful feature again and again.

    Parameters
    ----------
    refit_loss, n_features
        See `sequential_forward`.
    smallest : int in len(keep)..d, at least 1
        Stop when this many are left.
    keep : collection of int
        Features that are never removed.

    Returns
    -------
    EliminationPath
        With the losses of the refits.

    Raises
    ------
    ValueError
        If `smallest` does not fit the number of features.
    """
    kept = _mask_of(keep, n_features)
    _check_size("smallest", smallest, kept)
    mask = np.ones(n_features, dtype=bool)
    (loss_of_all,) = refit_loss([mask])
    removed: list[int] = []
    losses: list[float] = []
    while mask.sum() > smallest:
        before = mask
        mask, loss = _best(refit_loss, _flipped(before, np.flatnonzero(before & ~kept)))
        removed.append(int(np.flatnonzero(before & ~mask)[0]))
        losses.append(loss)
    return EliminationPath(n_features, loss_of_all, tuple(removed), tuple(losses))


def n_refits_forward(n_features: int, largest: int, n_kept: int) -> int:
    """Return how many masks `sequential_forward` asks about."""
    return sum(n_features - size for size in range(n_kept, largest)) + (n_kept > 0)


def n_refits_backward(n_features: int, smallest: int, n_kept: int) -> int:
    """Return how many masks `sequential_backward` asks about."""
    return 1 + sum(size - n_kept for size in range(smallest + 1, n_features + 1))


def _best(refit_loss: RefitLoss, masks: list[Mask]) -> tuple[Mask, float]:
    losses = refit_loss(masks)
    best = int(np.argmin(losses))
    return masks[best], float(losses[best])


def _flipped(mask: Mask, features: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Mask]:
    """Return copies of the mask, each with one feature added, or removed if it was in."""
    masks = []
    for feature in features:
        other = mask.copy()
        other[feature] = not mask[feature]
        masks.append(other)
    return masks


def _mask_of(keep: Collection[int], n_features: int) -> Mask:
    if any(not 0 <= j < n_features for j in keep):
        raise ValueError(f"keep must name features in 0..{n_features - 1} but is {sorted(keep)}")
    mask = np.zeros(n_features, dtype=bool)
    mask[list(keep)] = True
    return mask


def _check_size(name: str, size: int, kept: Mask) -> None:
    fewest = max(1, int(kept.sum()))
    if not fewest <= size <= len(kept):
        raise ValueError(f"{name} must be in {fewest}..{len(kept)} but is {size}")
