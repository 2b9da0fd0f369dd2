"""scikit-learn estimators: "linear", any other by its class name, or an instance.

An estimator that takes missing values is given the numbers as they are; for any other, a missing
number is its training mean and numbers are standardised. Categories are one-hot, or codes for
HistGradientBoosting up to as many as it has bins. A Pipeline is given what suits its first step;
one that starts with a ColumnTransformer is given the matrix as it is, codes and all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from chaffinch.tasks.selection.errors import UnusableError, in_one_line
from chaffinch.tasks.selection.models import skops_file
from chaffinch.tasks.selection.models.checks import (
    check_matrix,
    check_rows,
    check_width,
    native_file,
)
from chaffinch.tasks.selection.models.columns import (
    FORESTS,
    TREES,
    feature_of_column,
    given_features,
    own_family,
    transformer,
    used_columns,
)
from chaffinch.tasks.selection.models.estimator_names import check_task, unfitted
from chaffinch.tasks.selection.models.estimator_parameters import make_reproducible, weight_argument
from chaffinch.tasks.selection.models.parameters import Parameters
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows, Schema, Task

_FILE = "model.skops"


def fit(
    name: str, rows: Rows, schema: Schema, parameters: Parameters, seed: int
) -> ScikitLearnModel:
    """Train the estimator of that name; see the registry's `fit`."""
    return fit_estimator(unfitted(name, parameters, schema.task), rows, schema, seed=seed)


def fit_estimator(estimator: Any, rows: Rows, schema: Schema, *, seed: int) -> ScikitLearnModel:
    """Train a copy of an estimator.

    Parameters
    ----------
    estimator : object with the scikit-learn API
        Any classifier or regressor, a Pipeline for example. It is cloned and never changed.
    rows : Rows
        What to train on; never changed.
    schema : Schema
        What the columns mean.
    seed : int
        Given to every `random_state` in the estimator.

    Returns
    -------
    ScikitLearnModel

    Raises
    ------
    ValueError
        If the estimator does not follow the scikit-learn API, is not for the target, gives no
        class probabilities, takes no sample weights where the rows have them, or cannot be fitted.
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    check_rows(rows, schema)
    try:
        copy = clone(estimator)
    except TypeError as error:
        raise ValueError(
            "an estimator must be an instance with scikit-learn's get_params, fit and predict "
            f"but is {in_one_line(estimator)}"
        ) from error
    check_task(copy, schema.task)
    make_reproducible(copy, seed)
    weights = {} if rows.weight is None else {weight_argument(copy): rows.weight.copy()}
    columns = _columns(copy, rows.X, schema)
    with single_thread():
        X = _to_give(rows.X, copy) if columns == "passthrough" else columns.fit_transform(rows.X)
        n_codes = len(given_features(columns, schema)["codes"])
        if n_codes and _takes_codes(copy):
            copy.set_params(categorical_features=list(range(n_codes)))
        try:
            copy.fit(X, rows.y.copy(), **weights)
        except (LookupError, ArithmeticError) as error:  # as of a column that does not vary
            name, reason = type(copy).__name__, f"{type(error).__name__}: {error}"
            raise UnusableError(f"{name} ends in an error of its own ({reason})") from error
    return ScikitLearnModel(schema, Pipeline([("columns", columns), ("estimator", copy)]))


def check_estimator(estimator: Any, task: Task | None, *, weighted: bool = False) -> None:
    """Say early what `fit_estimator` would refuse.

    Parameters
    ----------
    estimator : object with the scikit-learn API
        Is not changed.
    task : "regression", "classification" or None
        What the target is; None while this is not known.
    weighted : bool
        Whether the rows have sample weights.

    Raises
    ------
    ValueError
        See `fit_estimator`.
    """
    copy = _copy(estimator)
    skops_file.trust_for(copy)
    if task is not None:
        check_task(copy, task)
    if weighted:
        check_weights(copy)


def check_weights(estimator: Any) -> None:
    """Raise ValueError unless an estimator takes sample weights."""
    weight_argument(estimator)


def packages_of(estimator: Any) -> tuple[str, ...]:
    """Return what `ScikitLearnModel.from_files` needs as `trusted` to load an estimator.

    None of them need be named for scikit-learn's own.
    """
    return skops_file.trust_for(estimator)


@dataclass(frozen=True, eq=False)
class ScikitLearnModel:
    """A trained scikit-learn estimator.

    Attributes
    ----------
    schema : Schema
        The features it was trained on.
    pipeline : sklearn.pipeline.Pipeline
        Two steps: "columns", a transformer or "passthrough", and "estimator".
    """

    schema: Schema
    pipeline: Any

    @property
    def kind(self) -> str:
        """Name of the family."""
        return "sklearn"

    @property
    def estimator(self) -> Any:
        """The trained estimator, without the columns' preparation."""
        return self.pipeline.named_steps["estimator"]

    def predict(self, X: Floats) -> Floats:
        """Predict every row of X (n, d): values (n,), or probabilities (n, n_classes).

        A class that the training rows did not have gets probability 0. X is never changed.
        """
        check_matrix(X, self.schema)
        n_classes = self.schema.n_classes
        prediction = np.zeros((len(X), n_classes) if n_classes else len(X))
        if not len(X):
            return prediction
        if self.pipeline.named_steps["columns"] == "passthrough":
            X = _to_give(X, self.estimator)
        try:
            with single_thread():
                if n_classes:
                    prediction[:, self.estimator.classes_] = self.pipeline.predict_proba(X)
                else:
                    prediction[:] = np.reshape(self.pipeline.predict(X), len(X))
        except ValueError as error:
            name, reason = type(self.estimator).__name__, str(error).strip().splitlines()[0]
            raise UnusableError(f"{name} cannot predict ({reason}); use another model") from error
        return prediction

    @property
    def used_features(self) -> Mask:
        """Features that a tree splits on or with a coefficient that is not 0, shape (d,).

        Exact for trees, forests, gradient boosting and linear models. For others, all that the
        estimator was given.
        """
        features = feature_of_column(self.pipeline.named_steps["columns"], self.schema)
        columns = used_columns(self.estimator)
        used = np.zeros(len(self.schema.features), dtype=bool)
        used[features if columns is None else features[columns]] = True
        return used

    def to_files(self) -> dict[str, bytes]:
        """Return a skops file."""
        return {_FILE: skops_file.dump(self.pipeline)}

    @classmethod
    def from_files(
        cls, files: Mapping[str, bytes], schema: Schema, trusted: Sequence[str] = ()
    ) -> Self:
        """Rebuild from `to_files`.

        Parameters
        ----------
        files : mapping of str to bytes
            As `to_files` gave them.
        schema : Schema
            The features it was trained on.
        trusted : sequence of str
            Full names of types, or names of packages, to load besides scikit-learn's.

        Raises
        ------
        ValueError
            If the file holds types that are not trusted, or is damaged.
        """
        pipeline = skops_file.load(native_file(files, _FILE), trusted)
        try:
            columns = pipeline.named_steps["columns"]
            first = pipeline.named_steps["estimator"] if columns == "passthrough" else columns
            n_features = first.n_features_in_
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(skops_file.DAMAGED) from error
        check_width(n_features, schema)
        return cls(schema, pipeline)


