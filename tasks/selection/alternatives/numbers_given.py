"""Numbers and names that a quality is given, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.tasks.selection.given_arrays import check_no_mask
from chaffinch.tasks.selection.vocabulary import Floats

LARGEST = 1e300  # sums of as many as there may be are still finite
_LONGEST = 60  # of a value in an error
_MOST_BITS = 200


def check_numbers(said: str, numbers: ArrayLike) -> Floats:
    """Return one number for each feature, shape (n,), as a copy.

    Raises
    ------
    ValueError
        If they are no such numbers, not finite, or larger than `LARGEST`.
    """
    vector = as_floats(said, numbers)
    if vector.ndim != 1 or not len(vector):
        raise ValueError(
            f"{said} must be one number for each feature but is {vector.shape} of them"
        )
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        raise ValueError(
            f"{said} must be finite but is {vector[wrong[0]]} for feature {wrong[0]}; "
            "leave such features out"
        )
    check_sizes(said, vector)
    return vector


def as_floats(said: str, numbers: ArrayLike) -> Floats:
    """Return a copy as float64, of whatever shape.

    Raises
    ------
    ValueError
        If not all are real numbers, or any is masked.
    """
    check_no_mask(said, numbers, f"fill them with a value of yours, as by {said}.filled(0.0)")
    with suppress(TypeError, ValueError, OverflowError):  # which one is wrong is told below
        given = np.asarray(numbers)
        if given.dtype.kind in "biufO":
            return given.astype(np.float64)
    entries = np.asarray(numbers, dtype=object).ravel().tolist()
    wrong = next((entry for entry in entries if not isinstance(entry, Real)), numbers)
    shown = " ".join(repr(wrong).split())[:_LONGEST]
    raise ValueError(f"{said} must be real numbers but hold {shown}; give floats")


def check_sizes(said: str, numbers: Floats) -> None:
    """Refuse numbers, at least one, whose sums might be too large for float64.

    Raises
    ------
    ValueError
        If one is.
    """
    largest = numbers.flat[np.argmax(np.abs(numbers))]
    if abs(largest) > LARGEST:
        raise ValueError(
            f"{said} must be at most {LARGEST:g} in size but is {largest:g}; divide all by the "
            "same number"
        )


def check_fits(said: str, value: object) -> None:
    """Refuse a number that is too large for float64, as whole numbers can be; no other value.

    Raises
    ------
    ValueError
        If it is.
    """
    try:
        if isinstance(value, Real):
            float(value)
    except OverflowError as error:
        raise ValueError(
            f"{said} must be at most {LARGEST:g} in size but is {in_short(value)}"
        ) from error


def in_short(value: object) -> str:
    """Return a value as an error shows it; of a huge whole number, how many digits it has."""
    n_bits = int(value).bit_length() if isinstance(value, Integral) else 0
    if n_bits > _MOST_BITS:
        return f"a whole number of about {round(n_bits * math.log10(2))} digits"
    return repr(value)


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Return names, if there are any.

    Raises
    ------
    ValueError
        If they are not strings, not as many as features, or not distinct.
    """
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"names must be one for each of {n_features} features but is {names!r}")
    names = list(names)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None or None in names:
        raise ValueError(f"names must be strings but hold {wrong!r}; name features by strings")
    if len(names) != n_features or len(set(names)) != n_features:
        raise ValueError(
            f"names must be {n_features} different ones, one for each feature, but are "
            f"{len(set(names))} different of {len(names)}"
        )
    return tuple(str(name) for name in names)
