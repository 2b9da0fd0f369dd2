"""Several alternatives at once, by price and enumerate: what it returns is the best there is."""

from __future__ import annotations

import functools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings

from chaffinch.tasks.selection.alternatives.branch_and_bound import solve
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Solved
from chaffinch.tasks.selection.alternatives.simultaneous import price_and_enumerate
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import (
    best_min,
    best_sum,
)
from tests.selection.alternatives.every_design import (
    assert_is_a_design,
    best_by_trying_all,
    fcbf_of_many,
    problems,
)

EXAMPLE = Form(np.array([9.0, 8, 7, 3, 2, 1]))
SEARCHES = {"sum": best_sum, "min": best_min}
COUNTS = {"sum": math.fsum, "min": min}


WITHOUT_A_FIRST_DESIGN = {
    "one_after_another": lambda designs, deadline: np.empty((0, designs.k), dtype=np.int32),
    "improved": lambda *what: None,
}
WAYS = {
    "as it comes": {},
    "with sets dropped first": {"_WORK_BEFORE_SHARPENING": -1},
    "with all that can be priced": {"_WORK_BEFORE_SHARPENING": -1, "_TOO_MANY": 0},
    "by cliques alone": WITHOUT_A_FIRST_DESIGN,
    "by whole designs": {"_WORK_BEFORE_SHARPENING": -1, "_WORK_BEFORE_PACKING": -1},
    "by whole designs alone": {
        "_WORK_BEFORE_SHARPENING": -1,
        "_WORK_BEFORE_PACKING": -1,
        **WITHOUT_A_FIRST_DESIGN,
    },
    "by cliques of sets that are left": {"_WORK_BEFORE_SHARPENING": -1, **WITHOUT_A_FIRST_DESIGN},
    "by sets next to known ones": {"_SOON": -1},
    "by sets next to known ones, all that can be priced": {
        "_SOON": -1,
        "_WORK_BEFORE_SHARPENING": -1,
        "_TOO_MANY": 0,
    },
}
OWNERS = {"_SOON": solve, "improved": price_and_enumerate}


