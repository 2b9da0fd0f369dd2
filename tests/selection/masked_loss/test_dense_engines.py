"""The engines of networks and linear models give the black box's losses, only sooner."""

from __future__ import annotations

import functools
import json
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, linear, masked_loss
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.models import NeuralNetwork, fit, fit_estimator
from chaffinch.tasks.selection.models.encoding import Encoding

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CATEGORIES = (0, 3, 0, 0, 2, 0, 5, 0)
D, CONSTANT = len(CATEGORIES), 3
FEW = {"max_iter": 8}
MODELS = {
    "regression": [
        ("linear", {}),
        ("LinearRegression", {}),
        ("Lasso", {"alpha": 0.05}),
        ("HuberRegressor", {}),
        ("mlp", FEW),
        ("mlp", FEW | {"hidden_layer_sizes": [6, 4], "activation": "logistic"}),
        ("MLPRegressor", FEW | {"hidden_layer_sizes": [7, 5, 3], "activation": "tanh"}),
        ("MLPRegressor", FEW | {"hidden_layer_sizes": [4], "activation": "identity"}),
    ],
    "classification": [
        ("linear", {}),
        ("LogisticRegression", {"C": 0.1}),
        ("LinearDiscriminantAnalysis", {}),
        ("mlp", FEW | {"activation": "logistic"}),
        ("mlp", FEW | {"hidden_layer_sizes": [9, 5]}),
        ("MLPClassifier", FEW | {"hidden_layer_sizes": [8]}),
        ("MLPClassifier", FEW | {"hidden_layer_sizes": [6, 6], "activation": "tanh"}),
    ],
}
CASES = [
    pytest.param(name, parameters, n_classes, id=f"{name}-{i}-{n_classes or 'values'}")
    for task, classes in (("regression", (0,)), ("classification", (2, 3)))
    for n_classes in classes
    for i, (name, parameters) in enumerate(MODELS[task])
]
LOSSES = {0: ["squared_error", "absolute_error"], 2: ["log_loss"], 3: ["log_loss"]}


