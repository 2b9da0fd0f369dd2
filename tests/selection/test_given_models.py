"""`chaffinch.masked_loss`: the losses of one's own model, by its own predict on masked tables."""

from __future__ import annotations

import doctest
import functools
import logging
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import torch
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import chaffinch
from chaffinch import InputError, masked_loss
from chaffinch.tasks import given_model
from chaffinch.tasks.selection.models.threads import single_thread

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


D = 6
LABELS = np.array(["high", "low", "middle"])
QUIET = {"verbosity": -1, "num_threads": 1}


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make rows of which three features matter; feature 5 is a code of 0, 1 or 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).round(2) + 1
    X[:, 5] = rng.integers(0, 3, n)
    return X, 2 * X[:, 0] + X[:, 1] * X[:, 2] + 2 * (X[:, 5] == 1) + rng.normal(size=n) / 4


def labelled(values: np.ndarray, n_classes: int) -> np.ndarray:
    return LABELS[np.digitize(values, [3.5] if n_classes == 2 else [2.5, 4.5])]


def codes(values: np.ndarray, n_classes: int) -> np.ndarray:
    return np.searchsorted(LABELS[:n_classes], labelled(values, n_classes))


def module(*layers: torch.nn.Module) -> torch.nn.Module:
    for seed, parameter in enumerate(torch.nn.Sequential(*layers).parameters()):
        values = np.random.default_rng(seed).normal(size=tuple(parameter.shape))
        parameter.data = torch.from_numpy(values.astype(np.float32))
    return torch.nn.Sequential(*layers)


