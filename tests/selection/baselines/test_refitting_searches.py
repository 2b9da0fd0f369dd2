"""Searches by refits against scikit-learn's, plain loops, and answers known by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.feature_selection import RFE
from sklearn.linear_model import LinearRegression

from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.baselines.importances import select_from_model
from chaffinch.tasks.selection.baselines.wrappers import (
    CrossValidatedPath,
    Swarm,
    eliminate_by_refits,
    n_refits_backward,
    n_refits_forward,
    particle_swarm,
    sequential_backward,
    sequential_forward,
    sizes_on_the_way,
)
from chaffinch.tasks.selection.core import Rows, Schema

D, N = 7, 240
SWARM = Swarm(10, 25, inertia=0.7298, cognitive=1.49618, social=1.49618)


def table(d=D, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, d)) + 0.7 * random.normal(size=(N, 1))
    return X, X @ random.normal(size=d) ** 3 + random.normal(size=N)


class Losses:
    """A made-up loss for every mask, and all that was asked."""

    def __init__(self, loss) -> None:
        self.loss, self.asked = loss, []

    def __call__(self, masks):
        assert masks
        self.asked += [mask.copy() for mask in masks]
        return [self.loss(mask) for mask in masks]


def at_random(d=D, seed=0):
    """Losses without rhyme or reason, so that a search cannot be right by luck."""
    values = np.random.default_rng(seed).random(2**d)
    return Losses(lambda mask: float(values[mask @ (1 << np.arange(d))]))


def mask_of(features, d=D):
    mask = np.zeros(d, dtype=bool)
    mask[list(features)] = True
    return mask


# Sequential


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("keep", [(), (2,), (5, 1)])
def test_forward_is_the_plain_loop(seed, keep) -> None:
    losses = at_random(seed=seed)
    path = sequential_forward(losses, D, largest=5, keep=keep)
    inside, expected = set(keep), [set(keep)] if keep else []
    while len(inside) < 5:
        others = [inside | {j} for j in range(D) if j not in inside]
        inside = min(others, key=lambda features: losses.loss(mask_of(features)))
        expected.append(inside)
    assert [set(np.flatnonzero(mask)) for mask in path.masks] == expected
    assert list(path.losses) == [losses.loss(mask) for mask in path.masks]
    assert len(losses.asked) == n_refits_forward(D, 5, len(keep))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("keep", [(), (2,), (5, 1)])
def test_backward_is_the_plain_loop(seed, keep) -> None:
    losses = at_random(seed=seed)
    path = sequential_backward(losses, D, smallest=3, keep=keep)
    inside, removed = set(range(D)), []
    while len(inside) > 3:
        leaving = min(inside - set(keep), key=lambda j: losses.loss(mask_of(inside - {j})))
        inside, removed = inside - {leaving}, [*removed, leaving]
    assert list(path.removed) == removed
    assert path.unmasked_loss == losses.loss(mask_of(range(D)))
    assert path.losses[-1] == losses.loss(mask_of(inside))
    assert len(losses.asked) == n_refits_backward(D, 3, len(keep))


def test_of_equal_losses_the_lowest_index_goes_first() -> None:
    path = sequential_forward(Losses(lambda mask: 1.0), 4, largest=2)
    assert path.masks[-1].tolist() == [True, True, False, False]
    assert sequential_backward(Losses(lambda mask: 1.0), 4, smallest=2).removed == (0, 1)


def test_all_features_and_features_that_are_all_kept() -> None:
    assert sequential_forward(at_random(3), 3, largest=3).masks[-1].all()
    assert sequential_backward(at_random(3), 3, smallest=3).removed == ()
    everything = sequential_forward(at_random(3), 3, largest=3, keep=(0, 1, 2))
    assert [mask.tolist() for mask in everything.masks] == [[True] * 3]


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"largest must be in 2..4 but is 1"):
        sequential_forward(at_random(4), 4, largest=1, keep=(0, 3))
    with pytest.raises(ValueError, match=r"smallest must be in 1..4 but is 5"):
        sequential_backward(at_random(4), 4, smallest=5)
    with pytest.raises(ValueError, match=r"keep must name features in 0..3 but is \[-1\]"):
        sequential_backward(at_random(4), 4, smallest=2, keep=(-1,))


# Recursive feature elimination


def test_recursive_elimination_is_that_of_scikit_learn() -> None:
    X, y = table(9)
    path = eliminate_by_refits(
        lambda mask: np.abs(LinearRegression().fit(X[:, mask], y).coef_), 9, share=0.1
    )
    theirs = RFE(LinearRegression(), n_features_to_select=1, step=1).fit(X, y)
    assert [theirs.ranking_[j] for j in path.removed] == list(range(9, 1, -1))
    assert list(path.scores) == (10 - theirs.ranking_).tolist()

    schema = Schema(tuple("abcdefghi"), (0,) * 9)

    def gains(mask):
        rows = Rows(X, y).select(mask)
        model = models.fit("lightgbm", rows, schema.select(mask), {"n_estimators": 10}, seed=3)
        return select_from_model(model)

    forest = LGBMRegressor(
        n_estimators=10, importance_type="gain", random_state=3, verbose=-1, n_jobs=1,
        deterministic=True, force_col_wise=True,
    )  # fmt: skip
    theirs = RFE(forest, n_features_to_select=4, step=1).fit(X, y)
    ours = eliminate_by_refits(gains, 9, share=0.1).best(4)
    np.testing.assert_array_equal(ours, theirs.get_support())


def test_a_share_leaves_at_a_time_and_what_leaves_together_in_the_order_of_importance() -> None:
    assert sizes_on_the_way(100, 1, 0.1)[:5] == [100, 90, 81, 73, 66]
    assert sizes_on_the_way(100, 1, 0.1)[-4:] == [4, 3, 2, 1]
    assert sizes_on_the_way(10, 4, 0.5) == [10, 5, 4]
    assert sizes_on_the_way(1, 1, 0.5) == [1]
    asked, worth = [], np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])

    def importances(mask):
        asked.append(int(mask.sum()))
        return worth[mask]

    path = eliminate_by_refits(importances, 8, share=0.5)
    assert asked == [8, 4, 2]
    assert path.removed == (1, 3, 6, 0, 2, 4, 7)
    assert path.scores == (4, 1, 5, 2, 6, 8, 3, 7)
    assert eliminate_by_refits(importances, 8, share=0.5, keep=(3, 1)).removed == (
        6, 0, 2, 4, 7, 5,
    )  # fmt: skip


def test_the_size_has_the_lowest_loss_or_lies_within_one_standard_error_of_it() -> None:
    losses = np.array([[1.0, 0.50, 0.52, 0.9], [1.0, 0.70, 0.72, 0.9]])
    order = eliminate_by_refits(lambda mask: np.arange(mask.sum()), 4, share=0.1)
    path = CrossValidatedPath.from_folds(order, [4, 3, 2, 1], losses)
    assert path.losses == pytest.approx((1.0, 0.6, 0.62, 0.9))
    assert path.standard_errors == pytest.approx((0.0, 0.1, 0.1, 0.0))
    assert path.best_size() == 3
    assert path.best_size(within_one_standard_error=True) == 2
    assert path.best_size(at_most=2) == 2
    assert path.best_size(at_most=1, within_one_standard_error=True) == 1
    with pytest.raises(ValueError, match="at_most must be at least 1 but is 0"):
        path.best_size(at_most=0)
    level = CrossValidatedPath.from_folds(order, [4, 3, 2, 1], np.ones((2, 4)))
    assert level.best_size() == 1  # of equals, the smaller


# Particle swarm


def plain_swarm(loss, d, swarm, seed):
    """The papers' formulas, one particle and one feature after the other."""
    random = np.random.default_rng(seed)
    velocity = random.uniform(-1, 1, (swarm.individuals, d))
    own, best = [None] * swarm.individuals, (np.inf, d, None)
    x = np.zeros((swarm.individuals, d), dtype=bool)
    for generation in range(swarm.generations):
        if generation:
            to_own, to_best = random.random(x.shape), random.random(x.shape)
            for i, j in itertools.product(range(swarm.individuals), range(d)):
                pull = swarm.cognitive * to_own[i, j] * (int(own[i][2][j]) - int(x[i, j]))
                pull += swarm.social * to_best[i, j] * (int(best[2][j]) - int(x[i, j]))
                velocity[i, j] = min(6, max(-6, swarm.inertia * velocity[i, j] + pull))
        draw = random.random(x.shape)
        for i in range(swarm.individuals):
            margin = 1 / (1 + np.exp(-velocity[i])) - draw[i]
            x[i] = margin > 0
            if not x[i].any():
                x[i, np.argmax(margin)] = True
            worth = (loss(x[i]), int(x[i].sum()), x[i].copy())
            if own[i] is None or worth[:2] < own[i][:2]:
                own[i] = worth
        best = min(own, key=lambda worth: worth[:2])
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [2, 12])
def test_the_swarm_is_the_papers_loop(seed, d) -> None:
    losses, swarm = at_random(d, seed), Swarm(5, 8, inertia=0.9, cognitive=1.2, social=1.7)
    path = particle_swarm(losses, d, swarm, seed)
    loss, _, mask = plain_swarm(losses.loss, d, swarm, seed)
    assert path.losses[-1] == loss
    np.testing.assert_array_equal(path.masks[-1], mask)


