"""Alternatives one at a time: the paper's examples, its propositions, and every set tried."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.dissimilarity import largest_overlap
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate
from chaffinch.tasks.selection.constraints import Constraints, Group
from tests.selection.alternatives import exhaustive

Q0 = Univariate([9, 8, 7, 3, 2, 1])

# quality, k, number of alternatives, tau, qualities
EXAMPLES = {
    "2": (Q0, 2, 2, 0.5, [17, 16, 15]),
    "3": (Q0, 3, 1, 0.5, [24, 14]),
    "5": (Q0, 3, 2, 0.5, [24, 14, 12]),
    "6": (Univariate([11, 10, 6, 5, 4, 1]), 3, 1, 0.5, [27, 20]),
    "7": (Q0, 4, 2, 0.5, [27, 20, 13]),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_paper(example):
    quality, k, n_alternatives, tau, qualities = EXAMPLES[example]
    found = find_alternatives(quality, k=k, n_alternatives=n_alternatives, tau=tau)
    assert [one.quality for one in found] == qualities
    assert found.total == found.bound == sum(qualities)
    assert found.status == "optimal"
    assert found.gap == 0


def test_a_share_that_rounds_down_is_meant_exactly():
    assert (1 - 4 / 5) * 5 < 1
    assert largest_overlap(5, 5, 4 / 5, "dice") == 1
    assert [largest_overlap(4, 4, tau, "jaccard") for tau in (0.4, 0.5, 1.0)] == [3, 2, 0]
    assert largest_overlap(2, 10, 0.5, "dice") == 2


@pytest.mark.parametrize("tau", [1e-3, 1e-9, 1e-10, 1e-17, 5e-324])
@pytest.mark.parametrize("kind", ["dice", "jaccard"])
def test_no_tau_above_0_lets_a_set_come_again(tau, kind):
    assert largest_overlap(3, 3, tau, kind) == 2
    assert largest_overlap(3, 3, 0.0, kind) == 3
    asked = {"k": 3, "n_alternatives": 1, "tau": tau, "dissimilarity": kind}
    for search in ("sequential", "simultaneous", "greedy_replacement", "greedy_depth_search"):
        first, second = find_alternatives(Q0, search=search, **asked)
        assert (first.indices, second.indices) == ((0, 1, 2), (0, 1, 3))
    again = find_alternatives(Q0, previous=[[0, 1, 2]], **asked)
    assert [one.indices for one in again] == [(0, 1, 3), (0, 1, 4)]


@st.composite
def qualities(draw, n):
    seed, are_few = draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    random = np.random.default_rng(seed)
    numbers = random.random((n + 1, n))
    numbers = np.round(4 * numbers) / 4 if are_few else numbers
    kind = draw(st.sampled_from([Univariate, FCBF, MRMR, CFS]))
    if kind is Univariate:
        return Univariate(numbers[0] - draw(st.sampled_from([0.0, 0.5])))
    return kind(numbers[0], numbers[1:] * (0.4 if kind is FCBF else 1.0))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_every_set_is_the_best_beside_all_before_it(data):
    n = data.draw(st.integers(2, 8))
    quality = data.draw(qualities(n))
    sizes = [data.draw(st.integers(1, min(n, 4)))] * data.draw(st.integers(1, 4))
    tau = data.draw(st.sampled_from([0.2, 0.25, 0.4, 0.5, 0.6, 0.75, 0.8, 1.0]))
    kind = data.draw(st.sampled_from(["dice", "jaccard"]))
    index = st.integers(0, n - 1)
    previous = data.draw(st.lists(st.sets(index, min_size=1).map(sorted), max_size=2))
    asked = {"tau": tau, "dissimilarity": kind, "previous": previous}
    found = find_alternatives(quality, k=sizes[0], n_alternatives=len(sizes) - 1, **asked)
    expected = exhaustive.one_by_one(quality, sizes, tau, kind, previous)
    assert found.status == ("optimal" if len(expected) == len(sizes) else "infeasible")
    assert [one.indices for one in found] == expected
    for place, one in enumerate(found):
        others = [*previous, *(other.indices for other in found[:place])]
        assert exhaustive.are_apart(one.indices, others, tau, kind)
        assert one.quality == quality.value(one.indices)
        assert one.status == "optimal"
    again = find_alternatives(quality, k=sizes[0], n_alternatives=len(sizes) - 1, **asked)
    assert [one.indices for one in again] == [one.indices for one in found]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_constraints_are_obeyed_and_cost_no_more_than_they_must(data):
    n, k = data.draw(st.integers(4, 8)), data.draw(st.integers(1, 4))
    quality, rules = data.draw(qualities(n)), data.draw(exhaustive.constraints(n, k))
    if not rules.must_include and data.draw(st.booleans()):
        rules = Constraints(
            must_exclude=rules.must_exclude, groups=rules.groups, max_sets_per_feature=2
        ).checked(n, k, 4)
    found = find_alternatives(quality, k=k, n_alternatives=3, tau=0.5, constraints=rules)
    expected = exhaustive.one_by_one(quality, [k] * 4, 0.5, "dice", constraints=rules)
    assert [one.indices for one in found] == expected
    for one in found:
        assert exhaustive.obeys(one.indices, rules)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_bounds_hold_when_there_is_no_time(data):
    n, k = data.draw(st.integers(4, 9)), data.draw(st.integers(1, 4))
    quality = data.draw(qualities(n))
    found = find_alternatives(quality, k=k, n_alternatives=0, tau=0.5, time_limit=1e-9)
    expected = exhaustive.one_by_one(quality, [k], 0.5, "dice")
    if expected:
        assert found.bound >= quality.value(expected[0])
        assert found.total <= found.bound
        assert found.status in ("optimal", "feasible", "not_solved")
    else:
        assert found.status in ("infeasible", "not_solved")


def test_names_say_which_features_are_meant():
    quality = Univariate([4, 3, 2, 1], names=["age", "income", "city", "size"])
    rules = Constraints(
        must_exclude=["age"],
        groups=[Group(["city", "size"], at_most=1)],
        costs={"income": 2.0},
        budget=2,
    )
    found = find_alternatives(
        quality, k=2, n_alternatives=0, tau=1, constraints=rules, previous=[["city"]]
    )
    assert found[0].features == ("income", "size")
    assert found[0].indices == (1, 3)


def test_fewer_sets_than_asked_for_are_told_from_all():
    found = find_alternatives(Q0, k=4, n_alternatives=1, tau=1.0)
    assert (len(found), found.status, found.total) == (1, "infeasible", 27)
    none = find_alternatives(Q0, k=4, n_alternatives=1, tau=1.0, previous=[[0, 1, 2]])
    assert (len(none), none.status, none.total) == (0, "infeasible", -math.inf)


def test_a_table_of_sets_has_a_row_for_each():
    table = find_alternatives(Q0, k=2, n_alternatives=1, tau=0.5).to_frame()
    assert table["features"].tolist() == [(0, 1), (0, 2)]
    assert table["status"].tolist() == ["optimal", "optimal"]
    assert table["gap"].tolist() == [0, 0]


def test_how_far_sets_are_apart():
    found = find_alternatives(Q0, k=2, n_alternatives=1, tau=0.5, dissimilarity="jaccard")
    assert found.overlap().tolist() == [[2, 1], [1, 2]]
    assert found.dissimilarities()[0] == pytest.approx([0, 2 / 3])


def test_the_redundancy_of_a_pair_counts_both_ways():
    relevance = [1.0, 1.0, 1.0]
    one_way = np.array([[9, 0, 0.5], [0.8, 9, 0], [0, 0.1, 9]])
    quality = MRMR(relevance, one_way)
    assert quality.value((0, 1)) == pytest.approx(1 - 0.8 / 2)
    assert quality.value((0, 1, 2)) == pytest.approx(1 - 1.4 / 6)
    assert MRMR(relevance, one_way.T).value((0, 1)) == quality.value((0, 1))
    found = find_alternatives(quality, k=2, n_alternatives=0, tau=1)
    assert found[0].indices == (1, 2)
    assert CFS(relevance, one_way).value((0, 1)) == pytest.approx(2 / math.sqrt(2.8))


def test_features_of_which_one_makes_the_other_redundant_are_never_together():
    redundancy = np.zeros((3, 3))
    redundancy[0, 1] = 0.5  # feature 0 tells as much of feature 1 as the target does
    quality = FCBF([0.9, 0.5, 0.1], redundancy)
    assert quality.value((0, 1)) == -math.inf
    found = find_alternatives(quality, k=2, n_alternatives=1, tau=0.5)
    assert [one.indices for one in found] == [(0, 2), (1, 2)]
    weaker = FCBF([0.9, 0.5 + 1e-9, 0.1], redundancy)
    assert find_alternatives(weaker, k=2, n_alternatives=0, tau=1)[0].indices == (0, 1)


@pytest.mark.parametrize(
    ("costs", "budget", "best"),
    [
        ([2e-10] * 4, 1e-10, None),
        ([1e-9] * 4, 1e-9, None),  # two cost twice as much
        ([1e-9] * 4, 2e-9, (0, 1)),
        ([0.1, 0.2, 0.3, 0.4], 0.3, (0, 1)),  # although 0.1 + 0.2 > 0.3 in floating point
        ([1e-20, 2e-20, 3e-20, 4e-20], 3e-20, (0, 1)),
        ([10**10 + 5, 10**10, 10**10, 10**10], 2 * 10**10, (1, 2)),
        ([10**10 + 5, 10**10, 10**10, 10**10], 2 * 10**10 + 5, (0, 1)),
        ([2, 1, 1, 1], 2.999999999999, (1, 2)),
        ([0, 0, 1, 1], 0, (0, 1)),
    ],
)
def test_a_budget_is_held_but_for_rounding(costs, budget, best) -> None:
    found = find_alternatives(
        Univariate([4, 3, 2, 1]),
        k=2,
        n_alternatives=0,
        tau=0.5,
        constraints=Constraints(costs=costs, budget=budget),
    )
    assert [one.indices for one in found] == ([] if best is None else [best])


@pytest.mark.parametrize(
    ("limits", "best"), [({"all_or_none": True}, (2, 3)), ({"at_most": 1}, (0, 2))]
)
def test_the_cost_of_a_group_is_paid_once(limits, best) -> None:
    """Together 0 and 1 cost 1.5 and 4 more; one of them 1 or 0.5 and 4 more."""
    constraints = Constraints(
        groups=[Group([0, 1], cost=4, **limits)], costs={0: 1, 1: 0.5}, budget=5
    )
    quality = Univariate([4, 3, 2, 1])
    found = find_alternatives(quality, k=2, n_alternatives=0, tau=0.5, constraints=constraints)
    assert [one.indices for one in found] == [best]


def test_a_feature_is_in_no_more_sets_than_it_may_be():
    rules = Constraints(max_sets_per_feature=2)
    found = find_alternatives(Q0, k=2, n_alternatives=3, tau=0.5, constraints=rules)
    assert [one.features for one in found] == [(0, 1), (0, 2), (1, 2), (3, 4)]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_of_sets_that_are_worth_the_same_the_first_as_a_word_is_taken(data):
    """By numbers of which many are the same, so that sums and ratios of other sets are too."""
    n, k = data.draw(st.integers(4, 9)), data.draw(st.integers(1, 4))
    kind = data.draw(st.sampled_from([CFS, CFS, MRMR, FCBF]))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    relevance = random.integers(0, data.draw(st.integers(1, 4)) + 1, n).astype(float)
    redundancy = random.integers(0, data.draw(st.integers(0, 6)) + 1, (n, n)) / 2
    if data.draw(st.booleans()):
        redundancy *= random.random((n, n)) < 0.3
    if data.draw(st.booleans()):  # a ratio that grows no further with what a set tells
        redundancy = np.outer(relevance, relevance) / 2
    quality, rules = kind(relevance, redundancy), data.draw(exhaustive.constraints(n, k))
    found = find_alternatives(quality, k=k, n_alternatives=2, tau=0.3, constraints=rules)
    expected = exhaustive.one_by_one(quality, [k] * 3, 0.3, "dice", constraints=rules)
    assert [one.indices for one in found] == expected
    assert {one.status for one in found} <= {"optimal"}


def test_a_ratio_of_other_sums_ties_as_well():
    relevance = [1, 1, 0, 2, 1, 1, 0, 2]
    redundancy = [
        [2, 2, 2, 1.5, 2, 1, 1, 0.5],
        [2, 3, 0.5, 2, 2, 3, 2, 1.5],
        [2, 0.5, 2, 2.5, 1.5, 0, 0, 2.5],
        [1.5, 2, 2.5, 3, 2, 1.5, 3, 3],
        [2, 2, 1.5, 2, 0, 1.5, 0.5, 0.5],
        [1, 3, 0, 1.5, 1.5, 3, 1, 1.5],
        [1, 2, 0, 3, 0.5, 1, 1, 1.5],
        [0.5, 1.5, 2.5, 3, 0.5, 1.5, 1.5, 2],
    ]
    quality = CFS(relevance, redundancy)
    assert quality.parts((0, 4, 6, 7)) == (4, 16)
    assert quality.parts((3, 4, 6, 7)) == (5, 25)
    rules = Constraints(must_exclude=[1])
    found = find_alternatives(quality, k=4, n_alternatives=1, tau=0.3, constraints=rules)
    assert [one.indices for one in found] == [(0, 3, 5, 7), (0, 4, 6, 7)]


@pytest.mark.parametrize("seed", [36, 49, 1933, 2304])
def test_a_ratio_is_proven_where_steps_come_to_rest_too_early(seed):
    random = np.random.default_rng(seed)
    quality = CFS(random.random(10), 3 * random.random((10, 10)) ** 4)
    found = find_alternatives(quality, k=3, n_alternatives=0, tau=1)
    assert [one.indices for one in found] == exhaustive.one_by_one(quality, [3], 1.0, "dice")
    assert found.status == "optimal"


@pytest.mark.parametrize(
    ("of_relevance", "of_redundancy"), [(0, 6), (6, 0), (6, 8), (250, 0), (0, 250), (-250, 250)]
)
def test_cfs_of_numbers_that_lie_far_apart_is_proven_and_right(of_relevance, of_redundancy):
    """Powers of ten from 1 to that; what is left to rounding is a share of the best set's own."""
    random = np.random.default_rng(0)
    for _ in range(5):
        relevance = 10.0 ** (of_relevance * random.random(9))
        redundancy = 10.0 ** (of_redundancy * random.random((9, 9)))
        quality = CFS(relevance, redundancy)
        found = find_alternatives(quality, k=3, n_alternatives=1, tau=0.6)
        assert found.status == "optimal"
        assert found.gap == 0
        best = max(quality.value(features) for features in itertools.combinations(range(9), 3))
        assert found[0].quality == pytest.approx(best, rel=1e-9, abs=0)


@pytest.mark.parametrize(("n", "k"), [(1_000, 300), (10_000, 1_000)])
def test_of_sets_of_many_features_the_first_is_proven_and_the_others_have_a_bound(n, k):
    values = np.random.default_rng(0).random(n)
    found = find_alternatives(Univariate(values), k=k, n_alternatives=2, tau=0.2, time_limit=1.0)
    in_order = np.argsort(-values, kind="stable")
    assert found[0].indices == tuple(sorted(in_order[:k].tolist()))
    assert found[0].status == "optimal"
    assert all(one.gap <= 0.01 for one in found)
