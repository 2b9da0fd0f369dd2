"""Which number of features a curve of held-out losses chooses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from chaffinch.tasks.statistics.size_curve import Leaving, SizeCurve

SIZES = (8, 4, 2, 1)


def test_no_price_where_all_features_are_not_shown_to_explain_anything():
    prices = curve_of((1.0, 1.1, 1.2, 1.3), noise=0.1, constant=1.05).shares_lost(1.5)
    assert prices[0] == (0.0, 0.0)
    assert all(0 <= share <= bound for share, bound in prices)
    for open_or_none in (
        curve_of((1.0, 1.1, 1.2, 1.3), noise=30.0, constant=1.05),
        curve_of((1.0, 1.1, 1.2, 1.3), constant=0.9),
    ):
        assert open_or_none.shares_lost(1.5) == [(None, None)] * 4


def curve_of(means, noise=0.0, n_rows=400, seed=0, constant=2.0, **roles):
    """Return a curve of these mean losses; all features have 1.0 and the constant 2.0."""
    random = np.random.default_rng(seed)
    draws = random.normal(size=(len(means), n_rows))
    draws -= draws.mean(axis=1, keepdims=True)
    fold = np.arange(n_rows) % 5
    given = {"weight": np.ones(n_rows), "unit": np.arange(n_rows), "fold": fold} | roles
    losses = np.array(means)[:, None] + noise * draws
    return SizeCurve(SIZES, losses, np.full(n_rows, constant), **given)


@pytest.mark.parametrize(
    ("means", "tolerance", "chosen"),
    [
        ((1.0, 1.3, 1.5, 1.7), 0.02, 8),  # nothing smaller is within the tolerance
        ((1.0, 0.9, 1.5, 1.7), 0.02, 4),  # the best
        ((1.0, 0.9, 0.9, 1.7), 0.02, 2),  # of equals the smaller
        ((1.0, 1.01, 1.5, 1.7), 0.02, 4),  # within the tolerance, though all features are better
        ((1.0, 0.95, 0.9, 0.99), 0.0, 2),
        ((1.0, 0.9, 0.905, 0.915), 0.02, 2),  # half the tolerance above the best
        ((1.0, 0.9, 0.905, 0.915), 0.04, 1),
    ],
)
def test_of_the_sizes_within_the_tolerance_the_smallest_near_the_best_is_chosen(
    means, tolerance, chosen
):
    assert curve_of(means).choose(tolerance, at_most=8) == chosen


def test_a_size_passes_where_its_interval_shows_that_it_is_no_worse():
    """By hand: 1.649 is Student's 95 % quantile, the standard error is noise sqrt(2 / 399)."""
    for noise, chosen in ((1.35, 2), (1.7, 8)):
        curve = curve_of((1.0, 1.5, 0.825, 1.9), noise=noise)
        error = curve.over_all_features()[1][2]
        assert error == pytest.approx(noise * np.sqrt(2 / 399), rel=0.1)
        assert (1.649 * error < 0.175) == (chosen == 2)
        assert curve.choose(0.0, at_most=8) == chosen


def leaving(*means, spread=0.0, weight=4.0):
    """Return what leaves with each size: these means, in 10 blocks."""
    around = spread * np.linspace(-1, 1, 10)
    taken = (np.array(means)[:, None] + around) * weight
    return Leaving(taken, np.full(10, weight), np.arange(10) % 5)


@pytest.mark.parametrize(
    ("taken_off", "spread", "chosen"),
    [
        ((0, 0.0, -0.01, 0.5), 0.0, 2),  # what leaves is of no use
        ((0, 0.015, 0.015, 0.5), 0.0, 2),  # or of less than the tolerance
        ((0, 0.03, 0.03, 0.5), 0.0, 8),
        ((0, 0.0, 0.0, 0.5), 0.1, 8),  # which is not shown here
    ],
)
def test_where_no_test_shows_anything_what_is_of_no_use_leaves(taken_off, spread, chosen):
    curve = curve_of((1.0, 1.003, 1.005, 1.006), noise=1.7)
    assert curve.choose(0.02, at_most=8) == 8
    curve = replace(curve, leaving=leaving(*taken_off, spread=spread))
    assert curve.choose(0.02, at_most=8) == chosen


def test_what_is_of_no_use_stays_where_the_refits_lose_more_without_it():
    curve = curve_of((1.0, 1.005, 1.015, 1.03), noise=1.7)
    of_no_use = replace(curve, leaving=leaving(0, 0, 0, 0))
    # 1.03 is beyond the tolerance, 1.015 more than half of it above the lowest
    assert of_no_use.choose(0.02, at_most=8) == 4