def is_made_of_trees(estimator: Any) -> bool:
    """Return whether this is one of scikit-learn's own trees or forests of them.

    Such a one reads each row by itself, to the last bit, and changes nothing of it.
    """
    family = own_family(estimator)
    trees = getattr(estimator, "estimators_", ()) if family in FORESTS else ()  # none if unfitted
    return family in TREES | FORESTS | {"HistGradientBoosting"} and all(map(own_family, trees))


def _to_give(X: Floats, estimator: Any) -> Floats:
    """Return X, or a copy if the estimator may change what it is given, as with copy=False."""
    return X if is_made_of_trees(estimator) else X.copy(order="K")


def _copy(estimator: Any) -> Any:
    """Return an unfitted copy; ValueError if this is no estimator."""
    from sklearn.base import clone

    try:
        return clone(estimator)
    except TypeError as error:
        raise ValueError(
            "an estimator must be an instance with scikit-learn's get_params, fit and predict "
            f"but is {in_one_line(estimator)}"
        ) from error


def _columns(estimator: Any, X: Floats, schema: Schema) -> Any:
    """Return the transformer that suits an estimator, or "passthrough"."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.utils import get_tags

    first = estimator
    while isinstance(first, Pipeline):
        first = next(step for _, step in first.steps if step not in (None, "passthrough"))
    if isinstance(first, ColumnTransformer):
        return "passthrough"
    takes_missing = bool(get_tags(first).input_tags.allow_nan)
    most_codes = estimator.max_bins if _takes_codes(estimator) else 0
    return transformer(X, schema, takes_missing=takes_missing, most_codes=most_codes)


def _takes_codes(estimator: Any) -> bool:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor)
