"""The set that a branch and bound starts from: by the best swaps, in bounded work."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.arrays import largest_size
from chaffinch.tasks.selection.alternatives.branch_and_bound.kernels import (
    MOST_WORK,
    exchange,
    good_set,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Limits,
    open_bound,
    prepared,
)
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.pair_costs import PairTable, half_sums, nearest_of
from chaffinch.tasks.selection.alternatives.quality import MRMR, Form

ENOUGH = 10**9


def problem_of(seed, n, k, n_rows, overlap, kind):
    """Return the problem of n features, with pair costs or conflicts, beside some given sets."""
    random = np.random.default_rng(seed)
    costs = None
    if kind != "values":
        costs = random.normal(size=(n, n)) + 0.5
        if kind == "conflicts":
            costs[random.random((n, n)) < 0.1] = np.inf
        costs = np.triu(costs, 1) + np.triu(costs, 1).T
    sets = np.argsort(random.random((n_rows, n)), axis=1) < k
    limits = Limits(sets, np.full(n_rows, overlap))
    form = Form(random.normal(size=n), costs)
    return form, prepared(form, k, limits, Constraints(), -np.inf, only_best=True)


def fits(problem, chosen):
    return (problem.weights[list(chosen)].sum(axis=0) <= problem.caps).all()


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(5, 14),
    st.integers(0, 3),
    st.sampled_from(["values", "pairs", "conflicts"]),
)
def test_the_swap_that_gains_most_is_made_until_there_is_none(seed, n, n_rows, kind) -> None:
    k = n // 2
    _, search = problem_of(seed, n, k, n_rows, k // 2, kind)
    if search is None:
        return
    problem = search.problem
    form = Form(problem.gains, problem.costs if len(problem.costs) else None)
    random = np.random.default_rng(seed)
    allowed = [
        one
        for one in itertools.combinations(range(len(problem.gains)), k)
        if fits(problem, one) and form.value(one) > -np.inf
    ]
    if not allowed:
        return
    chosen = np.array(allowed[random.integers(len(allowed))])
    loads = problem.weights[chosen].sum(axis=0)
    for _ in range(1_000):
        before = set(chosen.tolist())
        best = max(
            (form.value(one) for one in allowed if len(before & {*one}) == k - 1),
            default=-np.inf,
        )
        if not exchange(problem, chosen, 0, loads, np.array([ENOUGH])):
            assert best <= form.value(before) + 2 * problem.slack
            return
        assert len(before & set(chosen.tolist())) == k - 1
        assert form.value(chosen) == pytest.approx(best, abs=1e-9)
        np.testing.assert_allclose(loads, problem.weights[chosen].sum(axis=0))
    pytest.fail("swaps have no end")


@pytest.mark.parametrize("work", [0, 1_000, 100_000, ENOUGH])
@pytest.mark.parametrize("kind", ["values", "pairs"])
def test_a_set_is_written_however_little_work_there_is(kind, work) -> None:
    form, search = problem_of(0, 120, 40, 3, 30, kind)
    problem, level = search.problem, 0
    chosen, left = np.zeros(40, dtype=np.int64), np.array([work])
    assert good_set(problem, np.zeros(0, np.int64), search.state.multipliers[level], chosen, left)
    assert len({*chosen.tolist()}) == 40
    assert fits(problem, chosen)
    assert form.value(search.features[chosen]) > -np.inf


@pytest.mark.parametrize("kind", ["values", "pairs"])
def test_large_sets_take_no_more_work_than_there_is(kind) -> None:
    """The look at all places and features that is under way when it is out is finished at most."""
    n, k, n_rows = (6_000, 2_500, 2) if kind == "values" else (700, 300, 2)
    _, search = problem_of(0, n, k, n_rows, k // 2, kind)
    n_left = len(search.features)
    left = np.array([MOST_WORK])
    chosen = np.zeros(k, dtype=np.int64)
    assert good_set(
        search.problem, np.zeros(0, np.int64), np.zeros(len(search.problem.caps)), chosen, left
    )
    assert left[0] >= -2 * n_left * (k + 1 + n_rows)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.data())
def test_the_cheapest_pairs_of_each_are_listed_first_the_smallest_cost(seed, n, data) -> None:
    most = data.draw(st.integers(1, n - 1))
    random = np.random.default_rng(seed)
    costs = random.choice([-1.0, 0.0, 0.5, 2.0, np.inf], size=(n, n))
    np.fill_diagonal(costs, 0.0)
    for i, nearest in enumerate(nearest_of(costs, most).tolist()):
        others = sorted((costs[i, j], j) for j in range(n) if j != i)
        assert nearest == [j for _, j in others[:most]]


def wide(kind, n):
    """Return pair costs of n features, of which many are alike, far off, infinite or in order."""
    random = np.random.default_rng(0)
    costs = random.normal(size=(n, n))
    if kind == "far off":
        costs[random.random((n, n)) < 0.01] = 1e12
    elif kind == "nearly alike":
        costs = 1 + 1e-9 * costs**5
    elif kind == "alike":
        costs = np.round(costs)
    elif kind == "in conflict":
        costs = np.where(costs < 1, 0.0, np.inf)
    elif kind == "in order":
        costs = -np.add.outer(np.arange(n), np.arange(n)).astype(np.float64)
    elif kind == "misleading":  # where a sample is taken, all are small
        costs[:, :: n // 64] -= 100
    np.fill_diagonal(costs, 0.0)
    return costs


KINDS = ["even", "far off", "nearly alike", "alike", "in conflict", "in order", "misleading"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [0, 1, 40, 150, 399])
def test_the_cheapest_pairs_of_a_wide_table_are_those_of_a_sort(kind, most) -> None:
    n = 400
    costs = wide(kind, n)
    nearest = nearest_of(costs, most)
    others = costs + np.diag(np.full(n, np.nan))  # itself the last
    assert np.array_equal(nearest, np.argsort(others, axis=1, kind="stable")[:, :most])
    smallest = np.take_along_axis(costs, nearest, axis=1)
    halves = half_sums(costs, nearest, most + 1)
    assert np.array_equal(halves[:, 0], np.zeros(n))
    assert np.array_equal(halves[:, 1:], np.cumsum(smallest, axis=1) / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_a_table_is_what_a_look_at_each_number_says(kind) -> None:
    costs = wide(kind, 100)
    table = PairTable(costs)
    finite, apart = costs[np.isfinite(costs)], costs[~np.eye(100, dtype=bool)]
    assert table.largest == largest_size(costs) == np.abs(finite).max()
    assert table.least == apart.min()
    assert table.has_conflicts == np.isinf(costs).any()
    assert (table.roughly(5).halves <= table.nearest(5).halves).all()


def test_of_no_pair_nothing_is_large_or_small() -> None:
    table = PairTable(np.zeros((1, 1)))
    assert (table.largest, table.least) == (0.0, np.inf)
    assert largest_size(np.zeros((0, 0))) == 0.0
    only_conflicts = PairTable(np.where(np.eye(3) > 0, 0.0, np.inf))
    assert (only_conflicts.least, only_conflicts.largest) == (np.inf, 0.0)
    assert (only_conflicts.roughly(3).halves == 0).all()


def test_a_table_is_put_in_order_once_for_all_searches_of_it() -> None:
    costs = wide("even", 50)
    form = Form(np.zeros(50), costs + costs.T)
    cheaper = replace(form, gains=np.ones(50))
    assert form.pairs() is cheaper.pairs() is form.pairs(np.arange(50))
    assert form.pairs().nearest(5) is cheaper.pairs().nearest(5)
    some = np.arange(0, 50, 2)
    assert form.pairs(some) is form.pairs(some.copy())
    assert np.array_equal(form.pairs(some).costs, form.pair_costs[np.ix_(some, some)])
    assert form.pairs(some + 1) is not form.pairs(some)
    dearer = replace(form, pair_costs=2 * form.pair_costs)
    assert dearer.pairs().largest == 2 * form.pairs().largest
    assert form.pairs().nearest(6).halves.shape == (50, 6)


def test_a_search_that_is_late_does_not_put_a_table_in_order_once_it_has_a_set() -> None:
    costs = wide("even", 60)
    form, asked = Form(np.zeros(60), costs + costs.T), (5, Limits.none(60), Constraints(), -np.inf)
    late = prepared(form, *asked, only_best=True, deadline=0.0)
    assert late.is_rough
    assert late.problem.neighbours.shape == (60, 0)
    whole = prepared(form, *asked, only_best=True)
    assert not whole.is_rough
    assert whole.problem.neighbours.shape == (60, 59)
    assert np.array_equal(np.sort(late.state.best), np.sort(whole.state.best))
    assert open_bound(late) >= open_bound(whole)
    again = prepared(form, *asked, only_best=True, deadline=0.0)  # now that its order is known
    assert open_bound(again) == open_bound(whole)


def test_a_wide_table_of_pairs_is_not_copied_again_and_again() -> None:
    """What the quality itself makes of it, two tables for a moment, is the most there is."""
    n = 800
    random = np.random.default_rng(0)
    quality = MRMR(random.random(n), random.random((n, n)))
    asked = {"k": 20, "n_alternatives": 0, "tau": 1.0, "previous": [range(20)]}
    find_alternatives(MRMR(quality.relevance[:30], quality.redundancy[:30, :30]), **asked)
    tracemalloc.start()
    try:
        find_alternatives(quality, time_limit=0.01, **asked)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.8 * quality.redundancy.nbytes
