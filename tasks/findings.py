"""What a careful person would look at twice in a table, one sentence each.

Nothing here stops a run. Rows that occur twice may stand in two parts at once; two equal columns
are one; a feature that alone tells the target may not be known when it is to be predicted.
"""

import hashlib
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.arrow_columns import quoted
from chaffinch.tasks.leakage import PerfectPredictors
from chaffinch.tasks.profiling import ColumnProfile
from chaffinch.tasks.selection.vocabulary import Floats

_MUCH_MISSING = 0.5
_RARE_CLASS = 0.01
# sets of equal features that get a sentence each
_NAMED = 5
_IDENTIFIER_NAME = re.compile(r"(?i:(^|[^a-z])(id|uuid|guid|key|index)$)|[a-z](Id|ID)$")
# an odd number, so that multiplying by it loses no bit of a hash
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Findings:
    """Collects what is found while the features pass by, and never holds one.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices.
    classes : tuple of str
        Names of the classes; empty for regression.
    """

    def __init__(
        self, y: NDArray[np.float64] | NDArray[np.int64], classes: tuple[str, ...]
    ) -> None:
        from pandas.util import hash_array

        self._hash_array: Callable[[Floats], NDArray[np.uint64]] = hash_array
        self._predictors = PerfectPredictors(y)
        self._rows = self._hash(y.astype(np.float64))
        self._columns: dict[bytes, list[str]] = {}
        self._telling: list[str] = []
        self._identifiers: list[str] = []
        self._much_missing: list[str] = []
        self._rare_classes: list[str] = []
        if classes:
            shares = np.bincount(y.astype(np.int64)) / len(y)
            self._rare_classes = [
                name for name, share in zip(classes, shares, strict=True) if share < _RARE_CLASS
            ]

    def add(self, row: ColumnProfile, numbers: Floats, categories: tuple[str, ...]) -> None:
        """Look at a feature.

        Parameters
        ----------
        row : ColumnProfile
        numbers : ndarray of float64, shape (n,)
            Its values, or codes of its categories; NaN where missing.
        categories : tuple of str
        """
        self._rows = self._rows * _ODD + self._hash(numbers)
        content = hashlib.sha256(repr(categories).encode())
        content.update((numbers + 0.0).data)
        self._columns.setdefault(content.digest(), []).append(row.name)
        if self._predictors.tells(numbers, len(categories)):
            self._telling.append(row.name)
        if row.missing > _MUCH_MISSING * row.rows:
            self._much_missing.append(row.name)
        if _looks_like_identifier(row):
            self._identifiers.append(row.name)

    def warnings(self) -> tuple[str, ...]:
        """Return what was found, the gravest first."""
        found = []
        if self._telling:
            found.append(
                f"{_count(self._telling, 'feature tells', 'features tell')} the target, or one of "
                f"its classes, without the others: {quoted(self._telling)}; make sure that this "
                "is known before the target is"
            )
        n_rows = len(self._rows)
        duplicates = n_rows - len(np.unique(self._rows))
        if duplicates:
            found.append(
                f"{duplicates} of {n_rows} rows equal an earlier row in the target and every "
                "feature; equal rows can stand in training and test at once"
            )
        equal = [names for names in self._columns.values() if len(names) > 1]
        found += [f"features {quoted(names)} are equal in every row" for names in equal[:_NAMED]]
        if equal[_NAMED:]:
            found.append(f"{len(equal) - _NAMED} more sets of features are equal in every row")
        if self._identifiers:
            found.append(
                f"{_count(self._identifiers, 'feature looks', 'features look')} like an "
                f"identifier: {quoted(self._identifiers)}; drop what only numbers the rows"
            )
        if self._much_missing:
            found.append(
                f"{_count(self._much_missing, 'feature is', 'features are')} missing in more than "
                f"half of the rows: {quoted(self._much_missing)}"
            )
        if self._rare_classes:
            found.append(
                f"{_count(self._rare_classes, 'class has', 'classes have')} less than 1 % of the "
                f"rows: {quoted(self._rare_classes)}"
            )
        return tuple(found)

    def _hash(self, numbers: Floats) -> NDArray[np.uint64]:
        # adding 0.0 makes -0.0 and 0.0 one
        return self._hash_array(numbers + 0.0)


def _looks_like_identifier(row: ColumnProfile) -> bool:
    if row.type != "int64" or row.distinct != row.rows - row.missing:
        return False
    if row.minimum is None or row.maximum is None:
        return False
    sequential = row.maximum - row.minimum == row.distinct - 1
    return sequential or _IDENTIFIER_NAME.search(row.name) is not None


def _count(names: list[str], one: str, several: str) -> str:
    return f"{len(names)} {one if len(names) == 1 else several}"
