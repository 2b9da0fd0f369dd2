"""The joint order of several folds, against brute force over their masked losses."""

from itertools import chain

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


def loss_without(folds, masked):
    """Return the summed loss of some features masked, by a prediction."""
    total = 0.0
    for model, rows in folds:
        X = rows.X.copy()
        X[:, masked] = 0
        total += np.square(model.predict(X) - rows.y).sum()
    return total


def joint_path(folds, units):
    """Return the order of least summed loss, by one prediction for each mask."""
    path = []
    while len(path) < len(units):
        left = set(range(len(units))) - set(path)
        gone = [j for u in path for j in units[u]]
        path.append(min(left, key=lambda u: loss_without(folds, [*gone, *units[u]])))
    return path


def folds_of(seed):
    return [
        (models.fit("linear", rows_of(s), SCHEMA, {}, seed=0), rows_of(100 + s, 20 + 30 * i))
        for i, s in enumerate((3 * seed, 3 * seed + 1, 3 * seed + 2))
    ]


def judges_of(folds, importances, attributions=None):
    return [
        FoldJudge(
            masked_loss(model, rows, LOSS, BASELINE),
            len(rows),
            importances[i],
            model.used_features,
            None if attributions is None else attributions[i],
        )
        for i, (model, rows) in enumerate(folds)
    ]


def order_by_hand(folds, importances, units, attributions=None):
    """Return the units of no use, what else takes nothing off, then the others by two ranks."""
    path = joint_path(folds, units)
    share = (importances / importances.sum(axis=1, keepdims=True)).sum(axis=0)
    share = [share[unit].sum() for unit in units]
    by_importance = np.argsort(share).tolist()
    rank = {u: path.index(u) + by_importance.index(u) for u in range(len(units))}
    if attributions is None:
        off = [loss_without(folds, unit) - loss_without(folds, []) for unit in units]
    else:
        sums = sum(len(rows) * of for (_, rows), of in zip(folds, attributions, strict=True))
        off = [sums[unit].sum() for unit in units]
    rise = [loss_without(folds, unit) - loss_without(folds, []) for unit in units]
    early = [off[u] if off[u] <= 0 and rise[u] <= max(rise) / 10 else 1 for u in range(len(units))]
    order = sorted(range(len(units)), key=lambda u: (early[u], rank[u], share[u]))
    useless = [u for u in order if off[u] <= 0 and rise[u] <= 0]
    others = [u for u in order if u not in useless]
    n_low = sum(early[u] <= 0 for u in others)
    return useless, others[:n_low], others[n_low:]


