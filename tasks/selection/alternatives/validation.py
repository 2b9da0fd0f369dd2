"""Checks of numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import LARGEST, check_count, read_floats

AS_FLOATS = "give a float for each feature"


def check_numbers(name: str, numbers: ArrayLike) -> Floats:
    """Return a number for each feature, shape (n,), as a copy; finite, at most `LARGEST`."""
    vector = read_floats(numbers, name, AS_FLOATS)
    if vector.ndim != 1 or not len(vector):
        raise InputError(
            f"{name} must be one number for each feature but is {vector.shape} of them"
        )
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        raise InputError(
            f"{name} must be finite but is {vector[wrong[0]]} for feature {wrong[0]}; "
            "leave such features out"
        )
    check_sizes(name, vector)
    return vector


def check_sizes(name: str, numbers: Floats) -> None:
    """Raise InputError for numbers, at least one, whose sums might overflow float64."""
    largest = numbers.flat[np.argmax(np.abs(numbers))]
    if abs(largest) > LARGEST:
        raise InputError(
            f"{name} must be at most {LARGEST:g} in size but is {largest:g}; divide all by the "
            "same number"
        )


def check_fits(name: str, value: object) -> None:
    """Raise InputError for a number that overflows float64, as an int may; other values pass."""
    try:
        if isinstance(value, Real):
            float(value)
    except OverflowError as error:
        raise InputError(
            f"{name} must be at most {LARGEST:g} in size but is {short_repr(value)}"
        ) from error


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Return the names as a tuple; InputError unless they are n distinct strings."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"names must be one for each of {n_features} features but is {names!r}")
    names = list(names)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None or None in names:
        raise InputError(f"names must be strings but hold {wrong!r}; name features by strings")
    if len(names) != n_features or len(set(names)) != n_features:
        raise InputError(
            f"names must be {n_features} different ones, one for each feature, but are "
            f"{len(set(names))} different of {len(names)}"
        )
    return tuple(str(name) for name in names)


_MOST = 1_000_000  # alternatives: each takes a search


def check_n_alternatives(n_alternatives: int) -> None:
    """Raise InputError unless it is a number of alternatives."""
    check_count("n_alternatives", n_alternatives, 0, _MOST)
