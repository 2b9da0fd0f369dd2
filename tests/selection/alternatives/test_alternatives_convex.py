"""With a convex part of pair costs, searches find what they find without, and prove it sooner."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from chaffinch.tasks.selection.alternatives.branch_and_bound import convex_bound, solve
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Limits,
    open_bound,
    prepared,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.solve import (
    best_set,
    best_sets,
    sets_within,
)
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.pair_costs import Convexity
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from tests.selection.alternatives import exhaustive

SOON = st.integers(1, 400)  # looks at a candidate, after which a search pauses


@pytest.fixture(scope="module", autouse=True)
def _convex_part_at_once():
    """Let every search that pauses try the convex part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convex_bound, "_BEFORE_PART", 0)
        patch.setattr(convex_bound, "_CLOSED", -math.inf)
        yield


@st.composite
def searches(draw):
    n = draw(st.integers(6, 10))
    k = draw(st.integers(5, n - 1))
    form, limits = draw(exhaustive.forms(n)), draw(exhaustive.limits(n, k))
    return form, k, limits, draw(exhaustive.constraints(n, k))


def alike(n, *, seed):
    """Return a form where features are alike in groups, and so cheap partners are not."""
    random = np.random.default_rng(seed)
    likeness = np.corrcoef(random.normal(size=(n, 4)))
    costs = np.round(likeness**2, 3)
    np.fill_diagonal(costs, 0.0)
    return Form(np.round(random.random(n), 3), costs)


@settings(max_examples=50, deadline=None)
@given(searches(), SOON)
def test_the_best_set_is_the_same(searched, pause):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "_WORK_BETWEEN_LOOKS", pause)
        for _ in range(2):  # the second knows a part from the start
            found = best_set(form, k, limits=limits, constraints=constraints, at_least=-1e6)
            assert found.complete
            if worth:
                assert found.indices == exhaustive.first_of_the_best(worth)
                assert max(worth.values()) <= found.bound <= found.value + exhaustive.ROUNDING
            else:
                assert found.indices is None


@settings(max_examples=50, deadline=None)
@given(searches(), SOON, st.data())
def test_all_sets_that_are_worth_enough_are_found_once(searched, pause, data):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    least = data.draw(st.sampled_from(sorted(worth.values()) or [0.0]))
    enough = sorted(features for features, value in worth.items() if value >= least)
    form.convexity.is_quicker = True  # or it is not for a search for all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "_WORK_BETWEEN_LOOKS", pause)
        for _ in range(2):
            sets, are_all = sets_within(
                form, k, least, limits=limits, constraints=constraints, most=1000
            )
            assert are_all
            assert sorted(map(tuple, sets.tolist())) == enough


@settings(max_examples=50, deadline=None)
@given(searches(), SOON, st.sampled_from([0, 500]), st.data())
def test_so_many_of_the_best_sets_are_found(searched, pause, few, data):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    in_order = sorted(worth.values(), reverse=True)
    least = data.draw(st.sampled_from([*in_order, -1000.0]))
    enough = [value for value in in_order if value >= least - exhaustive.ROUNDING]
    most = data.draw(st.integers(1, len(worth) + 2))
    form.convexity.is_quicker = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "_WORK_BETWEEN_LOOKS", pause)
        patch.setattr(solve, "_FEW", few)
        for _ in range(2):
            search = best_sets(form, k, least, limits=limits, constraints=constraints, most=most)
            found = [worth[tuple(features)] for features in search.sets.tolist()]
            assert search.complete
            assert len({*map(tuple, search.sets.tolist())}) == len(found)
            assert found == pytest.approx(enough[: len(found)], abs=exhaustive.ROUNDING)
            n_missing = min(most, len(enough)) - len(found)
            assert n_missing == 0 or found[-1] - in_order[0] > -exhaustive.ROUNDING
            assert max([least, *in_order[:1]]) <= search.bound


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 30), st.booleans(), st.floats(-3, 3))
def test_the_part_is_convex_wherever_weights_sum_to_nothing(seed, n, has_conflicts, power):
    random = np.random.default_rng(seed)
    costs = np.triu(random.normal(size=(n, n)), 1) * 10.0**power
    if has_conflicts:
        costs[np.triu(random.random((n, n)) < 0.2, 1)] = math.inf
    convexity, features = Convexity(), np.arange(n)
    k = int(random.integers(2, n))
    convexity.improve(features, random.normal(size=n), costs + costs.T, k, None)
    some = np.sort(random.choice(n, random.integers(2, n + 1), replace=False))
    for chosen in (features, some):
        part = convexity.part(chosen)
        across = np.eye(len(chosen)) - 1 / len(chosen)
        lowest = np.linalg.eigvalsh(across @ part @ across)[0]
        assert lowest >= -1e-13 * np.linalg.norm(part)