def in_double(network: torch.nn.Module, X: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return network.double().eval()(torch.from_numpy(X))


def boosted(n_classes: int, stop_early: bool = False, **parameters) -> lightgbm.Booster:
    X, y = table(300, 0)
    rows = lightgbm.Dataset(X[:200], codes(y[:200], n_classes) if n_classes else abs(y[:200]))
    if n_classes > 2:
        parameters["num_class"] = n_classes
    more = {}
    if stop_early:
        parameters["learning_rate"] = 0.9
        more = {
            "keep_training_booster": True,  # or else it is cut already
            "valid_sets": [lightgbm.Dataset(X[200:], y[200:], reference=rows)],
            "callbacks": [lightgbm.early_stopping(2, verbose=False)],
        }
    booster = lightgbm.train({**QUIET, "num_leaves": 6, **parameters}, rows, 30, **more)
    assert not stop_early or booster.best_iteration < booster.current_iteration()
    return booster


def gradients(n_classes: int, **parameters) -> xgboost.Booster:
    X, y = table(300, 0)
    target = codes(y, n_classes) if n_classes else y
    if n_classes > 2:
        parameters["num_class"] = n_classes
    if "booster" not in parameters:
        parameters["max_depth"] = 3
    parameters |= {"nthread": 1}
    return xgboost.train(parameters, xgboost.DMatrix(X, target, nthread=1), 8)


def stopped_early() -> xgboost.XGBRegressor:
    X, y = table(300, 0)
    model = xgboost.XGBRegressor(
        n_estimators=60, max_depth=3, learning_rate=1, early_stopping_rounds=3, n_jobs=1
    ).fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model


def fitted(estimator, n_classes: int):
    X, y = table(200, 0)
    return estimator.fit(X, labelled(y, n_classes) if n_classes else y)


def both(second: np.ndarray) -> np.ndarray:
    return np.column_stack((1 - second, second))


def as_floats(predict):
    return lambda X: np.asarray(predict(X), dtype=np.float64)


def of_estimator(estimator, n_classes: int):
    model = fitted(estimator, n_classes)
    return model, model.predict_proba if n_classes else model.predict


def of_module(n_classes: int, *layers):
    network = module(*layers)

    def predict(X):
        out = in_double(network, X)
        if n_classes == 2 and out.shape[1] == 1:
            is_probability = isinstance(network[-1], torch.nn.Sigmoid)
            return both((out if is_probability else out.sigmoid()).numpy()[:, 0])
        if n_classes:
            return (out if isinstance(network[-1], torch.nn.Softmax) else out.softmax(1)).numpy()
        return out.numpy()[:, 0]

    # a copy, for `in_double` changes what it is given
    return module(*layers), predict


def make_lightgbm(n_classes: int, **parameters):
    booster = boosted(n_classes, **parameters)
    predict = booster.predict
    return booster, (lambda X: both(predict(X))) if n_classes == 2 else predict


def make_xgboost(n_classes: int, **parameters):
    booster = gradients(n_classes, **parameters)

    def predict(X):
        prediction = booster.predict(xgboost.DMatrix(X, nthread=1)).astype(np.float64)
        return both(prediction) if n_classes == 2 else prediction

    return booster, predict


def lgbm(**parameters):
    return {"verbosity": -1, "n_jobs": 1, "n_estimators": 8, "num_leaves": 6} | parameters


def own_function(n_classes: int):
    weights = np.random.default_rng(0).normal(size=(D, max(n_classes, 1)))

    def predict(X):
        scores = np.tanh(X @ weights)
        return np.exp(scores) / np.exp(scores).sum(1, keepdims=True) if n_classes else scores[:, 0]

    return predict, predict


Linear, ReLU, Tanh = torch.nn.Linear, torch.nn.ReLU, torch.nn.Tanh
XGB = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
HISTOGRAM = {"max_iter": 8, "max_leaf_nodes": 6, "categorical_features": [5]}
# what is given -> (classes, engine, maker of the model and of its own plain prediction)
MODELS = {
    "LightGBM Booster": (0, "TreeEngine", lambda: make_lightgbm(0)),
    "LightGBM stopped early": (0, "TreeEngine", lambda: make_lightgbm(0, stop_early=True)),
    "LightGBM absolute error": (0, "TreeEngine", lambda: make_lightgbm(0, objective="l1")),
    "LightGBM huber": (0, "TreeEngine", lambda: make_lightgbm(0, objective="huber")),
    "LightGBM fair": (0, "TreeEngine", lambda: make_lightgbm(0, objective="fair")),
    "LightGBM quantile": (0, "TreeEngine", lambda: make_lightgbm(0, objective="quantile")),
    "LightGBM mape": (0, "TreeEngine", lambda: make_lightgbm(0, objective="mape")),
    "LightGBM poisson": (0, "BlackBox", lambda: make_lightgbm(0, objective="poisson")),
    "LightGBM Booster, two": (2, "TreeEngine", lambda: make_lightgbm(2, objective="binary")),
    "LightGBM Booster, three": (3, "TreeEngine", lambda: make_lightgbm(3, objective="multiclass")),
    "LightGBM one by one": (3, "BlackBox", lambda: make_lightgbm(3, objective="multiclassova")),
    "LGBMRegressor": (
        0,
        "TreeEngine",
        lambda: of_estimator(lightgbm.LGBMRegressor(**lgbm(boosting_type="dart")), 0),
    ),
    "LGBMClassifier": (
        3,
        "TreeEngine",
        lambda: of_estimator(lightgbm.LGBMClassifier(**lgbm()), 3),
    ),
    "XGBoost Booster": (0, "TreeEngine", lambda: make_xgboost(0)),
    "XGBoost absolute error": (
        0,
        "TreeEngine",
        lambda: make_xgboost(0, objective="reg:absoluteerror"),
    ),
    "XGBoost quantile": (
        0,
        "TreeEngine",
        lambda: make_xgboost(0, objective="reg:quantileerror", quantile_alpha=0.3),
    ),
    "XGBoost pseudo huber": (
        0,
        "TreeEngine",
        lambda: make_xgboost(0, objective="reg:pseudohubererror"),
    ),
    "XGBoost linear": (0, "BlackBox", lambda: make_xgboost(0, booster="gblinear")),
    "XGBoost Booster, two": (2, "TreeEngine", lambda: make_xgboost(2, objective="binary:logistic")),
    "XGBoost Booster, three": (
        3,
        "TreeEngine",
        lambda: make_xgboost(3, objective="multi:softprob"),
    ),
    "XGBRegressor stopped early": (
        0,
        "TreeEngine",
        lambda: (model := stopped_early(), as_floats(model.predict)),
    ),
    "XGBRegressor, 1 is missing": (
        0,
        "BlackBox",
        lambda: of_estimator(xgboost.XGBRegressor(missing=1.0, **XGB), 0),
    ),
    "RandomForestRegressor": (
        0,
        "TreeEngine",
        lambda: of_estimator(RandomForestRegressor(5, random_state=0), 0),
    ),
    "RandomForestClassifier": (
        3,
        "TreeEngine",
        lambda: of_estimator(RandomForestClassifier(5, max_depth=4, random_state=0), 3),
    ),
    "ExtraTreesRegressor": (
        0,
        "TreeEngine",
        lambda: of_estimator(ExtraTreesRegressor(5, max_depth=4, random_state=0), 0),
    ),
    "DecisionTreeClassifier": (
        2,
        "TreeEngine",
        lambda: of_estimator(DecisionTreeClassifier(max_depth=4, random_state=0), 2),
    ),
    "HistGradientBoostingRegressor": (
        0,
        "TreeEngine",
        lambda: of_estimator(HistGradientBoostingRegressor(**HISTOGRAM), 0),
    ),
    "HistGradientBoosting, poisson": (
        0,
        "BlackBox",
        lambda: of_poisson(HistGradientBoostingRegressor(loss="poisson", **HISTOGRAM)),
    ),
    "HistGradientBoostingClassifier": (
        2,
        "TreeEngine",
        lambda: of_estimator(HistGradientBoostingClassifier(**HISTOGRAM), 2),
    ),
    "MLPRegressor": (
        0,
        "NetworkMaskedLoss",
        lambda: of_estimator(
            MLPRegressor(hidden_layer_sizes=(5, 4), max_iter=9, random_state=0), 0
        ),
    ),
    "MLPClassifier": (
        3,
        "NetworkMaskedLoss",
        lambda: of_estimator(MLPClassifier((5,), "tanh", max_iter=9, random_state=0), 3),
    ),
    "LinearRegression": (0, "LinearMaskedLoss", lambda: of_estimator(LinearRegression(), 0)),
    "Ridge behind a scaler": (
        0,
        "LinearMaskedLoss",
        lambda: of_estimator(make_pipeline(StandardScaler(), Ridge()), 0),
    ),
    "LogisticRegression, two": (
        2,
        "NetworkMaskedLoss",
        lambda: of_estimator(LogisticRegression(), 2),
    ),
    "LogisticRegression behind a scaler": (
        3,
        "NetworkMaskedLoss",
        lambda: of_estimator(make_pipeline(StandardScaler(), LogisticRegression()), 3),
    ),
    "LinearDiscriminantAnalysis": (
        3,
        "NetworkMaskedLoss",
        lambda: of_estimator(LinearDiscriminantAnalysis(), 3),
    ),
    "KNeighborsClassifier": (3, "BlackBox", lambda: of_estimator(KNeighborsClassifier(), 3)),
    "GaussianNB": (3, "BlackBox", lambda: of_estimator(GaussianNB(), 3)),
    "GradientBoostingClassifier": (
        3,
        "BlackBox",
        lambda: of_estimator(GradientBoostingClassifier(n_estimators=4, random_state=0), 3),
    ),
    "module": (0, "NetworkMaskedLoss", lambda: of_module(0, Linear(D, 5), ReLU(), Linear(5, 1))),
    "module of many layers": (
        3,
        "NetworkMaskedLoss",
        lambda: of_module(
            3,
            Linear(D, 5),
            Tanh(),
            torch.nn.Dropout(),
            torch.nn.Sequential(Linear(5, 4, bias=False), Tanh()),
            Linear(4, 3),
            torch.nn.Softmax(1),
        ),
    ),
    "module without a last softmax": (3, "NetworkMaskedLoss", lambda: of_module(3, Linear(D, 3))),
    "module with a last sigmoid": (
        2,
        "NetworkMaskedLoss",
        lambda: of_module(2, Linear(D, 4), ReLU(), Linear(4, 1), torch.nn.Sigmoid()),
    ),
    "module of log odds": (2, "NetworkMaskedLoss", lambda: of_module(2, Linear(D, 1))),
    "module of another kind": (
        0,
        "BlackBox",
        lambda: of_module(0, Linear(D, 5), torch.nn.GELU(), Linear(5, 1)),
    ),
    "function of values": (0, "BlackBox", lambda: own_function(0)),
    "function of probabilities": (3, "BlackBox", lambda: own_function(3)),
}


def of_poisson(estimator):
    X, y = table(200, 0)
    model = estimator.fit(X, abs(y))
    return model, model.predict


@functools.cache
def made(name: str):
    n_classes, engine, make = MODELS[name]
    model, predict = make()
    has_labels = hasattr(model, "classes_") and not isinstance(model.classes_[0], np.integer)
    return model, predict, n_classes, engine, has_labels


def plain_loss(name: str, y: np.ndarray, prediction: np.ndarray, weight) -> float:
    prediction = np.asarray(prediction, dtype=np.float64)
    if name == "log_loss":
        truth = np.clip(prediction[np.arange(len(y)), y], 2.0**-52, 1 - 2.0**-52)
        return float(np.average(-np.log(truth), weights=weight))
    of_row = abs(prediction.reshape(len(y)) - y)
    return float(np.average(of_row**2 if name == "squared_error" else of_row, weights=weight))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4, deadline=None)
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
    baseline = {
        "zero": np.zeros(D),
        "mean": np.average(X, axis=0, weights=weight),
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

    def of(mask: np.ndarray) -> float:
        return plain_loss(loss, y, predict(np.where(mask, X, baseline)), weight)

    mask = np.ones(D, dtype=bool)
    for feature in data.draw(st.permutations(range(D)))[:3]:
        np.testing.assert_allclose(engine.loss, of(mask), rtol=within, atol=within / 10)
        one_less = [of(mask & (np.arange(D) != j)) if mask[j] else np.inf for j in range(D)]
        np.testing.assert_allclose(engine.without_each(), one_less, rtol=within, atol=within / 10)
        engine.remove(feature)
        mask[feature] = False
        assert engine.mask.tolist() == mask.tolist()
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


def with_colours(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = table(n, seed)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["count"] = X[:, 5].astype(np.int64)
    frame["is_big"] = X[:, 3] > 1
    colours = np.array(["red", "green", "blue"], dtype=object)[X[:, 5].astype(int)]
    frame["colour"] = colours
    frame.loc[frame.index[::9], "colour"] = None
    frame["kind"] = pd.Categorical(colours, categories=["blue", "red", "green"])
    return frame, y


@pytest.mark.parametrize("n", [5, 90])
def test_lightgbm_reads_categories_as_it_was_trained_to(n: int) -> None:
    frame, y = with_colours(300, 0)
    model = lightgbm.LGBMRegressor(**lgbm()).fit(frame.drop(columns="colour"), y)
    rows, y = with_colours(n, 1)
    rows = rows.drop(columns="colour")
    # other categories than in training, in another order, one of them new to the model
    rows["kind"] = pd.Categorical(
        rows["kind"].astype(object).where(np.arange(n) > 0, "violet"),
        categories=["violet", "red", "blue", "green"],
    )
    baseline = {"kind": "green", "b": -1.0, "is_big": True}
    engine = masked_loss(model, rows, y, loss="squared_error", baseline=baseline)
    assert type(engine).__name__ == "TreeEngine"
    assert engine.loss == pytest.approx(np.mean((model.predict(rows) - y) ** 2), rel=1e-12)
    losses = engine.without_each()
    for name, value in baseline.items():
        changed = rows.assign(**{name: value})
        changed["kind"] = pd.Categorical(changed["kind"], categories=rows["kind"].cat.categories)
        expected = np.mean((model.predict(changed) - y) ** 2)
        assert losses[list(rows).index(name)] == pytest.approx(expected, rel=1e-12)


def pipeline_of_columns(frame: pd.DataFrame, y: np.ndarray):
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "kind", "count", "is_big"]),
        remainder="passthrough",
    )
    return make_pipeline(encode, Ridge()).fit(frame, y)


