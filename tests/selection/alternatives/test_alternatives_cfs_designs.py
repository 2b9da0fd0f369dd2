"""Several sets at once by CFS, against every design tried."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives import cfs_designs
from chaffinch.tasks.selection.alternatives.dissimilarity import largest_overlap
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import CFS
from chaffinch.tasks.selection.constraints import Constraints, Group
from tests.selection.alternatives.exhaustive import obeys


def best_by_trying_all(quality, k, n_sets, tau, counts, previous, rules) -> float:
    overlap = largest_overlap(k, k, tau, "dice")
    sets = [
        one
        for one in combinations(range(quality.n_features), k)
        if obeys(one, rules)
        and all(len({*one} & {*p}) <= largest_overlap(k, len(p), tau, "dice") for p in previous)
    ]
    values = {one: quality.value(one) for one in sets}
    designs = (
        design
        for design in combinations(sets, n_sets)
        if all(len({*a} & {*b}) <= overlap for a, b in combinations(design, 2))
    )
    return max((counts([values[one] for one in design]) for design in designs), default=-math.inf)


def cfs(n: int, seed: int, kind: str) -> CFS:
    random = np.random.default_rng(seed)
    if kind == "ties":
        return CFS(random.integers(0, 3, n) / 2.0, random.integers(0, 2, (n, n)) / 2.0)
    return CFS(random.uniform(size=n) ** 2, random.uniform(size=(n, n)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_design_is_better(data) -> None:
    n, k = data.draw(st.integers(3, 6)), data.draw(st.integers(1, 3))
    n_sets, tau = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0.3, 0.5, 1.0]))
    quality = cfs(n, data.draw(st.integers(0, 2**32 - 1)), data.draw(st.sampled_from(["ties", ""])))
    aggregate = data.draw(st.sampled_from(["sum", "min"]))
    previous = data.draw(st.sampled_from([[], [tuple(range(k))]]))
    rules = Constraints()
    if n > k and data.draw(st.booleans()):
        rules = Constraints(must_exclude=[n - 1], groups=[Group([0, 1], at_most=1)])
    found = find_alternatives(
        quality,
        k=k,
        n_alternatives=n_sets - 1,
        tau=tau,
        search="simultaneous",
        aggregate=aggregate,
        constraints=rules,
        previous=previous,
    )
    counts = {"sum": math.fsum, "min": min}[aggregate]
    checked = rules.checked(n, k, n_sets)
    best = best_by_trying_all(quality, k, n_sets, tau, counts, previous, checked)
    assert found.status == ("infeasible" if best == -math.inf else "optimal")
    assert found.total == pytest.approx(best, rel=1e-9)
    if len(found):
        assert counts([quality.value(one.indices) for one in found]) == found.total
        overlap = found.overlap()[~np.eye(n_sets, dtype=bool)]
        assert overlap.max(initial=0) <= largest_overlap(k, k, tau, "dice")


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_where_too_many_sets_are_to_be_listed_there_is_a_bound(aggregate, monkeypatch) -> None:
    quality = cfs(14, 0, "")
    asked = {"k": 4, "n_alternatives": 3, "tau": 0.75, "search": "simultaneous"}
    best = find_alternatives(quality, **asked, aggregate=aggregate)
    assert best.status == "optimal"
    monkeypatch.setattr(cfs_designs, "_MOST", 20)
    found = find_alternatives(quality, **asked, aggregate=aggregate)
    one_by_one = [
        one.quality for one in find_alternatives(quality, **{**asked, "search": "sequential"})
    ]
    least = min(one_by_one) if aggregate == "min" else sum(one_by_one)
    assert least - 1e-12 <= found.total <= best.total + 1e-12 <= found.bound + 2e-12


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_sizes_of_numbers_and_equal_calls_change_no_set(aggregate) -> None:
    quality = cfs(12, 1, "")
    asked = {"k": 3, "n_alternatives": 2, "tau": 0.6, "search": "simultaneous"}
    sets = [
        [one.indices for one in find_alternatives(other, **asked, aggregate=aggregate)]
        for other in (quality, quality, CFS(quality.relevance * 1e-200, quality.redundancy))
    ]
    assert sets[0] == sets[1] == sets[2]
