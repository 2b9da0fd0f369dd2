"""Figures of predictions beside the truth, for charts; no decision uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats

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
    some = np.unique(np.linspace(0, len(false) - 1, _MOST_ON_A_CURVE).round().astype(np.int64))
    return {"false_positive": false[some].tolist(), "true_positive": true[some].tolist()}


def _calibration(y: NDArray[Any], score: Floats, weight: Floats | None) -> list[dict[str, Any]]:
    """Return mean probability and share of positives in bins of as many rows, lowest first."""
    order = np.argsort(score, kind="stable")
    found = []
    for rows in np.array_split(order, min(_BINS, len(order))):
        of_rows = None if weight is None else weight[rows]
        found.append(
            {
                "predicted": float(np.average(score[rows], weights=of_rows)),
                "share": float(np.average(y[rows], weights=of_rows)),
                "rows": len(rows),
            }
        )
    return found


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
