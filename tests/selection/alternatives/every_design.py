"""Designs by trying every one, and problems for searches that are held against that."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.designs import Solved
from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits
from chaffinch.tasks.selection.alternatives.quality import FCBF, Form
from chaffinch.tasks.selection.constraints import Constraints, Group
from tests.selection.alternatives.exhaustive import obeys


def best_by_trying_all(form, k, n_sets, overlap, limits, constraints, counts) -> float:
    """Return what the best of all designs is worth, -inf if there is none: no pruning by worth."""
    n = len(form.gains)
    sets = [
        features
        for features in combinations(range(n), k)
        if form.value(features) > -math.inf
        and obeys(features, constraints)
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
        assert obeys(features, constraints)
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


def fcbf_of_many(n: int, seed: int, share: float) -> Form:
    """Return FCBF's form, of even values and conflicts."""
    random = np.random.default_rng(seed)
    relevance, redundancy = random.uniform(size=n), random.uniform(size=(n, n)) * share
    return FCBF(relevance, redundancy).form(10)
