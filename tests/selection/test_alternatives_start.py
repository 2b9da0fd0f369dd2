"""The set that a branch and bound starts from: by the best swaps, in bounded work."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.array_kernels import largest_size, nearest_of
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import MRMR, Form
from chaffinch.tasks.selection.alternatives.search_problem import Limits, prepared
from chaffinch.tasks.selection.alternatives.starting_kernels import (
    MOST_WORK,
    exchange,
    good_set,
)

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


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.data())
def test_the_cheapest_pairs_of_each_are_listed_first_the_smallest_cost(seed, n, data) -> None:
    most = data.draw(st.integers(1, n - 1))
    random = np.random.default_rng(seed)
    costs = random.choice([-1.0, 0.0, 0.5, 2.0, np.inf], size=(n, n))
    np.fill_diagonal(costs, 0.0)
    for i, nearest in enumerate(nearest_of(costs, most).tolist()):
        others = sorted((costs[i, j], j) for j in range(n) if j != i)
        assert nearest == [j for _, j in others[:most]]
    finite = costs[np.isfinite(costs)]
    assert largest_size(costs) == np.abs(finite).max()
    assert largest_size(np.zeros((0, 0))) == 0.0


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
