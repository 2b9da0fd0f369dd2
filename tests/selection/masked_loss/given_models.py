"""Models of every library, fitted, with what each predicts: to be given to `masked_loss`."""

from __future__ import annotations

import functools

import lightgbm
import numpy as np
import torch
import xgboost
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
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

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


def in_floats(model):
    return model, lambda X: np.asarray(model.predict(X), dtype=np.float64)


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
# what is given -> (classes, engine, maker of the model and of its own plain prediction),
# by classes and engine
MAKERS = {
    (0, "TreeEngine"): {
        "LightGBM Booster": lambda: make_lightgbm(0),
        "LightGBM stopped early": lambda: make_lightgbm(0, stop_early=True),
        "LightGBM absolute error": lambda: make_lightgbm(0, objective="l1"),
        "LightGBM huber": lambda: make_lightgbm(0, objective="huber"),
        "LightGBM fair": lambda: make_lightgbm(0, objective="fair"),
        "LightGBM quantile": lambda: make_lightgbm(0, objective="quantile"),
        "LightGBM mape": lambda: make_lightgbm(0, objective="mape"),
        "LGBMRegressor": lambda: of_estimator(
            lightgbm.LGBMRegressor(**lgbm(boosting_type="dart")), 0
        ),
        "XGBoost Booster": lambda: make_xgboost(0),
        "XGBoost absolute error": lambda: make_xgboost(0, objective="reg:absoluteerror"),
        "XGBoost quantile": lambda: make_xgboost(
            0, objective="reg:quantileerror", quantile_alpha=0.3
        ),
        "XGBoost pseudo huber": lambda: make_xgboost(0, objective="reg:pseudohubererror"),
        "XGBRegressor stopped early": lambda: in_floats(stopped_early()),
        "RandomForestRegressor": lambda: of_estimator(RandomForestRegressor(5, random_state=0), 0),
        "ExtraTreesRegressor": lambda: of_estimator(
            ExtraTreesRegressor(5, max_depth=4, random_state=0), 0
        ),
        "HistGradientBoostingRegressor": lambda: of_estimator(
            HistGradientBoostingRegressor(**HISTOGRAM), 0
        ),
    },
    (0, "BlackBox"): {
        "LightGBM poisson": lambda: make_lightgbm(0, objective="poisson"),
        "XGBoost linear": lambda: make_xgboost(0, booster="gblinear"),
        "XGBRegressor, 1 is missing": lambda: of_estimator(
            xgboost.XGBRegressor(missing=1.0, **XGB), 0
        ),
        "HistGradientBoosting, poisson": lambda: of_poisson(
            HistGradientBoostingRegressor(loss="poisson", **HISTOGRAM)
        ),
        "module of another kind": lambda: of_module(0, Linear(D, 5), torch.nn.GELU(), Linear(5, 1)),
        "function of values": lambda: own_function(0),
    },
    (2, "TreeEngine"): {
        "LightGBM Booster, two": lambda: make_lightgbm(2, objective="binary"),
        "XGBoost Booster, two": lambda: make_xgboost(2, objective="binary:logistic"),
        "DecisionTreeClassifier": lambda: of_estimator(
            DecisionTreeClassifier(max_depth=4, random_state=0), 2
        ),
        "HistGradientBoostingClassifier": lambda: of_estimator(
            HistGradientBoostingClassifier(**HISTOGRAM), 2
        ),
    },
    (3, "TreeEngine"): {
        "LightGBM Booster, three": lambda: make_lightgbm(3, objective="multiclass"),
        "LGBMClassifier": lambda: of_estimator(lightgbm.LGBMClassifier(**lgbm()), 3),
        "XGBoost Booster, three": lambda: make_xgboost(3, objective="multi:softprob"),
        "RandomForestClassifier": lambda: of_estimator(
            RandomForestClassifier(5, max_depth=4, random_state=0), 3
        ),
    },
    (3, "BlackBox"): {
        "LightGBM one by one": lambda: make_lightgbm(3, objective="multiclassova"),
        "KNeighborsClassifier": lambda: of_estimator(KNeighborsClassifier(), 3),
        "GaussianNB": lambda: of_estimator(GaussianNB(), 3),
        "GradientBoostingClassifier": lambda: of_estimator(
            GradientBoostingClassifier(n_estimators=4, random_state=0), 3
        ),
        "function of probabilities": lambda: own_function(3),
    },
    (0, "NetworkMaskedLoss"): {
        "MLPRegressor": lambda: of_estimator(
            MLPRegressor(hidden_layer_sizes=(5, 4), max_iter=9, random_state=0), 0
        ),
        "module": lambda: of_module(0, Linear(D, 5), ReLU(), Linear(5, 1)),
    },
    (3, "NetworkMaskedLoss"): {
        "MLPClassifier": lambda: of_estimator(
            MLPClassifier((5), "tanh", max_iter=9, random_state=0), 3
        ),
        "LogisticRegression behind a scaler": lambda: of_estimator(
            make_pipeline(StandardScaler(), LogisticRegression()), 3
        ),
        "LinearDiscriminantAnalysis": lambda: of_estimator(LinearDiscriminantAnalysis(), 3),
        "module of many layers": lambda: of_module(
            3,
            Linear(D, 5),
            Tanh(),
            torch.nn.Dropout(),
            torch.nn.Sequential(Linear(5, 4, bias=False), Tanh()),
            Linear(4, 3),
            torch.nn.Softmax(1),
        ),
        "module without a last softmax": lambda: of_module(3, Linear(D, 3)),
    },
    (0, "LinearMaskedLoss"): {
        "LinearRegression": lambda: of_estimator(LinearRegression(), 0),
        "Ridge behind a scaler": lambda: of_estimator(make_pipeline(StandardScaler(), Ridge()), 0),
    },
    (2, "NetworkMaskedLoss"): {
        "LogisticRegression, two": lambda: of_estimator(LogisticRegression(), 2),
        "module with a last sigmoid": lambda: of_module(
            2, Linear(D, 4), ReLU(), Linear(4, 1), torch.nn.Sigmoid()
        ),
        "module of log odds": lambda: of_module(2, Linear(D, 1)),
    },
}
MODELS = {
    name: (n_classes, engine, make)
    for (n_classes, engine), makers in MAKERS.items()
    for name, make in makers.items()
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
