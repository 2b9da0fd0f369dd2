"""Values as whole numbers, so that searches compare sums exactly.

A unit is a power of two, so that scaling by it is exact and all that is lost is in rounding to the
next whole number. That is measured, not guessed: for values such as 9, 8.5, 7 nothing is lost, and
what is found best is then best to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.greedy import best_first
from chaffinch.tasks.selection.vocabulary import Floats

Integers = NDArray[np.int64]

_BITS = 61  # of a sum, so that it is less than a quarter of what 64 bits hold
_MOST_BITS_OF_VALUE = 52
_LOOKS_OF_A_CALL, _MOST_LOOKS = 2_000, 50_000_000  # at a sum: some tenths of a second


@dataclass(frozen=True)
class WholeValues:
    """The best features' values in whole units, best first.

    Attributes
    ----------
    order : ndarray of int64, shape (p,)
        Which feature each is.
    units : ndarray of int64, shape (p,)
        Descending.
    exponent : int
        A unit is 2 ** exponent.
    error : float
        At most this many units, up to a half, lie between a value and its whole number.
    """

    order: Integers
    units: Integers
    exponent: int
    error: float

    def at_most(self, units: int, n_values: int) -> float:
        """Return a number that sums of so many values do not exceed if their units do not."""
        whole = units + math.ceil(self.error * n_values)
        number = float(whole)
        if int(number) < whole:
            number = math.nextafter(number, math.inf)
        return math.ldexp(number, self.exponent)

    def units_at_most(self, number: float, n_values: int) -> int:
        """Return what the units of sums of so many values do not exceed if the sums do not."""
        return math.floor(math.ldexp(number, -self.exponent)) + math.ceil(self.error * n_values)

    def blur(self, n_values: int) -> int:
        """Return by how many units sums of so many values may differ and yet be equal."""
        return math.floor(2 * self.error * n_values)

    def rounding(self, n_values: int) -> float:
        """Return by how much sums of so many values may differ and have equal units."""
        return math.ldexp(2 * self.error * n_values, self.exponent)


def sums_of_sets(units: Integers, k: int, most: int) -> Integers | None:
    """Return all that sets of k of some whole numbers come to, ascending.

    None if there are more than `most` of these sums, or of those of fewer numbers, or if it takes
    more than some tenths of a second to find them.
    """
    sums, n_looks = [np.zeros(1, dtype=np.int64)] + [np.zeros(0, dtype=np.int64)] * k, 0
    for unit in units:
        for size in range(k, 0, -1):
            n_looks += _LOOKS_OF_A_CALL + len(sums[size])
            if n_looks > _MOST_LOOKS:
                return None
            sums[size] = np.union1d(sums[size], sums[size - 1] + unit)
            if len(sums[size]) > most:
                return None
    return sums[k]


def whole_values(values: Floats, n_best: int, largest_sum: int) -> WholeValues:
    """Round the best values to whole units.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Finite.
    n_best : int, at least 1
        How many to take, n at most.
    largest_sum : int, at least 1
        How many values, one of them counted so often, a sum may have.
    """
    order = best_first(values)[:n_best]
    taken = np.asarray(values, dtype=np.float64)[order]
    bits = min(_MOST_BITS_OF_VALUE, _BITS - largest_sum.bit_length())
    exponent = int(np.frexp(np.abs(taken).max())[1]) - bits
    scaled = np.ldexp(taken, -exponent)
    units = np.rint(scaled)
    return WholeValues(
        order, units.astype(np.int64), exponent, float(np.abs(scaled - units).max(initial=0.0))
    )
