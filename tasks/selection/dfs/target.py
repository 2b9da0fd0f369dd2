"""A target as the centred outputs that a residual variance is estimated of.

Numbers are one output. Two classes are one, too; of more each is an output of its own, 0 and 1, and
the estimate is summed. Outputs come in units in which their variances sum to 1, so that losses,
penalties and steps mean the same for every target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.tasks.selection.given_arrays import (
    check_target,
    not_of_rows,
    target_array,
    without_order,
)
from chaffinch.tasks.selection.target_kind import asks_for_classes
from chaffinch.tasks.selection.vocabulary import Floats, Task

_MOST_LABELS = 1_000  # as in a file: more are a quantity rather than classes
_NOT_FINITE = "y must be finite but is not; leave out the rows without a finite target"


@dataclass(frozen=True, eq=False)
class Outputs:
    """What is known of the outputs of some rows, and how a target becomes outputs.

    Attributes
    ----------
    n_rows : int
        n.
    labels : ndarray or None
        Of classes: all there are, ascending.
    largest : float
        Outputs are divided by it first, or the squares of large numbers would be no numbers.
    mean : ndarray of float64, shape (C,)
    variance : float
        Summed over the outputs.
    example : ndarray of float64, shape (C,)
        Of some row, as it is given.
    varies : bool
        Whether another row differs.
    """

    n_rows: int
    labels: NDArray[Any] | None
    largest: float
    mean: Floats
    variance: float
    example: Floats
    varies: bool

    def of(self, y: NDArray[Any]) -> Floats:
        """Return centred outputs of unit variance, shape (n, C), of the target of some rows.

        Raises
        ------
        ValueError
            If y is not finite, or holds a class that there was not.
        """
        outputs = _as_given(y, self.labels) / self.largest
        outputs -= self.mean
        outputs /= np.sqrt(self.variance)
        return np.ascontiguousarray(outputs)

    def check(self) -> None:
        """Raise ValueError if the target is the same in every row."""
        if not self.varies:
            raise ValueError("y must vary but is the same in every row; give rows that differ")


def outputs_of(y: NDArray[Any], labels: NDArray[Any] | None) -> Outputs:
    """Return what is known of the outputs of some rows, of one at least.

    Parameters
    ----------
    y : ndarray, shape (n,)
    labels : ndarray or None
        See `Outputs`.

    Raises
    ------
    ValueError
        If y is not finite, or holds a class that is none of the labels.
    """
    given = _as_given(y, labels)
    largest = float(np.abs(given).max()) or 1.0
    scaled = given / largest
    mean = scaled.mean(axis=0)
    scaled -= mean
    variance = float((scaled**2).mean(axis=0).sum())
    varies = not bool((given == given[0]).all())
    return Outputs(len(y), labels, largest, mean, variance, given[0], varies)


def merged_outputs(one: Outputs, other: Outputs) -> Outputs:
    """Return what is known of the outputs of the rows of both; see `moments.merged`."""
    n_rows, largest = one.n_rows + other.n_rows, max(one.largest, other.largest)
    shares = [part.n_rows / n_rows for part in (one, other)]
    units = [part.largest / largest for part in (one, other)]
    off = other.mean * units[1] - one.mean * units[0]
    variance = shares[0] * one.variance * units[0] ** 2 + shares[1] * other.variance * units[1] ** 2
    variance += shares[0] * shares[1] * float(np.sum(off**2))
    varies = one.varies or other.varies or bool((one.example != other.example).any())
    mean = one.mean * units[0] + off * shares[1]
    return Outputs(n_rows, one.labels, largest, mean, variance, one.example, varies)


def labels_for(
    kind: np.dtype[Any], labels: Callable[[], NDArray[Any] | None], task: Task | None
) -> NDArray[Any] | None:
    """Return the classes of a target; None if it is one of numbers.

    Parameters
    ----------
    kind : numpy.dtype
        Of the target.
    labels : callable
        Asked, only if these may be classes, for the different values of the target, ascending; it
        returns None where they are too many.
    task : "classification" or "regression", optional
        See `read_target`.

    Raises
    ------
    ValueError
        If the target does not fit the task.
    """
    surely_numbers = task == "regression" or (task is None and kind.kind == "f")
    known = None if surely_numbers else labels()
    if known is not None and asks_for_classes(known, task):
        return known
    if known is None and asks_for_classes(np.empty(0), task):
        raise ValueError(
            "y must hold classes but has too many values to be that; set task to regression"
        )
    if kind.kind in "biuf":
        return None
    if known is None and not surely_numbers:
        raise ValueError(
            f"y holds {in_words(kind)} of more than {_MOST_LABELS:,} different values, which are "
            "too many to be classes; give fewer, or numbers"
        )
    raise ValueError(
        f"y must hold numbers for a regression but holds {in_words(kind)}; give numbers, or set "
        "task to classification"
    )


def in_words(kind: np.dtype[Any]) -> str:
    """Return what an array of a type holds, as a message says it."""
    names = {"U": "text", "S": "bytes", "O": "objects, such as text", "b": "true and false"}
    return names.get(kind.kind, f"numbers ({kind})" if kind.kind in "iuf" else str(kind))


def n_outputs(labels: NDArray[Any] | None) -> int:
    """Return C, how many outputs a target has: its classes if they are more than two."""
    return 1 if labels is None or len(labels) <= 2 else len(labels)


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
    given = as_target(y, n_rows)
    outputs = outputs_of(given, labels_for(given.dtype, lambda: labels_in(given), task))
    outputs.check()
    return outputs.of(given)


def as_target(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return y as an array.

    Raises
    ------
    ValueError
        If it has not one value a row, or holds a gap, what is not finite, times, or numbers that
        are neither whole ones nor floats.
    """
    given = target_array(y)
    if given.shape != (n_rows,):
        raise ValueError(not_of_rows("y", given.shape, n_rows))
    check_target(given)
    return given


def labels_in(y: NDArray[Any]) -> NDArray[Any] | None:
    """Return the different values of a target, ascending; None where there are more than 1,000.

    Raises
    ------
    ValueError
        If its values have no order, or are of a type that no state can keep.
    """
    try:
        labels = np.unique(y)
    except TypeError as error:
        raise ValueError(without_order(y)) from error
    if len(labels) > _MOST_LABELS:
        return None
    strange = [one for one in labels.tolist() if not isinstance(one, str | bool | int | float)]
    if strange:  # as bytes: no state could be kept
        raise ValueError(
            f"y must hold numbers, true and false, or text but holds {strange[0]!r}; make text of "
            "its classes, as [str(label) for label in y]"
        )
    return labels


def _as_given(y: NDArray[Any], labels: NDArray[Any] | None) -> Floats:
    """Return outputs before they are centred, shape (n, C)."""
    if labels is None:
        outputs = y.astype(np.float64)[:, np.newaxis]
        if not np.isfinite(outputs).all():
            raise ValueError(_NOT_FINITE)
        return outputs
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    strange = np.flatnonzero(labels[codes] != y)
    if len(strange):
        (other,) = y[strange[:1]].tolist()
        raise ValueError(
            f"y holds the class {other!r}, which was none of the {len(labels)} before; "
            "begin anew, without start"
        )
    # of two classes one column says it all
    columns = np.arange(len(labels)) if len(labels) > 2 else np.array([len(labels) - 1])
    one_hot: Floats = np.equal(codes[:, np.newaxis], columns).astype(np.float64)
    return one_hot
