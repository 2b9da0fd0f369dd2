"""Arrays as somebody hands them over: nothing is lost of them without a word.

`tasks/selection/given_arrays.py` says the same there, where nothing of ours may be imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError

LEAVE_OUT = "leave out the rows without a target"
_WHOLE = (bool, np.bool_, int, np.integer)
_NUMBERS = (*_WHOLE, float, np.floating)


def check_no_mask(said: str, values: object, remedy: str) -> None:
    """Refuse an array of numpy with masked values: a file would have them as values.

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
    InputError
        If any is masked.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{said} must have no masked values, which would count like any other, but has "
            f"{np.ma.getmaskarray(values).sum()}; {remedy}"
        )


def target_array(y: Any) -> NDArray[Any]:
    """Return a target as an array that holds what was given.

    Of a list such as ``["a", nan]`` numpy makes text, so that a gap would be a class "nan". Numbers
    that are held as objects become an array of numbers.

    Raises
    ------
    InputError
        If any is masked.
    """
    check_no_mask("the target of a piece", y, LEAVE_OUT)
    if isinstance(y, list | tuple) and any(entry is np.ma.masked for entry in y):
        raise InputError(f"the target of a piece must have no masked values; {LEAVE_OUT}")
    given = np.asarray(y)
    if given.dtype.kind in "US" and not hasattr(y, "dtype"):
        entries = np.array(y, dtype=object)
        if not all(isinstance(entry, str) for entry in entries.flat):
            return entries
    return _as_numbers(given) if given.dtype.kind == "O" else given


def _as_numbers(entries: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all numbers, or all true and false, as these; others as they are.

    True and false among numbers are 1 and 0, as in any array of numpy. With a gap among them, or
    a whole number that is too large, they stay objects, so that its row is told.
    """
    kinds = {type(entry) for entry in entries.flat}
    if not kinds or not all(
        issubclass(kind, _NUMBERS) and not issubclass(kind, np.timedelta64) for kind in kinds
    ):
        return entries
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return entries.astype(np.bool_)
    try:
        if all(issubclass(kind, _WHOLE) for kind in kinds):
            return entries.astype(np.int64)
        with np.errstate(over="ignore"):  # what becomes infinite is refused as that
            numbers = entries.astype(np.float64)
    except OverflowError:
        return entries
    return entries if np.isnan(numbers).any() else numbers
