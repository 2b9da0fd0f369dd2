"""Attributions on held-out rows, against walks down the trees in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.attribution import attributions, attributions_by_block
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import Loss, resolve_loss

N_CATEGORIES = (0, 0, 7, 0, 0)
TREES = {
    "lightgbm": {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 5},
    "xgboost": {"n_estimators": 8, "max_depth": 3},
    "RandomForest": {"n_estimators": 8, "max_depth": 4, "max_features": 0.7},
    "ExtraTrees": {"n_estimators": 8, "max_depth": 4},
    "HistGradientBoosting": {"max_iter": 8, "max_leaf_nodes": 6},
}


def table(seed: int, n_classes: int, n: int = 300) -> Rows:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    X[:, 2] = random.integers(0, 7, n)
    X[random.random((n, 5)) < 0.05] = np.nan
    filled = np.nan_to_num(X)
    signal = filled[:, 0] + filled[:, 1] * (filled[:, 2] > 3) + random.normal(size=n) / 3
    weight = random.uniform(0.5, 2, n)
    if n_classes:
        cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes)
        return Rows(X, np.digitize(signal, cuts), weight)
    return Rows(X, signal, weight)


def fitted(name: str, n_classes: int, parameters: dict):
    schema = Schema(tuple("abcde"), N_CATEGORIES, n_classes)
    if name[0].isupper() and name in TREES:
        name += "Classifier" if n_classes else "Regressor"
    return models.fit(name, table(0, n_classes), schema, parameters, seed=0)


def contributions(forest, X):
    """Return the scores' start (k,) and contributions (n, k, d), node by node."""

    def mean_and_cover(node):
        if node < 0:
            return forest.value[~node], forest.cover[~node]
        (right, of_right), (left, of_left) = map(mean_and_cover, forest.child[node])
        cover = of_right + of_left
        return (right * of_right + left * of_left) / cover, cover

    columns, start = forest.prepare(X), forest.base.copy()
    moves = np.zeros((len(X), len(start), X.shape[1]))
    for root, output in zip(forest.root, forest.output, strict=True):
        outputs = slice(output, output + forest.value.shape[1])
        start[outputs] += mean_and_cover(root)[0] / forest.divisor
        for row, move in zip(columns, moves, strict=True):
            node = root
            while node >= 0:
                x, code = row[forest.column[node]], forest.category_start[node]
                if code >= 0:
                    left = forest.category_left[code + int(x)]
                else:
                    left = forest.missing_left[node] if np.isnan(x) else x <= forest.threshold[node]
                below = forest.child[node, int(left)]
                change = mean_and_cover(below)[0] - mean_and_cover(node)[0]
                move[outputs, forest.feature_of_column[forest.column[node]]] += (
                    change / forest.divisor
                )
                node = below
    return start, moves


def least_loss(forest, rows, loss, start, moves):
    """Return the losses (n,) where their mean is least on the way from the constant."""
    ends = [start + share * moves for share in np.arange(1, 21) / 20]
    losses = [loss.per_row(rows.y, forest.predict(end)) for end in ends]
    return min(losses, key=lambda of_rows: np.average(of_rows, weights=rows.weight))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("n_classes", [0, 2])
