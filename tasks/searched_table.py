"""The columns of a table that was searched, by whose names and categories others are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from chaffinch.storage.errors import InputError
from chaffinch.storage.names import check_columns
from chaffinch.tasks.arrow_columns import as_numbers
from chaffinch.tasks.given_rows import check_table_finite, read_rows, with_truths
from chaffinch.tasks.given_table import GivenTable, codes_or_numbers
from chaffinch.tasks.predicting import check_all_within, check_there, warn_if_new
from chaffinch.tasks.selection.vocabulary import Floats, Mask


@dataclass(frozen=True)
class SearchedTable:
    """What the columns of a searched table are.

    Attributes
    ----------
    names : tuple of str, length M
        Of the features.
    categories : tuple of (tuple of str or None), length M
        Of a column of categories, those that the codes stand for, as text.
    is_frame : bool
        Whether the table had these names itself.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    is_frame: bool

    @classmethod
    def of(cls, table: GivenTable) -> Self:
        """Return the columns of a table as it was read for the search."""
        known = (None if one is None else tuple(map(str, one)) for one in table.categories)
        return cls(table.names, tuple(known), table.frame is not None)

    def matrix(self, X: Any, used: Mask) -> Floats:
        """Return a table as the search would have read it; NaN where a category is new.

        Parameters
        ----------
        X : array of numbers (n, M) or pandas.DataFrame
            A frame is read by name, if the searched table was one, and anything else by position.
        used : ndarray of bool, shape (M,)
            Features to read; the others are NaN, and need not be in a frame.

        Returns
        -------
        ndarray of float64, shape (n, M)

        Raises
        ------
        InputError
            If a feature is missing, of another type or infinite, or a number is beyond
            -1e30..1e30.

        Warns
        -----
        UserWarning
            As `SelectedModel.predict`.
        """
        if not (self.is_frame and isinstance(X, pd.DataFrame)):
            matrix = self._by_position(X)
            matrix[:, ~used] = np.nan
        else:
            columns = [str(name) for name in X.columns]
            check_columns(columns, "X")
            positions = np.flatnonzero(used).tolist()
            check_there([self.names[j] for j in positions], columns)
            X = with_truths(X)
            matrix = np.full((len(X), len(self.names)), np.nan)
            for j in positions:
                matrix[:, j] = self._values(X.iloc[:, columns.index(self.names[j])], j)
        check_table_finite(matrix, self.names)
        coded = [n for n, known in zip(self.names, self.categories, strict=True) if known]
        check_all_within(matrix, self.names, coded, "feature {!r} of X")
        return matrix

    def _by_position(self, X: Any) -> Floats:
        table = read_rows(X)
        if len(table.names) != len(self.names):
            raise InputError(f"X must have {len(self.names)} features but has {len(table.names)}")
        for name, searched, given in zip(
            self.names, self.categories, table.categories, strict=True
        ):
            if searched is not None:
                raise InputError(
                    f"X must be a pandas frame, as {name!r} was searched by its categories, but is "
                    f"{type(X).__name__}; give one with the columns that were searched"
                )
            if given:
                raise InputError(_no_numbers(name))
        return table.matrix

    def _values(self, column: Any, position: int) -> Floats:
        """Return a column of a frame as numbers, or as codes of the searched categories."""
        name, known = self.names[position], self.categories[position]
        if known is None:
            values, found = codes_or_numbers(column, name, None)
            if found:
                raise InputError(_no_numbers(name))
            return values
        texts = pa.array(column.astype(object).map(str, na_action="ignore"), from_pandas=True)
        encoded = pa.chunked_array([texts.cast(pa.string()).dictionary_encode()])
        codes = as_numbers(encoded, known)
        warn_if_new(name, encoded, np.isnan(codes), known)
        return codes


def _no_numbers(name: str) -> str:
    return (
        f"column {name!r} of X holds text or categories; the model learnt from numbers in "
        f"{name!r}, so give numbers"
    )
