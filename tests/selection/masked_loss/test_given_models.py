"""`chaffinch.masked_loss`: the losses of one's own model, by its own predict on masked tables."""

from __future__ import annotations

import doctest
import logging

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

import chaffinch
from chaffinch import masked_loss
from chaffinch.tasks.api import masked_loss as given_model
from tests.selection.masked_loss.given_models import (
    HISTOGRAM,
    LABELS,
    MODELS,
    D,
    codes,
    fitted,
    labelled,
    made,
    own_function,
    table,
)
from tests.selection.masked_loss.own_losses import by_predictions, check, plain_loss

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_losses_are_those_of_its_own_predict_on_masked_tables(name, data) -> None:
    model, predict, n_classes, expected_engine, has_labels = made(name)
    X, values = table(data.draw(st.sampled_from([3, 130])), data.draw(st.integers(1, 1000)))
    y = codes(values, n_classes) if n_classes else values
    loss = (
        "log_loss" if n_classes else data.draw(st.sampled_from(["squared_error", "absolute_error"]))
    )
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if data.draw(st.booleans()) else None
    kind = data.draw(st.sampled_from(["zero", "mean", "median", "values"]))
    ones = np.ones(len(X))
    baseline = {
        "zero": np.zeros(D),
        # to the last bit: a tree may split just there
        "mean": np.array(
            [np.average(x.copy(), weights=ones if weight is None else weight) for x in X.T]
        ),
        "median": np.median(X, axis=0),
        "values": np.array([0.5, -1, 1, 2.5, 0, 2]),
    }[kind]
    if kind == "median":
        weight = None
    engine = masked_loss(
        model,
        X,
        LABELS[y] if has_labels else y,
        loss=loss,
        baseline=baseline if kind == "values" else kind,
        sample_weight=weight,
    )
    if loss == "absolute_error":
        expected_engine = expected_engine.replace("Linear", "Network")
    assert type(engine).__name__ == expected_engine
    within = 2e-6 if "XG" in name else 1e-11

    of = by_predictions(predict, X, y, loss, baseline, weight)
    check(engine, of, data.draw(st.permutations(range(D)))[:3], within)
    masks = np.random.default_rng(0).random((3, D)) < 0.5
    np.testing.assert_allclose(engine(masks), [of(m) for m in masks], rtol=within, atol=within / 10)


def test_probabilities_of_xgboost_that_float32_cannot_tell_from_1() -> None:
    X, values = table(300, 0)
    y = codes(values, 2)
    model = xgboost.XGBClassifier(
        n_estimators=300, learning_rate=1, reg_lambda=0, min_child_weight=0, n_jobs=1
    ).fit(X, y)
    X, values = table(300, 1)
    y = codes(values, 2)
    engine = masked_loss(model, X, y, loss="log_loss")
    assert type(engine).__name__ == "TreeEngine"
    for j, loss in enumerate(engine.without_each()):
        masked = X.copy()
        masked[:, j] = 0
        prediction = model.predict_proba(masked)
        assert loss == pytest.approx(plain_loss("log_loss", y, prediction, None), rel=1e-5)
    assert prediction.max() == 1


def test_a_frame_is_read_column_by_column() -> None:
    X, y = table(200, 0)
    frame = pd.DataFrame(X, columns=list("abcdef")).astype({"f": "int64"})
    model = RandomForestRegressor(5, random_state=0).fit(frame, y)
    engine = masked_loss(model, frame, y, loss="squared_error", baseline={"a": 7.5, "f": 2})
    assert type(engine).__name__ == "TreeEngine"
    for j, (name, value) in enumerate({"a": 7.5, "b": frame["b"].mean(), "f": 2}.items()):
        masked = model.predict(frame.assign(**{name: value}))
        found = engine.without_each()[[0, 1, 5][j]]
        assert found == pytest.approx(np.mean((masked - y) ** 2), rel=1e-12)


