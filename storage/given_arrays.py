"""Arrays as somebody hands them over: nothing is lost of them without a word.

`tasks/selection/given_arrays.py` says the same there, where nothing of ours may be imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError


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

    Of a list such as ``["a", nan]`` numpy makes text, so that a gap would be a class "nan".

    Raises
    ------
    InputError
        If any is masked.
    """
    check_no_mask("the target of a piece", y, "leave out the rows without a target")
    given = np.asarray(y)
    if given.dtype.kind in "US" and not hasattr(y, "dtype"):
        entries = np.array(y, dtype=object)
        if not all(isinstance(entry, str) for entry in entries.flat):
            return entries
    return given
