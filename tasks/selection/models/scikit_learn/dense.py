"""scikit-learn's linear models and perceptrons as layers, behind scalers of single columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.base import own_name
from chaffinch.tasks.selection.models.dense import Activation, DenseModel, Link
from chaffinch.tasks.selection.models.scikit_learn import (
    ScikitLearnModel,
    coefficients_of,
    feature_of_column,
)
from chaffinch.tasks.selection.models.scikit_learn.versions import is_one_against_rest

# Exact types by name: a subclass may predict in another way.
_LINEAR_REGRESSORS = frozenset(
    {
        "ARDRegression",
        "BayesianRidge",
        "ElasticNet",
        "ElasticNetCV",
        "HuberRegressor",
        "Lars",
        "LarsCV",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LassoLarsCV",
        "LassoLarsIC",
        "LinearRegression",
        "LinearSVR",
        "OrthogonalMatchingPursuit",
        "OrthogonalMatchingPursuitCV",
        "QuantileRegressor",
        "Ridge",
        "RidgeCV",
        "SGDRegressor",
        "TheilSenRegressor",
    }
)
_LOGISTIC = frozenset({"LogisticRegression", "LogisticRegressionCV"})
_LINEAR_CLASSIFIERS = _LOGISTIC | {"LinearDiscriminantAnalysis"}
_PERCEPTRONS = frozenset({"MLPClassifier", "MLPRegressor"})
_SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"})


def read_dense(model: ScikitLearnModel) -> DenseModel:
    """Return a trained model's layers; NotCovered if it has none that are known here."""
    columns = model.pipeline.named_steps["columns"]
    steps = [] if columns == "passthrough" else [columns]
    estimator = model.estimator
    while own_name(estimator, "sklearn") == "Pipeline":
        for name, step in estimator.steps[:-1]:
            if step in (None, "passthrough"):
                continue
            if own_name(step, "sklearn") not in _SCALERS:
                raise NotCovered(f"the pipeline's step {name!r} is no scaler of single columns")
            steps.append(step)
        estimator = estimator.steps[-1][1]
    weights, biases, activation, link = _layers(estimator)
    return DenseModel(
        encode=partial(_transformed, steps),
        feature_of_column=feature_of_column(columns, model.schema),
        weights=weights,
        biases=biases,
        activation=activation,
        link=link,
        classes=np.asarray(getattr(estimator, "classes_", ()), dtype=np.int64),
    )


def _layers(estimator: Any) -> tuple[tuple[Floats, ...], tuple[Floats, ...], Activation, Link]:
    name = own_name(estimator, "sklearn")
    if name in _PERCEPTRONS and estimator.out_activation_ in ("identity", "logistic", "softmax"):
        weights = tuple(np.asarray(w, dtype=np.float64) for w in estimator.coefs_)
        biases = tuple(np.asarray(b, dtype=np.float64) for b in estimator.intercepts_)
        return weights, biases, estimator.activation, estimator.out_activation_
    if name not in _LINEAR_REGRESSORS | _LINEAR_CLASSIFIERS:
        raise NotCovered(f"{name or type(estimator).__name__} has no masked loss of its own")
    if name in _LOGISTIC and is_one_against_rest(estimator):
        raise NotCovered(f"this {name} has a model of each class, without a masked loss of its own")
    weight = np.atleast_2d(np.asarray(coefficients_of(estimator), dtype=np.float64)).T
    bias = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), weight.shape[1])
    link: Link = "identity"
    if name in _LINEAR_CLASSIFIERS:
        link = "logistic" if weight.shape[1] == 1 else "softmax"
    return (weight,), (bias,), "identity", link


def _transformed(steps: Sequence[Any], X: Floats) -> Floats:
    X = X.copy()  # a scaler may change its input
    for step in steps:
        X = step.transform(X)
    return np.asarray(X, dtype=np.float64)
