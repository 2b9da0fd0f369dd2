"""What looks like a library's own model and predicts in another way is asked itself."""

from __future__ import annotations

import logging
import types
from functools import partial

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss as masked_loss_of_rows
from chaffinch.tasks.selection.models import fit_estimator
from tests.selection.masked_loss import own_losses

pytestmark = pytest.mark.usefixtures("one_thread")

D = 3
X = np.random.default_rng(0).normal(size=(600, D)) + 4
X = X[3 * X[:, 0] - 2 * X[:, 1] > -1.5]
Y = 3 * X[:, 0] - 2 * X[:, 1] + 0.1 * X[:, 2] + 2
LOSSES = ["squared_error", "absolute_error"]


class Positive(Pipeline):
    """Never predicts less than 0, which shows only once a feature is masked."""

    def predict(self, X):
        return np.maximum(super().predict(X), 0)


class Narrow(StandardScaler):
    def transform(self, X, copy=None):
        return np.clip(super().transform(X), -3, 3)


class PositiveTree(DecisionTreeRegressor):
    def predict(self, X, check_input=True):
        return np.maximum(super().predict(X, check_input), 4)


class ShiftedForest(RandomForestRegressor):
    def predict(self, X):
        return super().predict(X) + X[:, 2]


class ShiftedLightGBM(lightgbm.LGBMRegressor):
    def predict(self, X):
        return super().predict(X) + X[:, 2]


class ShiftedXGBoost(xgboost.XGBRegressor):
    def predict(self, X):
        return super().predict(X) + X[:, 2]


class Halved(torch.nn.Sequential):
    def forward(self, X):
        return super().forward(X) / 2


def replaced(thing, method: str, function):
    """Put a function of the method's own result in its place, on the instance."""
    own = getattr(thing, method)
    setattr(thing, method, lambda *given, **how: function(own(*given, **how)))
    return thing


def positive(prediction):
    return np.maximum(prediction, 2)


def line():
    return make_pipeline(StandardScaler(), make_pipeline(Ridge(1e-3))).fit(X, Y)


def with_replaced_step(step: int, method: str, function):
    model = line()
    replaced(model.steps[step][1], method, function)
    return model


def forest_with_replaced_tree():
    model = RandomForestRegressor(5, random_state=0).fit(X, Y)
    replaced(model.estimators_[2], "predict", positive)
    return model


def lightgbm_model():
    return lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbosity=-1).fit(X, Y)


def with_replaced_booster():
    model = lightgbm_model()
    replaced(model.booster_, "predict", positive)
    return model


def xgboost_booster():
    return xgboost.train({"nthread": 1}, xgboost.DMatrix(X, Y), 20)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: Positive([("s", StandardScaler()), ("r", Ridge(1e-3))]).fit(X, Y),
            "Positive is no class of scikit-learn's own",
        ),
        (
            lambda: make_pipeline(StandardScaler(), Positive([("r", Ridge(1e-3))])).fit(X, Y),
            "Positive is no class of scikit-learn's own",
        ),
        (lambda: make_pipeline(Narrow(), Ridge(1e-3)).fit(X, Y), "the pipeline's step 'narrow'"),
        (lambda: replaced(line(), "predict", positive), "the Pipeline's own predict was replaced"),
        (
            lambda: with_replaced_step(1, "predict", positive),
            "the Pipeline's own predict was replaced",
        ),
        (
            lambda: with_replaced_step(0, "transform", lambda T: np.clip(T, -3, 3)),
            "the pipeline's step 'standardscaler' is no scaler of single columns",
        ),
        (
            lambda: replaced(LinearRegression().fit(X, Y), "predict", positive),
            "the LinearRegression's own predict was replaced",
        ),
        (forest_with_replaced_tree, "the DecisionTreeRegressor's own predict was replaced"),
        (
            lambda: ShiftedForest(5, random_state=0).fit(X[:, :D], np.where(X[:, 2] > 99, 0, Y)),
            "ShiftedForest is no class of scikit-learn's own",
        ),
        (
            lambda: replaced(lightgbm_model(), "predict", positive),
            "the LGBMRegressor's own predict was replaced",
        ),
        (with_replaced_booster, "the Booster's own predict was replaced"),
        (
            lambda: ShiftedLightGBM(n_estimators=20, n_jobs=1, verbosity=-1).fit(X, Y),
            "ShiftedLightGBM is no class of lightgbm's own",
        ),
        (
            lambda: ShiftedXGBoost(n_estimators=5, n_jobs=1).fit(X, Y),
            "ShiftedXGBoost is no class of xgboost's own",
        ),
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_is_asked_itself(make, reason: str, loss: str, caplog) -> None:
    check(make(), lambda model, table: model.predict(table), reason, loss, caplog)


