"""Several sets of univariate worth at once: the paper's examples, and all designs tried."""

from __future__ import annotations

import math
import time
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.arrays import PAUSED
from chaffinch.tasks.selection.alternatives.greedy import (
    greedy_balancing,
    greedy_depth_search,
    greedy_replacement,
)
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Designs
from chaffinch.tasks.selection.alternatives.simultaneous import (
    univariate,
    whole_numbers,
    worst_set_targets,
)
from chaffinch.tasks.selection.alternatives.simultaneous.annealing import (
    annealed,
    balanced_by_annealing,
)
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import by_prices
from chaffinch.tasks.selection.alternatives.simultaneous.univariate import (
    any_sets,
    best_dealt_out,
    best_min,
    best_sum,
    dealt_out,
)
from chaffinch.tasks.selection.alternatives.simultaneous.use_bounds import (
    best_uses,
    bound_of_prefixes,
    most_uses_of,
)
from chaffinch.tasks.selection.alternatives.simultaneous.whole_numbers import FREE, Problem
from chaffinch.tasks.selection.alternatives.simultaneous.worst_set_targets import (
    balance,
    fresh_balance,
)

Q0 = np.array([9.0, 8, 7, 3, 2, 1])
SEARCHES = {"sum": best_sum, "min": best_min}
COUNTS = {"sum": math.fsum, "min": min}


def best_by_trying_all(values, k, n_sets, overlap, counts) -> float:
    """Return what the best of all designs is worth, -inf if there is none."""
    sets = list(combinations(range(len(values)), k))
    worth = [math.fsum(values[list(features)]) for features in sets]
    best = -math.inf

    def extend(chosen: list[int], first: int) -> None:
        nonlocal best
        if len(chosen) == n_sets:
            best = max(best, counts([worth[s] for s in chosen]))
            return
        for s in range(first, len(sets)):
            if all(len({*sets[s]} & {*sets[other]}) <= overlap for other in chosen):
                extend([*chosen, s], s + (overlap < k))

    extend([], 0)
    return best


def assert_is_a_design(found, values, k, n_sets, overlap, counts) -> None:
    """The sets are what was asked for, best first, and worth what is said; no bound is too low."""
    assert found.sets.shape == (n_sets, k)
    assert found.sets.dtype == np.int32
    for features in found.sets.tolist():
        assert features == sorted(set(features))
        assert 0 <= features[0] <= features[-1] < len(values)
    for one, other in combinations(found.sets.tolist(), 2):
        assert len({*one} & {*other}) <= overlap
    worth = [math.fsum(values[features]) for features in found.sets]
    assert worth == sorted(worth, reverse=True)
    assert found.value == pytest.approx(counts(worth), rel=1e-15, abs=1e-300)
    assert found.bound >= found.value


@st.composite
def questions(draw, *, share: bool = False):
    """Few enough designs to try all; values are often equal, and of any sign.

    Sets share something, but not everything, if that is asked for.
    """
    n = draw(st.integers(1 + share, 7))
    kinds = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, -1.0]) | st.floats(-3, 9) | st.just(1e9)
    values = draw(st.lists(kinds, min_size=n, max_size=n))
    k = draw(st.integers(1 + share, n))
    n_sets = 1
    while n_sets < 6 and math.comb(math.comb(n, k) + n_sets, n_sets + 1) < 4_000:
        n_sets += 1
    overlap = draw(st.integers(int(share), k - share))
    return np.array(values), k, draw(st.integers(1, n_sets)), overlap


@pytest.mark.parametrize("aggregate", SEARCHES)
@settings(max_examples=50, deadline=None)
@given(questions())
def test_the_best_of_all_designs_is_found(aggregate, question) -> None:
    values, k, n_sets, overlap = question
    best = best_by_trying_all(values, k, n_sets, overlap, COUNTS[aggregate])
    found = SEARCHES[aggregate](values, k, n_sets, overlap)
    assert found.complete
    if best == -math.inf:
        assert (found.sets, found.value, found.bound) == (None, -math.inf, -math.inf)
    else:
        assert_is_a_design(found, values, k, n_sets, overlap, COUNTS[aggregate])
        rounding = 1e-13 * n_sets * k * np.abs(values).max()
        assert best == pytest.approx(found.value, abs=rounding, rel=0)
        assert best <= found.bound <= found.value + rounding


