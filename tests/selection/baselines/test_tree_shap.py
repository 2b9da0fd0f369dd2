"""SHAP values against Shapley's own formula, and what they add up to."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest

from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.baselines import importances
from chaffinch.tasks.selection.baselines.importances import shap_values, tree_shap
from chaffinch.tasks.selection.core import Rows, Schema

N = 200
SMALL = {
    "lightgbm": {"n_estimators": 4, "num_leaves": 6, "min_child_samples": 5},
    "xgboost": {"n_estimators": 4, "max_depth": 3},
}
LIBRARIES = pytest.mark.parametrize("name", list(SMALL))


def synthetic(n_classes=0):
    """A number, a category and a number that tell something together, and a fourth that does not.

    Some values are missing.
    """
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 4))
    X[:, 1] = random.integers(0, 5, N)
    y = X[:, 0] * (X[:, 1] == 2) + np.abs(X[:, 2]) + 0.1 * random.normal(size=N)
    X[random.random(X.shape) < 0.05] = np.nan
    if n_classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    return Rows(X, y), Schema(tuple("abcd"), (0, 5, 0, 0), n_classes)


def lightgbm_nodes(node):
    """A tree of LightGBM's: a leaf's value, or (feature, goes left, left, right, their rows)."""
    if "leaf_value" in node:
        return node["leaf_value"]
    left, right = node["left_child"], node["right_child"]
    count = [side.get("internal_count", side.get("leaf_count")) for side in (left, right)]
    goes_left = lambda x: x <= node["threshold"]  # noqa: E731
    return node["split_feature"], goes_left, lightgbm_nodes(left), lightgbm_nodes(right), count


def xgboost_nodes(node):
    """The same of XGBoost's."""
    if "leaf" in node:
        return node["leaf"]
    sides = {child["nodeid"]: child for child in node["children"]}
    left, right = sides[node["yes"]], sides[node["no"]]
    goes_left = lambda x: np.float32(x) < np.float32(node["split_condition"])  # noqa: E731
    feature = int(node["split"].removeprefix("f"))
    return feature, goes_left, xgboost_nodes(left), xgboost_nodes(right), [
        left["cover"], right["cover"],
    ]  # fmt: skip


def expected(tree, x, given):
    """A tree's output if only some features are given: the others go both ways, as rows did."""
    if not isinstance(tree, tuple):
        return tree
    feature, goes_left, left, right, counts = tree
    if feature in given:
        return expected(left if goes_left(x[feature]) else right, x, given)
    return np.average([expected(left, x, given), expected(right, x, given)], weights=counts)


def shapley(trees, x):
    """The mean over all orders of what each of three features adds when its turn comes."""
    values = np.zeros(3)
    for order in permutations(range(3)):
        for place, feature in enumerate(order):
            before, after = set(order[:place]), set(order[: place + 1])
            values[feature] += sum(expected(t, x, after) - expected(t, x, before) for t in trees)
    return values / 6


@pytest.mark.parametrize(("name", "accuracy"), [("lightgbm", 1e-9), ("xgboost", 1e-4)])
def test_the_score_is_the_mean_absolute_shapley_value(name, accuracy) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 3))
    rows = Rows(X, X[:, 0] * X[:, 1] + X[:, 2])
    schema = Schema(tuple("abc"), (0,) * 3)
    model = models.fit(name, rows, schema, SMALL[name], seed=0)
    if name == "lightgbm":
        dumped = model.booster.dump_model()["tree_info"]
        trees = [lightgbm_nodes(tree["tree_structure"]) for tree in dumped]
    else:
        dumped = model.booster.get_dump(with_stats=True, dump_format="json")
        trees = [xgboost_nodes(json.loads(tree)) for tree in dumped]
    few = rows.take(np.arange(25))
    by_hand = np.array([shapley(trees, x) for x in few.X])
    assert np.abs(by_hand).min(axis=0).max() > 0
    np.testing.assert_allclose(tree_shap(model, few), np.abs(by_hand).mean(axis=0), rtol=accuracy)


@LIBRARIES
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_values_of_a_row_add_up_to_its_prediction_less_the_mean(name, n_classes) -> None:
    rows, schema = synthetic(n_classes)
    fitted = models.fit(name, rows, schema, SMALL[name], seed=0)
    model = models.load(fitted.kind, fitted.to_files(), schema)
    if name == "lightgbm":
        raw = model.booster.predict(rows.X, raw_score=True)
    else:
        raw = model.booster.inplace_predict(rows.X, predict_type="margin")
    values = shap_values(model, rows.X)
    mean = raw.reshape(values.shape[:2]) - values.sum(axis=2)
    np.testing.assert_allclose(mean, np.broadcast_to(mean[0], mean.shape), atol=1e-5)
    assert np.abs(values).max() > 0.1
    expected = np.abs(values).mean(axis=0).sum(axis=0)  # over the classes
    np.testing.assert_allclose(tree_shap(model, rows), expected, rtol=1e-12)


@LIBRARIES
def test_a_weight_of_two_is_the_row_twice_and_parts_add_up(name, monkeypatch) -> None:
    rows, schema = synthetic(3)
    model = models.fit(name, rows, schema, SMALL[name], seed=0)
    times = np.random.default_rng(1).integers(1, 4, N)
    repeated = tree_shap(model, rows.take(np.repeat(np.arange(N), times)))
    weighted = Rows(rows.X, rows.y, 3.0 * times)
    np.testing.assert_allclose(tree_shap(model, weighted), repeated, rtol=1e-12)
    assert not np.allclose(tree_shap(model, rows), repeated, rtol=1e-6)
    monkeypatch.setattr(importances, "_CELLS_AT_ONCE", 7 * 5 * 3)  # seven rows
    np.testing.assert_allclose(tree_shap(model, weighted), repeated, rtol=1e-12)


@LIBRARIES
def test_an_unused_feature_has_0_and_nothing_is_changed(name) -> None:
    rows, schema = synthetic()
    rows.X[:, 3] = 1.0
    model = models.fit(name, rows, schema, SMALL[name], seed=0)
    before = rows.X.copy()
    scores = tree_shap(model, rows)
    assert scores[3] == 0
    assert (scores[[0, 2]] > 0).all()
    np.testing.assert_array_equal(rows.X, before)
    np.testing.assert_array_equal(tree_shap(model, rows), scores)


@pytest.mark.parametrize(
    ("name", "said"),
    [("mlp", "mlp"), ("linear", "Ridge"), ("ExtraTreesRegressor", "ExtraTreesRegressor")],
)
def test_a_model_of_another_kind_is_refused(name, said) -> None:
    rows, schema = synthetic()
    model = models.fit(name, rows, schema, {}, seed=0)
    with pytest.raises(ValueError, match=f"lightgbm or xgboost or catboost but has {said};"):
        tree_shap(model, rows)


def test_linear_models_in_the_leaves_are_refused() -> None:
    rows, schema = synthetic()
    model = models.fit("lightgbm", rows, schema, {"linear_tree": True}, seed=0)
    for tried in (model, models.load(model.kind, model.to_files(), schema)):
        with pytest.raises(ValueError, match="needs leaves of one value"):
            tree_shap(tried, rows)
