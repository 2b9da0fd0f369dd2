"""Numbers of other orders of magnitude: sets that are called optimal are the best there are."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate
from chaffinch.tasks.selection.alternatives.validation import Group

SEARCHES = (("sequential", None), ("simultaneous", "sum"), ("simultaneous", "min"))
VALUES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
COUNTS = {"sum": math.fsum, "min": min}


def worth_of_best(quality, k, n_sets, overlap, constraints, aggregate) -> float:
    """Return what the best of all sets of 1 or 2 is worth, by trying all; -inf without any."""
    n = quality.n_features
    worth = {
        one: quality.value(one)
        for one in combinations(range(n), k)
        if constraints.allow(one, n) and quality.value(one) > -math.inf
    }
    if n_sets == 1:
        return max(worth.values(), default=-math.inf)
    counts = COUNTS[aggregate]
    return max(
        (
            counts([worth[one], worth[other]])
            for one, other in combinations(worth, 2)
            if len({*one} & {*other}) <= overlap
        ),
        default=-math.inf,
    )


@pytest.mark.parametrize("aggregate", ["sum", "min"])
@pytest.mark.parametrize("size", [-1e6, -1e12, -1e300, 1e6, 1e12, 1e300])
def test_what_is_excluded_hides_nothing(size, aggregate) -> None:
    found = find_alternatives(
        Univariate([*VALUES, size]),
        k=3,
        n_alternatives=1,
        tau=0.5,
        search="simultaneous",
        aggregate=aggregate,
        constraints=Constraints(must_exclude=[9]),
    )
    assert found.status == "optimal"
    assert found.total == found.bound == pytest.approx({"sum": 4.4, "min": 2.2}[aggregate])


def test_a_feature_that_no_best_set_has_hides_nothing() -> None:
    redundancy = np.array(
        [
            [0.12, 0.24, 0.135, 0.195, 0.105],
            [0.24, 0.15, 0.06, 0.165, 0.12],
            [0.135, 0.06, 0.12, 0.105, 0.09],
            [0.195, 0.165, 0.105, 0.3, 0.18],
            [0.105, 0.12, 0.09, 0.18, 0.3],
        ]
    )
    quality = FCBF([0.5, 1, 0.1, 0.9, -1e15], redundancy)
    (found,) = find_alternatives(quality, k=2, n_alternatives=0, tau=0.5)
    assert (found.indices, found.quality, found.bound) == ((1, 3), 1.9, 1.9)


@pytest.mark.parametrize("size", [1e9, 1e15, 1e100])
def test_a_pair_that_no_best_set_has_hides_nothing(size) -> None:
    """Two features forbidden together by a large redundancy."""
    random = np.random.default_rng(0)
    relevance, redundancy = random.random(9), random.random((9, 9)) / 3
    usual = MRMR(relevance, redundancy)
    (best,) = find_alternatives(usual, k=3, n_alternatives=0, tau=0.5)
    for pair in combinations(range(9), 2):
        forbidden = redundancy.copy()
        forbidden[pair] = size
        quality = MRMR(relevance, forbidden)
        (found,) = find_alternatives(quality, k=3, n_alternatives=0, tau=0.5)
        expected = worth_of_best(quality, 3, 1, 0, Constraints(), "sum")
        assert (found.status, found.quality) == ("optimal", expected)
        if not {*pair} <= {*best.indices}:
            assert found.indices == best.indices


@pytest.mark.parametrize("size", [1e9, 1e12, 1e15])
def test_what_is_used_up_hides_nothing_of_the_next_set(size) -> None:
    """With tau = 1 the first set has the large number, and the second may not."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        values, redundancy = random.random(9), random.random((9, 9)) / 4
        values[8] = size
        for quality in (FCBF(values, redundancy), MRMR(values, redundancy)):
            first, *rest = find_alternatives(quality, k=3, n_alternatives=1, tau=1)
            without = Constraints(must_exclude=first.indices)
            best = worth_of_best(quality, 3, 1, 0, without, "sum")
            assert [one.quality for one in rest] == ([best] if best > -math.inf else [])


@pytest.mark.parametrize("size", [1e9, 1e15, 1e100])
def test_a_set_worth_very_much_hides_nothing_of_the_smallest(size) -> None:
    found = find_alternatives(
        Univariate([*VALUES, size, -3 * size]),
        k=3,
        n_alternatives=1,
        tau=1,
        search="simultaneous",
        aggregate="min",
    )
    assert (found.status, found.total) == ("optimal", pytest.approx(2.4))  # .9 + .8 + .7