def boosting_of_categories(frame: pd.DataFrame, y: np.ndarray):
    return xgboost.XGBRegressor(enable_categorical=True, **XGB).fit(frame, y)


@pytest.mark.parametrize("fit", [pipeline_of_columns, boosting_of_categories])
def test_what_only_the_model_can_read_it_is_given_as_it_was(fit, caplog) -> None:
    frame, y = with_colours(120, 0)
    if fit is boosting_of_categories:
        frame = frame.drop(columns="colour")
    model = fit(frame, y)
    baseline = {"kind": "red", "count": 0.5, "is_big": False, "a": 0.25}
    baseline |= {"colour": "green"} if "colour" in frame else {}
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, frame, y, loss="absolute_error", baseline=baseline)
    assert "only its own library knows how it reads columns of categories" in caplog.text
    losses = engine.without_each()
    for name, value in baseline.items():
        changed = frame.assign(**{name: value})
        changed["kind"] = pd.Categorical(changed["kind"], categories=frame["kind"].cat.categories)
        expected = np.mean(abs(model.predict(changed) - y))
        assert losses[list(frame).index(name)] == pytest.approx(expected, rel=1e-12)
    assert losses[list(frame).index("c")] == pytest.approx(
        np.mean(abs(model.predict(frame.assign(c=frame["c"].mean())) - y)), rel=1e-9
    )


