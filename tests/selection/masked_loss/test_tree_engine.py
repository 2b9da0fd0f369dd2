"""The tree engine against one prediction per mask: the same losses, whatever the trees.

An exact answer is one within the rounding of a sum: 1e-12 of the library's own prediction, or 1e-6
of it for XGBoost, which adds in float32.
"""

from __future__ import annotations

import functools
import logging

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from chaffinch.tasks.selection.masked_loss.grouped import grouped
from chaffinch.tasks.selection.masked_loss.trees import loss_kernels
from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine
from chaffinch.tasks.selection.models import fit

SQUARED = Loss("squared_error", "regression")
LOG = Loss("log_loss", "classification")
N_CATEGORIES = (0, 0, 9, 0, 3, 0, 0, 0)
CONSTANT, ORIGINAL, DUPLICATE = 5, 6, 7
N_FEATURES = len(N_CATEGORIES)

# Each name stands for a way of growing trees that predicts in a way of its own.
MODELS = {
    "lightgbm": ("lightgbm", {}),
    "lightgbm without missing values": ("lightgbm", {"use_missing": False}),
    "lightgbm with zeros missing": ("lightgbm", {"zero_as_missing": True}),
    "lightgbm dart": ("lightgbm", {"boosting_type": "dart", "drop_rate": 0.5}),
    "lightgbm goss": ("lightgbm", {"boosting_type": "goss"}),
    "lightgbm rf": ("lightgbm", {"boosting_type": "rf", "colsample_bytree": 0.5}),
    "xgboost": ("xgboost", {}),
    "xgboost dart": ("xgboost", {"booster": "dart", "rate_drop": 0.5}),
    "xgboost forests": ("xgboost", {"num_parallel_tree": 2, "base_score": 0.3}),
    "random forest": ("RandomForest", {}),
    "extra trees": ("ExtraTrees", {}),
    "decision tree": ("DecisionTree", {}),
    "histogram": ("HistGradientBoosting", {}),
}
ROUNDS = {"RandomForest": "n_estimators", "ExtraTrees": "n_estimators", "DecisionTree": None}
ROUNDS |= {"HistGradientBoosting": "max_iter"}