def test_a_part_is_known_of_the_features_that_it_was_found_for():
    convexity, features = Convexity(), np.array([2, 5, 7])
    assert convexity.part(features) is None
    convexity.improve(features, np.zeros(3), np.ones((3, 3)) - np.eye(3), 2, None)
    assert convexity.part(np.array([5, 7])).shape == (2, 2)
    assert convexity.part(np.array([5, 6])) is None
    assert convexity.part(np.array([5, 9])) is None


def test_a_better_part_brings_the_bound_down_to_near_the_best():
    form = alike(40, seed=1)
    best = best_set(form, 8, limits=Limits.none(40)).value
    found = prepared(form, 8, Limits.none(40), Constraints(), best, only_best=False)
    bounds = [open_bound(found)]
    for _ in range(4):
        convex_bound.begin_now(found)
        bounds.append(open_bound(found))
    assert best <= bounds[-1] < bounds[1]
    assert bounds[1] - best < (bounds[0] - best) / 5


@pytest.mark.parametrize("seed", [1])
def test_where_features_are_alike_a_proof_takes_far_less_work(seed, monkeypatch):
    form, pauses = alike(60, seed=seed), []
    monkeypatch.setattr(solve, "_WORK_BETWEEN_LOOKS", 100_000)
    run = solve.count_work
    monkeypatch.setattr(solve, "count_work", lambda *of: (pauses.append(1), run(*of)))
    values = []
    for before_part in (math.inf, 0):
        monkeypatch.setattr(convex_bound, "_BEFORE_PART", before_part)
        found = best_set(form, 10, limits=Limits.none(60))
        assert found.complete
        values.append((found.indices, len(pauses)))
        pauses.clear()
    (alone, n_alone), (with_part, n_with_part) = values
    assert alone == with_part
    assert n_with_part < n_alone / 3


def test_bounds_hold_however_early_a_search_is_stopped_whichever_way_it_goes(monkeypatch):
    form = alike(30, seed=4)
    monkeypatch.setattr(solve, "_WORK_BETWEEN_LOOKS", 2000)
    best = best_set(form, 7, limits=Limits.none(30)).value
    for n_pauses in range(0, 60, 7):
        looks = iter(range(n_pauses))
        monkeypatch.setattr(solve, "is_late", lambda _, at=looks: next(at, None) is None)
        found = best_set(form, 7, limits=Limits.none(30), deadline=0.0)
        assert found.bound >= best >= found.value


def test_a_long_search_may_end_with_any_sets(monkeypatch):
    form = alike(40, seed=2)
    monkeypatch.setattr(solve, "_WORK_BETWEEN_LOOKS", 100)
    monkeypatch.setattr(solve, "_LONG", 0)
    least = best_set(form, 8, limits=Limits.none(40)).value - 0.2
    whole = best_sets(form, 8, least, limits=Limits.none(40), most=50)
    some = best_sets(form, 8, least, limits=Limits.none(40), most=50, is_any_enough=True)
    assert (whole.complete, some.complete) == (True, False)
    assert len(some.sets) > 0
    assert worths(form, some.sets).min() >= least
    assert some.bound >= whole.bound
    none = best_sets(form, 8, least + 1.0, limits=Limits.none(40), most=50, is_any_enough=True)
    assert (len(none.sets), none.complete) == (0, True)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_part_is_the_same_whatever_the_number_of_threads(n_threads):
    form = alike(80, seed=3)
    with threadpool_limits(limits=n_threads):
        convexity = Convexity()
        convexity.improve(np.arange(80), form.gains, form.pair_costs, 6, None)
    again = Convexity()
    again.improve(np.arange(80), form.gains, form.pair_costs, 6, None)
    assert np.array_equal(convexity.part(np.arange(80)), again.part(np.arange(80)))
