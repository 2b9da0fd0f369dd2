"""A fitted estimator of the user's own as the model that a search masks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, NotCovered
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Predictor, Schema
from chaffinch.tasks.selection.masked_loss.external_models import ExternalModel, read_model
from chaffinch.tasks.selection.models.base import check_matrix
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.forest import Forest


def digest_of_fit(estimator: Any) -> str | None:
    """Return the SHA-256 of what an estimator has learned; None if it is not fitted.

    InputError if the estimator cannot be read.
    """
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (AttributeError, TypeError):  # no estimator, or scikit-learn's NotFittedError
        return None
    model = read_model(estimator, "log_loss")
    n_columns, classes = model.n_features or 0, _classes_of(model)
    schema = Schema(tuple(map(str, range(n_columns))), (0,) * n_columns, len(classes))
    names = list(map(str, getattr(estimator, "feature_names_in_", ())))
    digest = hashlib.sha256(repr((names, classes)).encode())
    for name, content in sorted(_translated(model, schema).to_files().items()):
        digest.update(name.encode() + content)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ReorderedModel(Predictor):
    """A trained model whose columns are the features of `schema` in another order."""

    schema: Schema
    own: Predictor
    order: NDArray[np.intp]  # (d,): the feature that each column of `own` is

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.own.kind

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def is_single_precision(self) -> bool:  # type: ignore[override]
        return self.own.is_single_precision

    @property
    def rows_are_independent(self) -> bool:
        return self.own.rows_are_independent

    @property
    def used_features(self) -> Mask:
        used = np.zeros(len(self.order), dtype=bool)
        used[self.order] = self.own.used_features
        return used

    def predict(self, X: Floats) -> Floats:
        check_matrix(X, self.schema)
        return self.own.predict(X[:, self.order])

    def forest(self) -> Forest:
        forest = self.own.forest()
        return replace(
            forest,
            feature_of_column=self.order[forest.feature_of_column],
            prepare=lambda X: forest.prepare(X[:, self.order]),
        )

    def dense(self) -> DenseModel:
        dense = self.own.dense()
        return replace(
            dense,
            feature_of_column=self.order[dense.feature_of_column],
            encode=lambda X: dense.encode(X[:, self.order]),
        )


def fitted_model(
    estimator: Any, schema: Schema, table_order: Sequence[str], labels: Sequence[Any]
) -> ReorderedModel:
    """Return a fitted estimator as a model of the features of `schema`.

    `table_order` has the features in the table's order, which is that of an estimator fitted
    without names, and `labels` the classes. InputError if the estimator was fitted on other columns
    or classes, or on categories, or cannot be read.
    """
    name = type(estimator).__name__
    if len(schema.categorical):
        first = schema.features[schema.categorical[0]]
        raise InputError(
            f"the fitted {name} cannot be masked where {first!r} is a category; name it numeric, "
            "or give the estimator unfitted"
        )
    model = read_model(estimator, "log_loss")
    known = _classes_of(model)
    if known != list(labels):
        raise InputError(
            f"the fitted {name} must know the classes {_listed(labels)} but knows {_listed(known)}"
            "; fit it on the same target, or give it unfitted"
        )
    columns = _columns_of(estimator, model.n_features, table_order)
    position = {feature: j for j, feature in enumerate(schema.features)}
    own = _translated(model, replace(schema, features=tuple(columns)))
    return ReorderedModel(schema, own, np.array([position[column] for column in columns]))


def _classes_of(model: ExternalModel) -> list[Any]:
    return [] if model.classes is None else model.classes.tolist()


def _translated(model: ExternalModel, schema: Schema) -> FittedModel:
    try:
        return cast(FittedModel, model.translate(schema))
    except NotCovered as reason:
        raise InputError(
            f"the fitted {model.name} cannot be masked: {reason}; give it unfitted, or ask "
            "chaffinch.masked_loss"
        ) from reason


def _columns_of(estimator: Any, n_columns: int | None, table_order: Sequence[str]) -> list[str]:
    """Return the features in the order of the estimator's columns."""
    written = {_as_written(name): name for name in table_order}
    names = [_as_written(name) for name in getattr(estimator, "feature_names_in_", ())]
    # LightGBM names the columns of an array
    is_unnamed = names == [f"Column_{j}" for j in range(len(names))]
    if is_unnamed and n_columns == len(table_order):
        return list(table_order)
    differing = [name for name in names if name not in written]
    differing += [name for key, name in written.items() if key not in names]
    if differing:
        raise InputError(
            f"the fitted {type(estimator).__name__} must know the {len(table_order)} features of "
            f"the table but knows {n_columns}, and one alone has {_listed(differing[:5])}; fit it "
            "on these features, or give it unfitted"
        )
    return [written[name] for name in names]


def _as_written(name: Any) -> str:
    """Return a name as LightGBM writes it."""
    return str(name).replace(" ", "_")


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values)) or "none"