def test_a_category_that_has_no_number_is_masked_by_the_most_frequent_one() -> None:
    frame, y = with_colours(120, 0)
    model = pipeline_of_columns(frame, y)
    losses = masked_loss(model, frame, y, loss="squared_error", baseline="zero").without_each()
    often = frame["colour"].mode()[0]
    expected = np.mean((model.predict(frame.assign(colour=often)) - y) ** 2)
    assert losses[list(frame).index("colour")] == pytest.approx(expected, rel=1e-12)


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
    with caplog.at_level(logging.INFO, "chaffinch"):
        masked_loss(fitted(Ridge(), 0), X, y, loss="squared_error")
        masked_loss(own_function(0)[0], X, y, loss="squared_error")
        masked_loss(fitted(Ridge(), 0), X, y, loss="r2")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "masked losses of the sklearn model by LinearMaskedLoss"
    assert said[1] == "masked losses of the predict model by one prediction each: it is a function"
    assert said[2].endswith("r2 is no mean over rows")


class Shifted(RandomForestRegressor):
    """Predicts in another way than the trees that it is made of."""

    def predict(self, X):
        return super().predict(X) + 1


class Halved(torch.nn.Sequential):
    def forward(self, X):
        return super().forward(X) / 2


def test_a_model_that_predicts_in_its_own_way_is_asked_itself(caplog) -> None:
    X, y = table(60, 0)
    for model in (fitted(Shifted(5, random_state=0), 0), Halved(Linear(D, 1))):
        with caplog.at_level(logging.INFO, "chaffinch"):
            engine = masked_loss(model, X, y, loss="absolute_error")
        assert type(engine).__name__ == "BlackBox"
        predict = model.predict if isinstance(model, Shifted) else None
        if predict is not None:
            assert engine.loss == np.mean(abs(predict(X) - y))
    assert "Shifted is no class of scikit-learn's own" in caplog.text


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


