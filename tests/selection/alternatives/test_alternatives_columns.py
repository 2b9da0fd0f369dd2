"""What the pricing of alternatives rests on: sets next to known ones, classes, and guessed caps."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Designs
from chaffinch.tasks.selection.alternatives.simultaneous.best_of_pool import least_of_classes
from chaffinch.tasks.selection.alternatives.simultaneous.column_generation import OneApart
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import (
    price,
    price_further,
)
from chaffinch.tasks.selection.alternatives.simultaneous.prices import (
    Bound,
    Known,
    Layer,
    Prices,
    graph_of,
)
from chaffinch.tasks.selection.alternatives.validation import Group

SEEDS = st.integers(0, 2**32 - 1)


def drawn_designs(random, n: int, k: int, overlap: int, n_sets: int = 3) -> Designs:
    """Return sets of k of n features, with pair costs, conflicts, rules and a given set."""
    costs = np.triu(random.exponential(0.3, (n, n)), 1)
    costs[np.triu(random.random((n, n)) < 0.1, 1)] = np.inf
    order = random.permutation(n).tolist()
    constraints = Constraints(
        must_include=order[: random.integers(0, 2)],
        must_exclude=order[n - 1 :],
        groups=[Group(order[1:4], at_most=2)],
    ).checked(n, k, n_sets)
    limits = Limits(random.random((1, n)) < 0.4, random.integers(1, k + 1, 1))
    form = Form(random.normal(size=n), costs + costs.T)
    return Designs(form, k, n_sets, overlap, limits, constraints)


def drawn_prices(random, designs: Designs) -> Prices:
    """Return prices of features, pairs and larger subsets that two sets may share."""
    n = designs.n_features
    layers = [Layer(np.arange(n)[:, None], random.exponential(size=n), random.exponential())]
    for size in range(2, designs.overlap + 2):
        subsets = np.array(list(combinations(range(n), size)))
        subsets = subsets[random.random(len(subsets)) < 0.3]
        layers.append(Layer(subsets, random.exponential(size=len(subsets)), random.exponential()))
    return Prices(tuple(layers))


def allowed_sets(designs: Designs) -> np.ndarray:
    n, limits = designs.n_features, designs.limits
    sets = [
        features
        for features in combinations(range(n), designs.k)
        if designs.form.value(features) > -math.inf
        and designs.constraints.allow(features, n)
        and (limits.sets[:, list(features)].sum(axis=1) <= limits.at_most).all()
    ]
    return np.array(sets, dtype=np.int32).reshape(-1, designs.k)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans())
def test_all_sets_that_are_one_swap_away_and_better_are_found(seed, is_capped) -> None:
    random = np.random.default_rng(seed)
    k, n = int(random.integers(1, 5)), 9
    designs = drawn_designs(random, n, k, overlap=int(random.integers(0, k)))
    if is_capped:
        designs = replace(designs, cap=float(random.normal()))
    prices, sets = drawn_prices(random, designs), allowed_sets(designs)
    if not len(sets):
        return
    known = sets[random.random(len(sets)) < 0.1]
    known = sets[:1] if not len(known) else known
    charged = Known(designs, sets).charged(prices)
    least = float(np.quantile(charged, random.random()))
    is_near = [any(len({*one} & {*other}) == k - 1 for other in known.tolist()) for one in sets]
    better = np.flatnonzero(np.array(is_near) & (charged > least + 1e-9))
    found = OneApart(designs).better(prices, known, least, most=len(sets))
    expected = {tuple(features) for features in sets[better].tolist()}
    assert {*map(tuple, found.tolist())} >= expected
    assert {*map(tuple, found.tolist())} <= {*map(tuple, sets.tolist())}
    worth = Known(designs, found).charged(prices)
    assert (worth > least).all()
    assert worth.tolist() == sorted(worth, reverse=True)
    few = OneApart(designs).better(prices, known, least, most=2)
    assert len(few) <= 2
    assert {*map(tuple, few.tolist())} <= {*map(tuple, found.tolist())}


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_sets_that_go_together_lose_no_less_than_as_many_classes(seed) -> None:
    random = np.random.default_rng(seed)
    k, n = int(random.integers(2, 5)), 9
    designs = drawn_designs(random, n, k, overlap=int(random.integers(0, k)))
    known = Known(designs, allowed_sets(designs))
    if not len(known.sets):
        return
    prices = drawn_prices(random, designs)
    graph = graph_of(known, Bound.of(designs, prices, float(known.charged(prices).max())))
    candidates = np.flatnonzero(random.random(len(known.sets)) < 0.4).astype(np.int32)
    further = np.sort(random.exponential(size=len(candidates)))
    above = float(np.quantile(known.worths, 0.2))
    loses = dict(zip(candidates.tolist(), further.tolist(), strict=True))
    good = [s for s in loses if known.worths[s] > above]
    for n_wanted in (1, 2, 3):
        least = min(
            (
                sum(loses[s] for s in chosen)
                for chosen in combinations(good[:25], n_wanted)
                if all(
                    len({*known.sets[s].tolist()} & {*known.sets[other].tolist()})
                    <= designs.overlap
                    for s, other in combinations(chosen, 2)
                )
            ),
            default=math.inf,
        )
        classes = np.zeros((n_wanted + 1, k + 1), dtype=np.int64)
        places = [place for place, s in enumerate(candidates) if int(s) in good[:25]]
        bound, n_seen = least_of_classes(
            graph, candidates[places], further[places], above, n_wanted, classes
        )
        assert bound <= least + 1e-12
        assert bound >= sum(sorted(loses[s] for s in good[:25])[:n_wanted]) - 1e-12
        assert n_seen <= len(places)


def test_sets_of_one_class_are_counted_once() -> None:
    """Four sets have features 0 and 1, of which two sets share one at most."""
    sets = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4], [0, 1, 5], [2, 3, 4]], dtype=np.int32)
    form = Form(np.ones(6))
    designs = Designs(form, 3, 2, 1, Limits.none(6), Constraints())
    known = Known(designs, sets)
    graph = graph_of(known, Bound.of(designs, Prices.none(6), 3.0))
    losses = np.array([0.0, 0.1, 0.2, 0.3, 5.0])
    of_two = least_of_classes(
        graph, np.arange(5, dtype=np.int32), losses, -1.0, 2, np.zeros((3, 4), dtype=np.int64)
    )
    assert of_two == (5.0, 5)
    of_three = least_of_classes(
        graph, np.arange(5, dtype=np.int32), losses, -1.0, 3, np.zeros((4, 4), dtype=np.int64)
    )
    assert of_three == (math.inf, 5)


@pytest.mark.parametrize("seed", range(8))
def test_a_cap_is_never_below_what_the_worst_set_of_the_best_design_is_worth(seed) -> None:
    random = np.random.default_rng(seed)
    n, k, n_sets, overlap = 9, 3, 3, seed % 2
    costs = np.triu(random.exponential(0.2, (n, n)), 1)
    form = Form(random.exponential(size=n), costs + costs.T)
    designs = Designs(form, k, n_sets, overlap, Limits.none(n), Constraints())
    sets = np.array(list(combinations(range(n), k)), dtype=np.int32)
    has = np.zeros((len(sets), n), dtype=int)
    np.put_along_axis(has, sets, 1, axis=1)
    go = has @ has.T <= overlap  # together; a set does not go with itself
    go_all = go[:, :, None] & go[:, None, :] & go
    worth = np.array([form.value(one) for one in sets.tolist()])
    smallest = np.minimum.outer(np.minimum.outer(worth, worth), worth)
    best = smallest[go_all].max()
    bound, master = price(designs, sets[:1], None)
    capped, lower = price_further(master, bound, True, None)
    assert capped.cap >= best - 1e-9
    assert lower.value <= bound.value
    assert lower.value / n_sets >= best - 1e-9