def test_of_one_score_each_feature_has_its_share_of_the_change_on_the_way_down(name, n_classes):
    model, rows = fitted(name, n_classes, TREES[name]), table(1, n_classes, 40)
    forest, loss = model.forest(), resolve_loss(None, model.schema)
    start, moves = contributions(forest, rows.X)
    before = loss.per_row(rows.y, forest.predict(np.tile(start, (len(rows), 1))))
    whole = loss.per_row(rows.y, forest.predict(start + moves.sum(axis=2)))
    np.testing.assert_allclose(whole, loss.per_row(rows.y, model.predict(rows.X)), rtol=1e-4)
    after = least_loss(forest, rows, loss, start, moves.sum(axis=2))
    # of a single score the mean slope is the loss's change by the score's
    shares = moves[:, 0] / moves[:, 0].sum(axis=1, keepdims=True)
    expected = np.average(shares * (before - after)[:, np.newaxis], axis=0, weights=rows.weight)
    found = attributions(model, rows, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert found.argmax() == 0


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(
    ("n_classes", "name_of_loss"), [(0, None), (0, "absolute_error"), (2, None), (4, None)]
)
def test_trees_attributions_add_up_to_what_the_model_takes_off_the_loss(
    name, n_classes, name_of_loss
):
    model, rows = fitted(name, n_classes, TREES[name]), table(2, n_classes, 60)
    loss = resolve_loss(name_of_loss, model.schema)
    forest = model.forest()
    start, moves = contributions(forest, rows.X)
    constant = forest.predict(np.tile(start, (len(rows), 1)))
    least = least_loss(forest, rows, loss, start, moves.sum(axis=2))
    taken_off = loss(rows.y, constant, rows.weight) - np.average(least, weights=rows.weight)
    within = 1e-5 if name == "xgboost" else 1e-10  # it adds in float32
    assert attributions(model, rows, loss).sum() == pytest.approx(taken_off, rel=within)


@pytest.mark.parametrize("name", ["lightgbm", "linear"])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_each_block_of_rows_adds_its_part(name, n_classes):
    model, rows = fitted(name, n_classes, TREES.get(name, {})), table(4, n_classes)
    loss = resolve_loss(None, model.schema)
    parts = [slice(0, 7), slice(7, 120), slice(120, 300)]
    blocks = attributions_by_block(model, rows, loss, parts)
    np.testing.assert_allclose(blocks.sum(axis=0), attributions(model, rows, loss), atol=1e-12)
    # a block's part does not depend on how the other rows are parted
    others = [slice(0, 7), slice(7, 200), slice(200, 300)]
    np.testing.assert_array_equal(blocks[0], attributions_by_block(model, rows, loss, others)[0])
    assert (blocks[1] != blocks[2]).any()


@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_linear_attributions_add_up_from_the_mean_score(n_classes):
    model, rows = fitted("linear", n_classes, {}), table(3, n_classes)
    loss = resolve_loss(None, model.schema)
    found = attributions(model, rows, loss)
    dense = model.dense()
    scores = dense.encode(rows.X) @ dense.weights[0] + dense.biases[0]
    mean = np.average(scores, axis=0, weights=rows.weight)
    if n_classes == 0:
        constant = np.full(len(rows), mean[0])
    elif n_classes == 2:
        constant = np.tile([1 / (1 + np.exp(mean[0])), 1 / (1 + np.exp(-mean[0]))], (len(rows), 1))
    else:
        constant = np.tile(np.exp(mean) / np.exp(mean).sum(), (len(rows), 1))
    taken_off = loss(rows.y, constant, rows.weight) - loss(
        rows.y, model.predict(rows.X), rows.weight
    )
    assert found.sum() == pytest.approx(taken_off)


def test_a_linear_model_of_squared_error_by_hand():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 3))
    rows = Rows(X, X @ [2.0, 1.0, 0.0] + random.normal(size=50))
    model = models.fit("LinearRegression", rows, Schema(tuple("abc"), (0,) * 3), {}, seed=0)
    moves = (X - X.mean(axis=0)) * LinearRegression().fit(X, rows.y).coef_
    residuals = rows.y - rows.y.mean()
    expected = (2 * residuals - moves.sum(axis=1)) @ moves / 50
    found = attributions(model, rows, Loss("squared_error", "regression"))
    np.testing.assert_allclose(found, expected)


def test_what_was_memorised_takes_nothing_off_the_loss_of_new_rows():
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=900), random.integers(0, 60, 900)])
    y = (X[:, 0] + 0.7 * random.normal(size=900) > 0).astype(np.int64)
    schema = Schema(("signal", "code"), (0, 60), 2)
    parameters = {"n_estimators": 60, "min_data_per_group": 1, "cat_smooth": 0.0}
    model = models.fit("lightgbm", Rows(X[:400], y[:400]), schema, parameters, seed=0)
    gains = model.importances()
    found = attributions(model, Rows(X[400:], y[400:]), resolve_loss(None, schema))
    assert gains[1] > 0.1 * gains[0]
    assert found[0] > 0 > found[1]


def test_a_model_whose_scores_go_too_far_still_takes_off_by_what_points_the_right_way():
    random = np.random.default_rng(1)
    X = random.normal(size=(4000, 2))
    y = (X.sum(axis=1) + 3 * random.logistic(size=4000) > 0).astype(np.int64)
    schema, parameters = Schema(("a", "b"), (0, 0), 2), {"n_estimators": 200, "num_leaves": 31}
    model = models.fit("lightgbm", Rows(X[:500], y[:500]), schema, parameters, seed=0)
    new, loss = Rows(X[500:], y[500:]), resolve_loss(None, schema)
    assert loss(new.y, model.predict(new.X)) > loss(
        new.y, np.tile(np.bincount(y) / 4000, (3500, 1))
    )
    assert (attributions(model, new, loss) > 0).all()


def test_no_attributions_of_a_score_of_a_whole_table_or_of_other_models():
    rows, schema = table(0, 2), Schema(tuple("abcde"), N_CATEGORIES, 2)
    assert (
        attributions(
            fitted("lightgbm", 2, TREES["lightgbm"]), rows, Loss("roc_auc", "classification")
        )
        is None
    )
    network = fitted("mlp", 2, {"max_iter": 3})
    assert attributions(network, rows, resolve_loss(None, schema)) is None