FOREST = functools.cache(lambda: fitted(RandomForestClassifier(3, random_state=0), 3))


def with_a_hole(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[3, 2] = np.nan
    return X


RIDGE = functools.cache(lambda: fitted(Ridge(), 0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: masked_loss(Ridge(), X, y, loss="r2"), "This Ridge instance is not fitted"),
        (
            lambda X, y: masked_loss(lightgbm.LGBMRegressor(), X, y, loss="r2"),
            "No booster found. Need to call fit beforehand",
        ),
        (
            lambda X, y: masked_loss(xgboost.XGBRegressor(), X, y, loss="r2"),
            "need to call fit or load_model beforehand",
        ),
        (
            lambda X, y: masked_loss(Ridge, X, y, loss="r2"),
            "model must be a trained LightGBM, XGBoost or scikit-learn model",
        ),
        (
            lambda X, y: masked_loss(fitted(LinearSVC(), 2), X, y, loss="accuracy"),
            "LinearSVC gives no class probabilities",
        ),
        (
            lambda X, y: masked_loss(
                gradients(3, objective="multi:softmax"), X, y, loss="log_loss"
            ),
            "the Booster predicts class numbers with multi:softmax",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X[:, :4], y, loss="r2"),
            "X must have the 6 features that the model was trained on but has 4",
        ),
        (
            lambda X, y: masked_loss(boosted(0), X[:, :4], y, loss="r2"),
            "X must have the 6 features that the model was trained on but has 4",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X[0], y, loss="r2"),
            r"X must have rows and features, \(K, M\), but has shape \(6,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X[:0], y[:0], loss="r2"),
            r"X must have rows and features",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), [["a"] * 6], y, loss="r2"),
            "X must be an array of numbers or a pandas frame",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y[:9], loss="r2"),
            r"y must have shape \(40,\), as X has rows, but has \(9,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", sample_weight=np.ones(3)),
            r"sample_weight must have shape \(40,\), as X has rows, but has \(3,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", sample_weight=np.zeros(40)),
            "sample_weight must be above 0 and finite",
        ),
        (
            lambda X, y: masked_loss(FOREST(), X, ["low", "great"] * 20, loss="log_loss"),
            "y must hold the model's classes, high, low, middle, but holds great",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, np.full(40, np.nan), loss="r2"),
            "y must be finite",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, ["a"] * 40, loss="r2"),
            "y must hold numbers for a model of numbers",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), with_a_hole(X), y, loss="r2"),
            "Input X contains NaN",
        ),
        (
            lambda X, y: masked_loss(Linear(D, 1), with_a_hole(X), y, loss="squared_error"),
            "the model must predict finite numbers but does not for row 3 of X, where 'x2' is",
        ),
        (
            lambda X, y: masked_loss(lambda X: X[:3], X, y, loss="r2"),
            "the model must predict 40 rows, as many as X has",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="log_loss"),
            "loss 'log_loss' is for classification but the target asks for regression",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="squared_eror"),
            "loss must be one of .* did you mean squared_error",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline="mode"),
            "baseline must be zero, mean, median or values but is 'mode'",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline=[0, 1]),
            "baseline must have one value for each of the 6 features",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline={"x": 1}),
            "baseline names 'x', which is no feature of X; nearest: x",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline={"x1": np.nan}),
            "baseline of 'x1' must be a finite number but is nan",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", threads=0),
            "threads must be a whole number of at least 1 but is 0",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(call, message: str) -> None:
    X, y = table(40, 5)
    with pytest.raises(InputError, match=message) as refused:
        call(X, y)
    assert "\n" not in str(refused.value)


