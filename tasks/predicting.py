"""The retrained model as a user meets it: it predicts from tables, by their columns' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import read_source
from chaffinch.storage.tables import type_columns
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.matrix import feature_matrix
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Schema


@dataclass(frozen=True)
class SelectedModel:
    """A model on the kept features.

    Attributes
    ----------
    fitted : FittedModel
        The model itself; reads matrices.
    categories : dict of str to tuple of str
        Of each categorical feature, its categories in the order of their codes.
    classes : tuple of str
        Labels in the order of the probabilities; empty for regression.
    """

    fitted: FittedModel
    categories: dict[str, tuple[str, ...]]
    classes: tuple[str, ...]

    @classmethod
    def from_contract(
        cls, contract: Mapping[str, Any], files: Mapping[str, bytes], trusted: Sequence[str] = ()
    ) -> Self:
        """Rebuild the model that a feature contract describes from its native files.

        Raises
        ------
        InputError
            If the files are damaged, or hold types of a package that is not in `trusted`.
        """
        features, target = contract["features"], contract["target"]
        categories = {
            feature["name"]: tuple(feature["categories"])
            for feature in features
            if feature["type"] == "category"
        }
        names = tuple(feature["name"] for feature in features)
        n_categories = tuple(len(categories.get(name, ())) for name in names)
        schema = Schema(names, n_categories, len(target["classes"]))
        with said_to_the_user():
            fitted = models.load(contract["model"]["kind"], files, schema, trusted)
        return cls(fitted, categories, tuple(target["classes"]))

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that a table must hold."""
        return self.fitted.schema.features

    def predict(self, table: Any) -> NDArray[Any]:
        """Predict every row: numbers for regression, labels as text for classification.

        Parameters
        ----------
        table : path, or pandas, polars or Arrow table
            Must hold every kept feature; other columns are not looked at. A category that was not
            seen in training counts as missing, unless just one was that means the same, such as
            00500 for the number 500.

        Returns
        -------
        ndarray, shape (n,)

        Raises
        ------
        InputError
            If a kept feature is missing or of another type.
        """
        prediction = self.fitted.predict(self._matrix(table))
        if not self.classes:
            return prediction
        return np.asarray(np.array(self.classes)[prediction.argmax(axis=1)])

    def predict_proba(self, table: Any) -> Floats:
        """Return class probabilities, shape (n, n_classes), in the order of `classes`.

        Raises
        ------
        InputError
            As `predict`, or if the model is a regression.
        """
        if not self.classes:
            raise InputError("a regression model has no probabilities; call predict")
        return self.fitted.predict(self._matrix(table))

    def _matrix(self, table: Any) -> Floats:
        source = read_source(table, self.categories)
        missing = [name for name in self.features if name not in source.column_names]
        if missing:
            raise InputError(
                f"the table lacks {missing[0]!r}, a feature that the model reads; give a table "
                f"with the columns {', '.join(self.features[:10])}"
            )
        numeric = [name for name in self.features if name not in self.categories]
        typed = type_columns(
            source.select(list(self.features)),
            categorical=list(self.categories),
            numeric=numeric,
        )
        return feature_matrix(typed, self.features, self.categories)
