"""The retrained model, which predicts from tables by their columns' names."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from chaffinch.errors import InputError, as_input_error
from chaffinch.storage.column_names import names_in_array, quoted
from chaffinch.storage.datasets.column_types import decoded, is_text, type_columns
from chaffinch.storage.datasets.text_spellings import refuse_points_of_thousands
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.source import AllBut
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.data.arrow import alike_categories, categories_of
from chaffinch.tasks.data.column_profile import check_largest
from chaffinch.tasks.data.date_features import with_date_features
from chaffinch.tasks.data.lag_features import hint_for_missing
from chaffinch.tasks.data.matrix import feature_matrix
from chaffinch.tasks.data.reselection_fit import word_read_as_missing
from chaffinch.tasks.data.roles import Label, labels_of
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import FittedModel, Floats, Schema

# Warn if more than this share of the values present are new, from this number of them.
_MOST_NEW, _FEWEST_TO_WARN_OF = 0.9, 10


@dataclass(frozen=True)
class SelectedModel:
    """A model on the kept features.

    Attributes
    ----------
    fitted : FittedModel
        The model itself, which predicts from matrices.
    categories : dict of str to tuple of str
        Categories of each categorical feature, in the order of their codes.
    classes : tuple of int, float, bool or str
        Labels of the target's own type, in the order of the probabilities; empty for regression.
    table_order : tuple of str
        The features in the order of the table that they were selected from, which is that of the
        columns of an array.
    made_of : dict of str to str
        Column of dates of each feature that is a part of one.
    zones : dict of str to bool
        Whether the times of each column of dates had a zone, as far as that is known.
    numeric : collection of str
        Columns named as numeric, whose points are decimal points.
    """

    fitted: FittedModel
    categories: dict[str, tuple[str, ...]]
    classes: tuple[Label, ...]
    table_order: tuple[str, ...]
    made_of: Mapping[str, str] = field(default_factory=dict)
    zones: Mapping[str, bool] = field(default_factory=dict)
    numeric: Collection[str] = ()

    @classmethod
    def from_contract(
        cls, contract: Contract, files: Mapping[str, bytes], trusted: Sequence[str] = ()
    ) -> Self:
        """Return the model that a feature contract describes, from its native files."""
        categories, names = contract.categories, tuple(contract.types)
        n_categories = tuple(len(categories.get(name, ())) for name in names)
        schema = Schema(names, n_categories, len(contract.target.classes))
        with as_input_error():
            fitted = models.load(contract.model.kind, files, schema, trusted)
        return cls.of_contract(contract, fitted)

    @classmethod
    def of_contract(cls, contract: Contract, fitted: FittedModel) -> Self:
        """Return a fitted model with the categories and classes of its feature contract."""
        classes = labels_of(contract.target.classes, contract.target.type)
        return cls(
            fitted,
            contract.categories,
            classes,
            tuple(contract.features),
            contract.made_of,
            contract.zones,
            contract.numeric,
        )

    @property
    def features(self) -> list[str]:
        """Columns that a table must have; a new list each time."""
        return list(self.table_order)

    @property
    def classes_(self) -> NDArray[Any]:
        """`classes` as an array, under scikit-learn's name."""
        return np.array(self.classes)

    def predict(self, table: Any) -> NDArray[Any]:
        """Predict every row: numbers for regression, labels for classification.

        Parameters
        ----------
        table : path or address, or pandas, polars or Arrow table, or array of shape (n, k)
            Must have every kept feature; other columns are ignored. A category that was not seen in
            training counts as missing, unless just one that was has the same meaning, such as 00500
            for the number 500. The columns of an array or sparse matrix are the k kept features in
            their order, or all columns of one that the features were selected from.

        Returns
        -------
        ndarray, shape (n,)
            float64 for regression. For classification the target's own type: int64, float64, bool
            or text. It is the type that the table was read with: text like ``"01"`` stays text, and
            so does a target named as categorical.

        Raises
        ------
        InputError
            If a kept feature is missing or of another type, a number may be one category or another
            (500 for 00500 and 500), or a network would read a number beyond -1e30..1e30.

        Warns
        -----
        UserWarning
            If nearly all the values of a category are new, for example written in another way.
        """
        prediction = self._predicted(table)
        if not self.classes:
            return prediction
        return np.asarray(self.classes_[prediction.argmax(axis=1)])

    def predict_proba(self, table: Any) -> Floats:
        """Return class probabilities, shape (n, n_classes), in the order of `classes`.

        Raises
        ------
        InputError
            As `predict`, or if the model is a regression.

        Warns
        -----
        UserWarning
            As `predict`.
        """
        if not self.classes:
            raise InputError("a regression model has no probabilities; call predict")
        return self._predicted(table)

    def score(self, table: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R2 of a regression, or the accuracy of a classification, as scikit-learn does.

        Parameters
        ----------
        table : as for `predict`
        y : array-like, shape (n,)
            Target of its rows.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows.

        Raises
        ------
        InputError
            As `predict`.
        """
        from sklearn.metrics import accuracy_score, r2_score  # takes commands that score none long

        score = accuracy_score if self.classes else r2_score
        return float(score(y, self.predict(table), sample_weight=sample_weight))

    def _predicted(self, table: Any) -> Floats:
        """Return values, shape (n,), or probabilities, shape (n, n_classes)."""
        matrix = self._matrix(table)
        if len(matrix):
            return self.fitted.predict(matrix)
        return np.empty((0, len(self.classes)) if self.classes else 0)

    def _matrix(self, table: Any) -> Floats:
        features = list(self.fitted.schema.features)
        if isinstance(table, np.ndarray) or issparse(table):
            table = _as_table(table, self.features)
        source = read_features(
            table, features, self.categories, self.made_of, self.zones, self.numeric
        )
        there = {*source.column_names}
        needed = (name if name in there else self.made_of.get(name, name) for name in features)
        check_there(list(dict.fromkeys(needed)), source.column_names)
        if not source.num_rows:
            return np.empty((0, len(features)))
        columns = [typed_feature(source, name, self.categories.get(name)) for name in features]
        typed = pa.table(columns, names=features)
        matrix = feature_matrix(typed, features, self.categories)
        if models.kind_of(self.fitted.name).overflows:
            check_all_within(matrix, features, self.categories, "column {!r}")
        for position, name in enumerate(features):
            if name in self.categories:
                column, known = typed.column(position), self.categories[name]
                warn_if_new(name, column, np.isnan(matrix[:, position]), known)
                now = column.unique().to_pylist()
                if lost := word_read_as_missing(known, now, column.null_count, len(column)):
                    warnings.warn(f"column {name!r} {lost}", UserWarning, stacklevel=4)
        return matrix


def columns_of(array: Any) -> Iterator[NDArray[Any]]:
    """Yield the columns of an array, or of a sparse matrix, dense."""
    if isinstance(array, np.ndarray):
        yield from array.T
        return
    by_column = array.tocsc()
    for j in range(by_column.shape[1]):
        yield by_column[:, [j]].toarray().ravel()


def _as_table(array: Any, features: Sequence[str]) -> pa.Table:
    """Return an array of the features, or of columns named x0, x1, ..., as a table."""
    n_columns = array.shape[1] if array.ndim == 2 else 0
    if n_columns == len(features):
        return pa.table([*columns_of(array)], names=features)
    names = names_in_array(n_columns)
    if not set(features) <= set(names):
        raise InputError(
            f"an array must have {len(features)} columns, the kept features, but has the shape "
            f"{array.shape}; give a table, or leave the other columns out"
        )
    used = [names.index(name) for name in features]
    array = (array if isinstance(array, np.ndarray) else array.tocsc())[:, used]
    return pa.table([*columns_of(array)], names=features)


def check_there(features: Sequence[str], columns: Sequence[str]) -> None:
    """Raise InputError for a table that lacks features of a model."""
    there = set(columns)
    missing = [name for name in features if name not in there]
    if missing:
        kind, them = ("a feature", "it") if len(missing) == 1 else ("features", "them")
        raise InputError(
            f"the table lacks {quoted(missing)}, {kind} that the model reads; give a table with "
            f"{them}{hint_for_missing(missing)}"
        )


def check_all_within(
    matrix: Floats, features: Sequence[str], categorical: Collection[str], role: str
) -> None:
    """Raise InputError for numbers that a network cannot compute with, as in training."""
    for name, column in zip(features, matrix.T, strict=True):
        if name not in categorical:
            check_largest(role.format(name), column, ", or leave it empty")


def warn_if_new(
    name: str, column: pa.ChunkedArray, unread: NDArray[np.bool_], known: Sequence[str]
) -> None:
    """Warn, three calls up, if nearly all values of a categorical column are new."""
    is_new = unread & column.is_valid().to_numpy()
    n_new, n_present = int(is_new.sum()), len(column) - column.null_count
    if n_present < _FEWEST_TO_WARN_OF or n_new <= _MOST_NEW * n_present:
        return
    example = column[int(np.argmax(is_new))].as_py()
    warnings.warn(
        f"{n_new} of {n_present} values of {name!r} were never seen in training, such as "
        f"{example!r} where {quoted(known)} are known, and count as missing; "
        "write them as in training",
        UserWarning,
        stacklevel=5,  # where the user calls predict
    )


def read_features(
    table: Any,
    columns: Collection[str],
    categorical: Collection[str],
    made_of: Mapping[str, str],
    zones: Mapping[str, bool],
    numeric: Collection[str],
) -> pa.Table:
    """Return a source's table, with the parts of dates; of other columns only the names are read.

    `made_of` is the column of dates of each part; see `with_date_features` for `zones`. Points of
    `numeric` columns are decimal points; in others that seem to mark thousands they are refused.
    """
    try:
        source = source_of(table).read(
            categorical, drop=AllBut({*columns, *made_of.values()}), may_be_empty=True
        )
        expected = {*columns} - {*categorical, *numeric}  # numbers, with decimal points
        for field in source.schema:
            if field.name in expected and is_text(field.type):
                texts = source.column(field.name)
                if pa.types.is_dictionary(field.type):
                    texts = decoded(texts)
                encoded = texts.cast(pa.string()).combine_chunks().dictionary_encode()
                refuse_points_of_thousands(field.name, encoded.indices, encoded.dictionary)
        return with_date_features(source, made_of, zones)
    except InputError as error:
        name = error.column
        if name is None or name not in columns or name in made_of.values():
            raise
        raise _unlike_training(error, name, name in categorical) from error


def typed_feature(source: pa.Table, name: str, categories: Sequence[str] | None) -> pa.ChunkedArray:
    """Return a feature of a table, with its type in training: numbers, or these categories.

    InputError if its values are not of that type, or numbers that may be one category or another.
    """
    categorical, numeric = ([], [name]) if categories is None else ([name], [])
    try:
        typed = type_columns(source.select([name]), categorical=categorical, numeric=numeric)
    except InputError as error:
        raise _unlike_training(error, name, categories is not None) from error
    column, kind = typed.column(0), source.column(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    was_number = pa.types.is_dictionary(column.type) and any(check(kind) for check in numbers)
    if categories is None or not was_number:
        return column
    now = categories_of(column)
    if alike := alike_categories(now, categories):
        raise InputError(
            f"column {name!r} holds numbers, which cannot tell {quoted(alike)} apart as in "
            "training; give the column as text"
        )
    rounded = [text for text in now if pa.types.is_floating(kind) and abs(float(text)) >= 2**53]
    if rounded:
        raise InputError(
            f"column {name!r} holds {rounded[0]} as a float, which may be rounded, and has "
            "categories; give it as text or whole numbers, as by dtype_backend='pyarrow' in pandas"
        )
    return column


def _unlike_training(error: InputError, name: str, is_category: bool) -> InputError:
    held = "text" if is_category else "numbers"
    return InputError(
        f"{error.message}; the model learnt from {held} in {name!r}, so correct the value or leave "
        "it empty"
    )