@pytest.mark.parametrize("seed", range(4))
def test_the_swarm_improves_and_asks_about_each_mask_once_and_never_about_an_empty_one(
    seed,
) -> None:
    losses = at_random(14, seed)
    path = particle_swarm(losses, 14, SWARM, seed)
    assert len(path.masks) == len(path.losses) == 25
    assert list(path.losses) == sorted(path.losses, reverse=True)
    assert path.losses[-1] < path.losses[0] == min(map(losses.loss, losses.asked[:10]))
    assert path.losses[-1] == min(map(losses.loss, losses.asked))
    assert list(path.losses) == [losses.loss(mask) for mask in path.masks]
    assert len({mask.tobytes() for mask in losses.asked}) == len(losses.asked) <= 250
    assert all(mask.any() for mask in losses.asked)


def test_what_must_be_kept_is_in_every_mask_and_no_mask_is_larger_than_allowed() -> None:
    losses = at_random(12)
    particle_swarm(losses, 12, SWARM, 0, keep=(3, 9), at_most=4)
    sizes = {int(mask.sum()) for mask in losses.asked}
    assert all(mask[[3, 9]].all() for mask in losses.asked)
    assert max(sizes) == 4
    assert min(sizes) >= 2
    # which of the others are in does not hang on their place
    assert set(np.flatnonzero(np.any(losses.asked[:10], axis=0))) > {3, 9, 10, 11}
    with pytest.raises(ValueError, match=r"at_most must be in 2..12 but is 1"):
        particle_swarm(losses, 12, SWARM, 0, keep=(3, 9), at_most=1)


def test_of_equal_losses_the_smaller_mask_is_the_better() -> None:
    path = particle_swarm(Losses(lambda mask: 1.0), 6, SWARM, 0)
    sizes = [int(mask.sum()) for mask in path.masks]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_a_swarm_over_one_feature_asks_once() -> None:
    losses = at_random(1)
    assert particle_swarm(losses, 1, SWARM, 0).masks[-1].tolist() == [True]
    assert len(losses.asked) == 1