def make_rows(n: int, n_classes: int, seed: int, *, weighted: bool = False) -> Rows:
    """Make rows with categories, missing values and a constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 2 + 1
    for j in np.flatnonzero(CATEGORIES):
        X[:, j] = rng.integers(0, CATEGORIES[j], n)
    X[:, 5] = X[:, 0] + 0.1 * rng.normal(size=n)
    signal = 2 * X[:, 0] + X[:, 2] ** 2 + (X[:, 1] == 2) + rng.normal(size=n)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, CONSTANT] = 0.3
    cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes) if n_classes else None
    y = signal if cuts is None else np.digitize(signal, cuts)
    return Rows(X, y, rng.uniform(0.5, 2, n) if weighted else None)


def schema_of(n_classes: int) -> Schema:
    return Schema(tuple(f"feature {j}" for j in range(D)), CATEGORIES, n_classes)


@functools.cache
def _trained(name: str, parameters: str, n_classes: int) -> FittedModel:
    rows = make_rows(90, n_classes, seed=1)
    return fit(name, rows, schema_of(n_classes), json.loads(parameters), seed=0)


def trained(name: str, parameters: dict, n_classes: int) -> FittedModel:
    return _trained(name, json.dumps(parameters), n_classes)


def baseline_of(kind: str, rows: Rows) -> Floats:
    baseline = np.nanmean(rows.X, axis=0) if kind == "mean" else np.zeros(D)
    return np.where(np.array(CATEGORIES) > 0, 1.0, baseline)


def network(weights: Floats, **changes: object) -> NeuralNetwork:
    """Make a network of one hidden layer with these first weights, shape (d, width)."""
    d, width = weights.shape
    rng = np.random.default_rng(3)
    parts = {
        "schema": Schema(tuple(f"feature {j}" for j in range(d)), (0,) * d),
        "encoding": Encoding((0,) * d, np.zeros(d), np.ones(d)),
        "activation": "relu",
        "weights": (weights, rng.normal(size=(width, 1))),
        "biases": (rng.normal(size=width), rng.normal(size=1)),
        "location": 0.5,
        "scale": 2.0,
    }
    return NeuralNetwork(**(parts | changes))


def close(losses: Floats, expected: Floats) -> None:
    np.testing.assert_allclose(losses, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("name", "parameters", "n_classes"), CASES)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_every_loss_is_the_black_boxs(name, parameters, n_classes, data) -> None:
    model = trained(name, parameters, n_classes)
    rows = make_rows(
        data.draw(st.sampled_from([40, 600])),  # one block of rows, and more than one
        n_classes,
        data.draw(st.integers(2, 1000)),
        weighted=data.draw(st.booleans()),
    )
    loss = resolve_loss(data.draw(st.sampled_from(LOSSES[n_classes])), model.schema)
    baseline = baseline_of(data.draw(st.sampled_from(["mean", "zero"])), rows)
    engine = masked_loss(model, rows, loss, baseline)
    black_box = BlackBox(MaskEvaluator(model, rows, loss, baseline))
    assert not isinstance(engine, BlackBox)
    for feature in data.draw(st.permutations(range(D)))[:4]:
        close(engine.loss, black_box.loss)
        close(engine.without_each(), black_box.without_each())
        engine.remove(feature)
        black_box.remove(feature)
        assert (engine.mask == black_box.mask).all()
    flags = st.lists(st.booleans(), min_size=D, max_size=D)
    masks = np.array(data.draw(st.lists(flags, min_size=1, max_size=4)))
    close(engine(masks), black_box(masks))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_a_feature_the_model_does_not_use_changes_no_bit(name, loss) -> None:
    model = trained(name, FEW if name == "mlp" else {}, 0)
    rows = make_rows(700, 0, seed=6)
    engine = masked_loss(model, rows, resolve_loss(loss, model.schema), baseline_of("zero", rows))
    engine.remove(0)
    assert engine.without_each()[CONSTANT] == engine.loss


def test_an_exact_tie_goes_to_the_lowest_index() -> None:
    rng = np.random.default_rng(0)
    weights, X = rng.normal(size=(6, 20)), rng.normal(size=(1100, 6))
    weights[4], X[:, 4] = weights[1], X[:, 1]
    rows = Rows(X, rng.normal(size=1100) + 50)
    engine = masked_loss(network(weights), rows, Loss("squared_error", "regression"), np.zeros(6))
    losses = engine.without_each()
    assert losses[1] == losses[4]
    assert np.argmin(losses[[4, 1]]) == 0


def test_the_loss_after_a_removal_is_the_one_foretold() -> None:
    model, rows = trained("mlp", FEW, 0), make_rows(700, 0, seed=6, weighted=True)
    loss = Loss("absolute_error", "regression")
    engine = masked_loss(model, rows, loss, baseline_of("mean", rows))
    for feature in (6, 0, 1):
        foretold = engine.without_each()[feature]
        engine.remove(feature)
        assert engine.loss == foretold


def _wide(seed: int = 0, d: int = 260) -> tuple[Rows, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, d)) * 10 ** rng.uniform(-2, 2, d)
    return Rows(X, rng.normal(size=150)), rng.normal(size=d)


def _check_drift(engine: MaskedLoss, black_box: BlackBox, n_removals: int) -> None:
    for step in range(n_removals):
        losses = engine.without_each()
        if step % 80 == 79:
            np.testing.assert_allclose(losses, black_box.without_each(), rtol=1e-10)
        feature = int(np.argmin(losses))
        engine.remove(feature)
        black_box.remove(feature)
    np.testing.assert_allclose(engine.loss, black_box.loss, rtol=1e-10)


def test_two_hundred_removals_of_a_network_do_not_drift() -> None:
    rows, baseline = _wide()
    weights = np.random.default_rng(1).normal(size=(260, 5))
    arguments = network(weights), rows, Loss("squared_error", "regression"), baseline
    _check_drift(masked_loss(*arguments), BlackBox(MaskEvaluator(*arguments)), 210)


def test_a_feature_of_huge_weight_leaves_no_rounding_behind_in_a_network() -> None:
    rng = np.random.default_rng(2)
    weights, rows = rng.normal(size=(5, 8)), Rows(rng.normal(size=(60, 5)), rng.normal(size=60))
    weights[2] *= 1e9
    arguments = network(weights), rows, Loss("squared_error", "regression"), np.zeros(5)
    engine, black_box = masked_loss(*arguments), BlackBox(MaskEvaluator(*arguments))
    engine.remove(2)
    black_box.remove(2)
    close(engine.loss, black_box.loss)
    close(engine.without_each(), black_box.without_each())


@pytest.mark.parametrize("gram", [True, False], ids=["Gram matrix", "row by row"])
def test_two_hundred_removals_of_a_linear_model_do_not_drift(gram, monkeypatch) -> None:
    if not gram:
        monkeypatch.setattr(linear, "_MOST_FEATURES_OF_A_GRAM_MATRIX", 10)
    rows, baseline = _wide()
    schema = Schema(tuple(f"feature {j}" for j in range(260)), (0,) * 260)
    # more features than rows: an all but perfect fit, which masking spoils by many digits
    model = fit("linear", rows, schema, {"alpha": 1e-3}, seed=0)
    arguments = model, rows, Loss("squared_error", "regression"), baseline
    engine = masked_loss(*arguments)
    assert isinstance(engine, LinearMaskedLoss)
    _check_drift(engine, BlackBox(MaskEvaluator(*arguments)), 210)


def test_collinear_columns_of_huge_opposite_weights_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1] = X[:, 0] + 1e-5 * rng.normal(size=200)
    y = 1e5 * (X[:, 0] - X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=200)
    schema = Schema(("a", "a again", "b", "noise"), (0,) * 4)
    model = fit("LinearRegression", Rows(X, y), schema, {}, seed=0)
    arguments = model, Rows(X, y), Loss("squared_error", "regression"), np.zeros(4)
    engine, black_box = masked_loss(*arguments), BlackBox(MaskEvaluator(*arguments))
    for feature in (0, 1, 3):  # the first removal multiplies the loss by 1e10, the second undoes it
        np.testing.assert_allclose(engine.without_each(), black_box.without_each(), rtol=1e-8)
        engine.remove(feature)
        black_box.remove(feature)
    close(engine.loss, black_box.loss)


@pytest.mark.parametrize(
    ("name", "n_classes", "loss"),
    [
        ("mlp", 0, "squared_error"),
        ("mlp", 3, "log_loss"),
        ("linear", 0, "squared_error"),
        ("linear", 2, "log_loss"),
        ("mlp", 0, "absolute_error"),
    ],
)
def test_threads_change_no_bit(name, n_classes, loss) -> None:
    parameters = FEW | {"hidden_layer_sizes": [9, 5]} if name == "mlp" else {}
    model, rows = trained(name, parameters, n_classes), make_rows(1700, n_classes, seed=8)
    results = []
    for threads in (1, 2, 3):
        engine = masked_loss(
            model,
            rows,
            resolve_loss(loss, model.schema),
            baseline_of("mean", rows),
            threads=threads,
        )
        engine.remove(2)
        results.append([*engine.without_each(), engine.loss, *engine([engine.mask])])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("estimator", "n_classes"),
    [
        (make_pipeline(StandardScaler(), Ridge()), 0),
        (make_pipeline(MinMaxScaler(), "passthrough", make_pipeline(LinearRegression())), 0),
        (make_pipeline(MinMaxScaler(), LogisticRegression()), 3),
    ],
)
def test_scalers_before_a_model_are_part_of_its_encoding(estimator, n_classes) -> None:
    schema, rows = schema_of(n_classes), make_rows(80, n_classes, seed=9)
    rows = Rows(np.nan_to_num(rows.X), rows.y)
    model = fit_estimator(estimator, rows, schema, seed=0)
    arguments = model, rows, resolve_loss(None, schema), baseline_of("mean", rows)
    engine = masked_loss(*arguments)
    assert isinstance(engine, LinearMaskedLoss | NetworkMaskedLoss)
    close(engine.without_each(), BlackBox(MaskEvaluator(*arguments)).without_each())


def test_a_class_the_model_has_never_seen_has_the_loss_of_probability_zero() -> None:
    schema, rows = schema_of(3), make_rows(120, 3, seed=9)
    seen = Rows(rows.X[rows.y != 1], rows.y[rows.y != 1])
    for name in ("linear", "MLPClassifier"):
        model = fit(name, seen, schema, {"max_iter": 200}, seed=0)
        arguments = model, rows, Loss("log_loss", "classification"), baseline_of("mean", rows)
        engine = masked_loss(*arguments)
        assert not isinstance(engine, BlackBox)
        close(engine.without_each(), BlackBox(MaskEvaluator(*arguments)).without_each())


class Misread(Ridge):
    """Looks like scikit-learn's own, so that only its predictions can give it away."""

    __module__ = "sklearn.linear_model"

    def predict(self, X):
        return np.abs(super().predict(X))


