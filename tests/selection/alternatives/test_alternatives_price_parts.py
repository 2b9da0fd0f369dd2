"""What price and enumerate is made of, each part by itself: prices, cliques, packing, annealing."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.arrays import DONE
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.alternatives.result import Designs, Solved
from chaffinch.tasks.selection.alternatives.simultaneous import best_of_pool
from chaffinch.tasks.selection.alternatives.simultaneous.annealing import annealed_designs
from chaffinch.tasks.selection.alternatives.simultaneous.best_of_pool import (
    Walk,
    packed,
    search_cliques,
)
from chaffinch.tasks.selection.alternatives.simultaneous.column_generation import Master, sharpened
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import (
    NearSets,
    one_after_another,
)
from chaffinch.tasks.selection.alternatives.simultaneous.prices import (
    Bound,
    Known,
    Layer,
    Prices,
    graph_of,
)
from tests.selection.alternatives.every_design import (
    assert_is_a_design,
    best_by_trying_all,
    fcbf_of_many,
    problems,
)


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


@settings(max_examples=20, deadline=None)
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
            continue  # whenever it is paused, it continues from where it was
        if best == -math.inf:
            assert walk.best[0] == -1
        else:
            assert counts(known.worths[walk.best]) == pytest.approx(best, abs=1e-9)


@settings(max_examples=20, deadline=None)
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


@settings(max_examples=20, deadline=None)
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


@settings(max_examples=20, deadline=None)
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


@settings(max_examples=20, deadline=None)
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
        patch.setattr(best_of_pool, "is_late", late)
        found = best_of_pool.improved(designs, sets, worths(form, sets), None, 0.0)
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
