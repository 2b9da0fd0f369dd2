"""Sets of univariate worth at once are worth no less than sets one after the other."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.arrays import PAUSED
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import Univariate
from chaffinch.tasks.selection.alternatives.simultaneous import univariate
from chaffinch.tasks.selection.alternatives.simultaneous.univariate import (
    best_by_values,
    sets_in_turn,
)

COUNTS = {"sum": math.fsum, "min": min}


def exponential(seed, n):
    return np.random.default_rng(seed).exponential(size=n)


@pytest.mark.parametrize(
    ("values", "k", "n_alternatives", "tau"),
    [
        pytest.param(np.random.default_rng(0).random(20), 10, 30, 0.5, id="none were found"),
        pytest.param(exponential(102, 16), 7, 40, 0.3, id="nor here"),
        pytest.param(
            exponential(207, 50), 23, 40, 0.2, id="worse ones were found", marks=pytest.mark.e2e
        ),
    ],
)
def test_at_once_they_are_worth_no_less_without_a_limit(values, k, n_alternatives, tau) -> None:
    asked = {"k": k, "n_alternatives": n_alternatives, "tau": tau}
    in_turn = find_alternatives(Univariate(values), **asked)
    at_once = find_alternatives(Univariate(values), search="simultaneous", **asked)
    assert in_turn.status == "optimal"
    assert len(at_once) == n_alternatives + 1
    assert in_turn.total <= at_once.total <= at_once.bound
    dissimilarities = at_once.dissimilarities() + np.eye(n_alternatives + 1)
    assert dissimilarities.min() >= tau


@pytest.mark.parametrize("aggregate", COUNTS)
@pytest.mark.parametrize(
    ("seed", "n", "k", "tau"), [(342, 12, 3, 0.1), (428, 20, 2, 0.1), (146, 16, 3, 0.3)]
)
def test_of_sets_that_only_have_to_differ_the_best_are_proven(seed, n, k, tau, aggregate) -> None:
    values = exponential(seed, n)
    found = find_alternatives(
        Univariate(values),
        k=k,
        n_alternatives=40,
        tau=tau,
        search="simultaneous",
        aggregate=aggregate,
    )
    worths = sorted(map(math.fsum, combinations(values.tolist(), k)), reverse=True)[:41]
    assert found.status == "optimal"
    assert [one.quality for one in found] == pytest.approx(worths)
    assert found.total == found.bound == pytest.approx(COUNTS[aggregate](worths))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, -2.0, 1e9]) | st.floats(-3, 9), min_size=1)
    .filter(lambda values: len(values) <= 9)
    .flatmap(lambda values: st.tuples(st.just(values), st.integers(1, len(values)))),
    st.integers(1, 40),
    st.sampled_from(sorted(COUNTS)),
)
def test_as_many_different_sets_as_there_are_are_found_in_order(table, n_sets, aggregate) -> None:
    values, k = np.array(table[0]), table[1]
    found = best_by_values(values, k, n_sets, k - 1, aggregate, None)
    everything = sorted(
        (-math.fsum(values[list(one)]), one) for one in combinations(range(len(values)), k)
    )
    assert found.complete
    if n_sets > len(everything):
        assert found.sets is None
    else:
        worths = [-negative for negative, _ in everything[:n_sets]]
        assert len({tuple(one) for one in found.sets.tolist()}) == n_sets
        assert [math.fsum(values[one]) for one in found.sets.tolist()] == worths
        assert found.value == found.bound == pytest.approx(COUNTS[aggregate](worths))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(3, 30),
    st.data(),
)
def test_sets_in_turn_are_those_of_the_search_one_by_one(seed, n, data) -> None:
    values = exponential(seed, n)
    k, n_sets = data.draw(st.integers(2, min(n, 8))), data.draw(st.integers(1, 6))
    overlap = data.draw(st.integers(0, k - 1))
    one_by_one = find_alternatives(
        Univariate(values), k=k, n_alternatives=n_sets - 1, tau=1 - overlap / k
    )
    found = sets_in_turn(values, k, n_sets, overlap, None)
    if one_by_one.status == "infeasible":
        assert found is None
    else:
        assert [tuple(one) for one in found.tolist()] == [one.indices for one in one_by_one]


def test_a_set_that_takes_too_much_work_is_what_is_best_by_then(monkeypatch) -> None:
    """It differs from the others as the best would, and no more work is done than there is."""
    values = exponential(3, 40)
    work = []

    def paused(problem, state, most_work, sets):
        work.append(most_work)
        return PAUSED

    monkeypatch.setattr(univariate, "search_one_set", paused)
    found = sets_in_turn(values, 12, 5, 5, None)
    assert found.shape == (5, 12)
    shared = [len({*one} & {*other}) for one, other in combinations(found.tolist(), 2)]
    assert max(shared) <= 5
    assert sum(work) <= univariate._WORK


def test_where_the_best_leave_too_little_for_the_last_there_are_sets_all_the_same() -> None:
    values, asked = exponential(18, 18), {"k": 8, "n_alternatives": 44, "tau": 0.5}
    one_by_one = find_alternatives(Univariate(values), **asked)
    assert (one_by_one.status, len(one_by_one)) == ("infeasible", 32)
    at_once = find_alternatives(Univariate(values), search="simultaneous", **asked)
    assert len(at_once) == 45
    assert at_once.overlap()[~np.eye(45, dtype=bool)].max() <= 4
    in_depth = find_alternatives(Univariate(values), search="greedy_depth_search", **asked)
    assert in_depth.total <= at_once.total <= at_once.bound
