"""What searches for designs are made of, against every design tried; the whole is in the sweep."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.designs import Designs
from chaffinch.tasks.selection.alternatives.exact import price_and_enumerate
from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits, best_sets
from chaffinch.tasks.selection.alternatives.exact.packing import Pool, Walk, pack, pack_by_solver
from chaffinch.tasks.selection.alternatives.exact.price_and_enumerate import (
    best_design,
    best_univariate_design,
)
from chaffinch.tasks.selection.alternatives.exact.prices import Bound, Prices
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.constraints import Constraints
from tests.selection.alternatives.every_design import (
    assert_is_a_design,
    best_by_trying_all,
    fcbf_of_many,
    problems,
)
from tests.selection.alternatives.test_alternatives_sweep import WAYS

COUNTS = {"sum": math.fsum, "min": min}
PROGRAMS = WAYS[-1]
AGGREGATES = pytest.mark.parametrize("aggregate", COUNTS)
ROUNDING = 1e-9


def free(form, k, n_sets, overlap, aggregate) -> Designs:
    none = Limits.none(len(form.gains))
    return Designs(form, k, n_sets, overlap, none, Constraints(), aggregate)


def assert_is_best(found, problem, aggregate) -> None:
    best = best_by_trying_all(*problem, COUNTS[aggregate])
    assert found.complete
    assert found.value == pytest.approx(best, abs=ROUNDING)
    assert found.bound >= best - ROUNDING
    if best == -math.inf:
        assert (found.sets, found.bound) == (None, -math.inf)
    else:
        assert_is_a_design(found, *problem)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("n_sets", [2, 3])
@pytest.mark.parametrize(
    "gains",
    [[0.2, 0.4, 0.3, 0.4, 0.1], [0.2, 0.2, 0.4, 0.2, 0.3, 0.3], [0.2, 0.1, 0.2, 0.3, 0.1, 0.1]],
)
def test_integer_programs_end_where_sums_differ_by_rounding(gains, n_sets, monkeypatch) -> None:
    for name, value in PROGRAMS.items():
        monkeypatch.setattr(price_and_enumerate, name, value)
    problem = free(Form(np.array(gains)), 3, n_sets, 2, "min")
    best = best_by_trying_all(problem.form, 3, n_sets, 2, problem.limits, problem.constraints, min)
    assert best_design(problem, None).value == pytest.approx(best, abs=ROUNDING)


@AGGREGATES
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.data())
def test_no_design_of_univariate_sets_is_better(aggregate, seed, are_few, data) -> None:
    random = np.random.default_rng(seed)
    n, k = data.draw(st.integers(3, 8)), data.draw(st.integers(1, 3))
    values = random.integers(-2, 5, n).astype(float) if are_few else random.normal(size=n)
    n_sets, overlap = data.draw(st.integers(1, 4)), data.draw(st.integers(0, k - 1))
    excluded = random.permutation(n)[: data.draw(st.integers(0, n - k))].tolist()
    rules = Constraints(must_exclude=sorted(excluded))
    problem = Form(values), k, n_sets, overlap, Limits.none(n), rules
    found = best_univariate_design(Designs(*problem, aggregate), None)
    assert_is_best(found, problem, aggregate)


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(0, 2**32 - 1))
def test_any_prices_bound_every_design(problem, seed) -> None:
    designs, random = Designs(*problem), np.random.default_rng(seed)
    n, n_pairs = designs.n_features, int(random.integers(0, 4))
    pairs = np.sort([random.choice(n, 2, replace=False) for _ in range(n_pairs)]).reshape(-1, 2)
    pairs = np.unique(pairs, axis=0).astype(np.int64)
    of_features, of_pairs = random.exponential(size=n), random.exponential(size=len(pairs))
    prices = Prices(of_features, float(random.random()), pairs, of_pairs, float(random.random()))
    form, k, _, _, limits, constraints = problem
    sets = best_sets(
        prices.charged(form), k, -1e6, limits=limits, constraints=constraints, most=9_999
    )
    bound = Bound.of(designs, prices, sets.bound)
    best = best_by_trying_all(*problem, math.fsum)
    assert bound.value >= best
    if len(sets.sets) < designs.n_sets:
        return
    pool = Pool.of(designs, bound, sets.sets)
    walk = Walk.of(pool, designs.n_sets, -math.inf)
    while pack(pool, walk, 10):
        continue
    value = -math.inf if walk.best[0] < 0 else designs.worth(sets.sets[walk.best].tolist())
    assert value == pytest.approx(best, abs=ROUNDING)
    merits = worths(designs.form, sets.sets)
    by_program, is_proven = pack_by_solver(designs, sets.sets, merits, -math.inf, None, math.inf)
    assert is_proven
    found = -math.inf if by_program is None else designs.worth(by_program.tolist())
    assert found == pytest.approx(best, abs=ROUNDING)


@AGGREGATES
def test_seven_sets_of_the_fano_plane_are_found_and_an_eighth_is_proven_impossible(
    aggregate,
) -> None:
    form = Form(np.arange(7.0), np.ones((7, 7)) - np.eye(7))
    lines = best_design(free(form, 3, 7, 1, aggregate), None)
    assert lines.complete
    assert sorted(np.bincount(lines.sets.ravel())) == [3] * 7
    more = best_design(free(form, 3, 8, 1, aggregate), None)
    assert (more.sets, more.complete) == (None, True)


@AGGREGATES
def test_equal_calls_give_equal_sets(aggregate) -> None:
    random = np.random.default_rng(1)
    costs = np.triu(random.random((20, 20)), 1) / 4
    designs = free(Form(random.random(20), costs + costs.T), 5, 4, 2, aggregate)
    first, second = best_design(designs, None), best_design(designs, None)
    assert first.complete
    assert np.array_equal(first.sets, second.sets)


@pytest.mark.parametrize("seed", range(2))
def test_conflicts_that_hardly_keep_features_apart_are_proven(seed) -> None:
    found = best_design(free(fcbf_of_many(60, seed, 0.3), 5, 4, 2, "sum"), None)
    assert found.complete


def test_the_best_different_sets_are_proven_where_many_tie() -> None:
    found = best_univariate_design(free(Form(np.ones(40)), 5, 6, 3, "sum"), None)
    assert (found.complete, found.value) == (True, 30.0)
