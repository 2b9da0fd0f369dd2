"""Checks of input arrays: nothing may be lost silently."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Complex, Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.core import Task


def check_tensor(given: Any, name: str, whole: str | None = None) -> None:
    """Refuse a torch tensor that numpy cannot convert: sparse, with gradients, or bfloat16."""
    torch = sys.modules.get("torch")  # without torch loaded there are no tensors
    if torch is None or not isinstance(given, torch.Tensor):
        return
    for is_so, kind, method in (
        (given.layout != torch.strided, "sparse tensor", "to_dense"),
        (given.requires_grad, "tensor with gradients", "detach"),
        (given.dtype == torch.bfloat16, "tensor of bfloat16", "float"),
    ):
        if is_so:
            raise InputError(f"{name} must be no {kind}; give {whole or name}.{method}()")


LEAVE_OUT = "leave out the rows without a target"
_GAP = "y must have a value in every row but has none in row {}; " + LEAVE_OUT
_OF_TIMES = "give numbers, as days since the first, or text of its classes"
_WHOLE = (bool, np.bool_, int, np.integer)
_NUMBERS = (*_WHOLE, float, np.floating)


def check_no_mask(name: str, values: object, remedy: str) -> None:
    """Refuse a numpy array with masked values: computations would use them as values."""
    # not by is_masked alone: arrays of pandas have a mask too, which becomes missing values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{name} must have no masked values, which would count like any other, but has "
            f"{np.ma.getmaskarray(values).sum()}; {remedy}"
        )


def check_same_order(X: object, values: object, name: str = "y") -> None:
    """Refuse a frame and a series whose row labels differ."""
    # rows are matched by position
    import pandas as pd

    if not (isinstance(X, pd.DataFrame) and isinstance(values, pd.Series | pd.DataFrame)):
        return
    if X.index.equals(values.index) or len(X) != len(values):
        return
    if X.index.is_unique and set(X.index) == set(values.index):
        raise InputError(
            f"{name} has the row labels of X in another order, but rows are taken one by one; give "
            f"{name}.loc[X.index]"
        )
    raise InputError(
        f"{name} has other row labels than X, but rows are taken one by one; if they are in the "
        f"same order, give X.reset_index(drop=True) and {name}.reset_index(drop=True)"
    )


def target_array(y: Any) -> NDArray[Any]:
    """Return a target (N,) or (N, C) as an array without loss of information."""
    # numpy would turn ["a", nan] into text, and so a missing value into a class "nan". Numbers held
    # as objects become a numeric array, or they would be taken for classes.
    check_no_mask("y", y, LEAVE_OUT)
    given = _as_array(y)
    if given.dtype.kind in "US" and not hasattr(y, "dtype"):
        entries = np.array(y, dtype=object)
        if not all(isinstance(entry, str) for entry in entries.flat):
            return entries
    return _as_numbers(given) if given.dtype.kind == "O" else given


def _as_array(y: Any) -> NDArray[Any]:
    """Return one or several values per row as an array; InputError if it is not that."""
    check_tensor(y, "y")
    if hasattr(y, "toarray"):
        remedy = "y.toarray().ravel()" if 1 in y.shape else "y.toarray()"
        raise InputError(f"y must be no sparse matrix; give {remedy}")
    if isinstance(y, list | tuple):  # numpy would make NaN of what is masked, and warn
        masked = next((row for row, entry in enumerate(y) if entry is np.ma.masked), None)
        if masked is not None:
            raise InputError(_GAP.format(masked + 1))
        if y:  # it may be one of tensors
            check_tensor(y[0], "y", "torch.stack(tuple(y))")
    try:
        given = np.asarray(y)
    except ValueError as error:
        raise InputError(
            "y must have as many values in each row but has rows of several lengths; give one "
            "value for each row"
        ) from error
    if given.ndim == 0 and isinstance(y, Iterable) and not isinstance(y, str | bytes):
        remedy = "give list(y)"
        if isinstance(y, Mapping):
            remedy = "give list(y.values()), in the order of the rows"
        elif isinstance(y, Set):
            remedy = "it has no order; give a list in the order of the rows"
        raise InputError(
            f"y must be an array, or a list, of one value for each row but is of type "
            f"{type(y).__name__}; {remedy}"
        )
    return given


def not_of_rows(name: str, shape: tuple[int, ...], n_rows: int) -> str:
    """Return the message and remedy for values that are not one per row."""
    remedy = "give one for each row"
    if shape == (n_rows, 1):
        remedy = f"give {name}.ravel(), or of a frame {name}.iloc[:, 0]"
    return f"{name} must have shape ({n_rows},), as X has rows, but has {shape}; {remedy}"


def _as_numbers(entries: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all numbers, or all booleans, as such; others unchanged."""
    # Booleans among numbers become 1 and 0, as in numpy. With a missing value among them they stay
    # objects, so that the error can name it.
    kinds = {type(entry) for entry in entries.flat}
    if not kinds or not all(
        issubclass(kind, _NUMBERS) and not issubclass(kind, np.timedelta64) for kind in kinds
    ):
        return entries
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return entries.astype(np.bool_)
    are_whole = all(issubclass(kind, _WHOLE) for kind in kinds)
    if are_whole and all(-(2**63) <= entry < 2**63 for entry in map(int, entries.flat)):
        return entries.astype(np.int64)
    try:
        with np.errstate(over="ignore"):  # infinite values are refused later
            numbers = entries.astype(np.float64)
    except OverflowError as error:
        raise InputError(
            "y must hold numbers that float64 can hold but has larger whole ones; divide them"
        ) from error
    if are_whole:
        for entry, number in zip(entries.flat, numbers.flat, strict=True):
            if int(entry) != int(number):
                raise InputError(
                    "y must hold whole numbers below 2^63, or ones that float64 has, but holds "
                    f"{int(entry)}; give numbers as float, or text of its classes"
                )
    return entries if np.isnan(numbers).any() else numbers


