"""Scorers of a model's own labels: what scikit-learn's scorer says of the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, get_scorer, make_scorer, mean_pinball_loss

from chaffinch import masked_loss
from chaffinch.qualities import permutation

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 4))
SIGNAL = X[:, 0] + RANDOM.normal(size=120) / 2


@pytest.mark.parametrize("labels", [(0, 1), (1, 2), (-1, 1), (0.0, 1.0), (False, True)])
@pytest.mark.parametrize("model", [LogisticRegression(), RandomForestClassifier(8, random_state=0)])
def test_one_of_two_labels_is_positive(model, labels) -> None:
    y = np.array(labels)[(SIGNAL > 0.5).astype(int)]
    model.fit(X, y)
    for name in ("f1", "recall", "average_precision", "roc_auc", "accuracy"):
        own = get_scorer(name)(model, X, y)
        assert masked_loss(model, X, y, loss=name).loss == pytest.approx(-own, rel=1e-12)


def test_a_scorer_of_ones_own_sees_the_labels_whatever_they_are() -> None:
    y = np.where(SIGNAL > 0.5, "yes", "no")
    model = LogisticRegression().fit(X, y)
    scorer = make_scorer(f1_score, pos_label="yes")
    engine = masked_loss(model, X, y, loss=scorer)
    assert engine.loss == pytest.approx(-scorer(model, X, y), rel=1e-12)
    without_first = np.where([False, True, True, True], X, 0.0)
    expected = -scorer(model, without_first, y)
    assert engine.without_each()[0] == pytest.approx(expected, rel=1e-12)
    pinball = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9)
    forest = RandomForestRegressor(10, random_state=0).fit(X, SIGNAL)
    assert masked_loss(forest, X, SIGNAL, loss=pinball).loss == pytest.approx(
        mean_pinball_loss(SIGNAL, forest.predict(X), alpha=0.9), rel=1e-12
    )
    assert permutation(forest, X, SIGNAL, loss=pinball).values.argmax() == 0


@pytest.mark.parametrize("name", ["neg_median_absolute_error", "neg_root_mean_squared_error"])
def test_classes_are_not_scored_as_quantities(name) -> None:
    y = np.array([1, 2, 5, 10])[np.digitize(SIGNAL, [-1, 0, 1])]
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="cannot score classes"):
        masked_loss(model, X, y, loss=name)


def test_of_several_classes_every_two_may_tie() -> None:
    y = RANDOM.integers(0, 4, 120)
    model = RandomForestClassifier(4, max_depth=2, random_state=0).fit(X, y)
    engine = masked_loss(model, X, y, loss="top_k_accuracy")
    while engine.mask.any():
        table = np.where(engine.mask, X, 0.0)
        assert engine.loss == -get_scorer("top_k_accuracy")(model, table, y)
        engine.remove(int(np.flatnonzero(engine.mask)[0]))


def test_a_score_may_be_relative_to_the_smallest_value() -> None:
    y = 10.0 ** RANDOM.uniform(-9, 7, 120)
    model = RandomForestRegressor(10, min_samples_leaf=1, random_state=0).fit(X, y)
    for name in ("neg_mean_absolute_percentage_error", "neg_mean_gamma_deviance"):
        own = -get_scorer(name)(model, X, y)
        assert masked_loss(model, X, y, loss=name).loss == pytest.approx(own, rel=1e-11)
