"""Common parts of the engines: the present mask, and input checks."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from numbers import Integral
from typing import Any, NoReturn, Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask


class ForkSafeLock:
    """A reentrant lock; a forked child and a copy have a free lock."""

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    @property
    def of_process(self) -> AbstractContextManager[Any]:
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock

    def __copy__(self) -> ForkSafeLock:
        return ForkSafeLock()

    def __deepcopy__(self, _: dict[int, Any]) -> ForkSafeLock:
        return ForkSafeLock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a masked loss cannot be pickled; make it again from the model")


class Threads:
    """Threads that process pieces of work; a call waits for pieces of an interrupted call."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process, self._is_at_work = os.getpid(), False

    def each(self, work: Callable[[Any], None], pieces: Sequence[Any]) -> None:
        """Call ``work(piece)`` for every piece, in no order, and return when all is done."""
        self._finish()
        if self.count == 1 or len(pieces) == 1:
            for piece in pieces:
                work(piece)
            return
        left = iter(pieces)  # shared: each thread takes the next

        def take() -> None:
            for piece in left:
                work(piece)

        self._is_at_work = True
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        try:
            for thread in [self._pool.submit(take) for _ in range(self.count)]:
                thread.result()
            self._is_at_work = False
        finally:
            self._finish()

    def _finish(self) -> None:
        """Wait for threads that were left at work when something interrupted who waited."""
        if self._process != os.getpid():
            self._pool, self._process, self._is_at_work = None, os.getpid(), False
        if self._is_at_work and self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._is_at_work = False

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        return Threads, (self.count,)


class MaskState:
    """The present mask, which starts with all d features kept.

    State that an engine keeps besides the mask is either consistent with it or marked as invalid,
    and then rebuilt before it is read. So a removal is atomic, also if interrupted. Calls from
    several threads run in turn.
    """

    names: tuple[str, ...] = ()  # of the features, where they are known

    def __init__(self, n_features: int) -> None:
        self._mask = np.ones(n_features, dtype=bool)
        self._is_whole = True
        self._lock = ForkSafeLock()

    @property
    def mask(self) -> Mask:
        """The present mask, shape (d,), a copy."""
        return self._mask.copy()

    def remove(self, feature: int | str) -> None:
        """Mask another feature for good; InputError if it is no index or name of a kept feature."""
        last = len(self._mask) - 1
        if isinstance(feature, str) and feature in self.names:
            feature = self.names.index(feature)
        elif str(feature) in self.names and self.names.index(str(feature)) != feature:
            raise InputError(
                f"feature {feature!r} is a position, and the name of another column; give the name "
                "of the column as text"
            )
        if not isinstance(feature, Integral) or isinstance(feature, bool):
            raise InputError(f"feature must be a whole number in 0..{last} but is {feature!r}")
        if not 0 <= feature <= last:
            raise InputError(f"feature must be in 0..{last} but is {feature}")
        with self._lock.of_process:
            if not self._mask[feature]:
                raise InputError(f"feature {feature} is masked already; name one that is kept")
            self._make_whole()
            self._is_whole = False
            self._mask[feature] = False
            self._after_removal(feature)
            self._is_whole = True

    def __copy__(self) -> Self:
        """Return a deep copy: two engines cannot share what either changes."""
        return copy.deepcopy(self)

    def _make_whole(self) -> None:
        """Rebuild the state if it may be inconsistent with the mask; call this before reading."""
        if not self._is_whole:
            self._rebuild()
            self._is_whole = True

    def _after_removal(self, feature: int) -> None:
        """Update the state; optional."""

    def _rebuild(self) -> None:
        """Rebuild the state from the mask alone; optional."""

    def _as_masks(self, masks: Sequence[Mask] | Mask) -> Mask:
        array = np.asarray(masks)
        if array.shape == (0,):  # a list of none
            array = array.reshape(0, len(self._mask))
        if array.ndim != 2 or array.shape[1] != len(self._mask):
            raise InputError(f"masks must have shape (m, {len(self._mask)}) but are {array.shape}")
        if array.dtype != bool and not np.isin(array, (0, 1)).all():
            raise InputError(
                "masks must hold True for a feature that is kept and False for one that is masked"
            )
        return array.astype(bool)


def check_finite(name: str, losses: Floats, n_kept: int, n_features: int) -> None:
    """Raise `InputError` if a loss (m,) is not a finite number."""
    wrong = (~np.isfinite(losses)).nonzero()[0]  # flatnonzero takes three times as long
    if len(wrong):
        raise InputError(
            f"{name} must be finite but is {losses[wrong[0]]} with {n_kept} of {n_features} "
            "features kept",
            "choose another loss or model",
        )
