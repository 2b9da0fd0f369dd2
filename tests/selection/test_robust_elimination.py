"""Elimination by models that have seen masked rows: against plain loops, and rule by rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from lightgbm import LGBMRegressor

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.elimination.robust_elimination import (
    Judge,
    eliminate_in_stages,
    on_the_way_down,
    stage_sizes,
    with_masked_copies,
)
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.models import fit

D = 9
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(240, D))
Y = 3 * X[:, 1] + 2 * X[:, 4] + X[:, 7] + RANDOM.normal(size=240) / 2
FOLDS = [np.arange(fold, 240, 3) for fold in range(3)]
PARAMETERS = {"n_estimators": 8, "num_leaves": 6}


class Told:
    """A masked loss whose features add what they are said to add, whatever else is masked."""

    def __init__(self, costs) -> None:
        self._costs, self.mask, self.loss = np.array(costs, float), np.ones(len(costs), bool), 1.0

    def without_each(self):
        return np.where(self.mask, self.loss + self._costs, np.inf)

    def remove(self, feature) -> None:
        self.loss += self._costs[feature]
        self.mask[feature] = False


def told(*costs_by_fold, importances):
    """Return judges of one stage; of later ones those of the features that are left."""

    def judges(mask, _):
        return [
            Judge(Told(np.array(costs)[mask]), 1.0, np.array(importances, float)[mask])
            for costs in costs_by_fold
        ]

    return judges


def test_a_copy_follows_each_row_with_features_masked_at_a_rate_of_its_own() -> None:
    rows = Rows(np.ones((20_000, 4)), np.arange(20_000.0), np.arange(20_000.0) + 1)
    both = with_masked_copies(rows, np.full(4, 7.0), np.random.default_rng(1), never=[2])
    assert (both.X[:20_000] == 1).all()
    assert (both.y == np.tile(rows.y, 2)).all()
    assert (both.weight == np.tile(rows.weight, 2)).all()
    copies = both.X[20_000:]
    assert set(np.unique(copies)) == {1, 7}
    assert (copies[:, 2] == 1).all()
    n_masked = (copies == 7).sum(axis=1)  # of three: every number is as likely as any other
    assert np.bincount(n_masked, minlength=4) / 20_000 == pytest.approx([0.25] * 4, abs=0.02)


@pytest.mark.parametrize(
    ("n_features", "fewest", "stages"), [(1, 1, 0), (2, 1, 1), (8, 1, 2), (9, 1, 2), (57, 4, 2)]
)
def test_three_quarters_of_the_features_leave_before_models_are_trained_again(
    n_features, fewest, stages
):
    assert len(stage_sizes(n_features, fewest)) == stages + 1
    sizes = []

    def judges(mask, stage):
        assert stage == len(sizes)
        sizes.append(int(mask.sum()))
        k = int(mask.sum())
        return [Judge(Told(np.arange(k)), 1.0, np.ones(k)) for _ in range(2)]

    path = eliminate_in_stages(judges, n_features, keep=range(fewest if fewest > 1 else 0))
    assert len(sizes) == stages
    assert all(after == max(fewest, before // 4) for before, after in pairwise(sizes))
    assert len(path.removed) == n_features - fewest


def test_what_costs_clearly_least_leaves_however_much_use_is_made_of_it() -> None:
    judges = told([3, 1, 2], [3.1, 1.1, 2.1], importances=[0, 5, 1])
    assert eliminate_in_stages(judges, 3).removed == (1, 2)


def test_of_features_within_a_standard_error_the_least_used_leaves() -> None:
    # Beside feature 1, feature 2 costs 0.1 more on average, give or take 0.3.
    judges = told([9, 1, 0.8], [9, 1, 1.4], importances=[1, 5, 2])
    assert eliminate_in_stages(judges, 3).removed == (2, 1)
    surer = told([9, 1, 1.05], [9, 1, 1.15], importances=[1, 5, 2])  # 0.1, give or take 0.05
    assert eliminate_in_stages(surer, 3).removed == (1, 2)


def test_of_equals_the_lowest_index_leaves_and_rounding_makes_no_difference() -> None:
    judges = told([1, 1 + 1e-15, 1], [1, 1 - 1e-15, 1], importances=[1, 1, 1])
    assert eliminate_in_stages(judges, 3).removed == (0, 1)
    assert eliminate_in_stages(told([0] * 3, [0] * 3, importances=[0] * 3), 3).removed == (0, 1)


def test_what_is_kept_never_leaves_and_scores_highest() -> None:
    judges = told([0, 1, 2, 3], [0, 1, 2, 3], importances=[1] * 4)
    progress = []
    path = eliminate_in_stages(
        judges, 4, keep=[0, 2], on_removal=lambda *done: progress.append(done)
    )
    assert path.removed == (1, 3)
    assert path.scores == (3, 1, 3, 2)
    assert progress == [(1, 2), (2, 2)]


@pytest.mark.parametrize(("weights", "leaves"), [((8, 1, 1), 0), ((1, 1, 1), 1)])
def test_a_fold_counts_by_its_weight(weights, leaves) -> None:
    """Feature 1 costs 0.76 or 0.2 more than feature 0, which is used more, give or take 0.4."""

    def judges(*_):
        costs = ([0, 1], [0, -0.2], [0, -0.2])
        return [
            Judge(Told(of_fold), float(weight), np.array([1.0, 0.0]))
            for of_fold, weight in zip(costs, weights, strict=True)
        ]

    assert eliminate_in_stages(judges, 2).removed == (leaves,)


def plain_loop(baseline) -> list[int]:
    """The rule with nothing but fits and predictions."""
    left, removed, stage = list(range(D)), [], 0
    while len(left) > 1:
        models = []
        for fold, held_out in enumerate(FOLDS):
            fitted = np.setdiff1d(np.arange(240), held_out)
            random = np.random.default_rng([5, stage, fold])
            some = X[fitted][:, left]
            is_masked = random.random(some.shape) < random.random(len(some))[:, None]
            both = np.vstack([some, np.where(is_masked, baseline[left], some)])
            model = LGBMRegressor(
                **PARAMETERS, random_state=5, n_jobs=1, verbose=-1, deterministic=True
            ).fit(both, np.tile(Y[fitted], 2))
            models.append((model, held_out))
        names, masked = list(left), set()
        for _ in range(len(left) - max(1, len(left) // 4)):
            losses = {}
            for j in set(names) - masked:
                losses[j] = []
                for model, held_out in models:
                    table = X[held_out][:, names].copy()
                    for k in masked | {j}:
                        table[:, names.index(k)] = baseline[k]
                    losses[j].append(np.mean((model.predict(table) - Y[held_out]) ** 2))
            means = {j: np.mean(values) for j, values in losses.items()}
            best = min(means, key=lambda j: (means[j], j))
            use = sum(
                np.array(m.booster_.feature_importance("gain"), float)
                / m.booster_.feature_importance("gain").sum()
                for m, _ in models
            )
            near = [
                j
                for j in sorted(means)
                if means[j] - means[best]
                <= np.std(np.subtract(losses[j], losses[best]), ddof=1) / np.sqrt(3) + 1e-12
            ]
            gone = min(near, key=lambda j: (use[names.index(j)], j))
            masked.add(gone)
            removed.append(gone)
        left = [j for j in left if j not in masked]
        stage += 1
    return removed


def test_it_is_the_plain_loop() -> None:
    baseline, rows = X.mean(axis=0), Rows(X, Y)
    names = tuple(f"x{j}" for j in range(D))
    schema = Schema(names, (0,) * D)
    loss = resolve_loss("squared_error", schema)

    def judges(mask, stage):
        found = []
        for fold, held_out in enumerate(FOLDS):
            fitted = np.setdiff1d(np.arange(240), held_out)
            random = np.random.default_rng([5, stage, fold])
            train = with_masked_copies(rows.take(fitted).select(mask), baseline[mask], random)
            model = fit("lightgbm", train, schema.select(mask), PARAMETERS, seed=5)
            engine = masked_loss(model, rows.take(held_out).select(mask), loss, baseline[mask])
            gains = np.asarray(model.booster.feature_importance("gain"), float)
            found.append(Judge(engine, float(len(held_out)), gains))
        return found

    path = eliminate_in_stages(judges, D)
    assert list(path.removed) == plain_loop(baseline)
    assert {1, 4, 7} == set(range(D)) - set(path.removed[: D - 3])


@pytest.mark.parametrize(
    ("n_features", "fewest", "sizes"),
    [(16, 1, [16, 11, 8, 6, 4, 3, 2, 1]), (3, 1, [3, 2, 1]), (100, 60, [100, 71, 60]), (5, 5, [5])],
)
def test_the_way_down_is_by_square_roots_of_a_half(n_features, fewest, sizes) -> None:
    tried, losses = on_the_way_down(lambda size: np.full(3, 7.0), n_features, fewest)
    assert tried == sizes
    assert losses.tolist() == [[7.0] * len(sizes)] * 3


def test_the_way_down_ends_after_two_sizes_that_are_clearly_worse() -> None:
    of_folds = {
        16: [5.0, 5.2],
        11: [4.0, 4.2],  # better in each fold: the best from here on, with a standard error of .1
        8: [4.3, 4.5],  # worse by .3
        6: [4.9, 3.7],  # worse by .2, with a standard error of .7: not clearly
        4: [4.4, 4.6],
        3: [4.5, 4.7],  # the second in a row
    }
    sizes, losses = on_the_way_down(lambda size: np.array(of_folds[size]), 16, 1)
    assert sizes == list(of_folds)
    assert losses.T.tolist() == list(of_folds.values())


def test_it_goes_on_where_a_size_is_within_the_standard_error_of_the_lowest_mean() -> None:
    of_folds = {4: [4.0, 5.0], 3: [4.4, 5.4], 2: [4.45, 5.45], 1: [4.49, 5.49]}  # up to .5
    sizes, _ = on_the_way_down(lambda size: np.array(of_folds[size]), 4, 1)
    assert sizes == [4, 3, 2, 1]


def test_a_size_that_does_as_well_is_the_new_best() -> None:
    of_folds = {4: [5.0, 5.0], 3: [5.0, 5.0], 2: [5.1, 5.1], 1: [5.0, 5.0]}
    sizes, _ = on_the_way_down(lambda size: np.array(of_folds[size]), 4, 1)
    assert sizes == [4, 3, 2, 1]