@pytest.mark.parametrize("aggregate", SEARCHES)
@settings(max_examples=25, deadline=None)
@given(questions())
def test_a_bound_holds_however_early_the_search_stops(aggregate, question) -> None:
    values, k, n_sets, overlap = question
    best = best_by_trying_all(values, k, n_sets, overlap, COUNTS[aggregate])
    found = SEARCHES[aggregate](values, k, n_sets, overlap, deadline=time.monotonic() - 1)
    assert found.bound >= best
    if found.sets is not None:
        assert_is_a_design(found, values, k, n_sets, overlap, COUNTS[aggregate])


@pytest.mark.parametrize(
    ("way", "limit"),
    [
        pytest.param("down from the bound", (whole_numbers, "_MOST_CELLS", 0), id="down"),
        pytest.param("up from a design", (worst_set_targets, "_MOST_SETS", 0), id="up"),
    ],
)
@settings(max_examples=40, deadline=None)
@given(questions())
def test_either_way_alone_finds_the_best_worst_set(way, limit, question) -> None:
    values, k, n_sets, overlap = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*limit)
        found = best_min(values, k, n_sets, overlap)
    best = best_by_trying_all(values, k, n_sets, overlap, min)
    assert found.value == pytest.approx(best, abs=1e-13 * k * np.abs(values).max(), rel=0)
    assert found.complete or (way, found.sets) == ("down from the bound", None)


@settings(max_examples=60, deadline=None)
@given(questions(), st.lists(st.integers(0, 40), min_size=7, max_size=7))
def test_the_search_up_meets_the_best_from_any_target(question, units) -> None:
    """In whole units, so that no design that annealing has found hides one passed over."""
    values, k, n_sets, overlap = question
    units = np.sort(units[: len(values)])[::-1] - min(units[: len(values)])
    n_pairs = math.comb(n_sets, 2) * overlap
    table = whole_numbers.table_of_uses(units, n_sets, n_sets * k, n_pairs, None)
    sums = np.concatenate([[0], np.cumsum(units)])
    problem = Problem(units, sums, table, n_pairs + 1, 0, k, overlap, n_sets, *FREE)
    best = best_by_trying_all(units.astype(float), k, n_sets, overlap, min)
    for target in (0, int(max(best, 0)), int(max(best, 0)) + 1):
        state = fresh_balance(len(units), n_sets, k, target)
        while balance(problem, state, 50) == PAUSED:
            pass
        if target > best:
            assert state.target[0] == target
        else:
            assert state.target[0] == best + 1
            worth = (units[:, None] * state.best).sum(axis=0)
            assert worth.min() == best


@settings(max_examples=50, deadline=None)
@given(questions(), st.lists(st.integers(0, 40), min_size=7, max_size=7))
def test_a_bound_by_the_uses_of_the_best_features_holds(question, units) -> None:
    values, k, n_sets, overlap = question
    units = np.sort(units[: len(values)])[::-1] << 20  # prices are rounded to whole units
    best = best_by_trying_all(units.astype(float), k, n_sets, overlap, math.fsum)
    of_pairs = best_uses(units, n_sets, n_sets * k, math.comb(n_sets, 2) * overlap)
    assume(of_pairs is not None)
    bound = bound_of_prefixes(units, k, n_sets, overlap, of_pairs)
    whole = bound_by_the_whole_program(units, k, n_sets, overlap)
    if bound is None:
        assert best == -math.inf
        assert whole is None
        return
    assert best <= bound == pytest.approx(whole, rel=1e-9, abs=2**10)
    at_once = bound_of_prefixes(units, k, n_sets, overlap, of_pairs, deadline=-math.inf)
    assert bound <= at_once <= of_pairs.bound + 2**10
    assert bound <= of_pairs.bound + 2**10


def bound_by_the_whole_program(units, k, n_sets, overlap) -> float | None:
    """With a variable for each further use of a feature; None if no uses obey it."""
    firsts = range(1, len(units) + 1)
    feature, further = np.divmod(np.arange(len(units) * n_sets), n_sets)
    found = linprog(
        -units[feature].astype(float) / 2**20,
        A_ub=[further, *(feature < first for first in firsts)],
        b_ub=[
            math.comb(n_sets, 2) * overlap,
            *(most_uses_of(first, k, n_sets, overlap) for first in firsts),
        ],
        A_eq=[np.ones(len(feature))],
        b_eq=[n_sets * k],
        bounds=(0, 1),
    )
    return None if found.status == 2 else -found.fun * 2**20


