"""The heuristics for univariate qualities, against the paper's examples and its own loops."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.greedy import (
    greedy_balancing,
    greedy_depth_search,
    greedy_replacement,
)
from chaffinch.tasks.selection.alternatives.quality import Univariate

Q0 = np.array([9.0, 8, 7, 3, 2, 1])
HEURISTICS = [greedy_replacement, greedy_balancing, greedy_depth_search]


@st.composite
def questions(draw):
    """Values, often equal and of any sign, with k, the number of sets, and what they may share."""
    n = draw(st.integers(1, 9))
    values = draw(st.lists(st.integers(-3, 6) | st.floats(-2, 5), min_size=n, max_size=n))
    k = draw(st.integers(1, n))
    return np.array(values, dtype=float), k, draw(st.integers(1, 6)), draw(st.integers(0, k))


def ranks(sets: np.ndarray) -> list[set[int]]:
    return [{int(j) + 1 for j in features} for features in sets]


def papers_depth_search(values, k, n_sets, overlap):
    """Algorithm 4 without any short cut."""
    order = sorted(range(len(values)), key=lambda j: (-values[j], j))
    found: list[set[int]] = []
    for places in combinations(range(len(values)), k):
        features = {order[place] for place in places}
        if len(found) < n_sets and all(len(features & other) <= overlap for other in found):
            found.append(features)
    return [sorted(features) for features in found]


def test_replacement_keeps_the_best_and_stops_when_features_run_out() -> None:
    """Example 1: ten features, five in a set, three of them shared."""
    found = greedy_replacement(np.arange(10.0, 0, -1), 5, 6, 3)
    assert ranks(found) == [{1, 2, 3, 4, 5}, {1, 2, 3, 6, 7}, {1, 2, 3, 8, 9}]


@pytest.mark.parametrize("heuristic", [greedy_replacement, greedy_balancing])
def test_example_2_comes_to_45_in_all(heuristic) -> None:
    found = heuristic(Q0, 2, 3, 1)
    assert Q0[found].sum(axis=1).tolist() == [17, 16, 12]


def test_example_3_where_replacement_leaves_14_and_balancing_19() -> None:
    assert Q0[greedy_replacement(Q0, 3, 2, 1)].sum(axis=1).tolist() == [24, 14]
    assert Q0[greedy_balancing(Q0, 3, 2, 1)].sum(axis=1).min() == 19


def test_balancing_gives_each_feature_to_the_set_that_is_worth_least() -> None:
    """Example 4: the set that is full gets no more, even if it is worth less."""
    assert Q0[greedy_balancing(Q0, 4, 2, 2)].tolist() == [[9, 8, 7, 1], [9, 8, 3, 2]]


def test_depth_search_goes_on_where_replacement_has_run_out() -> None:
    """Example 7."""
    assert len(greedy_replacement(Q0, 4, 3, 2)) == 2
    assert ranks(greedy_depth_search(Q0, 4, 3, 2)) == [{1, 2, 3, 4}, {1, 2, 5, 6}, {3, 4, 5, 6}]


def test_later_sets_of_depth_search_can_be_better() -> None:
    """Example 8."""
    values = np.array([9.0, 8, 7, 1])
    found = greedy_depth_search(values, 2, 4, 1)
    assert values[found].sum(axis=1).tolist() == [17, 16, 10, 15]


@given(questions())
def test_depth_search_finds_what_the_papers_loop_finds(question) -> None:
    values, k, n_sets, overlap = question
    expected = papers_depth_search(values, k, n_sets, overlap)
    if overlap == k:
        expected = [expected[0]] * n_sets
    assert greedy_depth_search(values, k, n_sets, overlap).tolist() == expected


@pytest.mark.parametrize("heuristic", HEURISTICS)
@given(questions())
def test_sets_have_k_features_and_share_no_more_than_they_may(heuristic, question) -> None:
    values, k, n_sets, overlap = question
    found = heuristic(values, k, n_sets, overlap)
    assert len(found) <= n_sets
    assert found.shape[1] == k
    assert found.dtype == np.int32
    for features in found.tolist():
        assert features == sorted(set(features))
        assert 0 <= features[0] <= features[-1] < len(values)
    for one, other in combinations(found.tolist(), 2):
        assert len({*one} & {*other}) <= overlap


@given(questions())
def test_balancing_shares_out_what_replacement_takes(question) -> None:
    values, k, n_sets, overlap = question
    replaced = greedy_replacement(values, k, n_sets, overlap)
    balanced = greedy_balancing(values, k, n_sets, overlap)
    is_enough = k + (n_sets - 1) * (k - overlap) <= len(values)
    assert len(replaced) == n_sets if is_enough else 1 <= len(replaced) < n_sets
    assert len(balanced) == (n_sets if is_enough else 0)
    if is_enough:
        assert np.sort(balanced, axis=None).tolist() == np.sort(replaced, axis=None).tolist()


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_of_equal_values_the_lowest_index_comes_first(heuristic) -> None:
    assert heuristic(np.ones(7), 3, 2, 1)[0].tolist() == (
        [0, 1, 3] if heuristic is greedy_balancing else [0, 1, 2]
    )
    assert greedy_replacement(np.ones(7), 3, 2, 1).tolist() == [[0, 1, 2], [0, 3, 4]]


def test_depth_search_skips_what_is_too_alike_at_once() -> None:
    """There are ten million sets that begin with the best feature alone."""
    found = greedy_depth_search(np.arange(130.0, 0, -1), 5, 26, 0)
    assert found.tolist() == np.arange(130).reshape(26, 5).tolist()


def test_depth_search_returns_what_it_has_when_time_is_up() -> None:
    values = np.arange(60.0, 0, -1)
    found = greedy_depth_search(values, 12, 1000, 4, deadline=time.monotonic() - 1)
    assert 1 <= len(found) < 1000


def test_depth_search_keeps_to_a_time_limit() -> None:
    """Without one it would go through all sets of twelve of sixty for the last ones."""
    found = find_alternatives(
        Univariate(np.arange(60.0, 0, -1)),
        k=12,
        n_alternatives=999,
        tau=2 / 3,
        search="greedy_depth_search",
        time_limit=0.05,
    )
    assert 1 <= len(found) < 1000
    assert found.status == "not_solved"


@pytest.mark.parametrize("search", ["greedy_replacement", "greedy_balancing"])
def test_a_search_that_is_stuck_proves_nothing(search) -> None:
    asked = {"k": 4, "n_alternatives": 2, "tau": 0.5}
    found = find_alternatives(Univariate(Q0), search=search, **asked)
    assert (len(found) < 3, found.status) == (True, "not_solved")
    assert found.bound >= find_alternatives(Univariate(Q0), search="simultaneous", **asked).total


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Q0, 7, 2, 1), r"k must be in 1\.\.6 but is 7"),
        ((Q0, 0, 2, 0), r"k must be in 1\.\.6 but is 0"),
        ((Q0, 3, 2, 4), r"largest_overlap must be in 0\.\.3 but is 4"),
        ((Q0, 3, 0, 1), "n_sets must be at least 1 but is 0"),
        ((np.array([1.0, np.nan]), 1, 1, 0), "one finite number per feature"),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(heuristic, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        heuristic(*arguments)
