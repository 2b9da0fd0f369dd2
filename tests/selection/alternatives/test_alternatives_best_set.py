"""The branch and bound finds what trying every set finds, and its bounds hold at any time."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.exact import best_sets as module
from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits, best_set, best_sets
from chaffinch.tasks.selection.alternatives.quality import Form
from tests.selection.alternatives import exhaustive

LONG_AGO = 0.0


@st.composite
def searches(draw):
    n = draw(st.integers(1, 9))
    k = draw(st.integers(1, min(n, 5)))
    form, limits = draw(exhaustive.forms(n)), draw(exhaustive.limits(n, k))
    return form, k, limits, draw(exhaustive.constraints(n, k))


@settings(max_examples=150, deadline=None)
@given(searches())
def test_the_best_set_is_the_first_of_the_best_of_all(searched):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    found = best_set(form, k, limits=limits, constraints=constraints)
    assert found.complete
    if worth:
        assert found.indices == exhaustive.first_of_the_best(worth)
        assert found.value == worth[found.indices]
        assert max(worth.values()) <= found.bound <= found.value + exhaustive.ROUNDING
    else:
        assert (found.indices, found.value, found.bound) == (None, -math.inf, -math.inf)


@settings(max_examples=80, deadline=None)
@given(searches())
def test_a_bound_holds_when_it_is_too_late_to_search(searched):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    found = best_set(form, k, limits=limits, constraints=constraints, deadline=LONG_AGO)
    assert found.bound >= max(worth.values(), default=-math.inf)
    if found.indices is not None:
        assert found.value == worth[found.indices]


@settings(max_examples=80, deadline=None)
@given(searches(), st.data())
def test_so_many_of_the_best_sets_are_found(searched, data):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    in_order = sorted(worth.values(), reverse=True)
    least = data.draw(st.sampled_from([*in_order, -1000.0]))
    enough = [value for value in in_order if value >= least - exhaustive.ROUNDING]
    most = data.draw(st.integers(1, len(worth) + 2))
    search = best_sets(form, k, least, limits=limits, constraints=constraints, most=most)
    sets, bound = search.sets, search.bound
    found = [worth[tuple(features)] for features in sets.tolist()]
    assert search.complete
    assert len({*map(tuple, sets.tolist())}) == len(sets)
    assert found == sorted(found, reverse=True)
    assert found == pytest.approx(enough[: len(found)], abs=exhaustive.ROUNDING)
    # of sets that are worth the same as the last, any may be left out
    assert len(found) == min(most, len(enough)) or found[-1] - in_order[0] > -exhaustive.ROUNDING
    highest = max([least, *in_order[:1]])
    assert highest <= bound <= highest + exhaustive.ROUNDING


def test_of_very_many_equal_sets_so_many_are_found_at_once():
    form = Form(np.zeros(300), np.zeros((300, 300)))
    found = best_sets(form, 5, -1.0, limits=Limits.none(300), most=200)
    assert (len(found.sets), found.complete) == (200, True)
    assert 0 <= found.bound <= exhaustive.ROUNDING


@settings(max_examples=50, deadline=None)
@given(searches())
def test_only_sets_that_are_worth_enough_are_looked_for(searched):
    form, k, limits, constraints = searched
    worth = exhaustive.every_set(*searched)
    best = max(worth.values(), default=0.0)
    asked = {"limits": limits, "constraints": constraints}
    found = best_set(form, k, at_least=best + 0.01, **asked)
    assert (found.indices, found.complete) == (None, True)
    if worth:
        assert best_set(form, k, at_least=best, **asked).value == best


@pytest.mark.parametrize("with_pairs", [False, True])
def test_the_best_set_where_limits_are_tight(with_pairs):
    random = np.random.default_rng(0)
    every = np.array(list(itertools.combinations(range(16), 6)))
    members = np.zeros((len(every), 16))
    np.put_along_axis(members, every, 1.0, axis=1)
    for _ in range(20):
        costs = np.triu(random.random((16, 16)), 1) / 4
        form = Form(random.exponential(size=16), costs + costs.T if with_pairs else None)
        halves = random.permuted(np.tile([True, False], (10, 8)), axis=1)
        limits = Limits(halves, np.full(10, 3))
        worth = members @ form.gains
        if with_pairs:
            worth -= ((members @ form.pair_costs) * members).sum(axis=1) / 2
        worth[(members @ halves.T > 3).any(axis=1)] = -math.inf
        found = best_set(form, 6, limits=limits)
        assert found.indices == tuple(every[worth.argmax()])
        assert found.complete


def test_a_search_that_pauses_after_every_step_finds_the_same(monkeypatch):
    random = np.random.default_rng(0)
    costs = np.triu(random.random((30, 30)), 1)
    form = Form(random.random(30), costs + costs.T)
    limits = Limits(random.random((3, 30)) < 0.3, np.array([1, 1, 2]))
    best = best_set(form, 5, limits=limits)
    found = best_sets(form, 5, -2.0, limits=limits, most=99_999)
    assert found.complete
    assert 5_000 < len(found.sets) == len(np.unique(found.sets, axis=0))
    monkeypatch.setattr(module, "_WORK_BETWEEN_LOOKS", 1)
    assert best_set(form, 5, limits=limits) == best
    in_steps = best_sets(form, 5, -2.0, limits=limits, most=99_999)
    assert np.array_equal(in_steps.sets, found.sets)


@pytest.mark.parametrize("n_previous", [0, 3])
def test_many_equal_features_take_no_longer_than_few(n_previous):
    form = Form(np.zeros(2000))
    sets = np.zeros((n_previous, 2000), dtype=bool)
    for number in range(n_previous):
        sets[number, 5 * number : 5 * number + 5] = True
    limits = Limits(sets, np.full(n_previous, 2))
    found = best_set(form, 5, limits=limits)
    assert found.indices == {0: (0, 1, 2, 3, 4), 3: (0, 1, 5, 6, 10)}[n_previous]


def test_sets_that_are_worth_the_same_but_for_rounding_are_equal():
    apart = np.zeros((4, 4))
    apart[:2, 2:] = apart[2:, :2] = math.inf
    form = Form(np.array([0.3, 0.0, 0.1, 0.2]), apart)
    assert form.value((2, 3)) > form.value((0, 1))  # 0.1 + 0.2 > 0.3
    assert best_set(form, 2, limits=Limits.none(4)).indices == (0, 1)


def test_of_equal_sets_the_first_as_a_word_is_taken_though_another_was_met_first():
    form = Form(np.array([2.0, 2.0, 1.0, 3.0]))  # 3 comes first, with 2 alone: 2 + 2 = 3 + 1
    not_with_3 = np.array([[1, 0, 0, 1], [0, 1, 0, 1]], dtype=bool)
    limits = Limits(not_with_3, np.array([1, 1]))
    costs = np.zeros((4, 4))
    for same in (form, Form(form.gains, costs)):
        assert best_set(same, 2, limits=limits).indices == (0, 1)
