"""Importances: features scored by the trained base model.

A model has no importances of its own if it has neither trees with gains nor coefficients;
permutation works for every model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import FittedModel, Floats, Predictor, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.models import MODELS, kind_of
from chaffinch.tasks.selection.models.lightgbm import SHAP_OF_LINEAR_LEAVES

_REPEATS = 5  # scikit-learn's default
_MIN_SYNTHETIC_ROWS = 40


@ranking(
    "select_from_model",
    score="the total gain in the base model's trees, or the sum of its absolute coefficients",
    weights=True,
    reads="model",
)
def select_from_model(model: FittedModel, asked_by: str = "select_from_model") -> Floats:
    """Score as scikit-learn's SelectFromModel ranks.

    LightGBM and XGBoost by the total gain of a feature's splits; an estimator by its
    `feature_importances_`, or else its absolute `coef_`, summed over the classes. Of a category,
    whose values become columns, it takes the standard deviation over the training rows of its part
    of the prediction, which is 0 where it is missing; of a scaled number that is its `coef_`.
    Raises InputError, in the name of the method `asked_by`, if the model has no importances, or one
    that is not finite.
    """
    scores = model.importances()
    if scores is None:
        raise InputError(_no_importances(model.name, asked_by))
    check_finite(scores, model.name)
    return scores


def check_finite(scores: Floats, name: str) -> None:
    """Raise InputError if an importance (d,) of the model of that name is infinite or NaN."""
    # boosters keep gains in float32; they grow with the square of the target, and with the rows
    if not np.isfinite(scores).all():
        raise InputError(
            f"the importances of {name} must be finite but one is "
            f"{scores[~np.isfinite(scores)][0]}, as where the target has very large values; divide "
            "it by a constant, or use permutation"
        )


def check_importances(
    name: str,
    n_classes: int,
    fit: Callable[[Rows, Schema], FittedModel],
    asked_by: str = "select_from_model",
) -> None:
    """Raise InputError before any work if `select_from_model` does not support a model."""
    # Only a fitted estimator shows whether it has importances, so one is fitted to synthetic rows;
    # if that fails, the check passes.
    if name in MODELS:
        if not MODELS[name].offers("importances"):
            raise InputError(_no_importances(name, asked_by))
        return
    n_rows = max(_MIN_SYNTHETIC_ROWS, 4 * n_classes)
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    y = np.arange(n_rows) % n_classes if n_classes else X.sum(axis=1)
    try:
        with warnings.catch_warnings(action="ignore"):  # about the synthetic rows
            model = fit(Rows(X, y), Schema(("a", "b"), (0, 0), n_classes))
    except (ValueError, TypeError, ArithmeticError, LookupError):
        return
    select_from_model(model, asked_by)


@ranking(
    "permutation",
    score="how much the base model's loss on the mask-validation rows rises, on average, when the "
    "feature's values are shuffled",
    weights=True,
    reads="rows held out",
)
def permutation(
    model: Predictor, rows: Rows, loss: Loss, features: Sequence[int], seed: int
) -> Floats:
    """Score m features by how much the loss rises on average when their values are shuffled.

    Breiman, "Random forests", Machine Learning 45 (2001), on rows held out, as scikit-learn's
    `permutation_importance` does it. Every feature is shuffled in the same five ways, so that its
    score does not depend on its place.
    """
    unshuffled = loss(rows.y, model.predict(rows.X), rows.weight)
    random = np.random.default_rng(seed)
    shuffles = [random.permutation(len(rows)) for _ in range(_REPEATS)]
    used, X = model.used_features, rows.X.copy(order="K")
    scores = np.zeros(len(features))
    for position, feature in enumerate(features):
        if not used[feature]:
            continue
        losses = []
        for shuffle in shuffles:
            X[:, feature] = rows.X[shuffle, feature]
            losses.append(loss(rows.y, model.predict(X), rows.weight))
        X[:, feature] = rows.X[:, feature]
        scores[position] = np.mean(losses) - unshuffled
    return scores


def _no_importances(model: str, asked_by: str) -> str:
    return (
        f"{asked_by} needs a model with gains or coefficients but {model} has none; "
        "use permutation, or another model such as lightgbm"
    )


_CELLS_AT_ONCE = 1 << 21
_READABLE = " or ".join(name for name, kind in MODELS.items() if kind.offers("shap_values"))


@ranking(
    "tree_shap",
    score=f"the mean absolute SHAP value of the base model, {_READABLE}, on the "
    "mask-validation rows; for classes in log odds",
    weights=True,
    reads="rows held out",
)
def tree_shap(model: FittedModel, rows: Rows) -> Floats:
    """Score by the weighted mean absolute SHAP value, summed over more than two classes.

    Lundberg, Erion and Lee, "Consistent individualized feature attribution for tree ensembles",
    arXiv 1802.03888 (2018): a prediction is shared out to the features by their Shapley values,
    where a split on a feature that is not given is followed down both sides, by the share of
    training rows that went there. LightGBM and XGBoost compute them exactly.
    """
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    n_features = len(model.schema.features)
    at_once = max(1, _CELLS_AT_ONCE // ((n_features + 1) * max(1, model.schema.n_classes)))
    total = np.zeros(n_features)
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        total += np.einsum("i,ikj->j", weight[part], np.abs(shap_values(model, rows.X[part])))
    return np.asarray(total / weight.sum())


def shap_values(model: FittedModel, X: Floats) -> Floats:
    """Return the SHAP values of each row, shape (n, k, d); k is 1, or n_classes above 2."""
    values = model.shap_values(X)
    if values is None:
        raise InputError(_unreadable(model.name))
    return values


def check_tree_shap(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise InputError if the model has no SHAP values, or linear models in its leaves."""
    if not kind_of(name).offers("shap_values"):
        raise InputError(_unreadable(name))
    if parameters.get("linear_tree"):
        raise InputError(SHAP_OF_LINEAR_LEAVES)


def _unreadable(name: str) -> str:
    return f"tree_shap needs the model {_READABLE} but has {name}; use permutation, or one of these"
