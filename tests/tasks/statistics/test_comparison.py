"""The verdict: an interval that holds what it says, and words that follow the interval."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from chaffinch.tasks.promotion.gate import GATE_CONFIDENCE
from chaffinch.tasks.selection.core import Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.statistics import bootstrap
from chaffinch.tasks.statistics.bootstrap import (
    Contrast,
    PairedLosses,
    resampling_units,
)
from chaffinch.tasks.statistics.verdict import FEWEST_UNITS, compare, constant_prediction
from tests.tasks.snapshots import check_sentence

SQUARED, R2 = Loss("squared_error", "regression"), Loss("r2", "regression")
ABSOLUTE = Loss("absolute_error", "regression")
LOG_LOSS = Loss("log_loss", "classification")


def _compare(
    before_error, after_error, *, weight=None, units=None, constant=100.0, mask=(True, False), **how
):
    """Compare predictions of zeros by their errors."""
    n = len(before_error)
    always = np.full(n, constant)
    return compared(SQUARED, np.zeros(n), before_error, after_error, always, weight, units,
                    mask=mask, **how)  # fmt: skip


def compared(loss, y, before, after, constant, weight=None, units=None, *, mask=(True, False),
             seed=0, tolerance=0.02, widen=1.0, **how):  # fmt: skip
    units = resampling_units(len(y)) if units is None else units
    rows = Rows(np.zeros((len(y), 2)), y, weight)
    pair = PairedLosses(loss, rows, units, seed, widen=widen)
    return compare(pair, before, after, constant, np.array(mask), tolerance=tolerance, **how)


def interval_of(loss, y, before, after, *, units=None, seed=0, confidence=0.95):
    units = resampling_units(len(y)) if units is None else units
    rows = Rows(np.zeros((len(y), 1)), y)
    return PairedLosses(loss, rows, units, seed).interval(before, after, confidence)


def of_sure(y, of_truth):
    """Return probabilities of two classes, of which the true one has these."""
    return np.where(np.arange(2) == y[:, None], of_truth[:, None], 1 - of_truth[:, None])


def test_no_verdict_is_about_a_set_smaller_than_those_of_most_folds() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(0, 1, 400), rng.normal(0, 2, 400)
    mask = (True, False, False)
    assert _compare(large, small, mask=mask, fold_sizes=(1, 1, 3)).verdict == "better"
    for sizes in ((2, 2, 3), (1, 3, 1, 3, 3)):
        found = _compare(large, small, mask=mask, fold_sizes=sizes)
        assert found.verdict == "cannot tell"
        assert "since most folds kept more features" in found.sentence
    assert _compare(small, small, mask=mask, fold_sizes=(3, 3, 3)).verdict == "cannot tell"


def test_equal_predictions_are_as_good_with_fewer_columns() -> None:
    same = np.random.default_rng(0).normal(size=50)
    for tolerance in (0.0, 0.02):
        result = _compare(same, same, tolerance=tolerance)
        assert (result.difference, result.interval) == (0.0, (0.0, 0.0))
        assert result.verdict == "as good with fewer columns"
        assert result.share_lost_at_most <= tolerance
    assert _compare(same, same, tolerance=0.0).sentence.endswith(
        "It loses nothing of what all features explain beyond a constant, with 95% confidence."
    )


def _errors(n, excess, noise=0.2):
    """Errors of all features, with a mean square of 1, and of a subset, of 1 plus the excess."""
    rng = np.random.default_rng(1)
    before = np.sqrt(1 + rng.uniform(-0.9, 0.9, n))
    moved = excess + noise * rng.choice([-1.0, 1.0], n) * rng.random(n)
    return before, np.sqrt(np.maximum(before**2 + moved, 0))


# number of rows, excess loss of the subset, loss of the constant, settings -> verdict
CASES = [
    (400, -0.3, 2.0, {}, "better"),
    (400, 0.3, 2.0, {}, "worse"),
    (400, 0.0, 2.0, {}, "as good with fewer columns"),
    (400, 0.0, 2.0, {"tolerance": 0.0}, "cannot tell"),
    (25, 0.02, 2.0, {}, "cannot tell"),
    (25, 0.02, 2.0, {"tolerance": 0.1}, "as good with fewer columns"),
    (19, -0.3, 2.0, {}, "cannot tell"),
    (4000, 0.014, 2.0, {}, "as good with fewer columns"),  # shown to lose, but less than 2 %
    (4000, 0.014, 2.0, {"tolerance": 0.01}, "worse"),
    (4000, 0.014, 1.2, {}, "worse"),  # of 0.2 that is 7 %
    (400, 0.0, 2.0, {"mask": (True, True)}, "cannot tell"),
    (400, -0.3, 2.0, {"mask": (True, True)}, "cannot tell"),
    (400, 0.0, 1.0, {}, "cannot tell"),  # all features are not shown to beat the constant
    (400, -0.3, 0.5, {}, "cannot tell"),  # nor does the subset
    (400, 0.3, 0.5, {}, "worse"),
    (400, -0.3, 0.9, {}, "better"),  # than all features, which do not beat the constant
    (400, 0.0, 2.0, {"widen": 3.0}, "cannot tell"),
    (400, 0.0, 0.977, {}, "cannot tell"),  # of so small a gain
    (400, 0.0, 0.966, {}, "cannot tell"),  # of none that is shown
    (400, 0.0, 0.88, {}, "cannot tell"),  # surely of none
    (400, 0.0, 0.88, {"mask": (True, True)}, "cannot tell"),
    (19, 0.0, 2.0, {"mask": (True, True)}, "cannot tell"),
    (400, -0.3, 2.0, {"leaks": ["total"]}, "cannot tell"),
    (400, -0.3, 2.0, {"mask": (True, False, False), "fold_sizes": (2, 2, 3)}, "cannot tell"),
    (400, -0.3, 2.0, {"judged_on": "out_of_fold"}, "better"),
]


@pytest.mark.parametrize(("n", "excess", "constant", "how", "verdict"), CASES)
def test_the_rules_of_the_verdict(n, excess, constant, how, verdict) -> None:
    result = _compare(*_errors(n, excess), constant=np.sqrt(constant), **how)
    assert result.verdict == verdict, result.sentence
    case = f"{n} rows, excess {excess}, constant {constant}, {how}"
    check_sentence("verdicts", case, result.sentence)


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 60), st.floats(-0.5, 0.5), st.floats(0.2, 3), st.floats(0, 1), st.booleans())
def test_the_word_follows_from_the_figures(n, excess, constant, tolerance, is_all) -> None:
    mask = (True, is_all)
    result = _compare(
        *_errors(n, excess), constant=np.sqrt(constant), tolerance=tolerance, mask=mask
    )
    low, high = result.interval
    is_informative = result.all_features_over_constant[1] < 0
    is_as_good = result.share_lost_at_most is not None and result.share_lost_at_most <= tolerance
    if is_all:
        expected = "cannot tell"
    elif high < 0 and result.over_constant[1] < 0:
        expected = "better"
    elif is_as_good and is_informative:
        expected = "as good with fewer columns"
    else:
        expected = "worse" if low > 0 else "cannot tell"
    assert result.verdict == expected
    if expected == "as good with fewer columns":
        larger = min(1.0, tolerance + 0.1)
        again = _compare(
            *_errors(n, excess), constant=np.sqrt(constant), tolerance=larger, mask=mask
        )
        assert again.verdict == expected


def test_where_nothing_beats_a_constant_this_comes_first_with_the_rows_needed() -> None:
    before, after = _errors(400, 0.0)
    result = _compare(before, after, constant=np.sqrt(1.03 * (before**2).mean()))
    assert result.verdict == "cannot tell"
    gain = 0.03 * (before**2).mean()
    needed = 400 * (1.96 * (before**2).std(ddof=1) / np.sqrt(400) / gain) ** 2
    found = int(
        re.search(r"About ([\d,]+) test rows would show", result.sentence)[1].replace(",", "")
    )
    assert found == pytest.approx(needed, rel=0.15)
    assert len(str(found).rstrip("0")) <= 2


def test_the_interval_of_a_contrast_is_that_of_the_difference_it_makes() -> None:
    rng = np.random.default_rng(5)
    rows, units = Rows(np.zeros((80, 1)), rng.normal(size=80)), resampling_units(80)
    made = [rows.y + rng.normal(0, scale, 80) for scale in (1.0, 1.2, 2.0)]
    for loss in (SQUARED, R2):
        contrasts = [
            Contrast((1, -1, 0), 0.95),
            Contrast((1, -1, 0), 0.9),
            Contrast((1, -1, 0), 0.95, is_one_sided=True),
            Contrast((0.5, -0.5), 0.95),
        ]
        pair = PairedLosses(loss, rows, units, 3)
        two, narrow, one, half = pair.intervals_of(made)(contrasts)
        assert two == pair.interval(made[1], made[0], 0.95)
        assert one == pytest.approx(narrow)
        assert half == pytest.approx(np.array(two) / 2)
        wide = replace(pair, widen=1.5).interval(made[1], made[0], 0.95)
        estimate = loss(rows.y, made[0]) - loss(rows.y, made[1])
        assert np.array(wide) - estimate == pytest.approx(1.5 * (np.array(two) - estimate))


@pytest.mark.parametrize("excess", [0.0, 0.02])
def test_wrong_words_are_as_rare_as_said(excess) -> None:
    """The truth is no difference, or a loss of just what is tolerated: 2 % of 1."""
    wrong, n_trials, zero = Counter(), 150, np.zeros(100)
    for seed in range(n_trials):
        rng = np.random.default_rng(seed)
        before = rng.normal(1.0, 0.3, 100)  # losses per row, of which the constant's is 2
        after = before + rng.normal(excess, 0.1, 100)
        constant = rng.normal(2.0, 0.3, 100)
        made = 10 + before, 10 + after, 10 + constant
        wrong[compared(ABSOLUTE, zero, *made, seed=seed).verdict] += 1
    most = 0.05 * n_trials + 3 * np.sqrt(0.05 * 0.95 * n_trials)
    if excess:
        assert wrong["as good with fewer columns"] + wrong["better"] <= most
    else:
        assert wrong["better"] + wrong["worse"] <= most
        assert wrong["as good with fewer columns"] > 0.5 * n_trials


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    ("loss", "noise"), [(SQUARED, 0.05), (SQUARED, 0.3), (SQUARED, 0.6), (R2, 0.3)]
)
def test_the_share_lost_at_most_does_not_depend_on_the_tolerance(loss, noise) -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=200)
    before = y + rng.normal(0, 0.6, 200)
    made = before, before + rng.normal(0, noise, 200), np.zeros(200)
    judged = [
        compared(loss, y, *made, seed=1, tolerance=tolerance, widen=1.5)
        for tolerance in (0.0, 0.02, 0.1, 0.5)
    ]
    shares = [one.share_lost_at_most for one in judged]
    assert len(set(shares)) == 1
    least = compared(loss, y, *made, seed=1, tolerance=max(shares[0], 0), widen=1.5)
    assert least.verdict in ("better", "as good with fewer columns")
    for one in judged:
        is_as_good = one.verdict in ("better", "as good with fewer columns")
        assert is_as_good == (one.share_lost_at_most <= one.tolerance)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("explained", [0.02, 0.5, 0.9])
def test_the_interval_of_the_share_that_is_explained_holds_the_true_share(explained) -> None:
    rng, n_held, n_trials = np.random.default_rng(5), 0, 120
    for _ in range(n_trials):
        prediction = np.sqrt(explained) * rng.normal(size=100)
        y = prediction + np.sqrt(1 - explained) * rng.normal(size=100)
        least, most = compared(SQUARED, y, prediction, prediction, np.zeros(100)).explained
        n_held += least <= explained <= most
    assert 0.88 * n_trials <= n_held


@pytest.mark.parametrize(
    ("name", "share", "n_rows", "rates"),
    [
        ("accuracy", 1.0, 60, (0.01, 0.02, 0.04, 0.06)),
        pytest.param("accuracy", 1.0, 200, (0.003, 0.006, 0.012, 0.018), marks=pytest.mark.e2e),
        ("balanced_accuracy", 5.0, 200, (0.003, 0.006, 0.012)),  # of a rare class of a tenth
    ],
)
def test_the_bound_of_a_score_holds_where_few_or_no_rows_differ(name, share, n_rows, rates):
    """The probability of numbers of differing rows whose bound is below the truth."""
    y = (np.arange(n_rows) < n_rows // 10).astype(int)
    right, bounds = np.eye(2)[y], []
    while not bounds or bounds[-1] < share * max(rates):
        wrong = right.copy()
        wrong[: len(bounds)] = 1 - wrong[: len(bounds)]
        rows = Rows(np.zeros((n_rows, 1)), y)
        pair = PairedLosses(Loss(name, "classification"), rows, resampling_units(n_rows), 0)
        one_sided = Contrast((1, -1), 0.95, is_one_sided=True)
        [interval] = pair.intervals_of([wrong, right])([one_sided])
        bounds.append(interval[1])
    for rate in rates:
        missed = np.flatnonzero(np.array(bounds) < share * rate)
        assert stats.binom.pmf(missed, n_rows, rate).sum() <= 0.06


def test_predictions_that_differ_by_rounding_alone_are_equal() -> None:
    """Each error is less by its last digit: no row says anything else."""
    before = np.random.default_rng(0).normal(size=50)
    after = np.nextafter(before, 0)
    for units in (None, np.arange(50) // 2):
        result = _compare(before, after, units=units, constant=before)
        assert (result.difference, result.interval) == (0.0, (0.0, 0.0))
        assert result.over_constant == (0.0, 0.0)
        assert result.sentence.count("difference 0, 95% interval [0, 0]") == 2
    helped = _compare(before, (1 - 1e-9) * before)  # little, but in every row
    assert helped.verdict == "better"


def test_log_losses_near_0_that_differ_by_the_rounding_of_probabilities_are_equal() -> None:
    y = np.arange(200) % 2
    sure = of_sure(y, np.full(200, 1 - 8.6e-6))
    nudged = np.where(sure > 0.5, np.nextafter(sure, 1), sure)
    assert LOG_LOSS(y, nudged, None) < LOG_LOSS(y, sure, None)
    result = compared(LOG_LOSS, y, sure, nudged, np.full((200, 2), 0.5))
    assert (result.difference, result.interval) == (0, (0, 0))
    assert result.verdict == "as good with fewer columns"


def test_a_score_that_differs_by_rounding_alone_is_the_same() -> None:
    """The score of predictions near 1, of which one moves by its last digit."""
    y = np.linspace(0.5, 1.5, 40)
    before = y + np.random.default_rng(0).normal(scale=0.1, size=40)
    after = np.nextafter(before, y)
    assert R2(y, before, None) != R2(y, after, None)
    assert interval_of(R2, y, before, after) == (0.0, 0.0)


def test_the_interval_of_a_mean_is_that_of_students_t_for_many_rows() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 1, 3000), rng.normal(0, 1.05, 3000)
    difference = after**2 - before**2
    low, high = stats.t.interval(0.95, 2999, difference.mean(), stats.sem(difference))
    assert _compare(before, after).interval == pytest.approx((low, high), abs=0.008)


@pytest.mark.parametrize("confidence", [0.98, 0.999, GATE_CONFIDENCE])
def test_so_it_is_where_no_resample_reaches(confidence: float) -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 1, 3000), rng.normal(0, 1.05, 3000)
    difference = after**2 - before**2
    low, high = stats.t.interval(confidence, 2999, difference.mean(), stats.sem(difference))
    zeros = np.zeros(3000)
    found = interval_of(SQUARED, zeros, before, after, confidence=confidence)
    assert found == pytest.approx((low, high), rel=0.15)


def test_many_units_are_resampled_in_bundles_with_the_same_interval(monkeypatch) -> None:
    monkeypatch.setattr(bootstrap, "_MOST_UNITS", 700)
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 1, 20_000), rng.normal(0, 1.05, 20_000)
    difference = after**2 - before**2
    found = _compare(before, after)
    low, high = stats.t.interval(0.95, 19_999, difference.mean(), stats.sem(difference))
    assert found.interval == pytest.approx((low, high), abs=0.003)
    assert found.units == 20_000
    assert found.sign_test == _compare(before, after, seed=1).sign_test


@pytest.mark.parametrize("unit", [0.1, 1 / 3, 1e-9, 7e12])
@pytest.mark.parametrize("n_equal", [24, 29, 200])
def test_resamples_of_equal_differences_do_not_blow_the_interval_up(unit, n_equal) -> None:
    """Their spread is 0, which rounding hides where binary numbers cannot hold them exactly."""
    steps = np.array([1.0] * n_equal + [6.0])
    nothing = np.zeros(n_equal + 1)
    exact, rounded = (_compare(nothing, np.sqrt(size * steps)).interval for size in (1.0, unit))
    assert np.array(rounded) / unit == pytest.approx(exact, rel=1e-6)
    assert exact[1] < 6


def test_the_interval_covers_the_true_difference_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        before, after = rng.normal(0, 1, 120), rng.normal(0, 1.2, 120)
        low, high = _compare(before, after, seed=seed).interval
        covered += low <= 1.2**2 - 1 <= high
    assert 88 <= covered <= 99  # 95 expected of 100; percentile intervals run a little short


def test_rows_of_a_group_are_resampled_together() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(20), 30)
    before, after = rng.normal(0, 1, 20)[groups], rng.normal(0, 1, 20)[groups]
    alone = _compare(before, after)
    together = _compare(before, after, units=resampling_units(600, groups=groups))
    assert together.units == 20
    assert np.ptp(together.interval) > 3 * np.ptp(alone.interval)


def test_rows_in_time_order_are_resampled_in_blocks_of_neighbours() -> None:
    times = np.array([5, 1, 4, 2, 9, 3, 8, 7, 6])
    units = resampling_units(9, times=times)
    assert [sorted(times[units == u]) for u in range(3)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize(
    ("n_times", "rows_of_a_time", "n_units"),
    [
        (3, 1000, 2),  # of two times and one
        (15, 100, 5),  # of three times each
        (100, 50, 20),  # of five
        (46, 4, 12),  # of four, which have the 13 rows
        (400, 1, 20),
        (1000, 2, 46),  # of 22 times, which have the 44 rows
    ],
)
def test_rows_of_one_time_are_in_one_block_however_many_they_are(
    n_times, rows_of_a_time, n_units
) -> None:
    times = np.random.default_rng(0).permutation(np.repeat(np.arange(n_times), rows_of_a_time))
    units = resampling_units(len(times), times=times)
    block_of_time = [set(units[times == time]) for time in range(n_times)]
    assert all(len(blocks) == 1 for blocks in block_of_time)
    in_order = [block for blocks in block_of_time for block in blocks]
    assert in_order == sorted(in_order)
    assert sorted(set(in_order)) == list(range(n_units))


@pytest.mark.parametrize(("lasting", "fewest"), [(0.0, 89), (0.5, 85)])
def test_what_is_odd_about_a_day_is_no_evidence_by_each_of_its_rows(lasting, fewest) -> None:
    """Many series, whose differences have a part in common each day, which may last for days."""
    n_days, n_series, covered = 125, 40, 0
    times = np.repeat(np.arange(n_days), n_series)
    units = resampling_units(len(times), times=times)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        of_day = np.zeros(n_days)
        for day, shock in enumerate(rng.normal(size=n_days)):
            of_day[day] = shock + lasting * (of_day[day - 1] if day else 0)
        differences = of_day[times] + rng.normal(size=len(times))
        before = np.full(len(times), 10.0)
        after = np.sqrt(before**2 + differences)
        low, high = _compare(before, after, units=units, seed=seed).interval
        covered += low <= 0 <= high
    assert covered >= fewest  # 95 expected of 100 where the days have nothing in common


def test_a_row_without_weight_counts_as_if_it_were_not_there() -> None:
    errors = np.array([1.0, 1.0, 1.0, 9.0]), np.array([2.0, 2.0, 2.0, 1.0])
    weighted = _compare(*errors, weight=np.array([1.0, 1.0, 1.0, 1e-12]))
    assert weighted.difference == pytest.approx(3.0)


def test_a_score_is_compared_as_well_and_undefined_resamples_are_left_out() -> None:
    rng = np.random.default_rng(3)
    y = np.array([0] * 60 + [1] * 3)
    signal = np.clip(0.2 + 0.6 * y + rng.normal(0, 0.2, 63), 0.01, 0.99)
    noise = rng.uniform(0.01, 0.99, 63)
    before, after = (np.column_stack([1 - p, p]) for p in (noise, signal))
    found = interval_of(Loss("roc_auc", "classification"), y, before, after)
    assert np.isfinite(found).all()
    assert found[0] <= roc_auc_score(y, noise) - roc_auc_score(y, signal) <= found[1]


def test_one_seed_in_one_interval_out() -> None:
    rng = np.random.default_rng(4)
    before, after = rng.normal(size=80), rng.normal(size=80)
    assert _compare(before, after, seed=7) == _compare(before, after, seed=7)
    assert _compare(before, after, seed=7).interval != _compare(before, after, seed=8).interval


@pytest.mark.parametrize("n_units", [1, 2, 5, 19])
def test_few_units_never_decide_and_are_said(n_units: int) -> None:
    units = resampling_units(190, groups=np.arange(190) % n_units)
    small, large = np.full(190, 1.0), np.full(190, 2.0)
    for before, after in ((large, small), (small, large)):
        result = _compare(before, after, units=units)
        assert result.verdict == "cannot tell"
        assert f"At least {FEWEST_UNITS} rows, groups or blocks of time" in result.sentence
        said = "of one unit there is no interval" if n_units == 1 else "95% interval ["
        assert said in result.sentence
        assert (result.interval is None) == (n_units == 1)
    assert _compare(small, small, mask=(True, True), units=units).verdict == "cannot tell"


def _log_loss_of_a_model_that_is_too_sure(rng, n):
    logit = rng.normal(0, 2, n)
    is_one = rng.random(n) < 1 / (1 + np.exp(-logit))
    said = 1.7 * (logit + rng.normal(0, 0.5, n))
    return np.logaddexp(0, np.where(is_one, -said, said)) - 0.5411  # its mean


# One draw of differences whose mean is 0, by the shape of their distribution.
SHAPES = {
    "log loss": _log_loss_of_a_model_that_is_too_sure,
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
    "very skewed": lambda rng, n: rng.lognormal(size=n) - np.exp(0.5),
    "heavy-tailed": lambda rng, n: rng.standard_t(3, size=n),
    "mostly zero": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_where_there_is_no_difference_the_fewest_units_seldom_find_one(shape: str) -> None:
    wrong, n_tables, zero = 0, 150, np.zeros(FEWEST_UNITS)
    for seed in range(n_tables):
        difference = SHAPES[shape](np.random.default_rng(seed), FEWEST_UNITS)
        # the absolute error less 100 is the difference itself
        low, high = interval_of(ABSOLUTE, zero, zero + 100, 100 + difference, seed=seed)
        wrong += not low <= 0 <= high
    assert wrong <= 0.1 * n_tables  # 8 expected of 150; the plain percentile makes up to 23


def test_groups_of_unequal_weight_count_by_their_weight() -> None:
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(30), rng.integers(1, 40, 30))
    before, after = rng.normal(0, 1, 30)[groups], rng.normal(0, 1, 30)[groups]
    units = resampling_units(len(groups), groups=groups)
    by_row = _compare(before, after, units=units)
    first = np.unique(groups, return_index=True)[1]
    sizes = np.bincount(groups).astype(float)
    by_group = _compare(before[first], after[first], weight=sizes)
    assert by_row.interval == pytest.approx(by_group.interval)


def of_classes(of_truth, share):
    """Compare a probability of the true class (n,), of classes as many as `share` has."""
    n, n_classes = len(of_truth), len(share)
    y = np.repeat(np.arange(n_classes), np.round(n * np.array(share)).astype(int))
    others = np.repeat(((1 - of_truth) / (n_classes - 1))[:, None], n_classes, axis=1)
    made = np.where(np.arange(n_classes) == y[:, None], of_truth[:, None], others)
    return compared(LOG_LOSS, y, made, made, np.tile(np.array(share), (n, 1)))


def test_a_clear_gain_of_accuracy_is_not_denied_where_two_large_losses_leave_the_loss_open():
    """Of 24 rows of three classes 22 are right, and two are wrong beyond doubt."""
    of_truth = np.full(24, 0.99)
    of_truth[[3, 12]] = 1e-6
    result = of_classes(of_truth, [1 / 3] * 3)
    assert result.over_constant[0] < 0 < result.over_constant[1]
    assert result.accuracies["selected"].model == pytest.approx(22 / 24)
    assert result.accuracies["selected"].p_value < 0.001
    assert result.verdict == "cannot tell"
    assert (
        "is shown to be right more often than a constant (accuracy 0.917 against 0.333), but"
        in (result.sentence)
    )
    assert "not shown to predict better" not in result.sentence
    assert "nothing to select from" not in result.sentence


def test_of_classes_of_which_one_is_common_noise_has_no_such_gain():
    """A model surer of the common class than its share has lower losses in most rows by that."""
    of_truth = np.r_[np.full(95, 0.98), np.full(5, 0.02)]
    result = of_classes(of_truth, [0.95, 0.05])
    assert result.sign_test_over_constant.p_value < 0.001
    assert result.accuracies["selected"].model == result.accuracies["selected"].constant
    assert "nothing to select from yet" in result.sentence


def test_one_row_with_a_large_loss_does_not_hide_what_the_others_show() -> None:
    """A log loss of 0.36 against a constant's 0.69 on 26 rows, of which one has 4.19."""
    of_truth = np.exp(-np.array([4.19, 0.9, 0.8, *np.linspace(0.02, 0.3, 23)]))
    result = of_classes(of_truth, [0.5, 0.5])
    assert result.over_constant[0] < 0 < result.over_constant[1] < 0.5  # it was 2.3
    assert result.verdict == "cannot tell"
    found = result.sign_test_over_constant
    assert (found.lower, found.higher) == (23, 3)
    assert found.p_value == pytest.approx(8.8e-5, rel=0.01)
    assert "is shown to be right more often than a constant (accuracy 0.885 " in result.sentence
    assert result.sentence.endswith(
        " Against a constant, the loss of the selected features is lower in 23 and higher in 3 of "
        "26 rows (sign test p < 0.0001)."
    )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
)
def test_no_interval_leaves_the_range_of_the_differences(differences, n_groups, seed) -> None:
    difference = np.array(differences)
    n = len(difference)
    units = resampling_units(n, groups=np.arange(n) % n_groups)
    interval = interval_of(
        ABSOLUTE, np.zeros(n), np.full(n, 1e7), 1e7 + difference, units=units, seed=seed
    )
    if interval is None:
        assert len(np.unique(units)) == 1
        return
    of_units = [(1e7 + difference[units == u] - 1e7).mean() for u in np.unique(units)]
    rounding = 1e-9 * 2e7  # of the losses; an end that is no further from 0 is 0
    assert min(of_units) - rounding <= interval[0] <= interval[1] <= max(of_units) + rounding


