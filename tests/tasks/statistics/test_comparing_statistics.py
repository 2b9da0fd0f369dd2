"""The statistics of a comparison: worked examples, brute force, and intervals that hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from chaffinch.tasks.comparing.summary import beats, smallest_near_best
from chaffinch.tasks.statistics.paired_tests import (
    OverConstant,
    PairedDifference,
    holm,
    over_constants,
    p_value_below,
    paired_difference,
    pareto_front,
    standard_error,
    verdict_on,
)
from chaffinch.tasks.statistics.ranks_and_stability import (
    critical_difference,
    friedman_p_value,
    groups_alike,
    mean_ranks,
    stability_of,
)

NAN = math.nan

# Demsar 2006, table 6: the area under the curve of four variants of C4.5 on 14 tables.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],  # printed as equal, ranked as second and third
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_a_difference_worked_by_hand() -> None:
    found = paired_difference(
        np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]), np.full(3, 0.25)
    )
    error = math.sqrt((1 / 3 + 1 / 4) * 1.0)  # differences 1, 2, 3: their variance is 1
    assert found.mean == 2
    assert found.n_pairs == 3
    assert found.interval == pytest.approx((2 - 4.302653 * error, 2 + 4.302653 * error))
    assert found.p_value == pytest.approx(2 * stats.t.sf(2 / error, 2))


def test_without_test_rows_to_share_it_is_students_paired_test() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=12), rng.normal(size=12)
    found, known = paired_difference(one, other, np.zeros(12)), stats.ttest_rel(one, other)
    assert found.p_value == pytest.approx(known.pvalue)
    assert found.interval == pytest.approx(tuple(known.confidence_interval(0.95)))


def test_cells_without_both_losses_do_not_count() -> None:
    one, other = np.array([1.0, 2, NAN, 4, 9]), np.array([0.5, 1, 2, NAN, 3])
    share = np.array([0.2, 0.3, NAN, 7, 0.4])
    whole = np.array([0, 1, 4])
    assert paired_difference(one, other, share) == paired_difference(
        one[whole], other[whole], share[whole]
    )
    assert paired_difference(np.array([1.0, NAN]), np.array([NAN, 1.0]), np.ones(2)) is None


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_pairs_have_no_interval(n: int) -> None:
    found = paired_difference(np.arange(1.0, n + 1), np.zeros(n), np.full(n, 0.25))
    assert (found.interval, found.p_value, found.n_pairs) == (None, None, n)
    assert verdict_on(found, None, is_all=False) == "cannot tell"


@pytest.mark.parametrize("change", [0.0, -0.01])
def test_differences_that_do_not_vary_are_no_certainty(change: float) -> None:
    # three folds that each differ by one row, the losses being accuracies
    other = np.array([-0.93, -0.9, -0.97])
    found = paired_difference(other + change, other, np.full(3, 0.5), is_by_value=False)
    assert not found.is_nothing
    assert verdict_on(found, None, is_all=False) == "cannot tell"
    assert found.is_constant
    assert found.mean == pytest.approx(change)
    assert (found.interval, found.p_value) == (None, None)


def test_losses_that_are_the_same_throughout_are_shown_to_differ_by_nothing() -> None:
    other = np.array([0.93, 0.9, 0.97])
    for change, n, is_nothing in (
        (0.0, 3, True),
        (1e-16, 3, True),
        (1e-9, 3, False),
        (0.0, 2, False),
    ):
        found = paired_difference(other[:n] + change, other[:n], np.full(n, 0.5))
        assert found.is_nothing == is_nothing
        assert found.mean == (pytest.approx(change, rel=1e-6) if change > 1e-12 else 0.0)
        beyond_p = p_value_below(found)
        assert beyond_p == (0.0 if is_nothing else None)
        verdict = "as good with fewer columns" if is_nothing else "cannot tell"
        how = {"is_all": False, "is_informative": True, "beyond_p": beyond_p}
        assert verdict_on(found, None, **how) == verdict


def losses_over_folds(trial: int, n_fitted: int = 48) -> np.ndarray:
    """Losses of least squares on 3 features that matter and on 12, over 3 times 5 folds of 60 rows.

    Where fewer than all rows inside are fitted, the others choose between 3 features and 6.
    """
    rng = np.random.default_rng(trial)
    X = rng.normal(size=(60, 12))
    y = X[:, :3].sum(axis=1) + rng.normal(size=60)

    def loss(fitted: np.ndarray, rows: np.ndarray, p: int) -> float:
        weights = np.linalg.lstsq(X[fitted, :p], y[fitted])[0]
        return float(np.mean((y[rows] - X[rows, :p] @ weights) ** 2))

    losses = []
    for _ in range(3):
        for test in np.split(rng.permutation(60), 5):
            inside, few = np.setdiff1d(np.arange(60), test), 3
            if n_fitted < len(inside):
                inside = rng.permutation(inside)
                by_choice = [loss(inside[:n_fitted], inside[n_fitted:], p) for p in (3, 6)]
                few = (3, 6)[int(np.argmin(by_choice))]
            losses.append([loss(inside[:n_fitted], test, p) for p in (few, 12)])
    return np.array(losses).T


def test_the_interval_holds_the_true_difference_of_two_models_over_repeated_folds() -> None:
    truth = 3 / (48 - 3 - 1) - 12 / (48 - 12 - 1)
    held = 0
    for trial in range(300):
        low, high = paired_difference(*losses_over_folds(trial), np.full(15, 12 / 48)).interval
        held += low <= truth <= high
    assert held >= 0.93 * 300


def test_holm_worked_by_hand() -> None:
    corrected = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert corrected == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1, 1])
    assert holm(np.array([0.04])) == pytest.approx([0.04])


def test_what_was_not_tested_does_not_count_among_many() -> None:
    corrected = holm(np.array([NAN, 0.02, NAN, 0.01]))
    assert corrected[[1, 3]] == pytest.approx([0.02, 0.02])
    assert np.isnan(corrected[[0, 2]]).all()
    assert len(holm(np.array([]))) == 0


def test_verdicts_follow_the_corrected_p_value_and_the_sign() -> None:
    losses = np.array([0.1, 0.2, 0.15, 0.12])
    lower, higher = (paired_difference(s * losses, np.zeros(4), np.zeros(4)) for s in (-1, 1))
    assert verdict_on(lower, 0.049, is_all=False) == "better"
    assert verdict_on(higher, 0.049, is_all=False) == "worse"
    assert verdict_on(lower, 0.051, is_all=False) == "cannot tell"
    assert verdict_on(lower, 0.001, is_all=True) == "cannot tell"
    assert verdict_on(None, None, is_all=False) == "cannot tell"
    shown = {"is_all": False, "is_informative": True, "beyond_p": 0.049}
    for difference, corrected_p in ((lower, 0.051), (higher, 0.051), (higher, 0.001)):
        assert verdict_on(difference, corrected_p, **shown) == "as good with fewer columns"
    for change in ({"is_informative": False}, {"beyond_p": 0.051}, {"beyond_p": None}):
        assert verdict_on(higher, 0.049, **{**shown, **change}) == "worse"
        assert verdict_on(higher, 0.051, **{**shown, **change}) == "cannot tell"
    assert verdict_on(higher, 0.051, **{**shown, "is_all": True}) == "cannot tell"


def test_the_p_value_below_is_one_sided() -> None:
    losses = np.array([0.1, 0.2, -0.05, 0.12])
    for sign in (-1, 1):
        found = paired_difference(sign * losses, np.zeros(4), np.zeros(4))
        expected = stats.ttest_1samp(sign * losses, 0, alternative="less").pvalue
        assert p_value_below(found) == pytest.approx(expected)
    assert p_value_below(None) is None


def test_the_smallest_size_near_the_best() -> None:
    hard = np.array([0.0, 1.0, 2.0, 3.0])  # what a cell adds to the loss of every size
    share, unknown = np.full(4, 0.25), np.full(4, NAN)
    excess = np.array([[0.5, 0.6, 0.4, 0.5], [0.1, -0.1, 0.1, -0.05], [0.0] * 4, [0.2] * 4])
    assert smallest_near_best(excess + hard, share, unknown) == (2, 1)
    near = excess[1].mean() / standard_error(excess[1], share)
    assert 0 < near < 1
    # what is steadily worse is not near, however hard the cells are
    assert excess[0].mean() < standard_error(hard, share)
    assert smallest_near_best(excess[[0, 2]] + hard, share, unknown) == (1, 1)
    # of two cells nothing is known
    assert smallest_near_best(excess[:, :2], np.ones(2), unknown[:2]) is None
    assert smallest_near_best(np.empty((0, 4)), np.ones(4), unknown) is None


def test_an_unsteady_size_is_not_near_the_best_by_its_own_unsteadiness() -> None:
    """One standard error is at most that of the best's own mean loss, as Breiman has it."""
    best, unsteady = np.array([1.0, 1.1, 0.9, 1.0]), np.array([1.0, 4.0, 0.9, 1.3])
    share, unknown = np.full(4, 0.25), np.full(4, NAN)
    excess = unsteady - best
    assert standard_error(best, share) < excess.mean() < standard_error(excess, share)
    assert smallest_near_best(np.array([unsteady, best]), share, unknown) == (1, 1)


