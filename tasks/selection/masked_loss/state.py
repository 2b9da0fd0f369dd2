"""What every engine shares: the present mask, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral
from typing import Self

import numpy as np

from chaffinch.tasks.selection.errors import UnusableLossError
from chaffinch.tasks.selection.masked_loss.sharing import Alone
from chaffinch.tasks.selection.vocabulary import Floats, Mask


class MaskState:
    """The present mask, which starts with every feature kept.

    What an engine keeps beside it stands for it or is marked as unwhole, and is then made anew
    before it is read. So a removal is all or nothing, whichever line of it is interrupted. Threads
    that ask at the same time are answered one after the other.

    Parameters
    ----------
    n_features : int
        d, at least 1.
    """

    def __init__(self, n_features: int) -> None:
        self._mask = np.ones(n_features, dtype=bool)
        self._is_whole = True
        self._alone = Alone()

    @property
    def mask(self) -> Mask:
        """The present mask, shape (d,), a copy."""
        return self._mask.copy()

    def remove(self, feature: int) -> None:
        """Mask one more feature for good.

        Raises
        ------
        ValueError
            If `feature` is no index of a kept feature.
        """
        last = len(self._mask) - 1
        if not isinstance(feature, Integral) or isinstance(feature, bool):
            raise ValueError(f"feature must be a whole number in 0..{last} but is {feature!r}")
        if not 0 <= feature <= last:
            raise ValueError(f"feature must be in 0..{last} but is {feature}")
        with self._alone.lock:
            if not self._mask[feature]:
                raise ValueError(f"feature {feature} is masked already; name one that is kept")
            self._make_whole()
            self._is_whole = False
            self._mask[feature] = False
            self._after_removal(feature)
            self._is_whole = True

    def __copy__(self) -> Self:
        """Return a deep copy: two engines cannot share what one of them changes."""
        return copy.deepcopy(self)

    def _make_whole(self) -> None:
        """Make what is kept anew if it may not stand for the mask; call this before it is read."""
        if not self._is_whole:
            self._start_anew()
            self._is_whole = True

    def _after_removal(self, feature: int) -> None:
        """Bring what is kept up to the mask without `feature`; nothing may be kept."""

    def _start_anew(self) -> None:
        """Make what is kept from the mask alone; nothing may be kept."""

    def _as_masks(self, masks: Sequence[Mask] | Mask) -> Mask:
        """Return masks as one array (m, d); ValueError if they are none, or have another shape."""
        array = np.asarray(masks)
        if array.shape == (0,):  # a list of none
            array = array.reshape(0, len(self._mask))
        if array.ndim != 2 or array.shape[1] != len(self._mask):
            raise ValueError(f"masks must have shape (m, {len(self._mask)}) but are {array.shape}")
        if array.dtype != bool and not np.isin(array, (0, 1)).all():
            raise ValueError(
                "masks must hold True for a feature that is kept and False for one that is masked"
            )
        return array.astype(bool)


def check_finite(name: str, losses: Floats, n_kept: int, n_features: int) -> None:
    """Raise `UnusableError` if a loss is not a finite number.

    Parameters
    ----------
    name : str
        Of the loss.
    losses : ndarray of float64, shape (m,)
        One for each mask.
    n_kept : int
        Features that each of the masks keeps.
    n_features : int
        d, the number of features in all.
    """
    wrong = (~np.isfinite(losses)).nonzero()[0]  # flatnonzero takes thrice as long
    if len(wrong):
        raise UnusableLossError(
            f"{name} must be finite but is {losses[wrong[0]]} with {n_kept} of {n_features} "
            "features kept",
            "choose another loss or model",
            "choose another model",
        )