@pytest.mark.parametrize("seed", range(5))
def test_the_sign_test_is_that_of_all_divisions_of_the_signs(seed: int) -> None:
    """The two-sided p-value, by every way in which the signs of 9 rows can fall."""
    rng = np.random.default_rng(seed)
    before, after = rng.normal(size=9), rng.normal(size=9)
    after[:2] = before[:2]  # two rows in which nothing differs are left out
    found = _compare(before, after).sign_test
    n_lower = int((after**2 < before**2).sum())
    unevenness = [abs(2 * sum(signs) - 7) for signs in product((0, 1), repeat=7)]
    expected = np.mean([one >= abs(2 * n_lower - 7) for one in unevenness])
    assert (found.lower, found.higher) == (n_lower, 7 - n_lower)
    assert found.p_value == pytest.approx(expected)


def test_signs_are_of_groups_where_rows_belong_together() -> None:
    groups = np.repeat(np.arange(25), 4)
    before, after = np.full(100, 2.0), np.where(np.arange(100) % 4 == 0, 4.0, 1.0)
    weight = np.where(np.arange(100) % 4 == 0, 0.1, 1.0)
    units = resampling_units(100, groups=groups)
    found = _compare(before, after, units=units).sign_test
    assert (found.lower, found.higher) == (0, 25)  # 16 + 3 against 16
    found = _compare(before, after, units=units, weight=weight).sign_test
    assert (found.lower, found.higher) == (25, 0)


