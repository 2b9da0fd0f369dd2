"""Frames of pandas whose columns are not all of numpy's own numbers, as one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_mixed_frame(X: Any) -> bool:
    """Return whether X is a frame of pandas of which numpy would make objects, or worse."""
    if not hasattr(X, "iloc") or getattr(X, "ndim", 0) != 2:
        return False
    return any(
        getattr(dtype, "kind", "O") not in "iuf" or _is_nullable(dtype) for dtype in X.dtypes
    )


def numbers_of_frame(X: Any) -> NDArray[Any]:
    """Return the numbers of a frame, in the type that numpy's own would have together.

    Raises
    ------
    ValueError
        If a column, which is named, holds no real numbers, or has a gap.
    """
    kinds = [_kind_in(X.iloc[:, position], name) for position, name in enumerate(X.columns)]
    numbers = np.empty(X.shape, dtype=np.result_type(*kinds))
    for position in range(X.shape[1]):
        numbers[:, position] = X.iloc[:, position].to_numpy(dtype=numbers.dtype)
    return numbers


def _is_nullable(dtype: Any) -> bool:
    return hasattr(dtype, "numpy_dtype")


def _kind_in(column: Any, name: object) -> np.dtype[Any]:
    dtype = column.dtype
    kind = dtype.numpy_dtype if _is_nullable(dtype) else np.asarray(column).dtype
    if kind.kind not in "biuf":
        raise ValueError(
            f"X must hold real numbers but column {name!r} holds {dtype}; give numbers, as float64"
        )
    missing = np.asarray(column.isna())
    if _is_nullable(dtype) and missing.any():
        raise ValueError(
            f"X must have a value in every row but has none in row {missing.argmax() + 1} of "
            f"column {name!r}; fill what is missing, as with the mean, or leave the row out"
        )
    return kind
