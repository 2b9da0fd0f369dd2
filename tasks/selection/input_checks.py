"""The door of arrays: what scikit-learn takes, checked so that nothing is lost silently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, raise_if_out_of_memory, short_repr
from chaffinch.tasks.selection.core import Floats, Task

LEAVE_OUT = "leave out the rows without a target"
_AS_LABELS = "give floats, as days since the first, or text of its classes"
_NUMBERS = (bool, np.bool_, int, np.integer, float, np.floating)
LARGEST = 1e300  # sums of any possible length stay finite
_LARGEST_WHOLE = 2.0**53  # float64 represents every integer up to this
_MOST_CLASSES = 20  # whole numbers with more different values are a quantity


@contextmanager
def refusals(name: str, hint: str) -> Iterator[None]:
    """Raise an error of numpy, pandas or scikit-learn in the block as a line with a remedy."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise_if_out_of_memory(error)
        first, *_ = [*str(error).splitlines(), ""]  # scikit-learn quotes rows below it
        # without its cause, of which a traceback would print those rows
        raise InputError(f"{name} cannot be read ({first.rstrip(':')})", hint) from None


def check_no_mask(name: str, values: object) -> None:
    """Refuse a numpy array with masked values: computations would use them as values."""
    # not by is_masked alone: arrays of pandas have a mask too, which becomes missing values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{name} must have no masked values, which would count like any other, but has "
            f"{np.ma.getmaskarray(values).sum()}",
            f"leave such rows out, or fill them with values of yours, as by {name}.filled(0.0)",
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


def read_array(
    values: Any, name: str, hint: str, dtype: str | None = None, accept_sparse: str | bool = False
) -> Any:
    """Return values of any shape as scikit-learn's `check_array` does; not finite ones pass.

    InputError, with the hint as its remedy, if numpy cannot hold them, or some are masked.
    """
    from sklearn.utils.validation import check_array

    check_no_mask(name, values)
    with refusals(name, hint):
        array = check_array(
            values,
            dtype=dtype,
            accept_sparse=accept_sparse,
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
        if array.dtype.kind not in "US" or hasattr(values, "dtype"):
            return array
        entries = np.array(values, dtype=object)  # numpy makes text of a gap among texts
        return array if all(isinstance(entry, str) for entry in entries.flat) else entries


def read_numbers(values: Any, name: str, hint: str, accept_sparse: str | bool = False) -> Any:
    """Return real numbers as `read_array` does; InputError if there are others."""
    numbers = read_array(values, name, hint, "numeric", accept_sparse)
    if numbers.dtype.kind == "O":  # of a list, or of categories
        with refusals(name, hint):
            numbers = numbers.astype(np.float64)
    if numbers.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers but holds {numbers.dtype}", hint)
    return numbers


def read_floats(values: Any, name: str, hint: str) -> Floats:
    """Return a copy of real numbers as float64; InputError if that would change whole numbers."""
    numbers = read_numbers(values, name, hint)
    floats: Floats = np.array(numbers, dtype=np.float64)
    if numbers.dtype.kind in "iu":
        check_whole_numbers(numbers, floats, name)
    return floats


def check_whole_numbers(numbers: Any, floats: Floats, what: str) -> None:
    """Refuse an integer that float64 cannot represent."""
    for i in np.argwhere(np.abs(floats) >= _LARGEST_WHOLE).tolist():
        number = int(numbers[tuple(i)])
        if number != int(floats[tuple(i)]):
            raise InputError(
                f"{what} must hold whole numbers that float64 has, as all up to 2^53, but holds "
                f"{number}; round them with astype(float) if the model may see them so"
            )


def read_target(y: Any, n_rows: int, *, multi_output: bool = False) -> NDArray[Any]:
    """Return a target of numbers, true and false, or text, shape (n,).

    Or (n, C), of `multi_output`. Numbers that are held as objects become numbers. InputError for
    another shape, type or order of types, and for a value that is missing or infinite.
    """
    import pandas as pd

    target: NDArray[Any] = read_array(y, "y", LEAVE_OUT)
    if target.shape == (n_rows, 1):
        target = target.ravel()
    if target.shape[:1] != (n_rows,) or target.ndim > 1 + multi_output or not target.size:
        shape = f"({n_rows},) or ({n_rows}, C)" if multi_output else f"({n_rows},)"
        has = target.shape or f"a {type(y).__name__}"
        raise InputError(
            f"y must have shape {shape}, as X has rows, but has {has}; give one for each row"
        )
    _check_rows(~pd.isna(target), "y must have a value in every row but has none in row {row}")
    if target.dtype.kind == "O":
        target = _without_objects(target)
    if target.dtype.kind not in "biufUO":
        raise InputError(
            f"y must hold numbers, true and false, or text but holds {target.dtype}", _AS_LABELS
        )
    if target.dtype.kind == "f":
        _check_rows(np.isfinite(target), "y must be finite but is {value} in row {row}", target)
        if target.itemsize > 8:  # a state cannot hold a longdouble
            target = target.astype(np.float64)
    return target


def _check_rows(is_right: NDArray[np.bool_], message: str, y: Any = None) -> None:
    wrong = np.argwhere(~is_right)
    if len(wrong):
        place = tuple(wrong[0].tolist())
        value = None if y is None else y[place]
        raise InputError(message.format(row=place[0] + 1, value=value), LEAVE_OUT)


def _without_objects(y: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are numbers as numbers, and text as it is; InputError for others."""
    entries = y.ravel().tolist()
    for position, entry in enumerate(entries):
        if not isinstance(entry, (str, *_NUMBERS)) or isinstance(entry, np.timedelta64):
            raise InputError(
                "y must hold numbers, true and false, or text but holds "
                f"{short_repr(entry)} in row {position // (y.size // len(y)) + 1}",
                _AS_LABELS,
            )
    is_text = [isinstance(entry, str) for entry in entries]
    if all(is_text):
        return y
    if any(is_text):
        other = entries[is_text.index(not is_text[0])]
        raise InputError(
            f"y must hold labels of one type but holds {short_repr(entries[0])} and "
            f"{short_repr(other)}; make them all text, or all numbers"
        )
    with refusals("y", _AS_LABELS):
        numbers = np.array(y.tolist())
    has_floats = any(isinstance(entry, float | np.floating) for entry in entries)
    if numbers.dtype.kind not in ("biuf" if has_floats else "biu"):
        largest = max(entries, key=abs)
        raise InputError(
            f"y must hold whole numbers of at most 64 bits but holds {short_repr(largest)}",
            _AS_LABELS,
        )
    return numbers


def asks_for_classes(y: NDArray[Any], task: Task | None) -> bool:
    """Return whether a target of any type holds classes, or as `task` sets it."""
    if task not in ("classification", "regression", None):
        raise InputError(f"task must be classification or regression but is {task!r}")
    if task is not None:
        return task == "classification"
    if y.dtype.kind in "iu":
        return len(np.unique(y)) <= _MOST_CLASSES
    return bool(y.dtype.kind != "f")


def is_whole(value: object) -> bool:
    """Return whether a value is an integer but no boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a real number but no boolean."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def check_count(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number of at least `least`, and of at most `most`."""
    limits = f"at least {least}" if most is None else f"in {least}..{most}"
    if not is_whole(value):
        of = f"of {limits}" if most is None else limits
        raise InputError(f"{name} must be a whole number {of} but is {short_repr(value)}")
    if value < least or (most is not None and value > most):
        raise InputError(f"{name} must be {limits} but is {short_repr(int(value))}")