def test_where_very_large_numbers_cancel_nothing_is_called_proven() -> None:
    """A set with both is worth as little as its third feature; only the bound knows better."""
    found = find_alternatives(
        Univariate([*VALUES, 1e15, -1e15]),
        k=3,
        n_alternatives=1,
        tau=1,
        search="simultaneous",
        aggregate="min",
        constraints=Constraints(groups=[Group((9, 10), all_or_none=True)]),
    )
    assert found.status == "feasible"
    assert found.bound >= 1.9 >= found.total  # 1.9: half of the six best


@st.composite
def uneven(draw):
    """Draw a quality of 5 to 8 features with some numbers of any size, k, and constraints."""
    n, k = draw(st.integers(5, 8)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    numbers, pairs = random.normal(size=n), random.random((n, n)) / 2
    sizes = st.builds(
        lambda sign, exponent: sign * 10.0**exponent,
        st.sampled_from([-1, 1]),
        st.sampled_from([-30, -9, 3, 6, 9, 12, 15, 100]),
    )
    for place, size in draw(st.dictionaries(st.integers(0, n - 1), sizes, max_size=3)).items():
        numbers[place] = size * random.random()
    for place, size in draw(st.dictionaries(st.integers(0, n * n - 1), sizes, max_size=2)).items():
        pairs.flat[place] = size
    kind = draw(st.sampled_from([Univariate, FCBF, MRMR, CFS]))
    if kind is CFS:
        numbers, pairs = np.abs(numbers), np.abs(pairs)
    quality = Univariate(numbers) if kind is Univariate else kind(numbers, pairs)
    constraints = Constraints(
        must_exclude=draw(st.sampled_from([(), (0,), (n - 1,)])),
        groups=draw(st.sampled_from([(), (Group((1, 2), at_most=1),)])),
    ).checked(n, k, 2)
    return quality, k, constraints


@pytest.mark.parametrize(("search", "aggregate"), SEARCHES)
@settings(max_examples=50, deadline=None)
@given(uneven(), st.sampled_from([0.5, 1.0]))
def test_optimal_is_the_best_and_no_set_is_above_a_bound(search, aggregate, problem, tau) -> None:
    quality, k, constraints = problem
    n_sets = 1 if search == "sequential" else 2
    if isinstance(quality, CFS) and n_sets == 2:
        return
    found = find_alternatives(
        quality,
        k=k,
        n_alternatives=n_sets - 1,
        tau=tau,
        search=search,
        aggregate=aggregate,
        constraints=constraints,
    )
    overlap = k - math.ceil(tau * k)
    best = worth_of_best(quality, k, n_sets, overlap, constraints, aggregate)
    assert (found.status == "infeasible") == (best == -math.inf)
    if not len(found):
        return
    usual = 1e-8 * max(abs(best), _usual(quality, constraints))
    assert found.bound >= best - usual
    if found.status == "optimal":
        assert found.total == pytest.approx(best, abs=usual)


def _usual(quality, constraints):
    """The lower median size of what open features are worth alone, where that is anything."""
    singles = quality.values if isinstance(quality, Univariate) else quality.relevance
    sizes = np.sort(np.abs(np.delete(singles, list(constraints.must_exclude))))
    sizes = sizes[sizes > 0]
    return float(sizes[(len(sizes) - 1) // 2]) if len(sizes) else 0.0


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_half_of_the_values_do_not_hide_the_other_half(aggregate) -> None:
    quality = Univariate([-5e14, 1e14, -1.3, 0.9])
    found = find_alternatives(
        quality, k=1, n_alternatives=1, tau=1, search="simultaneous", aggregate=aggregate,
        constraints=Constraints(groups=(Group((0, 1), at_most=1),)),
    )  # fmt: skip
    assert (found.status, [one.indices for one in found]) == ("optimal", [(1,), (3,)])


@pytest.mark.parametrize(("search", "aggregate"), SEARCHES)
def test_where_all_is_worth_nothing_that_is_proven(search, aggregate) -> None:
    for quality in (Univariate([0.0] * 6), MRMR([0.0] * 6, np.zeros((6, 6)))):
        found = find_alternatives(
            quality, k=2, n_alternatives=1, tau=1, search=search, aggregate=aggregate
        )
        assert (found.status, found.total, found.gap) == ("optimal", 0, 0)


@pytest.mark.parametrize("values", [[5, 4e6, 3e9, 2, 1], [0.01, 0.02, 0.03, 0.04, 5e5, 6e6]])
@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_sets_are_in_order_however_much_they_are_worth(values, aggregate) -> None:
    for k in (1, 2):
        n_sets = min(3, len(values) // k)
        found = find_alternatives(
            Univariate(values),
            k=k,
            n_alternatives=n_sets - 1,
            tau=1,
            search="simultaneous",
            aggregate=aggregate,
        )
        worths = [one.quality for one in found]
        assert len(worths) == n_sets
        assert worths == sorted(worths, reverse=True)