@pytest.mark.parametrize("overlap", range(3))
@pytest.mark.parametrize(("k", "n_sets"), [(2, 3), (3, 2), (3, 4)])
def test_features_are_used_no_more_often_in_all_than_is_said(k, n_sets, overlap) -> None:
    """Their uses are what sets are worth of which these features alone are worth something."""
    for n_features in range(1, 7):
        values = np.array([1.0] * n_features + [0.0] * (6 - n_features))
        best = best_by_trying_all(values, k, n_sets, overlap, math.fsum)
        assert most_uses_of(n_features, k, n_sets, overlap) >= best


def test_a_few_features_that_outweigh_the_others_lower_the_bound() -> None:
    """Of six sets any two share one feature: pairs alone allow the best five in every set."""
    units = np.array([1000, 1000, 1000, 1000] + [1] * 26)
    of_pairs = best_uses(units, 6, 30, 15)
    assert most_uses_of(4, 5, 6, 1) == 12  # each pair of them in one set
    assert bound_of_prefixes(units, 5, 6, 1, of_pairs) == 12_000 + 18 < of_pairs.bound


@pytest.mark.parametrize("aggregate", SEARCHES)
@settings(max_examples=30, deadline=None)
@given(questions(share=True))
def test_prices_prove_the_best_from_any_design(aggregate, question) -> None:
    values, k, n_sets, overlap = question
    start = any_sets(-np.arange(float(len(values))), k, n_sets, overlap, None).sets
    assume(start is not None)
    best = best_by_trying_all(values, k, n_sets, overlap, COUNTS[aggregate])
    rounding = 1e-13 * n_sets * k * np.abs(values).max()
    found = by_prices(values, start, overlap, aggregate, None)
    assert found.complete
    assert_is_a_design(found, values, k, n_sets, overlap, COUNTS[aggregate])
    assert best == pytest.approx(found.value, abs=max(rounding, found.rounding), rel=0)
    assert best <= found.bound <= found.value + 1e-9 * (k * np.abs(values).max() or 1)
    in_no_time = by_prices(values, start, overlap, aggregate, time.monotonic() - 1)
    assert in_no_time.bound >= best
    assert_is_a_design(in_no_time, values, k, n_sets, overlap, COUNTS[aggregate])


@pytest.mark.parametrize("aggregate", SEARCHES)
@settings(max_examples=25, deadline=None)
@given(questions(share=True))
def test_prices_prove_the_best_where_no_other_way_leads_to_it(aggregate, question) -> None:
    values, k, n_sets, overlap = question
    with pytest.MonkeyPatch.context() as patch:
        for module in (univariate, univariate):
            patch.setattr(module, "_MANY_PLACES", 0)
            patch.setattr(module, "_BEFORE_PRICES", 0.0)
        for module in (univariate, worst_set_targets):
            patch.setattr(module, "table_of_uses", lambda *what: None)
        patch.setattr(univariate._Search, "_anneal", lambda self, bound, uses: bound)
        patch.setattr(univariate._BalancedSearch, "lower_target", lambda self, most_work: False)
        patch.setattr(univariate._BalancedSearch, "_anneal", lambda self, n_swaps, seed: None)
        deadline = time.monotonic() + 600
        found = SEARCHES[aggregate](values, k, n_sets, overlap, deadline=deadline)
    assume(found.sets is not None)
    best = best_by_trying_all(values, k, n_sets, overlap, COUNTS[aggregate])
    rounding = 1e-13 * n_sets * k * np.abs(values).max()
    assert found.complete
    assert found.value == pytest.approx(best, abs=rounding, rel=0)
    assert found.bound >= best


