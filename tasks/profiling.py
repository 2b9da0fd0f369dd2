"""What there is to say of one column: a row of the report's table of columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from chaffinch.tasks.arrow_columns import ColumnKind
from chaffinch.tasks.selection.vocabulary import Floats

# whole numbers beyond this are not all different float64 values
_LARGEST_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class ColumnProfile:
    """One column in figures; what does not apply is None.

    Attributes
    ----------
    name : str
    role : str
        target, feature, excluded, drop, weight, group or time.
    type : str
        float64, int64, bool, category, timestamp, or the name of a type that cannot be a feature.
    rows : int
        Rows of the table.
    missing : int
        Rows without a value.
    distinct : int or None
        Different values among the others; None for a type that cannot be a feature.
    minimum, mean, maximum, standard_deviation : float or None
        For numbers; the standard deviation is that of the rows themselves (divided by n).
    most_frequent : str or None
        For categories and true/false; of several, the first.
    """

    name: str
    role: str
    type: str
    rows: int
    missing: int
    distinct: int | None
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    standard_deviation: float | None = None
    most_frequent: str | None = None


def profile_column(
    name: str,
    role: str,
    kind: ColumnKind,
    column: Any,
    numbers: Floats,
    categories: tuple[str, ...],
) -> ColumnProfile:
    """Return the profile of a column.

    Parameters
    ----------
    name, role : str
    kind : str
        What `arrow_columns.kind_of` says.
    column : pyarrow.ChunkedArray
    numbers : ndarray of float64, shape (n,)
        The same column from `arrow_columns.as_numbers`.
    categories : tuple of str
        Its categories, if it has any.
    """
    present = numbers[~np.isnan(numbers)] if column.null_count else numbers
    rows, missing = len(numbers), len(numbers) - len(present)
    if not len(present):
        return ColumnProfile(name, role, kind, rows, missing, 0)
    if kind in ("category", "bool"):
        counts = np.bincount(present.astype(np.int64))
        labels = categories or ("false", "true")
        most_frequent = labels[int(np.argmax(counts))]
        distinct = int(np.count_nonzero(counts))
        return ColumnProfile(name, role, kind, rows, missing, distinct, most_frequent=most_frequent)
    ordered = np.sort(present)
    distinct = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if kind != "float64" and max(-ordered[0], ordered[-1]) > _LARGEST_EXACT_INTEGER:
        distinct = pc.count_distinct(column).as_py()
    if kind == "timestamp":
        return ColumnProfile(name, role, kind, rows, missing, distinct)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(np.mean(present)), float(np.std(present))
    return ColumnProfile(
        name,
        role,
        kind,
        rows,
        missing,
        distinct,
        minimum=float(ordered[0]),
        mean=mean if np.isfinite(mean) else None,
        maximum=float(ordered[-1]),
        standard_deviation=deviation if np.isfinite(deviation) else None,
    )
