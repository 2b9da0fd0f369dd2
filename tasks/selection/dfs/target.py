"""A target as the centred outputs that a residual variance is estimated of.

Numbers are one output. Two classes are one, too; of more each is an output of its own, 0 and 1, and
the estimate is summed. Outputs come in units in which their variances sum to 1, so that losses,
penalties and steps mean the same for every target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.tasks.selection.target_kind import asks_for_classes
from chaffinch.tasks.selection.vocabulary import Floats, Task


def read_target(y: ArrayLike, n_rows: int, task: Task | None = None) -> Floats:
    """Return centred outputs, shape (N, C), the variances of which sum to 1.

    Parameters
    ----------
    y : array, shape (N,)
        Numbers or classes.
    n_rows : int
        N.
    task : "classification" or "regression", optional
        By default classification for text, true and false, and for whole numbers with at most 20
        different values.

    Raises
    ------
    ValueError
        If y does not fit the rows or the task, is not finite, or is all the same.
    """
    given = np.asarray(y)
    if given.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), as X has rows, but has {given.shape}")
    if asks_for_classes(given, task):
        outputs = _one_hot(given)
    elif given.dtype.kind not in "biuf":
        raise ValueError(
            f"y must hold numbers for a regression but holds {given.dtype}; give numbers, or set "
            "task to classification"
        )
    else:
        outputs = given.astype(np.float64)[:, np.newaxis]
    if not np.isfinite(outputs).all():
        raise ValueError("y must be finite but is not; leave out the rows without a target")
    if (outputs == outputs[0]).all():
        raise ValueError("y must vary but is the same in every row; give rows that differ")
    outputs = outputs / np.abs(outputs).max()  # or the squares of large numbers are no numbers
    outputs -= outputs.mean(axis=0)
    outputs /= np.sqrt((outputs**2).mean(axis=0).sum())
    return np.ascontiguousarray(outputs)


def _one_hot(given: NDArray[Any]) -> Floats:
    """Return a column of 0 and 1 for each class but of two, for which one says it all."""
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError("y must be finite but is not; leave out the rows without a target")
    try:
        labels, codes = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "y must hold classes of one kind but mixes some, as text and gaps; leave out the rows "
            "without a target"
        ) from error
    columns = np.arange(len(labels)) if len(labels) > 2 else np.array([len(labels) - 1])
    one_hot: Floats = np.equal(codes[:, np.newaxis], columns).astype(np.float64)
    return one_hot