def searched(aggregate, way, problem, deadline=None) -> Solved:
    """Search, on small problems too in the ways that large ones need."""
    form, k, n_sets, overlap, limits, constraints = problem
    with pytest.MonkeyPatch.context() as patch:
        if way != "as it comes":
            patch.setattr(price_and_enumerate, "feature_by_feature", lambda *_, **__: None)
        for name, value in WAYS[way].items():
            patch.setattr(OWNERS.get(name, price_and_enumerate), name, value)
        return SEARCHES[aggregate](
            form, k, n_sets, overlap, limits=limits, constraints=constraints, deadline=deadline
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("aggregate", ["sum", "min"])
@settings(max_examples=12, deadline=None)
@given(problems())
def test_no_design_is_better(aggregate, way, problem) -> None:
    best = best_by_trying_all(*problem, COUNTS[aggregate])
    found = searched(aggregate, way, problem)
    assert found.complete
    if best == -math.inf:
        assert found == Solved(None, -math.inf, -math.inf, complete=True)
        return
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.value <= found.bound <= found.value + 1e-9
    assert_is_a_design(found, *problem)
    form = problem[0]
    assert found.value == COUNTS[aggregate]([form.value(s) for s in found.sets.tolist()])


def larger_problem(seed: int):
    """Return sets of 4 of 9, three at once, so that triples are priced as well."""
    random = np.random.default_rng(seed)
    costs = np.triu(random.exponential(0.2, (9, 9)), 1)
    form = Form(random.exponential(size=9), costs + costs.T)
    return form, 4, 3, seed % 3, Limits.none(9), Constraints()


@functools.cache
def best_of_larger(seed: int, aggregate: str) -> float:
    return best_by_trying_all(*larger_problem(seed), COUNTS[aggregate])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("aggregate", ["sum", "min"])
@pytest.mark.parametrize("seed", [2, *(pytest.param(n, marks=pytest.mark.e2e) for n in (0, 1, 5))])
def test_no_design_of_larger_sets_is_better(seed, aggregate, way) -> None:
    found = searched(aggregate, way, larger_problem(seed))
    assert found.complete
    assert found.value == pytest.approx(best_of_larger(seed, aggregate), abs=1e-12)


@pytest.mark.parametrize(
    ("search", "form", "k", "n_sets", "overlap", "expected"),
    [
        (best_sum, EXAMPLE, 2, 3, 1, 48),  # example 2
        (best_sum, EXAMPLE, 3, 2, 1, 38),  # example 3
        (best_min, EXAMPLE, 3, 2, 1, 19),
        (best_sum, EXAMPLE, 3, 3, 1, 54),  # example 5
        (best_sum, Form(np.array([11.0, 10, 6, 5, 4, 1])), 3, 2, 1, 47),  # example 6
        (best_min, Form(np.array([11.0, 10, 6, 5, 4, 1])), 3, 2, 1, 22),
        (best_sum, EXAMPLE, 2, 3, 0, 30),  # proposition 11: all of the best 3 * 2
    ],
)
def test_the_papers_examples(search, form, k, n_sets, overlap, expected) -> None:
    found = search(form, k, n_sets, overlap)
    assert found.complete
    assert found.value == expected


def test_a_single_set_is_the_best_one() -> None:
    found = best_sum(EXAMPLE, 2, 1, 0)
    assert found.sets.tolist() == [[0, 1]]
    assert found.complete


def test_seven_sets_of_the_fano_plane_are_found_and_an_eighth_is_proven_impossible() -> None:
    form = Form(np.arange(7.0))
    seven = best_sum(form, 3, 7, 1)
    assert seven.complete
    assert seven.value == 3 * 21  # each feature is in three of its lines
    assert best_sum(form, 3, 8, 1) == Solved(None, -math.inf, -math.inf, complete=True)


def test_what_must_be_in_all_sets_cannot_be_more_than_they_may_share() -> None:
    form = Form(np.random.default_rng(0).random(200))
    both = Constraints(must_include=(3, 8)).checked(200, 5, 3)
    found = best_sum(form, 5, 3, 1, constraints=both)
    assert found == Solved(None, -math.inf, -math.inf, complete=True)
    one = Constraints(must_include=(3,)).checked(200, 5, 3)
    found = best_sum(form, 5, 3, 1, constraints=one)
    assert found.complete
    assert all(3 in features for features in found.sets)


def test_given_sets_are_kept_away_from() -> None:
    given_sets = np.array([[True, True, False, False, False, False]])
    found = best_sum(EXAMPLE, 2, 2, 1, limits=Limits(given_sets, np.array([1])))
    assert [0, 1] not in found.sets.tolist()
    assert found.value == 9 + 7 + 8 + 7


def mrmr_of_many(n: int, seed: int = 3) -> Form:
    random = np.random.default_rng(seed)
    factors = random.random((n, 6)) ** 3
    costs = factors @ factors.T / 60
    np.fill_diagonal(costs, 0)
    return Form(random.exponential(0.1, n) / 5, costs)


def test_where_a_walk_through_cliques_takes_long_whole_designs_are_proven_best(monkeypatch) -> None:
    """A walk to the end takes long; here only those that are cut short are allowed."""
    form = mrmr_of_many(50, seed=1)
    walk = price_and_enumerate._Search._walk
    monkeypatch.setattr(
        price_and_enumerate._Search,
        "_walk",
        lambda self, *what: len(what) > 3 and walk(self, *what),  # with the most work to be done
    )
    found = best_min(form, 4, 6, 1)
    assert found.complete
    assert found.value == pytest.approx(0.182321, abs=1e-6)  # by a walk to the end
    monkeypatch.setattr(price_and_enumerate, "is_small", lambda known: False)
    assert not best_min(form, 4, 6, 1).complete


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_a_search_that_is_cut_short_still_bounds_what_is_best(aggregate) -> None:
    form = mrmr_of_many(40)
    best = SEARCHES[aggregate](form, 4, 3, 2)
    assert best.complete
    starts = [-1.0, 0.0, 0.01, 0.03, 0.1]
    for later in starts:
        found = SEARCHES[aggregate](form, 4, 3, 2, deadline=time.monotonic() + later)
        assert found.value <= best.value + 1e-12
        assert found.bound >= best.value
        if found.sets is not None:
            problem = (form, 4, 3, 2, Limits.none(40), Constraints())
            assert_is_a_design(found, *problem)


@pytest.mark.parametrize("aggregate", ["sum", "min"])
@pytest.mark.parametrize("seed", [1, 2])
def test_without_time_for_cliques_the_bound_still_holds(seed, aggregate, monkeypatch) -> None:
    monkeypatch.setattr(price_and_enumerate._Search, "_walk", lambda *what: False)
    found = searched(aggregate, "with sets dropped first", larger_problem(seed))
    assert found.bound >= best_of_larger(seed, aggregate)


def test_equal_calls_give_equal_sets_and_leave_what_they_are_given_alone() -> None:
    form = Form(np.ones(8), np.zeros((8, 8)))
    gains, costs = form.gains.copy(), form.pair_costs.copy()
    once, again = best_sum(form, 3, 3, 1), best_sum(form, 3, 3, 1)
    assert once.sets.tolist() == again.sets.tolist()
    np.testing.assert_array_equal(form.gains, gains)
    np.testing.assert_array_equal(form.pair_costs, costs)


def test_a_set_is_no_alternative_of_itself() -> None:
    with pytest.raises(ValueError, match=r"overlap must be in 0\.\.1, less than k, but is 2"):
        best_sum(EXAMPLE, 2, 3, 2)


@pytest.mark.parametrize("way", ["as it comes", "by cliques alone"])
@settings(max_examples=12, deadline=None)
@given(problems())
def test_where_the_sum_finds_sets_the_worst_set_is_searched_for_from_them(way, problem) -> None:
    """Even if the search by the worst finds none by itself."""
    of_sum = searched("sum", way, problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            price_and_enumerate._Search,
            "_look",
            lambda self, bound, step: not self.is_smallest_counted and look(self, bound, step),
        )
        of_worst = searched("min", way, problem)
    assert (of_worst.sets is None) == (of_sum.sets is None)
    if of_sum.sets is not None:
        worths = [problem[0].value(features) for features in of_sum.sets.tolist()]
        assert of_worst.value >= min(worths) - 1e-9 * (1 + abs(min(worths)))


look = price_and_enumerate._Search._look


@pytest.mark.parametrize("best", [best_sum, best_min])
def test_a_set_that_is_worth_next_to_nothing_is_proven_best(best) -> None:
    found = best(Form(np.array([2e-313, -1.0])), 1, 1, 0)
    assert found.complete
    assert found.sets.tolist() == [[0]]


def test_the_best_sum_is_proven_where_many_sets_tie() -> None:
    form = fcbf_of_many(40, 2, 0.3)
    found = best_sum(form, 8, 4, 0)
    assert found.complete
    assert found.value == pytest.approx(19.203315090874895, rel=1e-15)  # by an integer program
    assert found.bound == pytest.approx(found.value, rel=1e-11)