def table(seed: int, n: int, n_classes: int) -> Rows:
    """Make a table with categories, missing values, ties, zeros, a constant and a duplicate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).round(1)
    for feature, size in enumerate(N_CATEGORIES):
        if size:
            X[:, feature] = rng.integers(0, size, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, CONSTANT], X[:, DUPLICATE] = 0.1, X[:, ORIGINAL]
    filled = np.nan_to_num(X)
    signal = 2 * filled[:, 0] + filled[:, 1] * filled[:, 6] + 2 * (X[:, 2] % 4 == 1)
    signal += rng.normal(size=n) / 4
    if n_classes:
        quantiles = np.quantile(signal, np.arange(1, n_classes) / n_classes)
        return Rows(X, np.digitize(signal, quantiles), rng.uniform(0.5, 2, n))
    return Rows(X, signal, rng.uniform(0.5, 2, n))


def schema(n_classes: int) -> Schema:
    return Schema(tuple("abcdefgh"), N_CATEGORIES, n_classes)


@functools.cache
def trained(name: str, n_classes: int, seed: int, n_leaves: int = 8, n_rounds: int = 5):
    family, parameters = MODELS[name]
    chosen = dict(parameters)
    if family == "lightgbm":
        chosen |= {"num_leaves": n_leaves, "min_child_samples": 3, "min_data_per_group": 5}
    elif family == "xgboost":
        chosen |= {"max_leaves": n_leaves, "max_depth": 0, "grow_policy": "lossguide"}
    else:
        chosen |= {"max_leaf_nodes": n_leaves}
    if rounds := ROUNDS.get(family, "n_estimators"):
        chosen[rounds] = n_rounds
    if family[0].isupper():
        family += "Classifier" if n_classes else "Regressor"
    return fit(family, table(seed, 60 * n_leaves, n_classes), schema(n_classes), chosen, seed=seed)


def strange(rows: Rows) -> Rows:
    """Put codes into the rows that no model has seen, or that are none at all."""
    X = rows.X.copy()
    codes = [-0.5, 2.5, -1, -7, 9, 31, 32, 255, 256, 1000, 1e9]
    X[: len(codes), 2] = codes[: len(X)]
    X[-1:] = np.nan
    X[1:2, 0], X[2:3, 0], X[3:4, 0] = 1e-40, -1e-36, 0.1 + 1e-9
    return Rows(X, rows.y, rows.weight)


def baseline_of(rows: Rows, n_classes: int) -> np.ndarray:
    baseline = np.nan_to_num(np.nanmean(np.vstack((rows.X, np.zeros(N_FEATURES))), axis=0))
    baseline[2], baseline[4] = 1, 2
    baseline[1] = n_classes  # besides the mean, a plain number and zero
    return baseline


def both(name: str, n_classes: int, seed: int, n: int, **options) -> tuple[TreeEngine, BlackBox]:
    model, rows = trained(name, n_classes, seed, **options), table(seed + 1, n, n_classes)
    if MODELS[name][0][0].islower():  # scikit-learn refuses an infinite or unknown code itself
        rows = strange(rows)
    evaluator = MaskEvaluator(
        model, rows, LOG if n_classes else SQUARED, baseline_of(rows, n_classes)
    )
    engine = masked_loss(model, rows, evaluator.loss, evaluator.baseline)
    assert isinstance(engine, TreeEngine)
    return engine, BlackBox(evaluator)


def tolerance(name: str) -> float:
    return 3e-6 if name.startswith("xgboost") else 1e-12


def assert_same(engine: TreeEngine, black_box: BlackBox, within: float) -> None:
    evaluator = black_box.evaluator
    X = np.where(engine.mask, evaluator.rows.X, evaluator.baseline)
    expected = evaluator.model.predict(X)
    np.testing.assert_allclose(engine.prediction, expected, rtol=within, atol=within)
    np.testing.assert_allclose(engine.loss, black_box.loss, rtol=within, atol=within)
    losses, expected = engine.without_each(), black_box.without_each()
    np.testing.assert_allclose(losses, expected, rtol=within, atol=within)


every_model = pytest.mark.parametrize("name", MODELS)
every_target = pytest.mark.parametrize("n_classes", [0, 2, 3])
few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@every_model
@every_target
@few
@given(
    seed=st.integers(0, 1),
    n=st.sampled_from([1, 2, 127, 128, 129, 300]),
    order=st.permutations(range(N_FEATURES)),
)
def test_losses_are_those_of_one_prediction_each(name, n_classes, seed, n, order) -> None:
    engine, black_box = both(name, n_classes, seed, n)
    assert_same(engine, black_box, tolerance(name))
    for feature in order:
        engine.remove(feature)
        black_box.remove(feature)
        assert_same(engine, black_box, tolerance(name))
    assert not engine.mask.any()


@every_model
@pytest.mark.parametrize(("n_classes", "n_leaves"), [(0, 66), (3, 140)])
def test_deep_trees_as_well(name, n_classes, n_leaves) -> None:
    engine, black_box = both(name, n_classes, 0, 150, n_leaves=n_leaves, n_rounds=2)
    for feature in (None, 6, 2, 0):
        for each in (engine, black_box):
            if feature is not None:
                each.remove(feature)
        assert_same(engine, black_box, tolerance(name))


def test_the_trees_of_these_tests_are_of_every_depth() -> None:
    deepest = {
        n_leaves: both("lightgbm", 0, 0, 1, n_leaves=n_leaves)[0].forest.n_inner.max()
        for n_leaves in (8, 66, 140)
    }
    assert deepest == {8: 7, 66: 65, 140: 139}


@every_model
@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_feature_that_changes_nothing_ties_exactly(name, n_classes) -> None:
    engine, _ = both(name, n_classes, 0, 1000)
    unused = ~np.isin(np.arange(N_FEATURES), engine.forest.used_features)
    assert unused[CONSTANT]
    for feature in (0, 2):
        losses = engine.without_each()[unused]
        assert (losses == losses[0]).all()
        assert losses[0] == pytest.approx(engine.loss, rel=1e-13)  # a tie is asked of the model
        engine.remove(feature)


@every_model
@pytest.mark.parametrize(("n_classes", "n_leaves"), [(0, 66), (2, 8), (3, 8)])
def test_a_group_is_as_its_features_masked_together(name, n_classes, n_leaves) -> None:
    engine, black_box = both(name, n_classes, 0, 150, n_leaves=n_leaves, n_rounds=3)
    by_group = grouped(engine, [np.array([0, 2]), np.array([4, 6, 7])])
    for features in ([], [2, 0], [3], [7, 4, 6]):
        for feature in features:
            by_group.remove(feature)
        present = by_group.mask
        masks = np.array([present & (np.arange(N_FEATURES) != j) for j in range(N_FEATURES)])
        masks[np.ix_([0, 2], [0, 2])] = masks[np.ix_([4, 6, 7], [4, 6, 7])] = False
        losses, expected = by_group.without_each(), black_box(masks)
        expected[~present] = np.inf
        within = tolerance(name)
        np.testing.assert_allclose(losses, expected, rtol=within, atol=within)
        np.testing.assert_allclose(by_group(masks), black_box(masks), rtol=within, atol=within)


@every_target
@given(masks=st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=5))
@few
def test_any_mask_at_any_time(n_classes, masks) -> None:
    engine, black_box = both("lightgbm", n_classes, 0, 150)
    fresh = engine(masks)
    np.testing.assert_allclose(fresh, black_box(masks), rtol=1e-12)
    engine.remove(0)
    np.testing.assert_array_equal(engine(masks), fresh)
    assert engine([engine.mask])[0] == engine.loss


@every_target
@pytest.mark.parametrize("n_leaves", [8, 66])
def test_threads_change_no_bit(n_classes, n_leaves) -> None:
    model, rows = trained("lightgbm", n_classes, 0, n_leaves), table(9, 1000, n_classes)
    loss, baseline = LOG if n_classes else SQUARED, np.zeros(N_FEATURES)
    one = masked_loss(model, rows, loss, baseline)
    four = masked_loss(model, rows, loss, baseline, threads=4)
    for feature in (3, 0, 2):
        np.testing.assert_array_equal(four.without_each(), one.without_each())
        np.testing.assert_array_equal(four.prediction, one.prediction)
        one.remove(feature)
        four.remove(feature)
    masks = np.random.default_rng(0).random((3, N_FEATURES)) < 0.5
    np.testing.assert_array_equal(four(masks), one(masks))


@pytest.mark.parametrize("n_leaves", [8, 66], ids=["small trees", "deep trees"])
def test_a_removal_that_is_interrupted_is_made_whole(monkeypatch, n_leaves) -> None:
    monkeypatch.setattr("chaffinch.tasks.selection.masked_loss.trees.engine._RUN_BYTES", 1)
    rows = table(8, 1500, 0)
    model = trained("lightgbm", 0, 0, n_leaves)
    engine, other = (masked_loss(model, rows, SQUARED, np.zeros(N_FEATURES)) for _ in range(2))
    for feature in 0, 6:
        engine.remove(feature)
        other.remove(feature)
    loss_sums, left = loss_kernels.loss_sums, [1]

    def interrupted(*arguments: object) -> None:
        loss_sums(*arguments)
        if left and left.pop():
            raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(loss_kernels, "loss_sums", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.without_each()
    assert engine.without_each().tolist() == other.without_each().tolist()
    assert engine.loss == other.loss


@every_target
def test_the_order_of_rows_changes_no_bit_of_a_prediction(n_classes) -> None:
    model, rows = trained("histogram", n_classes, 0), table(9, 300, n_classes)
    order = np.random.default_rng(0).permutation(300)
    loss, baseline = LOG if n_classes else SQUARED, np.ones(N_FEATURES)
    engine = masked_loss(model, rows, loss, baseline)
    shuffled = masked_loss(model, rows.take(order), loss, baseline)
    for feature in (2, 0):
        engine.remove(feature)
        shuffled.remove(feature)
        np.testing.assert_array_equal(shuffled.prediction, engine.prediction[order])


@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [
        (Loss("absolute_error", "regression"), 0),
        (Loss("r2", "regression"), 0),
        (Loss("roc_auc", "classification"), 2),
        (Loss("accuracy", "classification"), 3),
    ],
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_any_loss_with_and_without_weights(loss, n_classes, is_weighted) -> None:
    model, rows = trained("random forest", n_classes, 0), table(1, 200, n_classes)
    rows = rows if is_weighted else Rows(rows.X, rows.y)
    engine = masked_loss(model, rows, loss, np.zeros(N_FEATURES))
    assert isinstance(engine, TreeEngine)
    black_box = BlackBox(MaskEvaluator(model, rows, loss, np.zeros(N_FEATURES)))
    for feature in (0, 2):
        np.testing.assert_allclose(engine.without_each(), black_box.without_each(), rtol=1e-12)
        engine.remove(feature)
        black_box.remove(feature)


@pytest.mark.parametrize("name", MODELS)
def test_one_feature_and_trees_of_one_leaf(name) -> None:
    family, parameters = MODELS[name]
    if parameters.get("boosting_type") == "rf":
        parameters = parameters | {"subsample": 0.5, "subsample_freq": 1}
    if rounds := ROUNDS.get(family, "n_estimators"):
        parameters = parameters | {rounds: 5}
    family += "Regressor" if family[0].isupper() else ""
    X = np.linspace(-1, 1, 60)[:, np.newaxis]
    for y in (X[:, 0], np.full(60, 3.5)):
        model = fit(family, Rows(X, y), Schema(("x",), (0,), 0), parameters, seed=0)
        engine = masked_loss(model, Rows(X, X[:, 0]), SQUARED, np.array([0.3]))
        expected = [SQUARED(X[:, 0], model.predict(x)) for x in (X, np.full_like(X, 0.3))]
        np.testing.assert_allclose(
            [engine.loss, engine.without_each()[0]], expected, atol=tolerance(name), rtol=1e-6
        )


@pytest.mark.parametrize(
    ("name", "n_classes", "parameters", "reason"),
    [
        ("lightgbm", 0, {"linear_tree": True}, "its leaves are linear models"),
        ("GradientBoostingRegressor", 0, {}, "GradientBoostingRegressor is not made of trees"),
        ("HistGradientBoostingRegressor", 0, {"loss": "poisson"}, "its loss 'poisson' has another"),
        ("RandomForestClassifier", 4, {}, "it was trained without some class"),
        ("KNeighborsRegressor", 0, {}, "KNeighborsRegressor is not made of trees"),
    ],
)
def test_what_is_not_covered_says_why(caplog, name, n_classes, parameters, reason) -> None:
    rows = table(0, 100, 3 if n_classes else 0)
    rows = Rows(rows.X, np.abs(rows.y))
    model = fit(name, rows, schema(n_classes), parameters, seed=0)
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, rows, LOG if n_classes else SQUARED, np.zeros(N_FEATURES))
    assert isinstance(engine, BlackBox)
    assert f"by one prediction each: {reason}" in caplog.text
