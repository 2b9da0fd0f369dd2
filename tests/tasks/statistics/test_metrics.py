"""Metrics beside the loss: known answers by hand, and what is undefined is left out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from chaffinch.tasks.statistics.metrics import compare_metrics, metrics_of, shares_of_classes

VALUES, GUESSES = np.array([0.0, 2.0, 4.0, 6.0]), np.array([1.0, 2.0, 4.0, 5.0])
LABELS = np.array([0, 0, 1, 1])
OF_SECOND = np.array([0.1, 0.6, 0.4, 0.9])


def of_two(second: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - second, second])


def test_of_a_regression_by_hand() -> None:
    # squared errors 1, 0, 0, 1; squares about the mean 9, 1, 1, 9
    assert metrics_of(VALUES, GUESSES, None) == pytest.approx(
        {"r2": 1 - 2 / 20, "rmse": 0.5**0.5, "mae": 0.5}
    )


def test_of_two_classes_by_hand() -> None:
    # one of each class is right; of the four pairs, only 0.6 and 0.4 are in the wrong order
    log_loss = -np.log([0.9, 0.4, 0.4, 0.9]).mean()
    assert metrics_of(LABELS, of_two(OF_SECOND), None) == pytest.approx(
        {"accuracy": 0.5, "balanced_accuracy": 0.5, "roc_auc": 0.75, "log_loss": log_loss}
    )


def test_balanced_accuracy_counts_each_class_alike() -> None:
    found = metrics_of(np.array([0, 0, 0, 1]), of_two(np.array([0.1, 0.2, 0.3, 0.4])), None)
    assert (found["accuracy"], found["balanced_accuracy"]) == (0.75, 0.5)


def test_of_three_classes_by_hand() -> None:
    y = np.array([0, 1, 2])
    prediction = np.array([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    # against the rest: the first class is in order; the others have a tie and a wrong pair each
    assert metrics_of(y, prediction, None) == pytest.approx(
        {
            "accuracy": 1 / 3,
            "balanced_accuracy": 1 / 3,
            "roc_auc": (1 + 0.25 + 0.25) / 3,
            "log_loss": -np.log([0.6, 0.3, 0.1]).mean(),
        }
    )


@pytest.mark.parametrize(
    ("y", "prediction"), [(VALUES, GUESSES), (LABELS, of_two(OF_SECOND))], ids=["values", "classes"]
)
def test_a_row_of_weight_three_counts_as_three_rows(y, prediction) -> None:
    times = np.array([1, 1, 2, 3])
    repeated = metrics_of(np.repeat(y, times), np.repeat(prediction, times, axis=0), None)
    weighted = metrics_of(y, prediction, times.astype(float))
    assert weighted == pytest.approx(repeated)
    assert weighted != pytest.approx(metrics_of(y, prediction, None))


@pytest.mark.parametrize("n_rows", [1, 3])
def test_without_different_targets_there_is_no_r2(n_rows) -> None:
    found = metrics_of(np.full(n_rows, 2.0), np.full(n_rows, 5.0), None)
    assert found == {"rmse": 3.0, "mae": 3.0}


@pytest.mark.parametrize("y", [[0, 0], [0, 1]], ids=["one class", "two of three classes"])
def test_where_a_class_has_no_rows_there_is_no_roc_auc(y) -> None:
    prediction = np.array([[0.6, 0.2, 0.2], [0.1, 0.2, 0.7]])  # the last class is predicted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = metrics_of(np.array(y), prediction, None)
    assert found.keys() == {"accuracy", "balanced_accuracy", "log_loss"}
    assert found["balanced_accuracy"] == 0.5


def test_probabilities_of_single_precision_will_do() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 30).astype(np.float32)
    found = metrics_of(np.arange(30) % 3, rows.astype(float) * 0.999, None)
    assert 0 < found["roc_auc"] < 1


def test_the_difference_of_errors_is_in_per_cent_too() -> None:
    mean, worse = np.full(4, VALUES.mean()), np.array([2.0, 2.0, 4.0, 5.0])
    found = compare_metrics(VALUES, None, all_features=GUESSES, selected=worse, constant=mean)
    assert found["mae"] == {
        "all_features": 0.5,
        "selected": 0.75,
        "constant": 2.0,
        "difference": 0.25,
        "difference_percent": 50.0,
    }
    assert found["r2"]["difference"] == pytest.approx(-3 / 20)
    assert found["r2"]["difference_percent"] is None
    assert found["r2"]["constant"] == 0


@pytest.mark.parametrize("error", [0.0, 1e-310], ids=["none", "almost none"])
def test_no_per_cent_of_no_error(error) -> None:
    y, prediction = np.array([0.0, 1.0]), np.array([error, 1.0])
    found = compare_metrics(y, None, all_features=prediction, selected=1 - y, constant=y)
    assert (found["mae"]["difference"], found["mae"]["difference_percent"]) == (1, None)


def test_a_metric_beyond_all_numbers_is_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = metrics_of(np.array([0.0, 1.0]), np.array([1e200, 1.0]), None)
    assert found == {"mae": 5e199}


def test_a_constant_of_shares_is_no_better_than_chance() -> None:
    y, weight = np.array([0, 0, 1, 2]), np.array([1.0, 1.0, 3.0, 1.0])
    shares = shares_of_classes(y, weight, 3)
    assert shares == pytest.approx([1 / 3, 1 / 2, 1 / 6])
    found = metrics_of(y, np.tile(shares, (4, 1)), weight)
    assert found["roc_auc"] == 0.5
    assert found["accuracy"] == 0.5
    assert found["balanced_accuracy"] == pytest.approx(1 / 3)
    assert shares_of_classes(np.array([0, 0]), None, 2) == [1.0, 0.0]
