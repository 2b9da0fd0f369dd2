"""The columns a scikit-learn estimator is given, raw or prepared, and those it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.models.own_classes import own_name
from chaffinch.tasks.selection.vocabulary import Floats, Schema

# Families of classes, each with a Classifier and a Regressor.
TREES = frozenset({"DecisionTree", "ExtraTree"})
FORESTS = frozenset({"ExtraTrees", "RandomForest"})


def transformer(X: Floats, schema: Schema, *, takes_missing: bool, most_codes: int) -> Any:
    """Return what prepares the features for an estimator.

    The columns' order is: codes, numbers, one-hot. HistGradientBoosting moves its categorical
    columns to the front, so that with codes in front already its own order is this one.
    A prepared feature that is constant in the training rows is left out: rounding would give it
    a coefficient of 1e-18, and a feature without information should not be used.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
        Training rows.
    schema : Schema
        The features.
    takes_missing : bool
        Whether numbers go in as they are; otherwise a missing one becomes the training mean and
        all are standardised.
    most_codes : int
        Categorical features of at most this many categories go in as codes; larger ones one-hot.

    Returns
    -------
    sklearn.compose.ColumnTransformer or "passthrough"
        Unfitted; "passthrough" where every feature goes in as it is.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    codes = [i for i in schema.categorical if schema.n_categories[i] <= most_codes]
    one_hot = [i for i in schema.categorical if schema.n_categories[i] > most_codes]
    numeric = [i for i, size in enumerate(schema.n_categories) if not size]
    if takes_missing and codes + numeric == list(range(len(schema.features))):
        return "passthrough"
    prepared = one_hot if takes_missing else one_hot + numeric
    varying = {i for i in prepared if _varies(X[:, i], missing_counts=i in one_hot)}
    if codes or varying or (takes_missing and numeric):  # an estimator needs one column at least
        one_hot = [i for i in one_hot if i in varying]
        numeric = [i for i in numeric if takes_missing or i in varying]
    # in place: what they are given is a copy of the columns already
    standardise = make_pipeline(
        SimpleImputer(keep_empty_features=True, copy=False), StandardScaler(copy=False)
    )
    encode = OneHotEncoder(
        categories=[np.arange(float(schema.n_categories[i])) for i in one_hot],
        handle_unknown="ignore",
        sparse_output=False,
    )
    return ColumnTransformer(
        [
            ("codes", "passthrough", codes),
            ("numeric", "passthrough" if takes_missing else standardise, numeric),
            ("one_hot", encode, one_hot),
        ]
    )


def given_features(fitted: Any, schema: Schema) -> dict[str, list[int]]:
    """Return the features that a fitted transformer gives as "codes", "numeric" and "one_hot"."""
    if fitted == "passthrough":
        numeric = [i for i, size in enumerate(schema.n_categories) if not size]
        return {"codes": list(schema.categorical), "numeric": numeric, "one_hot": []}
    return {name: list(features) for name, _, features in fitted.transformers_}


def feature_of_column(fitted: Any, schema: Schema) -> NDArray[np.int64]:
    """Return the feature each column of a fitted transformer comes from, shape (width,)."""
    given = given_features(fitted, schema)
    one_hot = [i for i in given["one_hot"] for _ in range(schema.n_categories[i])]
    return np.array(given["codes"] + given["numeric"] + one_hot, dtype=np.int64)


def _varies(values: Floats, *, missing_counts: bool) -> bool:
    present = values[~np.isnan(values)]
    if missing_counts and 0 < len(present) < len(values):
        return True
    return len(present) > 0 and bool(present.min() != present.max())


def used_columns(estimator: Any) -> NDArray[np.int64] | None:
    """Return the columns that can change a prediction of a fitted estimator; None if not known."""
    family = own_family(estimator)
    if family in TREES:
        return _split_columns([estimator])
    if family in FORESTS:
        return _split_columns(estimator.estimators_)
    if family == "GradientBoosting" and estimator.init is None:
        return _split_columns(estimator.estimators_.ravel())
    if family == "HistGradientBoosting":
        nodes = [t.nodes for iteration in estimator._predictors for t in iteration]
        tested = np.concatenate([n["feature_idx"][n["is_leaf"] == 0] for n in nodes])
        return np.unique(histogram_order(estimator)[tested])
    if own_name(estimator, "sklearn.linear_model") and hasattr(estimator, "coef_"):
        return np.flatnonzero(np.atleast_2d(coefficients_of(estimator)).any(axis=0))
    return None


def histogram_order(estimator: Any) -> NDArray[np.int64]:
    """Return the columns of a fitted HistGradientBoosting in its own order: categorical first."""
    if estimator._preprocessor is None:
        return np.arange(estimator.n_features_in_)
    return np.argsort(~estimator.is_categorical_, kind="stable")


def own_family(estimator: Any) -> str:
    """Return what a class of scikit-learn's own is called less what it predicts; see `own_name`."""
    return own_name(estimator, "sklearn").removesuffix("Classifier").removesuffix("Regressor")


def _split_columns(trees: Sequence[Any]) -> NDArray[np.int64] | None:
    if not all(map(own_family, trees)):
        return None
    features = np.unique(np.concatenate([tree.tree_.feature for tree in trees]))
    return np.asarray(features[features >= 0])  # a leaf has -2


def coefficients_of(estimator: Any) -> Any:
    """Return a fitted linear estimator's `coef_` as an array, which `sparsify` makes sparse."""
    given = estimator.coef_
    return given.toarray() if hasattr(given, "toarray") else given