def test_a_replaced_method_of_a_booster_of_xgboosts_is_asked(caplog) -> None:
    check(
        replaced(xgboost_booster(), "predict", positive),
        lambda model, table: model.predict(xgboost.DMatrix(table)),
        "the Booster's own predict was replaced",
        "squared_error",
        caplog,
    )


def layers() -> torch.nn.Sequential:
    module = torch.nn.Sequential(torch.nn.Linear(D, 1))
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[3.0, -2, 0.1]])
        module[0].bias[:] = 2.0
    return module


def hooked(of, register: str, hook):
    module = layers()
    getattr(of(module), register)(hook)
    return module


def with_forward_replaced():
    def forward(self, table):
        return torch.nn.Sequential.forward(self, table).clamp(min=0)

    module = layers()
    module.forward = types.MethodType(forward, module)
    return module


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: hooked(lambda m: m, "register_forward_hook", lambda m, i, o: o.clamp(min=0)),
            "it has forward hooks",
        ),
        (
            lambda: hooked(lambda m: m[0], "register_forward_hook", lambda m, i, o: o.clamp(min=0)),
            "it has forward hooks",
        ),
        (
            lambda: hooked(
                lambda m: m[0], "register_forward_pre_hook", lambda m, i: (i[0].clamp(min=0.5),)
            ),
            "it has forward hooks",
        ),
        (with_forward_replaced, "the Sequential's own forward was replaced"),
        (lambda: Halved(*layers()), "its layers are not linear ones"),
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_module_is_asked_itself(make, reason: str, loss: str, caplog) -> None:
    def predict(module, table):
        with torch.no_grad():
            return module.double()(torch.from_numpy(table)).numpy()[:, 0]

    check(make(), predict, reason, loss, caplog)


def test_a_hook_of_every_module_is_called_as_well(caplog) -> None:
    def predict(module, table):
        with torch.no_grad():
            return module.double()(torch.from_numpy(table)).numpy()[:, 0]

    hook = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o.clamp(min=0))
    try:
        check(layers(), predict, "it has forward hooks", "squared_error", caplog)
    finally:
        hook.remove()


def check(model, predict, reason: str, loss: str, caplog) -> None:
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, Y, loss=loss, baseline=np.zeros(D))
    assert reason in caplog.text
    of = own_losses.by_predictions(partial(predict, model), X, Y, loss)
    own_losses.check(engine, of, within=1e-12)


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (Positive([("s", StandardScaler()), ("r", Ridge(1e-3))]), "Positive has no masked loss"),
        (ShiftedForest(5), "ShiftedForest is not made of trees that are known here"),
        (make_pipeline(PositiveTree()), "PositiveTree has no masked loss of its own"),
    ],
)
def test_a_selection_asks_an_estimator_of_ones_own_itself(estimator, reason, caplog) -> None:
    rows, schema = Rows(X, np.where(X[:, 2] > 99, 0, Y)), Schema(tuple("abc"), (0,) * D)
    model = fit_estimator(estimator, rows, schema, seed=0)
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss_of_rows(
            model, rows, resolve_loss("squared_error", schema), np.zeros(D)
        )
    assert reason in caplog.text
    of = own_losses.by_predictions(model.predict, X, Y, "squared_error")
    own_losses.check(engine, of, within=1e-12)
