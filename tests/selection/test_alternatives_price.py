"""Several alternatives at once, by price and enumerate: what it returns is the best there is."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives import (
    best_design,
    branch_and_bound,
    price_and_enumerate,
    swaps,
)
from chaffinch.tasks.selection.alternatives.annealing import annealed_designs
from chaffinch.tasks.selection.alternatives.bounding import one_after_another
from chaffinch.tasks.selection.alternatives.branch_and_bound import Limits
from chaffinch.tasks.selection.alternatives.cliques import Walk, search_cliques
from chaffinch.tasks.selection.alternatives.constraints import Constraints, Group
from chaffinch.tasks.selection.alternatives.designs import Designs
from chaffinch.tasks.selection.alternatives.graph import Known, graph_of
from chaffinch.tasks.selection.alternatives.master import Master
from chaffinch.tasks.selection.alternatives.near_sets import NearSets
from chaffinch.tasks.selection.alternatives.packing import packed
from chaffinch.tasks.selection.alternatives.price_and_enumerate import best_min, best_sum
from chaffinch.tasks.selection.alternatives.prices import Bound, Layer, Prices
from chaffinch.tasks.selection.alternatives.quality import FCBF, Form
from chaffinch.tasks.selection.alternatives.search_state import DONE
from chaffinch.tasks.selection.alternatives.sets import Solved
from chaffinch.tasks.selection.alternatives.sharpening import sharpened
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

EXAMPLE = Form(np.array([9.0, 8, 7, 3, 2, 1]))
SEARCHES = {"sum": best_sum, "min": best_min}
COUNTS = {"sum": math.fsum, "min": min}


def best_by_trying_all(form, k, n_sets, overlap, limits, constraints, counts) -> float:
    """Return what the best of all designs is worth, -inf if there is none: no pruning by worth."""
    n = len(form.gains)
    sets = [
        features
        for features in combinations(range(n), k)
        if form.value(features) > -math.inf
        and constraints.allow(features, n)
        and (limits.sets[:, list(features)].sum(axis=1) <= limits.at_most).all()
    ]
    most = constraints.max_sets_per_feature or n_sets
    values = [form.value(features) for features in sets]
    best, uses = -math.inf, [0] * n

    def extend(chosen: list[int], first: int) -> None:
        nonlocal best
        if len(chosen) == n_sets:
            best = max(best, counts([values[s] for s in chosen]))
            return
        for s in range(first, len(sets)):
            if any(len({*sets[s]} & {*sets[other]}) > overlap for other in chosen):
                continue
            if any(uses[j] >= most for j in sets[s]):
                continue
            for j in sets[s]:
                uses[j] += 1
            extend([*chosen, s], s + 1)
            for j in sets[s]:
                uses[j] -= 1

    extend([], 0)
    return best


def assert_is_a_design(found: Solved, form, k, n_sets, overlap, limits, constraints) -> None:
    n, sets = len(form.gains), found.sets.tolist()
    assert found.sets.shape == (n_sets, k)
    for features in sets:
        assert features == sorted(set(features))
        assert constraints.allow(features, n)
        assert (limits.sets[:, features].sum(axis=1) <= limits.at_most).all()
    assert all(len({*a} & {*b}) <= overlap for a, b in combinations(sets, 2))
    uses = np.bincount(found.sets.ravel(), minlength=n)
    assert uses.max() <= (constraints.max_sets_per_feature or n_sets)


@st.composite
def problems(draw):
    """Draw a form, sizes, given sets and constraints; with many ties, and at times without any."""
    k = draw(st.integers(1, 3))
    n = draw(st.integers(k + 1, 7))
    n_sets, overlap = draw(st.integers(1, 4)), draw(st.integers(0, k - 1))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["numbers", "ties", "nothing"]))
    if kind == "numbers":
        gains, costs = random.normal(size=n), random.exponential(0.3, (n, n))
    elif kind == "nothing":
        gains, costs = np.zeros(n), np.zeros((n, n))
    else:
        gains = random.integers(-3, 9, n).astype(float)
        costs = random.integers(0, 3, (n, n)).astype(float)
    costs = np.triu(costs, 1)
    costs[np.triu(random.random((n, n)) < draw(st.sampled_from([0.0, 0.2])), 1)] = np.inf
    form = Form(gains, costs + costs.T if draw(st.booleans()) else None)
    given_sets = random.random((draw(st.integers(0, 2)), n)) < 0.4
    limits = Limits(given_sets, random.integers(0, k + 1, len(given_sets)))
    constraints = Constraints()
    if draw(st.booleans()):
        order = random.permutation(n).tolist()
        constraints = Constraints(
            must_include=order[: draw(st.integers(0, 1))],
            must_exclude=order[n - draw(st.integers(0, 1)) :],
            groups=[Group(order[1:4], at_most=draw(st.integers(1, 2)))],
            costs=random.integers(0, 4, n).astype(float).tolist(),
            budget=float(draw(st.integers(2, 9))),
            max_sets_per_feature=draw(st.sampled_from([None, 1, 2, 3])),
        )
        constraints = _checked_or_none(constraints, n, k, n_sets)
    return form, k, n_sets, overlap, limits, constraints


def _checked_or_none(constraints, n, k, n_sets) -> Constraints:
    try:
        return constraints.checked(n, k, n_sets)
    except ValueError:
        return Constraints()


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
OWNERS = {"_SOON": branch_and_bound, "improved": best_design}


def searched(aggregate, way, problem, deadline=None) -> Solved:
    """Search, on small problems too in the ways that large ones need."""
    form, k, n_sets, overlap, limits, constraints = problem
    with pytest.MonkeyPatch.context() as patch:
        if way != "as it comes":
            patch.setattr(best_design, "feature_by_feature", lambda *_, **__: None)
        for name, value in WAYS[way].items():
            patch.setattr(OWNERS.get(name, price_and_enumerate), name, value)
        return SEARCHES[aggregate](
            form, k, n_sets, overlap, limits=limits, constraints=constraints, deadline=deadline
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("aggregate", ["sum", "min"])
@settings(max_examples=40, deadline=None)
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("aggregate", ["sum", "min"])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.e2e) for n in range(2, 6))]
)
def test_no_design_of_larger_sets_is_better(seed, aggregate, way) -> None:
    problem = larger_problem(seed)
    found = searched(aggregate, way, problem)
    assert found.complete
    best = best_by_trying_all(*problem, COUNTS[aggregate])
    assert found.value == pytest.approx(best, abs=1e-12)


def priced(problem, seed) -> tuple[Known, Bound]:
    """Return all sets there are, given sets and constraints aside, at prices that are drawn."""
    form, k, n_sets, overlap, _, _ = problem
    random, n = np.random.default_rng(seed), len(form.gains)
    designs = Designs(form, k, n_sets, overlap, Limits.none(n), Constraints())
    layers = [Layer(np.arange(n)[:, None], random.exponential(size=n), random.exponential())]
    for size in range(2, overlap + 2):
        subsets = np.array(list(combinations(range(n), size)))
        subsets = subsets[random.random(len(subsets)) < 0.5]
        layers.append(Layer(subsets, random.exponential(size=len(subsets)), random.exponential()))
    prices = Prices(tuple(layers))
    sets = [s for s in combinations(range(n), k) if form.value(s) > -math.inf]
    known = Known(designs, np.array(sets, dtype=np.int32).reshape(-1, k))
    return known, Bound.of(designs, prices, known.charged(prices).max(initial=-1.0))


def best_of(known, counts) -> float:
    designs = known.designs
    return best_by_trying_all(
        designs.form,
        designs.k,
        designs.n_sets,
        designs.overlap,
        designs.limits,
        designs.constraints,
        counts,
    )


SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=50, deadline=None)
@given(problems(), SEEDS)
def test_at_any_prices_cliques_are_searched_to_the_best(problem, seed) -> None:
    known, bound = priced(problem, seed)
    if len(known.sets) == 0:
        return
    for is_smallest_counted, counts in ((False, math.fsum), (True, min)):
        best = best_of(known, counts)
        graph = graph_of(known, bound)
        walk = Walk.of(graph, known.designs.n_sets, math.inf, -math.inf)
        while search_cliques(graph, walk, 1, is_smallest_counted, bound.value) != DONE:
            continue  # whenever it is paused, it goes on from where it was
        if best == -math.inf:
            assert walk.best[0] == -1
        else:
            assert counts(known.worths[walk.best]) == pytest.approx(best, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(problems(), SEEDS)
def test_whole_designs_of_sets_that_are_worth_enough_are_found_or_proven_not_to_be(
    problem, seed
) -> None:
    form, k, _, _, limits, constraints = problem
    sets = [
        features
        for features in combinations(range(len(form.gains)), k)
        if form.value(features) > -math.inf
        and constraints.allow(features, len(form.gains))
        and (limits.sets[:, list(features)].sum(axis=1) <= limits.at_most).all()
    ]
    designs = Designs(*problem)
    known = Known(designs, np.array(sets, dtype=np.int32).reshape(-1, k))
    best = best_by_trying_all(*problem, min)
    for above in (-math.inf, *np.random.default_rng(seed).permutation(known.worths)[:2]):
        found, is_none = packed(known, above, math.inf, None)
        is_there = best > above + 1e-9
        if abs(best - above) <= 1e-9:  # of sets that are worth the same but for rounding
            continue
        assert (found is not None, is_none) == (is_there, not is_there)
        if found is not None:
            assert designs.contain(found)
            assert worths(form, found).min() > above


@settings(max_examples=100, deadline=None)
@given(problems(), SEEDS)
def test_the_sets_of_a_design_are_among_those_that_lose_as_little(problem, seed) -> None:
    known, bound = priced(problem, seed)
    designs, charged = known.designs, known.charged(bound.prices)
    for is_smallest_counted, counts in ((False, math.fsum), (True, min)):
        best = best_of(known, counts)
        if best == -math.inf:
            return
        in_all = best * (designs.n_sets if is_smallest_counted else 1)
        may_lose = bound.value - in_all
        near = NearSets(designs, bound, is_smallest_counted, None)
        for lost in (may_lose + 1e-9, may_lose / 2):  # the less is picked out of the more
            sets, is_all = near.within(lost)
            spare = charged - (bound.highest - lost)
            if is_smallest_counted:
                of_worth = (bound.value - lost) / designs.n_sets
                spare = np.minimum(spare, known.worths - of_worth)
            found = {*map(tuple, sets.tolist())}
            assert is_all
            assert {*map(tuple, known.sets[spare > 1e-9].tolist())} <= found
            assert found <= {*map(tuple, known.sets[spare > -1e-9].tolist())}
        if near.is_ordered:
            sets, last = near.nearest(may_lose + 1e-9, 2)
            lose = bound.highest - np.sort(charged)[::-1]
            lose = lose[lose <= may_lose + 1e-9]
            assert len(sets) == min(2, len(lose))
            assert last == pytest.approx(lose[1] if len(lose) > 1 else may_lose, abs=1e-8)


@settings(max_examples=50, deadline=None)
@given(problems(), SEEDS)
def test_a_set_of_a_better_design_is_never_dropped(problem, seed) -> None:
    known, bound = priced(problem, seed)
    for is_smallest_counted, counts in ((False, math.fsum), (True, min)):
        best = best_of(known, counts)
        if best == -math.inf:
            return
        in_all = best * (known.designs.n_sets if is_smallest_counted else 1)
        left, lower = sharpened(known, bound, in_all - 1e-6, is_smallest_counted, None)
        assert in_all - 1e-9 <= lower.value <= bound.value
        kept = {*map(tuple, left.sets.tolist())}
        without_others = np.array([s in kept for s in map(tuple, known.sets.tolist())])
        worths = np.where(without_others, known.worths, -math.inf)
        graph = graph_of(known, bound)._replace(worths=worths)
        walk = Walk.of(
            graph, known.designs.n_sets, math.inf, -math.inf
        )  # only sets worth more than -inf
        while search_cliques(graph, walk, 10**6, is_smallest_counted, bound.value) != DONE:
            continue
        assert counts(worths[walk.best]) == pytest.approx(best, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(problems(), SEEDS)
def test_any_prices_bound_and_a_design_loses_what_it_is_worth_less(problem, seed) -> None:
    form, _, n_sets, overlap, _, _ = problem
    known, bound = priced(problem, seed)
    if len(known.sets) == 0:
        return
    random, sets = np.random.default_rng(seed), known.sets.tolist()
    assert best_of(known, math.fsum) <= bound.value

    graph = graph_of(known, bound)
    places = random.permutation(len(sets))
    design: list[int] = []
    for place in places:
        if all(len({*sets[place]} & {*sets[other]}) <= overlap for other in design):
            design.append(int(place))
    if len(design) < n_sets:
        return
    design = design[:n_sets]
    uses = np.bincount(
        [item for place in design for item in graph.items[place] if item >= 0],
        minlength=len(graph.lacks),
    )
    shared = sum(
        graph.sharing[list({*graph.items[a]} & {*graph.items[b]} - {-1})].sum()
        for a, b in combinations(design, 2)
    )
    lost = (
        graph.losses[design].sum()
        + graph.lacks[np.arange(len(uses)), uses].sum()
        + math.comb(n_sets, 2) * graph.of_two_sets
        - shared
    )
    worth = math.fsum(form.value(sets[place]) for place in design)
    assert worth == pytest.approx(bound.value - lost, abs=1e-6)


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
@pytest.mark.parametrize("seed", range(6))
def test_without_time_for_cliques_the_bound_still_holds(seed, aggregate, monkeypatch) -> None:
    problem = larger_problem(seed)
    best = best_by_trying_all(*problem, COUNTS[aggregate])
    monkeypatch.setattr(price_and_enumerate._Search, "_walk", lambda *what: False)
    assert searched(aggregate, "with sets dropped first", problem).bound >= best


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


def hard_form(n: int) -> Form:
    """Features of four kinds, each redundant to some degree with all others."""
    random = np.random.default_rng(0)
    kinds = random.normal(size=(n, 4))
    kinds /= np.linalg.norm(kinds, axis=1)[:, None]
    costs = np.abs(kinds @ kinds.T) / 10
    np.fill_diagonal(costs, 0.0)
    return Form(0.3 + 0.7 * random.random(n), costs)


@pytest.mark.parametrize("is_conflict", [False, True])
def test_designs_by_annealing_obey_what_every_set_must(is_conflict) -> None:
    form = hard_form(40)
    if is_conflict:
        form = Form(form.gains, np.where(form.pair_costs > 0.08, np.inf, 0.0))
    has = np.zeros((1, 40), dtype=bool)
    has[0, 3:9] = True
    rules = Constraints(must_include=(1,), must_exclude=(2, 30)).checked(40, 5, 11)
    designs = Designs(form, 5, 11, 2, Limits(has, np.array([1])), rules)
    found = list(annealed_designs(designs, np.empty((0, 5), np.int32), None))
    assert found
    for sets in found:
        assert designs.contain(sets)
        assert_is_a_design(Solved(sets, 0.0, 0.0, complete=False), *as_problem(designs))
        assert np.isfinite([form.value(features) for features in sets.tolist()]).all()
    once_each = Constraints(max_sets_per_feature=1).checked(40, 3, 11)
    assert not list(annealed_designs(replace(designs, constraints=once_each), sets, None))


def as_problem(designs: Designs):
    return (
        designs.form,
        designs.k,
        designs.n_sets,
        designs.overlap,
        designs.limits,
        designs.constraints,
    )


@pytest.mark.parametrize("way", ["as it comes", "by cliques alone"])
@settings(max_examples=40, deadline=None)
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


def test_swaps_of_many_sets_stop_when_it_is_late() -> None:
    """Tens of thousands of sets that are worth much the same."""
    random = np.random.default_rng(0)
    sets = np.sort(random.permuted(np.tile(np.arange(30), (30_000, 1)), axis=1)[:, :10], axis=1)
    sets = np.unique(sets, axis=0).astype(np.int32)
    form = Form(np.ones(30) + 1e-6 * random.random(30))
    designs = Designs(form, 10, 11, 8, Limits.none(30), Constraints())
    calls = []

    def late(deadline) -> bool:
        calls.append(deadline)
        return len(calls) > 3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swaps, "is_late", late)
        found = swaps.improved(designs, sets, worths(form, sets), None, 0.0)
    assert found is not None
    assert designs.contain(found)
    assert len(calls) <= 6  # between any two looks at the clock only so much work is done


def test_a_linear_program_is_given_up_when_it_is_late() -> None:
    form = hard_form(40)
    designs = Designs(form, 10, 21, 6, Limits.none(40), Constraints())
    random = np.random.default_rng(0)
    sets = random.permuted(np.tile(np.arange(40), (2_000, 1)), axis=1)[:, :10]
    sets = np.sort(sets, axis=1).astype(np.int32)
    in_time, late = (Master(designs, 100.0, deadline) for deadline in (None, time.monotonic()))
    for master in (in_time, late):
        master.add(sets)
    assert late.solve() is None
    assert in_time.solve() is not None


@pytest.mark.parametrize("best", [best_sum, best_min])
def test_a_set_that_is_worth_next_to_nothing_is_proven_best(best) -> None:
    found = best(Form(np.array([2e-313, -1.0])), 1, 1, 0)
    assert found.complete
    assert found.sets.tolist() == [[0]]


def fcbf_of_many(n: int, seed: int, share: float) -> Form:
    """Return FCBF's form, of even values and conflicts."""
    random = np.random.default_rng(seed)
    relevance, redundancy = random.uniform(size=n), random.uniform(size=(n, n)) * share
    return FCBF(relevance, redundancy).form(10)


def test_the_best_sum_is_proven_where_many_sets_tie() -> None:
    form = fcbf_of_many(40, 2, 0.3)
    found = best_sum(form, 8, 4, 0)
    assert found.complete
    assert found.value == pytest.approx(19.203315090874895, rel=1e-15)  # by an integer program
    assert found.bound == pytest.approx(found.value, rel=1e-11)


def test_by_the_smallest_sets_are_even_where_those_of_the_best_sum_are_not() -> None:
    form = fcbf_of_many(58, 1, 0.1)
    designs = Designs.checked(form, 10, 4, 0, None, None)
    first = one_after_another(designs, None)
    worst = min(form.value(features) for features in first.tolist())
    by_sum = [*annealed_designs(designs, first, None)]
    by_both = [*annealed_designs(designs, first, None, is_smallest_counted=True)]
    assert len(by_both) > len(by_sum)
    assert all((a == b).all() for a, b in zip(by_sum, by_both, strict=False))
    for sets in by_both[len(by_sum) :]:
        assert_is_a_design(
            Solved(sets, 0, 0, False), *(form, 10, 4, 0), designs.limits, Constraints()
        )
        assert min(form.value(features) for features in sets.tolist()) > 1.4 * worst
