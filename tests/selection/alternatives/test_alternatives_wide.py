"""Sets of so many features that a tree of what may be added has no room in memory."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.branch_and_bound import problem as wide_search
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.branch_and_bound.solve import best_sets, sets_within
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import Form, Univariate
from chaffinch.tasks.selection.alternatives.simultaneous import price_and_enumerate
from chaffinch.tasks.selection.alternatives.validation import Group
from tests.selection.alternatives.every_design import best_by_trying_all

N, K = 12, 5


@pytest.fixture
def without_room():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_search, "MOST_NUMBERS", 0)
        yield


def found_without_room(quality, **asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_search, "MOST_NUMBERS", 0)
        return find_alternatives(quality, **asked)


def test_half_of_a_hundred_thousand_features_and_half_of_them_again():
    n, k = 100_000, 50_000
    values = np.random.default_rng(0).permutation(n).astype(np.float64)
    order = np.argsort(-values)
    found = find_alternatives(Univariate(values), k=k, n_alternatives=1, tau=0.5)
    assert found.status == "optimal"
    assert [set(one.indices) for one in found] == [
        set(order[:k].tolist()),
        set(order[[*range(k // 2), *range(k, k + k // 2)]].tolist()),
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 3), st.sampled_from([0.2, 0.5, 1.0]))
def test_without_room_for_a_tree_sets_are_what_one_finds_or_their_bound_says_more(
    seed, n_previous, tau
):
    random = np.random.default_rng(seed)
    quality = Univariate(np.round(random.normal(size=N), 1))
    previous = [random.permutation(N)[:K].tolist() for _ in range(n_previous)]
    asked = {"k": K, "n_alternatives": 0, "tau": tau, "previous": previous}
    best, wide = find_alternatives(quality, **asked), found_without_room(quality, **asked)
    if not len(wide):  # it takes no steps back from where rows are in the way
        assert wide.status == "not_solved" or best.status == "infeasible"
        assert wide.bound >= best.total - 1e-9
        return
    (one,) = wide
    shared = [len({*one.indices} & {*other}) for other in previous]
    assert max(shared, default=0) <= K - np.ceil(tau * K - 1e-9)
    assert wide.total <= best.total + 1e-9
    assert wide.bound >= best.total - 1e-9
    if n_previous < 2 or wide.status == "optimal":
        assert wide.status == "optimal"
        assert wide.total == pytest.approx(best.total, abs=1e-9)


def test_what_sets_must_obey_is_obeyed_without_room(without_room):
    random = np.random.default_rng(0)
    values, costs = random.random(N), random.random(N)
    rules = Constraints(
        must_include=[3],
        must_exclude=[0],
        groups=[Group(range(4, 8), at_most=1)],
        costs=costs,
        budget=3.0,
    )
    previous = (1, 2, 3, 8, 9)
    found = find_alternatives(
        Univariate(values), k=K, n_alternatives=0, tau=0.5, constraints=rules, previous=[previous]
    )
    allowed = [
        one
        for one in itertools.combinations(range(N), K)
        if rules.checked(N, K, 1).allow(one, N) and len({*one} & {*previous}) <= 2
    ]
    assert found[0].indices in allowed
    assert found[0].quality <= max(values[list(one)].sum() for one in allowed) <= found.bound


def test_that_all_good_sets_are_found_is_not_said_without_room(without_room):
    form, asked = Form(np.arange(float(N))), {"limits": Limits.none(N), "most": 100}
    least = form.value(range(N - K, N)) - 2.0
    sets, is_all = sets_within(form, K, least, **asked)
    assert (len(sets), is_all) == (0, False)
    some = best_sets(form, K, least, **asked)
    assert not some.complete
    assert some.bound >= least + 2.0


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_sets_at_once_that_have_no_room_are_compared_with_those_one_by_one(aggregate):
    quality = Univariate(np.random.default_rng(1).random(N))
    asked = {"k": K, "n_alternatives": 2, "tau": 0.4}
    asked |= {"search": "simultaneous", "aggregate": aggregate}
    best, wide = find_alternatives(quality, **asked), found_without_room(quality, **asked)
    assert wide.total <= best.total + 1e-9
    assert wide.bound >= best.total - 1e-9


def test_charges_that_are_late_leave_a_bound_that_holds(without_room):
    values = np.arange(20.0, 0.0, -1.0)
    asked = {"k": 8, "n_alternatives": 0, "tau": 0.5, "previous": [range(8)]}
    (one,) = find_alternatives(Univariate(values), time_limit=1e-9, **asked)
    assert one.quality <= 20 + 19 + 18 + 17 + 12 + 11 + 10 + 9 <= one.bound


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_sets_at_once_of_60_000_features_with_a_budget_are_found_and_bounded(aggregate):
    """Pairs of them are not priced: a table of what pairs are charged would take 27 GiB."""
    random = np.random.default_rng(0)
    values, costs = random.random(60_000), random.random(60_000)
    found = find_alternatives(
        Univariate(values),
        k=6,
        n_alternatives=2,
        tau=0.5,
        search="simultaneous",
        aggregate=aggregate,
        constraints=Constraints(costs=costs.tolist(), budget=2.0),
        time_limit=10,
    )
    assert len(found) == 3
    assert all(costs[list(one.indices)].sum() <= 2 + 1e-9 for one in found)
    assert found.gap < 1e-3


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_where_no_pairs_are_priced_bounds_hold(aggregate, monkeypatch):
    monkeypatch.setattr(price_and_enumerate, "_MOST_PAIRS", 0)
    monkeypatch.setattr(price_and_enumerate, "feature_by_feature", lambda *_, **__: None)
    for seed in (1, 2, 4):
        random = np.random.default_rng(seed)
        costs = np.triu(random.exponential(0.2, (9, 9)), 1)
        form = Form(random.exponential(size=9), costs + costs.T)
        problem = form, 4, 3, seed % 3, Limits.none(9), Constraints()
        best = best_by_trying_all(*problem, {"sum": math.fsum, "min": min}[aggregate])
        found = getattr(price_and_enumerate, f"best_{aggregate}")(*problem[:4])
        assert found.complete
        assert found.value == pytest.approx(best, abs=1e-12)


def test_many_values_that_a_budget_turns_round_are_put_in_order_at_once():
    """By what they are worth for their cost they lie the other way: no quadratic sort of them."""
    n = 60_000
    values = np.arange(n, 0.0, -1.0)
    found = find_alternatives(
        Univariate(values),
        k=3,
        n_alternatives=0,
        tau=1.0,
        constraints=Constraints(costs=(values**2).tolist(), budget=50.0),
    )
    (best,) = found
    assert found.status == "optimal"
    assert best.quality == max(
        a + b + c
        for a, b, c in itertools.combinations(range(1, 8), 3)
        if a * a + b * b + c * c <= 50
    )
