"""Networks and linear models, whichever library they come from, read as one form.

Every one of them encodes the features into columns, multiplies these by weights, and goes on from
there; a linear model has no hidden layer. What is read here is checked by `networks` against the
model's own predictions before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.masked_loss.torch_layers import Activation, layers
from chaffinch.tasks.selection.models import NeuralNetwork, ScikitLearnModel
from chaffinch.tasks.selection.models.columns import coefficients_of, feature_of_column
from chaffinch.tasks.selection.models.given import GivenModule
from chaffinch.tasks.selection.models.own_classes import own_name
from chaffinch.tasks.selection.vocabulary import Floats, Predictor

Link = Literal["identity", "logistic", "softmax"]

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
_LINEAR_CLASSIFIERS = frozenset(
    {"LinearDiscriminantAnalysis", "LogisticRegression", "LogisticRegressionCV"}
)
_PERCEPTRONS = frozenset({"MLPClassifier", "MLPRegressor"})
_SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"})


@dataclass(frozen=True)
class DenseModel:
    """A model as an encoding, layers, and a link from the last layer to the prediction.

    Attributes
    ----------
    encode : callable
        Takes rows X (n, d) to columns (n, width), each row by itself.
    feature_of_column : ndarray of int64, shape (width,)
        The only feature that each column depends on.
    weights, biases : tuple of ndarray of float64, shapes (fan_in, fan_out) and (fan_out,)
        Layer by layer.
    activation : str
        Of the hidden layers.
    link : str
        From the outputs of the last layer to values or probabilities; logistic is that of the
        second of two classes.
    classes : ndarray of int64
        The classes that the outputs stand for; empty for regression.
    location, scale : float
        A value is location + scale x output.
    """

    encode: Callable[[Floats], Floats]
    feature_of_column: NDArray[np.int64]
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: Activation
    link: Link
    classes: NDArray[np.int64]
    location: float = 0.0
    scale: float = 1.0


def read_dense(model: Predictor) -> DenseModel:
    """Return a network or a linear model in the common form.

    Raises
    ------
    NotCovered
        If the model is neither, or prepares its columns in a way that is not known here.
    """
    if isinstance(model, NeuralNetwork):
        return _of_network(model)
    if isinstance(model, ScikitLearnModel):
        return _of_scikit_learn(model)
    if isinstance(model, GivenModule):
        return _of_module(model)
    raise NotCovered(f"{model.kind} is neither a network nor a linear model")


def _of_network(model: NeuralNetwork) -> DenseModel:
    n_classes = model.schema.n_classes
    return DenseModel(
        encode=model.encoding.transform,
        feature_of_column=model.encoding.feature_of_column,
        weights=model.weights,
        biases=model.biases,
        activation="relu" if model.activation == "relu" else "logistic",
        link="softmax" if n_classes else "identity",
        location=model.location,
        scale=model.scale,
        classes=np.arange(n_classes),
    )


def _of_module(model: GivenModule) -> DenseModel:
    weights, biases, activation = layers(model.module)
    n_classes = model.schema.n_classes
    link: Link = "identity"
    if n_classes:
        link = "logistic" if weights[-1].shape[1] == 1 else "softmax"
    return DenseModel(
        encode=partial(_transformed, []),
        feature_of_column=np.arange(len(model.schema.features)),
        weights=weights,
        biases=biases,
        activation=activation,
        link=link,
        classes=np.arange(n_classes),
    )


def _of_scikit_learn(model: ScikitLearnModel) -> DenseModel:
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


def _layers(
    estimator: Any,
) -> tuple[tuple[Floats, ...], tuple[Floats, ...], Activation, Link]:
    """Return weights, biases, activation and link of an estimator; NotCovered if it has none."""
    name = own_name(estimator, "sklearn")
    if name in _PERCEPTRONS and estimator.out_activation_ in ("identity", "logistic", "softmax"):
        weights = tuple(np.asarray(w, dtype=np.float64) for w in estimator.coefs_)
        biases = tuple(np.asarray(b, dtype=np.float64) for b in estimator.intercepts_)
        return weights, biases, estimator.activation, estimator.out_activation_
    if name not in _LINEAR_REGRESSORS | _LINEAR_CLASSIFIERS:
        raise NotCovered(f"{name or type(estimator).__name__} has no masked loss of its own")
    weight = np.atleast_2d(np.asarray(coefficients_of(estimator), dtype=np.float64)).T
    bias = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), weight.shape[1])
    link: Link = "identity"
    if name in _LINEAR_CLASSIFIERS:
        link = "logistic" if weight.shape[1] == 1 else "softmax"
    return (weight,), (bias,), "identity", link


def _transformed(steps: Sequence[Any], X: Floats) -> Floats:
    X = X.copy()  # a scaler may change what it is given
    for step in steps:
        X = step.transform(X)
    return np.asarray(X, dtype=np.float64)