@pytest.mark.parametrize(("n_sets", "seed"), [(11, 12), (11, 38), (12, 19)])
def test_prices_prove_what_uses_leave_open_where_few_features_outweigh_all(n_sets, seed) -> None:
    values = np.sort(np.random.default_rng(seed).pareto(1, 60))[::-1][: 4 * n_sets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(univariate, "table_of_uses", lambda *what: None)
        patch.setattr(univariate, "_IN_VAIN", 0)
        by_uses = best_sum(values, 4, n_sets, 2)
    found = by_prices(values, by_uses.sets.astype(np.int64), 2, "sum", None)
    assert_is_a_design(found, values, 4, n_sets, 2, math.fsum)
    assert by_uses.bound > 1.04 * found.value
    assert found.complete
    assert found.value <= found.bound <= (1 + 1e-9) * found.value


@pytest.mark.parametrize("seed", range(3))
def test_annealing_for_the_worst_set_never_makes_it_worse(seed) -> None:
    units = np.sort(np.random.default_rng(seed).integers(0, 10**9, 60))[::-1]
    start = greedy_balancing(units.astype(float), 5, 11, 2).astype(np.int64)
    hoped = int(units[start].sum(axis=1).min()) // 10
    sets = balanced_by_annealing(units, start, 2, hoped, hoped / 2, 300_000, seed)
    for one, other in combinations(sets.tolist(), 2):
        assert len(set(one)) == 5
        assert len({*one} & {*other}) <= 2
    assert units[sets].sum(axis=1).min() > 1.005 * units[start].sum(axis=1).min()


@pytest.mark.parametrize("overlap", [0, 1, 3])
@pytest.mark.parametrize("n_fixed", [0, 1])
def test_annealing_returns_designs_that_share_no_more_than_they_may(overlap, n_fixed) -> None:
    random = np.random.default_rng(overlap)
    gains, costs = random.random(40), random.random((40, 40)) / 20
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    given_sets = np.zeros((1, 40), dtype=bool)
    given_sets[0, :6] = True
    start = np.sort(random.permuted(np.tile(np.arange(1, 40), (6, 1)), axis=1)[:, :4], axis=1)
    start = np.insert(start, 0, 0, axis=1)
    at_most = np.array([overlap + n_fixed] * 6 + [2])
    options = (start.astype(np.int32), n_fixed, np.arange(n_fixed, 40), given_sets, at_most)
    is_found, sets = annealed(gains, costs, *options, 1.0, 200_000, 1)
    assert is_found
    for features in sets.tolist():
        assert len(set(features)) == 5
        assert features[:n_fixed] == [0] * n_fixed
        assert sum(feature < 6 for feature in features) <= 2
    for one, other in combinations(sets.tolist(), 2):
        assert len({*one} & {*other}) <= overlap + n_fixed
    again = annealed(gains, costs, *options, 1.0, 200_000, 1)[1]
    assert again.tolist() == sets.tolist()
    late = annealed(gains, costs, *options, 1.0, 10**15, 1, time.monotonic() - 1)[1]
    assert late.tolist() == start.tolist()  # at once


def test_a_feature_is_in_as_many_sets_as_pairs_allow() -> None:
    for n_sets, overlap in product(range(1, 12), range(4)):
        designs = Designs.checked(Form(np.zeros(9)), 5, n_sets, overlap, None, None)
        budget = math.comb(n_sets, 2) * overlap
        allowed = [uses for uses in range(1, n_sets + 1) if math.comb(uses, 2) <= budget]
        assert designs.most_uses(1) == max(allowed)


@pytest.mark.parametrize(
    ("n", "k", "n_sets", "overlap", "gap"),
    [(30, 10, 21, 8, 0.01), (30, 5, 21, 2, 0.03), (170, 10, 21, 2, 0.01), (170, 5, 21, 1, 0.01)],
)
def test_many_sets_come_near_to_a_bound(n, k, n_sets, overlap, gap) -> None:
    """Annealed before anything else; what continues after it is given no time here."""
    values = np.random.default_rng(0).random(n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(univariate, "table_of_uses", lambda *what: None)
        patch.setattr(univariate, "_IN_VAIN", 0)
        found = best_sum(values, k, n_sets, overlap)
    assert_is_a_design(found, values, k, n_sets, overlap, math.fsum)
    assert found.bound <= (1 + gap) * found.value


@pytest.mark.parametrize(
    ("values", "k", "n_sets", "overlap", "best"),
    [
        pytest.param(Q0, 2, 3, 1, 48, id="example 2"),
        pytest.param(Q0, 3, 2, 1, 38, id="example 3"),
        pytest.param(Q0, 3, 3, 1, 54, id="example 5"),
        pytest.param(np.array([11.0, 10, 6, 5, 4, 1]), 3, 2, 1, 47, id="example 6"),
    ],
)
def test_the_papers_examples_of_the_sum(values, k, n_sets, overlap, best) -> None:
    found = best_sum(values, k, n_sets, overlap)
    assert_is_a_design(found, values, k, n_sets, overlap, math.fsum)
    assert (found.value, found.bound, found.complete) == (best, best, True)


@pytest.mark.parametrize(
    ("values", "k", "n_sets", "overlap", "best"),
    [
        pytest.param(Q0, 2, 3, 1, 15, id="example 2"),
        pytest.param(Q0, 3, 2, 1, 19, id="example 3"),
        pytest.param(Q0, 3, 3, 1, 18, id="example 5"),
        pytest.param(np.array([11.0, 10, 6, 5, 4, 1]), 3, 2, 1, 22, id="example 6"),
    ],
)
def test_the_papers_examples_of_the_worst_set(values, k, n_sets, overlap, best) -> None:
    found = best_min(values, k, n_sets, overlap)
    assert_is_a_design(found, values, k, n_sets, overlap, min)
    assert (found.value, found.bound, found.complete) == (best, best, True)


@given(questions())
def test_the_worst_set_is_worth_no_more_than_the_mean_of_the_best_sum(question) -> None:
    values, k, n_sets, overlap = question
    in_all = best_sum(values, k, n_sets, overlap)
    of_worst = best_min(values, k, n_sets, overlap)
    if in_all.sets is None:
        assert of_worst.sets is None
    else:
        rounding = 1e-13 * k * np.abs(values).max()
        assert of_worst.value <= in_all.value / n_sets + rounding


@pytest.mark.parametrize("kind", ["even", "exponential", "heavy-tailed", "equal"])
@pytest.mark.parametrize("overlap", [0, 2, 3])
def test_six_sets_of_five_are_proven_best(kind, overlap) -> None:
    """Whichever way of searching it takes."""
    random = np.random.default_rng(overlap)
    values = {
        "even": random.random(170),
        "exponential": random.exponential(size=170),
        "heavy-tailed": 1 + random.pareto(1, 170),
        "equal": random.integers(0, 6, 170) / 5,
    }[kind]
    found = {name: search(values, 5, 6, overlap) for name, search in SEARCHES.items()}
    for name, solved in found.items():
        assert solved.complete
        assert_is_a_design(solved, values, 5, 6, overlap, COUNTS[name])
        assert solved.bound - solved.value <= 1e-12 * solved.value
    balanced = [math.fsum(values[features]) for features in found["min"].sets]
    assert math.fsum(balanced) <= found["sum"].value * (1 + 1e-13)
    in_all = [math.fsum(values[features]) for features in found["sum"].sets]
    assert min(in_all) <= found["min"].value * (1 + 1e-13)


@given(questions())
def test_sets_that_share_nothing_have_the_best_features_in_all(question) -> None:
    """Proposition 11."""
    values, k, n_sets, _ = question
    found = best_sum(values, k, n_sets, 0)
    if n_sets * k > len(values):
        assert found.sets is None
    else:
        expected = math.fsum(np.sort(values)[::-1][: n_sets * k])
        assert found.value == pytest.approx(expected, rel=1e-12, abs=1e-12)
        replaced = greedy_replacement(values, k, n_sets, 0)
        assert math.fsum(values[replaced].ravel()) == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize("aggregate", SEARCHES)
@given(questions())
def test_no_heuristic_beats_the_best(aggregate, question) -> None:
    """And propositions 12 and 14: where there are enough features, it comes near enough."""
    values, k, n_sets, overlap = question
    found = SEARCHES[aggregate](values, k, n_sets, overlap)
    rounding = 1e-13 * n_sets * k * np.abs(values).max()
    for heuristic in (greedy_replacement, greedy_balancing, greedy_depth_search):
        sets = heuristic(values, k, n_sets, overlap)
        if len(sets) == n_sets:
            worth = COUNTS[aggregate]([math.fsum(values[features]) for features in sets])
            assert worth <= found.value + rounding
            if values.min() >= 0 and k + (n_sets - 1) * (k - overlap) <= len(values):
                assert worth >= overlap / k * found.value - rounding


def test_one_set_has_the_best_features() -> None:
    values = np.array([1.0, 5, 2, 5, 4, 5])
    for search in SEARCHES.values():
        found = search(values, 3, 1, 0)
        assert found.sets.tolist() == [[1, 3, 5]]
        assert (found.value, found.bound, found.complete) == (15, 15, True)


def test_sets_that_may_be_equal_all_are_the_best() -> None:
    for search in SEARCHES.values():
        assert search(Q0, 2, 3, 2).sets.tolist() == [[0, 1]] * 3


def test_of_equal_features_the_first_are_used() -> None:
    for search in SEARCHES.values():
        assert set(search(np.ones(50), 4, 3, 0).sets.ravel().tolist()) == set(range(12))


def test_there_are_seven_lines_in_a_plane_of_seven_points_but_no_eighth() -> None:
    """Fano's plane: sets of three, any two with one point in common at most."""
    for search in SEARCHES.values():
        assert search(np.ones(7), 3, 7, 1).sets is not None
        found = search(np.ones(7), 3, 8, 1)
        assert (found.sets, found.bound, found.complete) == (None, -math.inf, True)


def test_a_quarrel_of_pairs_that_no_counting_of_pairs_can_settle() -> None:
    """Six points have four triples that share one at most, though pairs are enough for five."""
    for search in SEARCHES.values():
        assert search(np.arange(6.0), 3, 4, 1).sets is not None
        assert search(np.arange(6.0), 3, 5, 1).sets is None


@pytest.mark.parametrize("aggregate", SEARCHES)
@pytest.mark.parametrize(
    ("k", "n_sets", "overlap"), [(5, 11, 1), (5, 11, 2), (10, 21, 2), (3, 60, 1)]
)
def test_what_cannot_be_proven_in_time_has_sets_and_a_bound(aggregate, k, n_sets, overlap) -> None:
    values = np.random.default_rng(0).exponential(size=250)
    deadline = time.monotonic() + 0.2
    found = SEARCHES[aggregate](values, k, n_sets, overlap, deadline=deadline)
    assert_is_a_design(found, values, k, n_sets, overlap, COUNTS[aggregate])
    heuristic = greedy_balancing(values, k, n_sets, overlap)
    if len(heuristic):
        worth = COUNTS[aggregate]([math.fsum(values[features]) for features in heuristic])
        assert found.value >= worth


@pytest.mark.parametrize("aggregate", SEARCHES)
def test_the_same_question_has_the_same_answer(aggregate) -> None:
    values = np.random.default_rng(3).integers(0, 9, 60) / 10
    first, second = (SEARCHES[aggregate](values, 5, 5, 2) for _ in range(2))
    assert first.sets.tolist() == second.sets.tolist()
    assert (first.value, first.bound) == (second.value, second.bound)


@pytest.mark.parametrize("aggregate", SEARCHES)
@pytest.mark.parametrize("factor", [1e-300, 1e-9, 1.0, 3e12, 1e300])
def test_the_scale_of_the_values_does_not_matter(aggregate, factor) -> None:
    values = np.random.default_rng(5).random(40)
    sets = SEARCHES[aggregate](values, 5, 4, 2).sets
    found = SEARCHES[aggregate](values * factor, 5, 4, 2)
    assert found.complete
    assert found.sets.tolist() == sets.tolist()


@pytest.mark.parametrize("aggregate", SEARCHES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Q0, 7, 2, 1), r"k must be in 1\.\.6 but is 7"),
        ((Q0, 3, 2, 4), r"largest_overlap must be in 0\.\.3 but is 4"),
        ((Q0, 3, 0, 1), "n_sets must be at least 1 but is 0"),
        ((np.array([1.0, np.inf]), 1, 1, 0), "one finite number per feature"),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(aggregate, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        SEARCHES[aggregate](*arguments)


@pytest.mark.parametrize(
    ("n", "k", "n_sets", "overlap"), [(30, 3, 40, 1), (300, 5, 501, 2), (300, 5, 5_000, 2)]
)
def test_many_sets_are_dealt_out_near_the_bound(n, k, n_sets, overlap) -> None:
    """What annealing cannot make in time: 5,000 sets of 300 features are there in moments."""
    units = np.sort(np.random.default_rng(0).integers(0, 1 << 20, n))[::-1]
    uses = best_uses(units, n_sets, n_sets * k, math.comb(n_sets, 2) * overlap)
    sets = best_dealt_out(units, k, n_sets, overlap, uses, None)
    assert sets.shape == (n_sets, k)
    has = np.zeros((n_sets, n), dtype=np.float32)
    has[np.arange(n_sets)[:, None], sets] = 1
    shared = has @ has.T
    assert (np.diag(shared) == k).all()  # no feature twice
    assert shared[np.triu_indices(n_sets, 1)].max() <= overlap
    assert 0.6 * uses.bound < units[sets].sum() <= uses.bound


def test_where_no_set_can_be_dealt_out_there_are_none() -> None:
    counts = np.array([2, 2, 2, 2, 2, 2])
    assert len(dealt_out(counts, 4, 3, 0, None)) == 0
    assert dealt_out(counts, 2, 3, 0, None).tolist() == [[0, 1, 2], [3, 4, 5]]
