"""Arrays as somebody hands them over: nothing is lost of them without a word."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAVE_OUT = "leave out the rows without a target"


def check_no_mask(
    said: str, values: object, remedy: str = "leave them out, or fill them by its method filled"
) -> None:
    """Refuse an array of numpy with masked values: all that computes would take them for values.

    Parameters
    ----------
    said : str
        What it is called in the message.
    values : object
        Whatever was given.
    remedy : str
        What may be done about it.

    Raises
    ------
    ValueError
        If any is masked.
    """
    # not by is_masked alone: arrays of pandas have a mask too, which becomes missing values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{said} must have no masked values, which would count like any other, but has "
            f"{np.ma.getmaskarray(values).sum()}; {remedy}"
        )


def target_array(y: Any) -> NDArray[Any]:
    """Return a target as an array that holds what was given.

    Of a list such as ``["a", nan]`` numpy makes text, so that a gap would be a class "nan".

    Raises
    ------
    ValueError
        If any is masked.
    """
    check_no_mask("y", y, LEAVE_OUT)
    given = np.asarray(y)
    if given.dtype.kind in "US" and not hasattr(y, "dtype"):
        entries = np.array(y, dtype=object)
        if not all(isinstance(entry, str) for entry in entries.flat):
            return entries
    return given


def not_of_rows(name: str, shape: tuple[int, ...], n_rows: int) -> str:
    """Return what is wrong with values of a shape other than one a row, and the remedy.

    Parameters
    ----------
    name : str
        What it is called.
    shape : tuple of int
        That it has.
    n_rows : int
        Of the table beside it.
    """
    remedy = "give one for each row"
    if shape == (n_rows, 1):
        remedy = f"give {name}.ravel(), or of a frame {name}.iloc[:, 0]"
    return f"{name} must have shape ({n_rows},), as X has rows, but has {shape}; {remedy}"


def check_gaps(y: NDArray[Any]) -> None:
    """Refuse a target without a value in some row; one of floats is refused where it is read.

    Raises
    ------
    ValueError
        If so.
    """
    if y.dtype.kind == "O":
        import pandas as pd  # knows all that stands for a gap; not loaded for other targets

        missing: NDArray[Any] = pd.isna(y)
    elif y.dtype.kind in "mM":
        missing = np.isnat(y)
    else:
        return
    if missing.any():
        row = int(np.argwhere(missing)[0][0])
        raise ValueError(
            f"y must have a value in every row but has none in row {row + 1}; {LEAVE_OUT}"
        )


def without_order(y: NDArray[Any]) -> str:
    """Return what is wrong with labels, at least one, that cannot be sorted, and the remedy."""
    kinds = [_kind(label) for label in y]
    other = next((row for row, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is None:
        return f"y must hold text or numbers but holds {y[0]!r}; make text of its labels"
    return (
        f"y must hold labels of one type but holds {y[0]!r} and {y[other]!r}; make them all text, "
        "or all numbers"
    )


def _kind(label: object) -> str:
    if isinstance(label, str):
        return "text"
    return "number" if isinstance(label, Real | Decimal) else type(label).__name__