def test_no_size_is_near_the_best_that_does_no_better_than_a_constant() -> None:
    best, near = np.array([1.0, 1.4, 0.6, 1.2]), np.array([1.1, 1.3, 0.8, 1.1])
    share, losses = np.full(4, 0.25), np.array([near, best])
    assert smallest_near_best(losses, share, np.full(4, 1.2)) == (1, 0)
    assert smallest_near_best(losses, share, np.full(4, 1.06)) == (1, 1)
    assert smallest_near_best(losses, share, np.array([1.05, NAN, NAN, NAN])) == (1, 1)
    assert [beats(best, np.full(4, loss)) for loss in (1.1, 1.0, NAN)] == [True, False, None]


def test_the_front_is_what_brute_force_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes, losses = rng.integers(1, 6, 12).astype(float), rng.integers(0, 6, 12) / 10
        losses[rng.random(12) < 0.1] = NAN
        front = pareto_front(sizes, losses)
        for i in range(12):
            dominated = any(
                sizes[j] <= sizes[i]
                and losses[j] <= losses[i]
                and (sizes[j], losses[j]) != (sizes[i], losses[i])
                for j in range(12)
            )
            assert front[i] == (not math.isnan(losses[i]) and not dominated)


def test_mean_ranks_are_those_of_demsar() -> None:
    assert mean_ranks(-DEMSAR) == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)


