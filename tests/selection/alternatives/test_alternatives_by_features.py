"""Designs of features that are worth something each, searched feature by feature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaffinch import Constraints, find_alternatives
from chaffinch.qualities import FCBF, Univariate
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Designs
from chaffinch.tasks.selection.alternatives.simultaneous import feature_by_feature as module
from chaffinch.tasks.selection.alternatives.simultaneous.feature_by_feature import (
    feature_by_feature,
)
from chaffinch.tasks.selection.alternatives.simultaneous.whole_numbers import Bars, is_barred
from chaffinch.tasks.selection.alternatives.validation import Group
from tests.selection.alternatives import exhaustive
from tests.selection.alternatives.every_design import best_by_trying_all

COUNTS = {"sum": math.fsum, "min": min}


@st.composite
def problems(draw):
    """Draw gains, conflicts, sizes, given sets and constraints of every kind."""
    k = draw(st.integers(1, 4))
    n = draw(st.integers(k + 1, 8))
    n_sets, overlap = draw(st.integers(2, 4)), draw(st.integers(0, k - 1))
    gains = draw(exhaustive.numbers(n))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    costs = None
    if draw(st.booleans()):
        costs = np.triu(np.where(random.random((n, n)) < 0.2, np.inf, 0.0), 1)
        costs = costs + costs.T
    limits = draw(exhaustive.limits(n, k)) if draw(st.booleans()) else Limits.none(n)
    rules = draw(exhaustive.constraints(n, k)) if draw(st.booleans()) else Constraints()
    if not rules.must_include and draw(st.booleans()):
        rules = Constraints(
            rules.must_include,
            rules.must_exclude,
            rules.groups,
            rules.costs,
            rules.budget,
            max_sets_per_feature=draw(st.integers(1, 3)),
        ).checked(n, k, n_sets)
    return Form(gains, costs), k, n_sets, overlap, limits, rules


def gone_through(designs: Designs, start, aggregate: str):
    """Return the best design that the search finds from a start, and whether it is through."""
    is_smallest_counted = aggregate == "min"
    search = feature_by_feature(
        designs, start, is_smallest_counted=is_smallest_counted, deadline=None
    )
    assume(search is not None)
    found = search.go_on(start, None)
    return (start if found is None else found), search.is_done


@pytest.mark.parametrize("aggregate", COUNTS)
@settings(max_examples=60, deadline=None)
@given(problems())
def test_no_design_is_better_than_what_is_found_from_any_other(aggregate, problem) -> None:
    form, k, n_sets, overlap, limits, rules = problem
    designs = Designs.checked(form, k, n_sets, overlap, limits, rules)
    worth = exhaustive.every_set(form, k, limits, rules)
    start = any_design(sorted(worth, key=worth.get), designs)
    assume(start is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HOPEFUL", 1e9)
        found, is_done = gone_through(designs, start, aggregate)
    best = best_by_trying_all(*problem, COUNTS[aggregate])
    values = [form.value(features) for features in found.tolist()]
    assert is_done
    assert COUNTS[aggregate](values) == pytest.approx(best, abs=1e-12)
    assert designs.contain(found)
    assert all(tuple(features) in worth for features in found.tolist())


def any_design(sets, designs: Designs):
    """Return m of the sets, in their order, that make a design; the worst first."""

    def extended(chosen, first):
        if len(chosen) == designs.n_sets:
            return chosen if designs.contain(np.array(chosen, dtype=np.int32)) else None
        for place in range(first, len(sets)):
            if all(len({*sets[place]} & {*one}) <= designs.overlap for one in chosen):
                design = extended([*chosen, sets[place]], place + 1)
                if design is not None:
                    return design
        return None

    design = extended([], 0)
    return None if design is None else np.array(design, dtype=np.int32)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_without_a_start_the_best_sum_is_found_or_that_there_is_none(problem) -> None:
    designs = Designs.checked(*problem)
    search = feature_by_feature(designs, None, is_smallest_counted=False, deadline=None)
    assume(search is not None)
    found = search.go_on(None, None)
    best = best_by_trying_all(*problem, math.fsum)
    assert search.is_done
    if found is None:
        assert best == -math.inf
    else:
        form = problem[0]
        assert math.fsum(map(form.value, found.tolist())) == pytest.approx(best, abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(problems(), st.data())
def test_a_set_is_barred_from_what_it_can_never_have(problem, data) -> None:
    """All sets are made feature by feature; what is left is what is allowed."""
    form, k, _, _, limits, rules = problem
    n = len(form.gains)
    rows = rules.rows(n)
    weights = np.vstack((limits.sets, rows.weights))
    caps = np.concatenate((limits.at_most, rows.caps)).astype(float)
    conflicts = np.zeros((n, n), dtype=bool)
    if form.pair_costs is not None:
        conflicts = np.isinf(form.pair_costs)
    bars = Bars.of(conflicts, weights, caps, k)
    features = sorted(data.draw(st.permutations(range(n)))[:k])
    members, is_made = np.zeros(k, dtype=np.int64), True
    for place, j in enumerate(features):
        is_made = is_made and not is_barred(bars, members, place, j, k - place)
        members[place] = j
    assert is_made == bars.allow(np.array([features]))[0]
    shared = limits.sets[:, features].sum(axis=1)
    free = Constraints(groups=rules.groups, costs=rules.costs, budget=rules.budget)
    expected = free.allow(features, n) and (shared <= limits.at_most).all()
    assert is_made == (expected and form.value(features) > -math.inf)


@pytest.mark.parametrize("aggregate", COUNTS)
def test_where_no_two_conflict_fcbf_is_worth_what_features_are(aggregate) -> None:
    """Of 40 features in six sets, any two of which share two: too many for a list of sets."""
    values = np.random.default_rng(4).uniform(0.2, 1, 40)
    asked = {"k": 5, "n_alternatives": 5, "tau": 0.6, "search": "simultaneous"}
    alone = find_alternatives(Univariate(values), **asked, aggregate=aggregate)
    pairs = find_alternatives(FCBF(values, np.zeros((40, 40))), **asked, aggregate=aggregate)
    assert (alone.status, pairs.status) == ("optimal", "optimal")
    assert pairs.total == pytest.approx(alone.total, rel=1e-12)


def few_conflicts() -> FCBF:
    """Return 30 features, of which 20 pairs are redundant: too few to tell sets apart."""
    random = np.random.default_rng(11)
    values = random.uniform(0.2, 1, 30)
    redundancy = np.zeros((30, 30))
    for one, other in random.permutation(30)[:20].reshape(10, 2):
        redundancy[one, other] = 2.0
    return FCBF(values, redundancy)


@pytest.mark.parametrize("aggregate", COUNTS)
def test_sets_that_conflicts_hardly_keep_apart_are_proven_and_have_none(aggregate) -> None:
    quality = few_conflicts()
    found = find_alternatives(
        quality, k=5, n_alternatives=5, tau=0.8, search="simultaneous", aggregate=aggregate
    )
    assert found.status == "optimal"
    assert all(quality.value(one.indices) > -math.inf for one in found)
    alone = find_alternatives(
        Univariate(quality.relevance),
        k=5,
        n_alternatives=5,
        tau=0.8,
        search="simultaneous",
        aggregate=aggregate,
    )
    assert 0.95 * alone.total < found.total <= alone.total + 1e-12


def test_what_all_sets_must_have_is_left_out_of_the_search() -> None:
    form = Form(np.arange(12.0, 0.0, -1.0))
    rules = Constraints(must_include=[5], must_exclude=[0]).checked(12, 4, 3)
    designs = Designs.checked(form, 4, 3, 2, None, rules)
    search = feature_by_feature(designs, None, is_smallest_counted=False, deadline=None)
    assert (search.k, search.overlap) == (3, 1)
    assert not {0, 5} & {*search.features.tolist()}
    assert all(5 in features and 0 not in features for features in search.go_on(None, None))


def test_features_behind_enough_that_nothing_bars_are_not_looked_at() -> None:
    form = Form(np.arange(100.0, 0.0, -1.0))
    groups = [Group([0, 98], at_most=1), Group([97, 99], at_least=1)]
    rules = Constraints(groups=groups).checked(100, 2, 2)
    designs = Designs.checked(form, 2, 2, 1, None, rules)
    search = feature_by_feature(designs, None, is_smallest_counted=False, deadline=None)
    assert search.features.tolist() == [0, 1, 2, 3, 4, 97, 99]


def test_there_is_no_such_search_where_pairs_cost_something() -> None:
    designs = Designs.checked(Form(np.ones(5), np.full((5, 5), 0.1)), 3, 2, 1, None, None)
    assert feature_by_feature(designs, None, is_smallest_counted=False, deadline=None) is None


def test_there_is_none_where_a_table_of_uses_would_be_too_large() -> None:
    form = Form(np.arange(200_000.0))
    groups = [Group(range(0, 200_000, 2), at_least=1)]  # whose features may all be needed
    rules = Constraints(groups=groups).checked(200_000, 6, 6)
    designs = Designs.checked(form, 6, 6, 2, None, rules)
    assert feature_by_feature(designs, None, is_smallest_counted=False, deadline=None) is None


def test_excluding_features_is_no_more_work_than_not_having_them() -> None:
    values = np.random.default_rng(0).uniform(size=60)
    asked = {"k": 5, "n_alternatives": 4, "tau": 0.6, "search": "simultaneous"}
    rules = Constraints(must_exclude=[3, 7, 20])
    left = np.delete(np.arange(60), [3, 7, 20])
    with_rules = find_alternatives(Univariate(values), constraints=rules, **asked)
    without = find_alternatives(Univariate(values[left]), **asked)
    assert with_rules.status == "optimal"
    assert [one.indices for one in with_rules] == [
        tuple(left[list(one.indices)].tolist()) for one in without
    ]