@pytest.mark.parametrize(
    ("scorer", "n_classes", "measure"),
    [
        ("accuracy", 3, lambda y, p: sklearn.metrics.accuracy_score(y, p.argmax(1))),
        ("roc_auc", 2, lambda y, p: sklearn.metrics.roc_auc_score(y, p[:, 1])),
        ("r2", 0, sklearn.metrics.r2_score),
    ],
)
def test_a_scorer_by_its_name_is_negated(scorer, n_classes, measure) -> None:
    kind = HistGradientBoostingClassifier if n_classes else HistGradientBoostingRegressor
    model = fitted(kind(**HISTOGRAM), n_classes)
    X, values = table(150, 3)
    engine = masked_loss(
        model, X, labelled(values, n_classes) if n_classes else values, loss=scorer
    )
    y = codes(values, n_classes) if n_classes else values
    X[:, 0] = 0
    prediction = model.predict_proba(X) if n_classes else model.predict(X)
    assert engine.without_each()[0] == pytest.approx(-measure(y, prediction), rel=1e-12)


@pytest.mark.parametrize(
    ("scorer", "label"), [("accuracy", labelled), ("balanced_accuracy", labelled), ("f1", codes)]
)
def test_a_score_of_classes_needs_no_probabilities(scorer, label) -> None:
    X, values = table(200, 0)
    model = SVC().fit(X, label(values, 2))
    X, values = table(150, 3)
    engine = masked_loss(model, X, label(values, 2), loss=scorer)
    X[:, 0] = 0
    expected = sklearn.metrics.get_scorer(scorer)(model, X, label(values, 2))
    assert engine.without_each()[0] == pytest.approx(-expected, rel=1e-12)


def test_threads_change_no_bit_and_what_is_given_is_left_alone() -> None:
    model = fitted(RandomForestRegressor(5, random_state=0), 0)
    X, y = table(600, 3)
    before = X.copy()
    one = masked_loss(model, X, y, loss="squared_error")
    four = masked_loss(model, X, y, loss="squared_error", threads=4)
    X[:] = 0
    assert one.without_each().tolist() == four.without_each().tolist()
    again = masked_loss(model, before, y, loss="squared_error")
    assert again.without_each().tolist() == one.without_each().tolist()
    with_names = model.fit(pd.DataFrame(before, columns=list("abcdef")), y)
    masked_loss(with_names, pd.DataFrame(before, columns=list("abcdef")), y, loss="r2")
    assert list(with_names.feature_names_in_) == list("abcdef")


def test_the_log_says_which_engine_was_taken_and_why(caplog) -> None:
    X, y = table(50, 0)
    with caplog.at_level(logging.DEBUG, "chaffinch"):
        masked_loss(fitted(Ridge(), 0), X, y, loss="squared_error")
        masked_loss(own_function(0)[0], X, y, loss="squared_error")
        masked_loss(fitted(Ridge(), 0), X, y, loss="r2")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "masked losses of the sklearn model by LinearMaskedLoss"
    assert said[1] == "masked losses of the predict model by one prediction each: it is a function"
    assert said[2].endswith("r2 is no mean over rows")


def test_an_engine_that_disagrees_with_the_model_is_not_taken(caplog, monkeypatch) -> None:
    X, y = table(60, 0)
    model = fitted(RandomForestRegressor(5, random_state=0), 0)
    own = model.predict
    # nothing of its class's name and of its own attributes tells
    monkeypatch.setattr(RandomForestRegressor, "predict", lambda _, X: own(X) + 1)
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, y, loss="squared_error")
    assert "the engine does not give its own predictions" in caplog.text
    assert engine.loss == pytest.approx(np.mean((own(X) + 1 - y) ** 2), rel=1e-12)


def test_features_are_removed_by_name_too() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = Ridge().fit(X, y)
    by_name, by_position = (masked_loss(model, X, y, loss="squared_error") for _ in range(2))
    assert by_name.names == (*X.columns,)
    by_name.remove("bmi")
    by_position.remove(2)
    assert (by_name.without_each() == by_position.without_each()).all()
    with pytest.raises(ValueError, match=r"feature must be a whole number in 0..9 but is 'bmj'"):
        by_name.remove("bmj")


def test_the_example_runs() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(given_model.masked_loss, "masked_loss", globs={})
    assert doctest.DocTestRunner().run(example).failed == 0
    assert "masked_loss" in chaffinch.__all__
