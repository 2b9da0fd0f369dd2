"""Figures of predictions for the report's charts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from chaffinch.tasks.statistics.metrics import MOST_POINTS, prediction_figures

ALL = np.arange(2000)


def two_classes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    probability = random.uniform(size=n)
    y = (random.uniform(size=n) < probability).astype(np.int64)
    return y, np.column_stack([1 - probability, probability]), random.uniform(0.5, 2, n)


def test_a_scatter_chart_has_each_value_with_its_prediction_and_not_too_many() -> None:
    y = np.arange(2000.0)
    found = prediction_figures(y, 2 * y, None, (), ALL)
    assert len(found["true"]) == MOST_POINTS
    assert max(found["true"]) > 1900
    assert found["predicted"] == [2 * value for value in found["true"]]
    assert len(prediction_figures(y, y, None, (), ALL[:50])["true"]) == 50


def test_the_roc_curve_has_the_area_of_the_metric() -> None:
    y, prediction, weight = two_classes(3000)
    roc = prediction_figures(y, prediction, weight, ("no", "yes"), ALL)["roc"]
    assert len(roc["false_positive"]) <= 200
    area = np.trapezoid(roc["true_positive"], roc["false_positive"])
    assert area == pytest.approx(roc_auc_score(y, prediction[:, 1], sample_weight=weight), abs=1e-3)


def test_one_class_alone_has_no_roc_curve() -> None:
    y, prediction, _ = two_classes(100)
    assert prediction_figures(0 * y, prediction, None, ("no", "yes"), ALL)["roc"] is None


def test_true_probabilities_are_calibrated_with_and_without_weights() -> None:
    y, prediction, weight = two_classes(50_000)
    for weights in (None, weight):
        points = prediction_figures(y, prediction, weights, ("no", "yes"), ALL)["calibration"]
        assert len(points) == 10
        assert sum(point["rows"] for point in points) == 50_000
        for point in points:
            assert point["share"] == pytest.approx(point["predicted"], abs=0.03)


def test_few_classes_have_a_confusion_matrix() -> None:
    random = np.random.default_rng(1)
    y, prediction = random.integers(3, size=200), random.dirichlet(np.ones(3), 200)
    found = prediction_figures(y, prediction, None, "abc", ALL)
    assert found["classes"] == ["a", "b", "c"]
    assert found["confusion"] == confusion_matrix(y, prediction.argmax(axis=1)).tolist()


def test_many_classes_have_their_most_frequent_confusions() -> None:
    classes = [f"class {i}" for i in range(12)]
    y = np.repeat(np.arange(12), 10)
    label = y.copy()
    label[:4], label[10:13] = 5, 0
    found = prediction_figures(y, np.eye(12)[label], None, classes, ALL)
    assert found == {
        "most_confused": [
            {"true": "class 0", "predicted": "class 5", "rows": 4},
            {"true": "class 1", "predicted": "class 0", "rows": 3},
        ],
        "n_wrong": 7,
    }
