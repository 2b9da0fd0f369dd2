"""Whether a target that nobody described is one of classes or of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Task

_MOST_CLASSES = 20  # whole numbers with more different values are a quantity


def asks_for_classes(given: NDArray[Any], task: Task | None) -> bool:
    """Return whether a target is one of classes.

    Parameters
    ----------
    given : ndarray, shape (N,)
        Of any type.
    task : "classification" or "regression", optional
        By default classification for text, true and false, and for whole numbers with at most 20
        different values.

    Raises
    ------
    ValueError
        If there is no such task.
    """
    if task not in ("classification", "regression", None):
        raise ValueError(f"task must be classification or regression but is {task!r}")
    if task is not None:
        return task == "classification"
    if given.dtype.kind in "iu":
        return len(np.unique(given)) <= _MOST_CLASSES
    return bool(given.dtype.kind != "f")