def test_the_bound_of_what_leaves_is_that_of_a_ratio_over_blocks():
    random = np.random.default_rng(0)
    taken, weight = random.normal(size=10), random.random(10) + 0.5
    mean = taken.sum() / weight.sum()
    error = np.sqrt(10 / 9 * np.square(taken - mean * weight).sum()) / weight.sum()
    bounds = Leaving(taken[None], weight, np.arange(10) % 5).upper_bounds()
    assert bounds == pytest.approx([mean + stats.t.ppf(0.95, 9) * error])


@given(
    st.integers(0, 10_000),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.02, 0.1, 0.5, 2.0]),
    st.booleans(),
)
def test_a_size_passes_at_a_tolerance_at_which_the_plain_test_shows_it_or_at_a_lower_one(
    seed, skill, tolerance, is_weighted
):
    random = np.random.default_rng(seed)
    of_all, of_few, constant = random.normal(size=(3, 40)) * random.random((3, 1))
    constant += skill
    unit = np.arange(40) // 2
    weight = random.random(40) + 0.1 if is_weighted else np.ones(40)
    fold = np.arange(40) % 5
    curve = SizeCurve((2, 1), np.array([of_all, of_few]), constant, weight, unit, fold)
    if np.average(constant - of_all, weights=weight) <= 0:
        return

    def bound(t):
        values = np.array([of_few - of_all - t * (constant - of_all)]) * weight
        sums, weights = values.reshape(20, 2).sum(axis=1), weight.reshape(20, 2).sum(axis=1)
        mean = sums.sum() / weights.sum()
        error = np.sqrt(20 / 19 * np.square(sums - mean * weights).sum()) / weights.sum()
        return mean + stats.t.ppf(0.95, 19) * error

    bounds = [bound(t) for t in np.linspace(0, tolerance, 201)]
    skill_is_shown = bound(1e9) < 0
    if min(map(abs, bounds)) < 1e-3:  # between two steps of the grid
        return
    passes = bounds[0] <= 0 or (skill_is_shown and min(bounds) <= 0)
    assert curve.choose(tolerance, at_most=2) == (1 if passes else 2)


@st.composite
def curves(draw):
    """Return curves of few rows, in which anything may be the best by chance."""
    n_sizes, n_rows = draw(st.integers(2, 9)), draw(st.sampled_from([10, 30, 200]))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    common = random.normal(size=n_rows)
    own = draw(st.floats(0, 1)) * random.normal(size=(n_sizes, n_rows))
    levels = draw(st.floats(0, 0.5)) * random.random((n_sizes, 1))
    constant = common + draw(st.floats(-0.2, 1.5)) + 0.3 * random.normal(size=n_rows)
    fold, unit = np.arange(n_rows) % 5, np.arange(n_rows)
    sizes = tuple(range(n_sizes, 0, -1))
    of_no_use = None
    if draw(st.booleans()):
        taken = draw(st.floats(0, 0.5)) * random.random((n_sizes, 10)) - 0.1
        of_no_use = Leaving(taken, np.ones(10), np.arange(10) % 5)
    losses = common + own + levels
    return SizeCurve(sizes, losses, constant, np.ones(n_rows), unit, fold, of_no_use)


@given(curves(), st.floats(0, 1), st.floats(0, 1), st.data())
def test_a_larger_tolerance_never_chooses_a_larger_size(curve, one, other, data):
    at_most = data.draw(st.sampled_from(curve.sizes))
    low, high = sorted((one, other))
    asked = {"at_most": at_most}
    assert curve.choose(high, **asked) <= curve.choose(low, **asked) <= at_most


def at(curve, places):
    """Return the curve of some of its sizes."""
    left = curve.leaving
    left = None if left is None else replace(left, taken_off=left.taken_off[places])
    sizes = tuple(curve.sizes[place] for place in places)
    return replace(curve, sizes=sizes, losses=curve.losses[places], leaving=left)


@given(curves(), st.floats(0, 1))
def test_all_features_are_kept_only_where_no_smaller_size_passes(curve, tolerance):
    for place in range(1, len(curve.sizes)):
        if at(curve, [0, place]).choose(tolerance, at_most=curve.sizes[0]) < curve.sizes[0]:
            assert curve.choose(tolerance, at_most=curve.sizes[0]) < curve.sizes[0]