def test_a_score_and_one_unit_have_no_sign_test() -> None:
    same, one = np.ones(30), np.zeros(30, np.int64)
    result = _compare(same, same, units=one)
    assert (result.sign_test, result.sign_test_over_constant) == (None, None)
    rows = Rows(np.zeros((30, 1)), np.arange(30.0))
    assert PairedLosses(R2, rows, resampling_units(30), 0).sign_test(same, same) is None


WEIGHTS = [None, np.array([1.0, 1.0, 2.0])]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("loss", ["squared_error", "r2", "neg_root_mean_squared_error"])
def test_a_constant_is_the_mean_where_squares_count(weight, loss) -> None:
    y = np.array([1.0, 2.0, 6.0])
    found = constant_prediction(Loss(loss, "regression"), y, weight, 2, 0)
    assert (found == [np.average(y, weights=weight)] * 2).all()


@pytest.mark.parametrize(("weight", "median"), [(None, 2.0), (np.array([1.0, 1.0, 3.0]), 9.0)])
@pytest.mark.parametrize("loss", ["absolute_error", "neg_mean_absolute_error"])
def test_and_the_median_where_distances_count(weight, median, loss) -> None:
    y = np.array([1.0, 2.0, 9.0])
    found = constant_prediction(Loss(loss, "regression"), y, weight, 2, 0)
    assert (found == [median, median]).all()