def check_gaps(y: NDArray[Any]) -> None:
    """Refuse a target without a value in some row; of floats `check_finite` does."""
    if y.dtype.kind == "O":
        import pandas as pd  # knows all missing markers; not loaded for other targets

        missing: NDArray[Any] = pd.isna(y)
    elif y.dtype.kind in "mM":
        missing = np.isnat(y)
    else:
        return
    if missing.any():
        raise InputError(_GAP.format(int(np.argwhere(missing)[0][0]) + 1))


def check_finite(y: NDArray[Any]) -> None:
    """Refuse a target of floats of which one, named by its row, is missing or infinite."""
    if y.dtype.kind != "f" or np.isfinite(y).all():
        return
    place = tuple(np.argwhere(~np.isfinite(y))[0].tolist())
    if np.isnan(y[place]):
        raise InputError(_GAP.format(place[0] + 1))
    raise InputError(
        f"y must be finite but is {y[place]} in row {place[0] + 1}; leave out such rows, or give "
        "finite numbers in their place"
    )


def check_target(y: NDArray[Any]) -> None:
    """Refuse a target, shape (N,) or (N, C), that has a gap or holds what is no target."""
    check_gaps(y)
    check_finite(y)
    check_entries(y)


def check_entries(y: NDArray[Any]) -> None:
    """Refuse a target of times, or of numbers that are neither integers nor floats."""
    if y.dtype.kind in "mM":
        raise InputError(
            f"y must hold numbers, true and false, or text but holds {y.dtype}; {_OF_TIMES}"
        )
    if y.dtype.kind not in "Oc":
        return
    import pandas as pd

    of_times = (date, time, timedelta, pd.Period)
    in_a_row = y.size // max(len(y), 1)  # of several outputs there are several
    for position, entry in enumerate(y.ravel().tolist()):
        what = _no_target(entry, of_times)
        if what is not None:
            must, remedy = what
            raise InputError(
                f"y must hold {must} but holds {short_repr(entry)} in row "
                f"{position // in_a_row + 1}; {remedy}"
            )


def _no_target(entry: object, of_times: tuple[type, ...]) -> tuple[str, str] | None:
    """Return the requirement and the remedy for a wrong entry; None if it may be one."""
    if isinstance(entry, of_times):
        return "numbers, true and false, or text", _OF_TIMES
    if not isinstance(entry, Number) or isinstance(entry, (*_NUMBERS, np.timedelta64)):
        return None
    if isinstance(entry, Complex) and not isinstance(entry, Real):
        return "real numbers", "give their real parts, or sizes"
    return "numbers that are int or float", "give numbers, as [float(value) for value in y]"


def without_order(y: NDArray[Any]) -> str:
    """Return the message and remedy for labels, at least one, that cannot be sorted."""
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


_MOST_CLASSES = 20  # whole numbers with more different values are a quantity


def asks_for_classes(given: NDArray[Any], task: Task | None) -> bool:
    """Return whether a target of any type is one of classes, or as `task` sets it."""
    if task not in ("classification", "regression", None):
        raise InputError(f"task must be classification or regression but is {task!r}")
    if task is not None:
        return task == "classification"
    if given.dtype.kind in "iu":
        return len(np.unique(given)) <= _MOST_CLASSES
    return bool(given.dtype.kind != "f")
