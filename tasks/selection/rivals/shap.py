"""Mean absolute SHAP values of boosted trees.

Lundberg, Erion and Lee, "Consistent individualized feature attribution for tree ensembles", arXiv
1802.03888 (2018): a prediction is shared out to the features by their Shapley values, where a
split on a feature that is not given is followed down both sides, by the share of training rows
that went there. LightGBM and XGBoost compute them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaffinch.tasks.selection.models import LightGBMModel, ScikitLearnModel, XGBoostModel
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Rows

_CELLS_AT_ONCE = 1 << 21
_READABLE = ("lightgbm", "xgboost")


def tree_shap(model: FittedModel, rows: Rows) -> Floats:
    """Score by the mean absolute SHAP value of a feature.

    Parameters
    ----------
    model : FittedModel
        LightGBM's or XGBoost's, with d features.
    rows : Rows
        Mask-validation rows, at least one; weights count.

    Returns
    -------
    ndarray of float64, shape (d,)
        At least 0, in the unit of the target; for classes in log odds, and with more than two the
        sum over the classes. 0 for a feature that the model makes no use of.

    Raises
    ------
    ValueError
        If the model is of another kind, or has linear models in its leaves.
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
    """Return the SHAP values of each row, shape (n, k, d).

    Parameters
    ----------
    model : FittedModel
        LightGBM's or XGBoost's, with d features and k outputs: 1, or as many as there are classes
        where these are more than two.
    X : ndarray of float64, shape (n, d)

    Raises
    ------
    ValueError
        As `tree_shap`.
    """
    if isinstance(model, LightGBMModel):
        check_tree_shap("lightgbm", model.booster.params)
        values = model.booster.predict(X, pred_contrib=True, num_threads=1)
    elif isinstance(model, XGBoostModel):
        values = _by_xgboost(model, X)
    else:
        raise ValueError(_unreadable(_name(model)))
    by_output = np.reshape(values, (len(X), -1, len(model.schema.features) + 1))
    return np.asarray(by_output[:, :, :-1], dtype=np.float64)  # the last is the mean prediction


def check_tree_shap(name: str, parameters: Mapping[str, Any]) -> None:
    """Say before any work what `tree_shap` would refuse after it.

    Parameters
    ----------
    name : str
        The model's name in the registry, or its class.
    parameters : mapping
        Its hyper-parameters.

    Raises
    ------
    ValueError
        As `tree_shap`.
    """
    if name not in _READABLE:
        raise ValueError(_unreadable(name))
    if parameters.get("linear_tree"):
        raise ValueError(
            "tree_shap needs leaves of one value but lightgbm parameter 'linear_tree' is True; "
            "leave it out, or use permutation"
        )


def _name(model: FittedModel) -> str:
    return type(model.estimator).__name__ if isinstance(model, ScikitLearnModel) else model.kind


def _unreadable(model: str) -> str:
    """Return the sentence that refuses a model by its name."""
    return (
        f"tree_shap needs the model lightgbm or xgboost but has {model}; use permutation, or one "
        "of these two"
    )


def _by_xgboost(model: XGBoostModel, X: Floats) -> Floats:
    from xgboost import DMatrix

    types = ["c" if n else "q" for n in model.schema.n_categories]
    table = DMatrix(X, feature_types=types, enable_categorical=True, nthread=1)
    return np.asarray(model.booster.predict(table, pred_contribs=True, strict_shape=True))