def test_friedmans_test_rejects_in_demsars_example_and_not_among_equals() -> None:
    assert 0.01 < friedman_p_value(-DEMSAR) < 0.05  # chi-squared 9.28, before ties are allowed for
    assert friedman_p_value(np.ones((5, 3))) is None
    assert friedman_p_value(np.array([[1.0, 2, 3]])) is None
    assert friedman_p_value(DEMSAR[:, :2]) is None


@pytest.mark.parametrize(
    ("n_methods", "quantile"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (8, 3.031), (10, 3.164)],
)
def test_critical_differences_have_the_quantiles_that_demsar_prints(n_methods, quantile) -> None:
    expected = quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * 14))
    assert critical_difference(n_methods, 14) == pytest.approx(expected, rel=4e-4)


def test_groups_are_the_widest_runs_within_the_critical_difference() -> None:
    ranks = np.array([1.0, 1.5, 2.9, 3.0, 5.0])
    assert groups_alike(ranks, 1.6) == [(0, 1), (1, 3)]
    assert groups_alike(ranks, 10) == [(0, 4)]
    assert groups_alike(ranks, 0.05) == []


def test_stability_of_equal_sets_is_one_and_of_opposite_ones_minus_one() -> None:
    same = np.tile([True, False, True, False], (6, 1))
    assert stability_of(same).value == 1
    assert stability_of(same).interval == (1, 1)
    assert stability_of(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)).value == -1


