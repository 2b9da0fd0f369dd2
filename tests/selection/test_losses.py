"""Losses against scikit-learn's own, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.losses import Loss, resolve_loss

REGRESSION = Schema(("a",), (0,))
BINARY = Schema(("a",), (0,), n_classes=2)
THREE = Schema(("a",), (0,), n_classes=3)
rng = np.random.default_rng(0)
VALUES, GUESSES = rng.normal(size=40), rng.normal(size=40)
LABELS, PROBABILITIES = rng.integers(0, 3, 40), rng.dirichlet([1, 1, 1], 40)
WEIGHT = rng.uniform(0.1, 3, 40)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_losses_agree_with_scikit_learn(weight) -> None:
    assert Loss("squared_error", "regression")(VALUES, GUESSES, weight) == pytest.approx(
        metrics.mean_squared_error(VALUES, GUESSES, sample_weight=weight), rel=1e-14
    )
    assert Loss("absolute_error", "regression")(VALUES, GUESSES, weight) == pytest.approx(
        metrics.mean_absolute_error(VALUES, GUESSES, sample_weight=weight), rel=1e-14
    )
    assert Loss("log_loss", "classification")(LABELS, PROBABILITIES, weight) == pytest.approx(
        metrics.log_loss(LABELS, PROBABILITIES, sample_weight=weight), rel=1e-14
    )


def test_a_certain_and_wrong_probability_costs_much_but_not_infinitely() -> None:
    loss = Loss("log_loss", "classification")(np.array([1]), np.array([[1.0, 0.0]]))
    assert 30 < loss < 40


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("accuracy", THREE, -metrics.accuracy_score(LABELS, PROBABILITIES.argmax(1))),
        ("roc_auc_ovr", THREE, -metrics.roc_auc_score(LABELS, PROBABILITIES, multi_class="ovr")),
        ("neg_log_loss", THREE, metrics.log_loss(LABELS, PROBABILITIES)),
    ],
)
def test_a_scorer_is_negated(name: str, schema: Schema, expected: float) -> None:
    assert resolve_loss(name, schema)(LABELS, PROBABILITIES) == pytest.approx(expected)


def test_a_binary_scorer_reads_the_second_class() -> None:
    y, p = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])
    assert resolve_loss("roc_auc", BINARY)(y, np.column_stack([1 - p, p])) == -0.75
    r2 = resolve_loss("r2", REGRESSION)(VALUES, GUESSES)
    assert r2 == pytest.approx(-metrics.r2_score(VALUES, GUESSES))


@pytest.mark.parametrize(
    ("scorer", "labels", "expected"),
    [
        (metrics.make_scorer(metrics.fbeta_score, beta=2), None, -0.5555555555555556),
        (
            metrics.make_scorer(metrics.fbeta_score, beta=2, pos_label="a"),
            ("a", "b"),
            -0.9090909090909091,
        ),
        (metrics.get_scorer("roc_auc"), None, -0.75),
        (metrics.make_scorer(metrics.zero_one_loss, greater_is_better=False), None, 0.25),
    ],
)
def test_a_scorer_of_ones_own_gets_the_labels_and_its_parameters(scorer, labels, expected):
    y, p = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])
    loss = resolve_loss(scorer, BINARY, labels=labels)
    assert loss.name == repr(scorer)
    assert loss(y, np.column_stack([1 - p, p])) == pytest.approx(expected)
    assert loss.reads_classes == ("predict'" in repr(scorer))


def test_the_default_follows_the_task() -> None:
    assert resolve_loss(None, REGRESSION).name == "squared_error"
    assert resolve_loss(None, THREE).name == "log_loss"


@pytest.mark.parametrize(
    ("name", "schema", "weighted", "message"),
    [
        ("nonsense", REGRESSION, False, "loss must be one of absolute_error, log_loss"),
        ("log_loss", REGRESSION, False, "is for classification but the target asks for regression"),
        ("squared_error", BINARY, False, "use 'log_loss'"),
        *(
            (name, schema, False, f"loss '{name}' cannot score {what}")
            for names, schema, what in (
                (("roc_auc", "f1", "precision"), THREE, "3 classes"),
                (("accuracy", "roc_auc", "f1", "neg_brier_score"), REGRESSION, "regression"),
                (("r2", "neg_root_mean_squared_error", "neg_max_error"), BINARY, "classes"),
                (("r2", "neg_root_mean_squared_error", "neg_max_error"), THREE, "classes"),
            )
            for name in names
        ),
        ("neg_max_error", REGRESSION, True, "cannot score regression with sample weights"),
        (metrics.make_scorer(metrics.max_error), REGRESSION, True, "with sample weights"),
        (metrics.make_scorer(metrics.r2_score), BINARY, False, "cannot score classes"),
        (metrics.make_scorer(metrics.f1_score), THREE, False, "cannot score 3 classes"),
        (metrics.mean_pinball_loss, REGRESSION, False, r"give make_scorer\(mean_pinball_loss"),
        ("make_scorer(cost)", REGRESSION, False, "was a scorer made in Python, which settings and"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(name, schema, weighted, message) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_loss(name, schema, weighted=weighted)


def test_a_score_has_no_value_per_row() -> None:
    with pytest.raises(ValueError, match="has no value per row"):
        Loss("r2", "regression").per_row(VALUES, GUESSES)


@pytest.mark.parametrize(
    ("schema", "name", "scorer"),
    [
        (REGRESSION, "squared_error", "neg_mean_squared_error"),
        (REGRESSION, "absolute_error", "neg_mean_absolute_error"),
        (THREE, "log_loss", "neg_log_loss"),
    ],
)
def test_one_loss_by_two_names_is_one_loss(schema, name, scorer) -> None:
    assert resolve_loss(scorer, schema) == resolve_loss(name, schema)


def test_a_score_of_nothing_is_a_loss_of_zero_without_a_sign() -> None:
    loss = resolve_loss("f1", BINARY)
    value = loss(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert str(value) == "0.0"