@pytest.mark.parametrize("has_attributions", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_the_mean_of_two_ranks_after_what_takes_nothing_off_the_loss(
    seed, has_attributions
):
    random = np.random.default_rng(seed)
    importances, attributions = random.random((3, 6)), random.normal(size=(3, 6)) + 0.5
    given = attributions if has_attributions else None
    folds, units = folds_of(seed), [[j] for j in range(6)]
    found = cross_fitted_order(judges_of(folds, importances, given))
    useless, low, others = order_by_hand(folds, importances, units, given)
    assert found.removed == [*useless, *low, *others][:-1]
    counts = (found.of_no_use, found.near_copies, found.nothing_off)
    assert counts == (len(useless), 0, len(low))


@pytest.mark.parametrize("has_attributions", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_near_copies_are_ordered_as_one_and_the_best_outlasts_the_others(seed, has_attributions):
    random = np.random.default_rng(seed)
    importances, attributions = random.random((3, 6)), random.normal(size=(3, 6)) + 0.5
    given = attributions if has_attributions else None
    folds, units = folds_of(seed), [[0, 4], [1], [2, 3, 5]]
    copies = [np.array([0, 4]), np.array([2, 3, 5])]
    order = cross_fitted_order(judges_of(folds, importances, given), copies=copies)
    found = order.removed
    worth = sum(len(rows) * of for (_, rows), of in zip(folds, attributions, strict=True))
    if not has_attributions:
        worth = (importances / importances.sum(axis=1, keepdims=True)).sum(axis=0)
    useless, low, others = order_by_hand(folds, importances, units, given)
    ranked = [*low, *others]
    ascending = [sorted(unit, key=lambda j: worth[j]) for unit in units]
    expected = [j for unit in useless for j in ascending[unit]]
    expected += [j for unit in ranked for j in ascending[unit][:-1]]
    expected += [ascending[unit][-1] for unit in ranked]
    assert found == expected[:-1]
    assert order.of_no_use == sum(len(units[unit]) for unit in useless)
    assert order.near_copies == sum(len(units[unit]) - 1 for unit in ranked)
    assert order.nothing_off == len(low)


def test_a_feature_to_keep_stands_for_its_copies():
    importances = np.random.default_rng(0).random((3, 6))
    copies = [np.array([0, 4]), np.array([2, 3, 5])]
    found = cross_fitted_order(
        judges_of(folds_of(0), importances), keep=(3, 5), copies=copies
    ).removed
    assert found[0] == 2
    assert set(found[1:2]) < {0, 4}
    assert set(found) == {0, 1, 2, 4}


def test_the_copy_that_constraints_limit_least_stands_for_the_others():
    copies, importances = [np.array([0, 4]), np.array([2, 3, 5])], np.ones((3, 6))
    importances[:, [0, 3]] = 2  # else these would stand
    burden = np.array([0.5, 0, 0.2, 1.25, 0.1, 0.2])
    found = cross_fitted_order(judges_of(folds_of(0), importances), copies=copies, burden=burden)
    first = found.removed[: found.near_copies]
    assert sorted(first) == [0, 2, 3] or sorted(first) == [0, 3, 5]
    unlimited = cross_fitted_order(judges_of(folds_of(0), importances), copies=copies)
    assert not {0, 3}.intersection(unlimited.removed[: unlimited.near_copies])


def test_what_is_bound_together_leaves_together_and_stays_with_what_is_kept():
    importances = np.random.default_rng(0).random((3, 6))
    folds, bound = folds_of(0), [np.array([0, 3]), np.array([2, 5])]
    found = cross_fitted_order(judges_of(folds, importances), bound=bound).removed
    units = [[0, 3], [1], [2, 5], [4]]
    expected = [set(units[unit]) for unit in chain(*order_by_hand(folds, importances, units))]
    for unit in expected[:-1]:
        assert set(found[: len(unit)]) == unit
        found = found[len(unit) :]
    kept = cross_fitted_order(judges_of(folds, importances), keep=(2,), bound=bound).removed
    assert kept[-1] == 5


def test_kept_features_never_leave_and_a_feature_no_model_uses_leaves_first():
    rows = rows_of(0, 400)
    X = rows.X.copy()
    X[:, 3] = 1.0  # constant: no tree can split on it
    rows = Rows(X, rows.y)
    judges = [judge_of(rows, rows, np.array([9.0, 5, 2, 0, 1, 1]), "lightgbm")]
    assert cross_fitted_order(judges).removed[0] == 3
    judges = [judge_of(rows, rows, np.array([9.0, 5, 2, 0, 1, 1]), "lightgbm")]
    assert set(cross_fitted_order(judges, keep=(3, 0)).removed) == {1, 2, 4, 5}


def test_a_model_that_only_predicts_is_ranked_by_masking_one_feature_at_a_time():
    rows, held_out = rows_of(1), rows_of(2)
    model = models.fit("KNeighborsRegressor", rows, SCHEMA, {}, seed=0)
    engine = masked_loss(model, held_out, LOSS, BASELINE)
    alone = engine.without_each()
    judge = FoldJudge(engine, 80.0, alone - alone.min(), np.ones(6, bool))
    assert cross_fitted_order([judge]).removed == np.argsort(alone)[:-1].tolist()