def test_stability_of_sets_of_one_size_is_kunchevas_index_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    chosen = np.zeros((7, 20), dtype=bool)
    for row in chosen:
        row[rng.choice(12, 5, replace=False)] = True
    by_chance = 5 * 5 / 20
    pairs = [
        ((one & other).sum() - by_chance) / (5 - by_chance)
        for one, other in itertools.combinations(chosen, 2)
    ]
    assert stability_of(chosen).value == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("chosen", [np.ones((4, 3)), np.zeros((4, 3)), np.eye(1, 3)])
def test_full_empty_and_single_sets_have_no_stability(chosen) -> None:
    assert stability_of(chosen.astype(bool)) is None


def test_four_sets_have_a_stability_but_no_interval() -> None:
    chosen = np.eye(4, 6, dtype=bool) | np.eye(1, 6, 5, dtype=bool)
    assert stability_of(chosen).interval is None
    assert stability_of(np.vstack([chosen, chosen])).interval is not None


def test_the_interval_of_stability_holds_the_true_one_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    frequency = rng.uniform(size=40) ** 2
    share = frequency.mean()
    truth = 1 - (frequency * (1 - frequency)).mean() / (share * (1 - share))
    held = 0
    for _ in range(400):
        low, high = stability_of(rng.uniform(size=(15, 40)) < frequency).interval
        held += low <= truth <= high
    assert 0.89 * 400 <= held <= 0.97 * 400


def away(mean: float, reach: float | None = 0.1) -> PairedDifference:
    """Fifteen pairs with that mean, and an interval that reaches that far to each side."""
    if reach is None:
        return PairedDifference(mean, None, None, None, 15, 2.0, False, False)
    error = reach / float(stats.t.ppf(0.975, 14))
    p_value = 2 * float(stats.t.sf(abs(mean) / error, 14))
    interval = mean - reach, mean + reach
    return PairedDifference(mean, interval, p_value, error, 15, 2.0, False, False)


def against(mean: float, reach: float | None = 0.1) -> OverConstant:
    """The only difference to a constant that was tested."""
    (found,) = over_constants([away(mean, reach)])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("over_all", "over_constant", "verdict"),
    [
        (-1.0, against(-0.5), "better"),
        (-1.0, against(-0.05), "cannot tell"),  # it may be no better than a constant
        (-1.0, against(-0.05, 0.04), "better"),  # by little, but for sure
        (-1.0, against(0.5), "cannot tell"),  # better than all features, and than nothing not
        (-1.0, against(-0.5, None), "cannot tell"),
        (+1.0, against(-0.5), "worse"),
        (-1.0, None, "better"),
    ],
)
def test_what_is_better_beats_a_constant_as_well(over_all, over_constant, verdict) -> None:
    difference = away(over_all)
    assert verdict_on(difference, 0.01, is_all=False, over_constant=over_constant) == verdict


def test_what_a_constant_decides_allows_for_all_that_were_tested() -> None:
    """Beside nine of which nothing is known, one interval that just excludes is chance."""
    found, others = away(-0.11, 0.1), [away(0.0, 1.0)] * 9
    for differences, verdict in (([found], "better"), ([found, *others], "cannot tell")):
        over_constant = over_constants(differences)[0]
        assert verdict_on(away(-1.0), 0.01, is_all=False, over_constant=over_constant) == verdict


def test_differences_to_a_constant_are_corrected_as_holm_does() -> None:
    differences = [away(0.05, 0.11), None, away(-0.5, None), *[away(0.0, 0.06)] * 8]
    found = over_constants(differences)
    assert found[1] is None
    assert found[2].corrected_p is None
    p_values = [one.p_value for one in differences if one and one.p_value is not None]
    corrected = [one.corrected_p for one in found if one and one.corrected_p is not None]
    assert corrected == pytest.approx(holm(np.array(p_values)))