Misread.__name__ = "Ridge"


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (Misread(), "its layers do not give its own predictions"),
        (make_pipeline(PCA(2), Ridge()), "step 'pca' is no scaler of single columns"),
        (make_pipeline(PowerTransformer(), Ridge()), "step 'powertransformer' is no scaler"),
    ],
)
def test_what_is_not_covered_goes_to_the_black_box_with_the_reason(
    estimator, reason, caplog
) -> None:
    rows = make_rows(80, 0, seed=9)
    rows = Rows(np.nan_to_num(rows.X), rows.y)
    model = fit_estimator(estimator, rows, schema_of(0), seed=0)
    with caplog.at_level(logging.INFO):
        engine = masked_loss(model, rows, Loss("squared_error", "regression"), np.zeros(D))
    assert isinstance(engine, BlackBox)
    assert reason in caplog.text


def test_a_score_of_the_whole_table_goes_to_the_black_box(caplog) -> None:
    rows, model = make_rows(40, 2, seed=9), trained("mlp", FEW, 2)
    with caplog.at_level(logging.INFO):
        engine = masked_loss(model, rows, resolve_loss("roc_auc", model.schema), np.zeros(D))
    assert isinstance(engine, BlackBox)
    assert "roc_auc is no mean over rows" in caplog.text