def test_what_an_engine_refuses() -> None:
    X, y = table(40, 5)
    for model in (RIDGE(), own_function(0)[0], boosted(0)):
        engine = masked_loss(model, X, y, loss="squared_error")
        with pytest.raises(ValueError, match=r"masks must have shape \(m, 6\) but are \(6,\)"):
            engine(np.ones(6, dtype=bool))
        engine.remove(2)
        with pytest.raises(ValueError, match="feature 2 is masked already"):
            engine.remove(2)


def test_a_category_that_there_is_not() -> None:
    frame, y = with_colours(60, 0)
    model = pipeline_of_columns(frame, y)
    with pytest.raises(
        InputError, match="baseline of 'kind' must be one of its categories, 'blue'"
    ):
        masked_loss(model, frame, y, loss="r2", baseline={"kind": "violet"})
    frame["when"] = pd.Timestamp("2024-01-01")
    with pytest.raises(
        InputError, match="column 'when' of X must hold numbers, categories or text"
    ):
        masked_loss(model, frame, y, loss="r2")


def test_the_example_runs() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(given_model.masked_loss, "masked_loss", globs={})
    assert doctest.DocTestRunner().run(example).failed == 0
    assert "masked_loss" in chaffinch.__all__


def test_importing_the_package_imports_none_of_it() -> None:
    script = "import chaffinch, sys; print(*{'numpy', 'pandas', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "\n"