@pytest.mark.parametrize("weight", WEIGHTS)
def test_of_classes_it_is_their_shares(weight) -> None:
    shares = constant_prediction(LOG_LOSS, np.array([0, 0, 2]), weight, 2, 3)
    third = 1 / 3 if weight is None else 1 / 2
    assert shares == pytest.approx(np.array([[1 - third, 0, third]] * 2))


@pytest.mark.usefixtures("few_resamples")
def test_a_scorer_has_a_constant_as_well() -> None:
    rng = np.random.default_rng(8)
    y, guess = np.arange(200) % 2, rng.dirichlet([1, 1], 200)
    worse = np.column_stack([y, 1 - y]).astype(float)
    result = compared(Loss("roc_auc", "classification"), y, worse, guess, np.full((200, 2), 0.5))
    assert result.constant_loss == -0.5
    assert result.over_constant[0] < 0 < result.over_constant[1]
    assert result.difference < 0 < 1 + result.interval[0]
    assert "the test loss (roc_auc, negated) is -0." in result.sentence
    assert result.verdict == "cannot tell"
    assert "is no better than a constant, so there is nothing to select" in result.sentence


def test_where_a_scorer_has_no_value_for_a_constant_none_is_given() -> None:
    y = np.array([0.0] * 60 + [1.0] * 40)
    gamma = Loss("neg_mean_gamma_deviance", "regression")  # of numbers above 0 alone
    poisson = Loss("neg_mean_poisson_deviance", "regression")  # which refuses a prediction of 0
    for loss in (gamma, poisson):
        assert (constant_prediction(loss, y, None, 2, 0) == y.mean()).all()
    made = np.full(100, 0.5)
    result = compared(poisson, y, made, made, np.zeros(100))
    assert (result.constant_loss, result.over_constant) == (None, None)
    assert (result.share_lost_at_most, result.verdict) == (None, "cannot tell")
