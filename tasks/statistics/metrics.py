"""Metrics of predictions by scikit-learn, and the points of their charts; no decision uses them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.statistics.bootstrap import difference_of

# Key -> name in tables.
METRICS = {
    "r2": "R2",
    "rmse": "RMSE",
    "mae": "MAE",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "roc_auc": "ROC AUC",
    "log_loss": "Log loss",
}
_ERRORS = {"rmse", "mae", "log_loss"}  # from 0, so that differences in per cent make sense


def metrics_of(y: NDArray[Any], prediction: Floats, weight: Floats | None) -> dict[str, float]:
    """Return the metrics of values (n,) or class probabilities (n, n_classes).

    Undefined metrics are left out: R2 if all targets are equal, ROC AUC if a class has no rows.
    """
    of_task = _of_classes if prediction.ndim == 2 else _of_values
    with np.errstate(over="ignore", invalid="ignore"):  # squares of huge values
        metrics = of_task(y, prediction, weight)
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _of_values(y: NDArray[Any], prediction: Floats, weight: Floats | None) -> dict[str, float]:
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    r2 = r2_score(y, prediction, sample_weight=weight) if np.ptp(y) else math.nan
    return {
        "r2": float(r2),
        "rmse": float(root_mean_squared_error(y, prediction, sample_weight=weight)),
        "mae": float(mean_absolute_error(y, prediction, sample_weight=weight)),
    }


def _of_classes(y: NDArray[Any], prediction: Floats, weight: Floats | None) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, recall_score

    label, present = prediction.argmax(axis=1), np.unique(y)
    is_complete = len(present) == prediction.shape[1]
    # balanced_accuracy_score is the same, with a warning for predicted classes without rows
    balanced = recall_score(y, label, labels=present, average="macro", sample_weight=weight)
    return {
        "accuracy": float(accuracy_score(y, label, sample_weight=weight)),
        "balanced_accuracy": float(balanced),
        "roc_auc": _roc_auc(y, prediction, weight) if is_complete else math.nan,
        "log_loss": Loss("log_loss", "classification")(y, prediction, weight),
    }


def _roc_auc(y: NDArray[Any], prediction: Floats, weight: Floats | None) -> float:
    """Return the ROC AUC of two classes, or the mean of each class against the rest."""
    from sklearn.metrics import roc_auc_score

    n_classes = prediction.shape[1]
    # multi_class="ovr" is the same, but refuses probabilities that do not sum to exactly 1
    of_each = [
        roc_auc_score(y == k, prediction[:, k], sample_weight=weight)
        for k in ((1,) if n_classes == 2 else range(n_classes))
    ]
    return float(np.mean(of_each))


def compare_metrics(
    y: NDArray[Any],
    weight: Floats | None,
    *,
    all_features: Floats,
    selected: Floats,
    constant: Floats,
) -> dict[str, dict[str, float | None]]:
    """Return each metric of three predictions, and its difference, selected less all features.

    The difference of an error is also in per cent of the error with all features.
    """
    every, chosen, fixed = (metrics_of(y, p, weight) for p in (all_features, selected, constant))
    if "roc_auc" in fixed:  # each fold may have a constant of its own
        fixed["roc_auc"] = 0.5
    return {
        name: {
            "all_features": value,
            "selected": chosen[name],
            "constant": fixed[name],
            "difference": (difference := difference_of(chosen[name], value)),
            "difference_percent": _percent(difference, value) if name in _ERRORS else None,
        }
        for name, value in every.items()
        if name in chosen and name in fixed
    }


def _percent(difference: float, value: float) -> float | None:
    percent = 100 * difference / value if value else math.inf
    return percent if math.isfinite(percent) else None


def shares_of_classes(y: NDArray[Any], weight: Floats | None, n_classes: int) -> list[float]:
    counts = np.bincount(y, weights=weight, minlength=n_classes)
    return list(map(float, counts / counts.sum()))


MOST_POINTS = 1_000  # of a scatter chart
MOST_CLASSES = 10  # of a confusion matrix; of more, the most frequent confusions
_MOST_ON_A_CURVE = 200
_BINS = 10  # of a calibration curve, with equal numbers of rows


def prediction_figures(
    y: NDArray[Any],
    prediction: Floats,
    weight: Floats | None,
    classes: Sequence[str],
    some: NDArray[np.int64],
) -> dict[str, Any]:
    """Return the figures of values (n,), or of class probabilities (n, n_classes).

    `some` are the rows of a scatter chart.
    """
    if prediction.ndim == 1:
        some = some[:: max(1, -(-len(some) // MOST_POINTS))]
        return {"true": y[some].tolist(), "predicted": prediction[some].tolist()}
    if prediction.shape[1] == 2:
        return {
            "positive": classes[1],
            "roc": _roc(y, prediction[:, 1], weight),
            "calibration": _calibration(y, prediction[:, 1], weight),
        }
    return _confusion(y, prediction.argmax(axis=1), classes)


def _roc(y: NDArray[Any], score: Floats, weight: Floats | None) -> dict[str, list[float]] | None:
    """Return shares of false and true positives; None unless both classes occur."""
    from sklearn.metrics import roc_curve

    if len(np.unique(y)) < 2:
        return None
    false, true, _ = roc_curve(y, score, sample_weight=weight)
    shown = np.unique(np.linspace(0, len(false) - 1, _MOST_ON_A_CURVE).round().astype(np.int64))
    return {"false_positive": false[shown].tolist(), "true_positive": true[shown].tolist()}


def _calibration(y: NDArray[Any], score: Floats, weight: Floats | None) -> list[dict[str, Any]]:
    """Return mean probability and share of positives in bins of as many rows, lowest first."""
    order = np.argsort(score, kind="stable")
    bins = []
    for rows in np.array_split(order, min(_BINS, len(order))):
        of_rows = None if weight is None else weight[rows]
        bins.append(
            {
                "predicted": float(np.average(score[rows], weights=of_rows)),
                "share": float(np.average(y[rows], weights=of_rows)),
                "rows": len(rows),
            }
        )
    return bins


def _confusion(y: NDArray[Any], label: NDArray[Any], classes: Sequence[str]) -> dict[str, Any]:
    n = len(classes)
    pairs = np.bincount(y * n + label, minlength=n * n).reshape(n, n)
    if n <= MOST_CLASSES:
        return {"classes": list(classes), "confusion": pairs.tolist()}
    wrong = pairs * ~np.eye(n, dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CLASSES]
    return {
        "most_confused": [
            {"true": classes[i], "predicted": classes[j], "rows": int(wrong[i, j])}
            for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
            if wrong[i, j]
        ],
        "n_wrong": int(wrong.sum()),
    }