def test_of_the_sizes_that_pass_the_smallest_within_one_standard_error_is_chosen():
    means = (1.0, 0.9, 0.912, 1.009)
    curve = curve_of(means, noise=0.2)  # standard error of a difference: .014
    assert curve.choose(0.02, at_most=8) == 2
    assert curve_of(means, noise=0.05).choose(0.02, at_most=8) == 4


def test_without_a_tolerance_every_size_passes():
    curve = curve_of((1.0, 1.03, 1.2, 1.7), noise=0.5)  # standard error of a difference: .035
    assert curve.choose(0.02, at_most=8) == 8
    assert curve.choose(None, at_most=8) == 4


@pytest.mark.parametrize(
    ("means", "at_most", "settled"),
    [
        ((1.0, 0.95, 0.94, 0.9), 8, True),
        ((1.0, 0.9, 0.9, 0.9), 8, True),
        ((1.0, 0.95, 0.9, 0.94), 8, False),  # only one larger size was tried
        ((1.0, 1.1, 1.2, 1.3), 8, False),  # none passes
        ((0.9, 1.1, 1.2, 1.0), 4, False),  # none passes, so that the largest of 4 is asked for
        ((1.1, 1.1, 1.2, 1.0), 4, True),
        ((0.8, 1.0, 1.0, 0.8), 8, True),  # as good as all, which is no reason to go on
    ],
)
def test_a_curve_is_settled_where_two_larger_sizes_are_no_better(means, at_most, settled):
    assert curve_of(means).is_settled(0.02, at_most=at_most) == settled


def test_where_all_features_explain_nothing_a_size_must_beat_the_constant():
    def chosen(noise, constant, means=(1.0, 1.001, 0.97, 1.3)):
        return curve_of(means, noise=noise, constant=constant).choose(0.02, at_most=8)

    assert chosen(noise=0.02, constant=0.99) == 2
    assert chosen(noise=1.0, constant=0.99) == 1  # not shown: the smallest
    assert chosen(noise=0.0, constant=0.97) == 1  # the same as the constant
    assert chosen(noise=0.0, constant=0.9) == 1


def test_rows_of_a_group_count_as_one_and_weights_count():
    random = np.random.default_rng(0)
    of_group = np.repeat(random.normal(size=10), 40)
    losses = np.vstack([np.zeros(400), of_group])
    curve = SizeCurve(
        (2, 1), losses, np.ones(400), np.ones(400), np.repeat(np.arange(10), 40), np.arange(400) % 5
    )
    (_, difference), (_, error) = curve.over_all_features()
    groups = of_group[::40]
    assert difference == pytest.approx(groups.mean())
    assert error == pytest.approx(groups.std(ddof=1) / np.sqrt(10))
    weight = np.where(np.arange(400) < 40, 3.0, 1.0)
    weighted = SizeCurve((2, 1), losses, np.ones(400), weight, curve.unit, curve.fold)
    assert weighted.means[1] == pytest.approx(np.average(of_group, weights=weight))


def test_the_curve_of_the_other_folds_knows_nothing_of_one():
    curve = curve_of((1.0, 0.9, 0.8, 0.7), noise=0.1)
    spoilt = curve.losses.copy()
    spoilt[:, curve.fold == 3] = 1e6
    other = replace(curve, losses=spoilt)
    assert other.without(3).means.tolist() == curve.without(3).means.tolist()
    assert len(curve.without(3).unit) == 320


def test_of_many_sizes_all_intervals_and_bounds_hold_together_as_often_as_they_say():
    """Each of 20 loses a tenth of what all explain; of intervals by themselves some always miss."""
    n, k, n_samples, random = 200, 20, 300, np.random.default_rng(0)
    hold = np.zeros((n_samples, 2), bool)
    for sample in hold:
        losses = np.r_[1.0, np.full(k, 1.1)][:, None] + 0.3 * random.normal(size=(k + 1, n))
        sizes, zeros = tuple(range(k + 1, 0, -1)), np.zeros(n, np.int64)
        curve = SizeCurve(sizes, losses, np.full(n, 2.0), np.ones(n), np.arange(n), zeros)
        intervals, shares = curve.intervals(1.0, n_bounds=k), curve.shares_lost(1.0, n_bounds=k)
        sample[0] = all(low <= 0.1 <= high for low, high in intervals[1:])
        sample[1] = all(at_most >= 0.1 for _, at_most in shares[1:])
    assert (hold.mean(axis=0) > 0.93).all()
    assert (hold.mean(axis=0) < 1).all()