def test_an_infinite_value_goes_to_the_black_box(caplog) -> None:
    rows = make_rows(20, 0, seed=9)
    rows.X[3, 0] = np.inf
    model = trained("mlp", FEW, 0)
    with caplog.at_level(logging.INFO):
        engine = masked_loss(model, rows, Loss("squared_error", "regression"), np.zeros(D))
    assert isinstance(engine, BlackBox)
    assert "an encoded value is not finite" in caplog.text


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_a_loss_that_is_not_finite_is_an_error(name) -> None:
    rows = make_rows(20, 0, seed=9)
    rows = Rows(rows.X, rows.y * 1e200)
    model = trained(name, FEW if name == "mlp" else {}, 0)
    engine = masked_loss(model, rows, Loss("squared_error", "regression"), np.zeros(D))
    message = f"squared_error must be finite but is inf with {D} of {D} features kept"
    with pytest.raises(ValueError, match=message):
        _ = engine.loss
    with pytest.raises(ValueError, match="squared_error must be finite"):
        engine.without_each()
    with pytest.raises(ValueError, match="squared_error must be finite"):
        engine([engine.mask])


def test_threads_are_counted_from_one() -> None:
    rows, model = make_rows(20, 0, seed=9), trained("linear", {}, 0)
    with pytest.raises(ValueError, match="threads must be at least 1 but is 0"):
        masked_loss(model, rows, Loss("squared_error", "regression"), np.zeros(D), threads=0)
