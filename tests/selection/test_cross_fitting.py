"""The joint order of several folds, against brute force over their masked losses."""

import numpy as np
import pytest

from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.elimination.cross_fitting import FoldJudge, cross_fitted_order
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss

SCHEMA = Schema(tuple("abcdef"), (0,) * 6)
LOSS = resolve_loss("squared_error", SCHEMA)
BASELINE = np.zeros(6)


def rows_of(seed, n_rows=80):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 6))
    X[:, 4] = X[:, 0] + 0.1 * random.normal(size=n_rows)
    y = X @ np.array([2.0, 1.0, 0.5, 0.0, 0.0, 0.0]) + random.normal(size=n_rows)
    return Rows(X, y)


def judge_of(fitted, held_out, importances, model="linear"):
    fitted_model = models.fit(model, fitted, SCHEMA, {}, seed=0)
    engine = masked_loss(fitted_model, held_out, LOSS, BASELINE)
    return FoldJudge(engine, len(held_out), importances, fitted_model.used_features)


def joint_path(seeds, importances):
    """Return the order of least summed loss, by one prediction for each mask."""
    folds = [
        (models.fit("linear", rows_of(s), SCHEMA, {}, seed=0), rows_of(100 + s, 20 + 30 * i))
        for i, s in enumerate(seeds)
    ]

    def loss_without(masked):
        total = 0.0
        for model, rows in folds:
            X = rows.X.copy()
            X[:, masked] = 0
            total += np.square(model.predict(X) - rows.y).sum()
        return total

    path = []
    while len(path) < 6:
        path.append(min(set(range(6)) - set(path), key=lambda j: loss_without([*path, j])))
    return path


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_the_mean_of_the_ranks_of_joint_path_and_importance(seed):
    seeds = (3 * seed, 3 * seed + 1, 3 * seed + 2)
    importances = np.random.default_rng(seed).random((3, 6))
    judges = [
        judge_of(rows_of(s), rows_of(100 + s, 20 + 30 * i), importances[i])
        for i, s in enumerate(seeds)
    ]
    found = cross_fitted_order(judges)

    path = joint_path(seeds, importances)
    share = (importances / importances.sum(axis=1, keepdims=True)).sum(axis=0)
    by_importance = np.argsort(share).tolist()
    rank = {j: path.index(j) + by_importance.index(j) for j in range(6)}
    assert found == sorted(range(6), key=lambda j: (rank[j], share[j]))[:-1]


def test_kept_features_never_leave_and_a_feature_no_model_uses_leaves_first():
    rows = rows_of(0, 400)
    X = rows.X.copy()
    X[:, 3] = 1.0  # constant: no tree can split on it
    rows = Rows(X, rows.y)
    judges = [judge_of(rows, rows, np.array([9.0, 5, 2, 0, 1, 1]), "lightgbm")]
    assert cross_fitted_order(judges)[0] == 3
    judges = [judge_of(rows, rows, np.array([9.0, 5, 2, 0, 1, 1]), "lightgbm")]
    assert set(cross_fitted_order(judges, keep=(3, 0))) == {1, 2, 4, 5}


def test_a_model_that_only_predicts_is_ranked_by_masking_one_feature_at_a_time():
    rows, held_out = rows_of(1), rows_of(2)
    model = models.fit("KNeighborsRegressor", rows, SCHEMA, {}, seed=0)
    engine = masked_loss(model, held_out, LOSS, BASELINE)
    alone = engine.without_each()
    judge = FoldJudge(engine, 80.0, alone - alone.min(), np.ones(6, bool))
    assert cross_fitted_order([judge]) == np.argsort(alone)[:-1].tolist()
