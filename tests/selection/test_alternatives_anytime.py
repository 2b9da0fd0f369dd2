"""Searches that are stopped: more time never leaves a worse set, nor one that a swap makes better.

Time is told by a clock that moves a little whenever it is looked at, so that no machine's speed
decides anything.
"""

import itertools
import time

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives import branch_and_bound
from chaffinch.tasks.selection.alternatives.constraints import Constraints, Group
from chaffinch.tasks.selection.alternatives.deadlines import GRACE
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.made_ready import make_ready
from chaffinch.tasks.selection.alternatives.quality import CFS, MRMR, Univariate

TICK = 1e-6


def correlations(n, seed):
    """Return how features that have few causes depend on a target and on each other."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 3)) @ random.normal(size=(3, n)) + random.normal(size=(60, n))
    y = X[:, :4].sum(axis=1) + random.normal(size=60)
    among = np.abs(np.corrcoef(X.T, y))
    np.fill_diagonal(among, 0.0)
    return among[-1, :-1], among[:-1, :-1]


def stopped(quality, k, n_looks, **options):
    """Return the set that a search ends with after so many looks at the clock."""
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * TICK)
        patch.setattr(branch_and_bound, "_WORK_BETWEEN_LOOKS", 3_000)
        limit = n_looks * TICK
        asked = {"n_alternatives": 0, "tau": 0.5, "time_limit": limit} | options
        (found,) = find_alternatives(quality, k=k, **asked)
    return found


def swapped(features, n):
    for out, into in itertools.product(features, set(range(n)) - {*features}):
        yield tuple(sorted({*features} - {out} | {into}))


@pytest.mark.parametrize("kind", [CFS, MRMR])
@pytest.mark.parametrize("seed", range(4))
def test_more_time_never_leaves_a_worse_set_or_one_that_a_swap_makes_better(kind, seed):
    quality = kind(*correlations(40, seed))
    found = [stopped(quality, 8, n_looks) for n_looks in (1, 3, 6, 12, 25, 50, 100, 200)]
    worths = [one.quality for one in found]
    assert worths == sorted(worths)
    assert found[3].status == "feasible"
    for one in found[1:]:
        best = max(map(quality.value, swapped(one.indices, 40)))
        assert one.quality >= best - 1e-12
        assert one.quality <= one.bound


@pytest.mark.parametrize("kind", [CFS, MRMR])
def test_swaps_obey_what_sets_must_obey(kind):
    quality = kind(*correlations(40, 0))
    rules = Constraints(
        must_include=[30],
        must_exclude=[0, 1],
        groups=[Group(range(10, 20), at_most=1), Group(range(20, 30), at_least=2)],
        costs=np.arange(40.0),
        budget=170.0,
    )
    previous = (2, 3, 4, 30, 31, 32)
    (free,) = find_alternatives(quality, k=6, n_alternatives=0, tau=0.5)
    for n_looks in (1, 5, 20, 80):
        one = stopped(quality, 6, n_looks, constraints=rules, previous=[previous])
        assert rules.checked(40, 6, 1).allow(one.indices, 40)
        assert len({*one.indices} & {*previous}) <= 3
        assert one.quality <= free.quality
        allowed = [
            other
            for other in swapped(one.indices, 40)
            if rules.checked(40, 6, 1).allow(other, 40) and len({*other} & {*previous}) <= 3
        ]
        assert one.quality >= max(map(quality.value, allowed)) - 1e-12


def test_a_limit_holds_however_many_sets_are_asked_for():
    """By a clock on which each set takes a fiftieth of a second at least."""
    looks = itertools.count()
    quality = Univariate(np.random.default_rng(0).random(60))
    make_ready(quality, find_alternatives, search="sequential")  # takes no time of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * 0.01)
        found = find_alternatives(quality, k=10, n_alternatives=500, tau=0.3, time_limit=0.1)
    assert 1 <= len(found) <= 20
    assert found.status == "not_solved"
    assert next(looks) * 0.01 < 0.1 + 2 * GRACE


def test_when_time_is_over_sets_that_take_a_moment_are_still_found():
    looks = itertools.count()
    quality = Univariate(np.random.default_rng(0).random(60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * TICK)
        found = find_alternatives(quality, k=10, n_alternatives=9, tau=0.3, time_limit=TICK)
    assert (len(found), found.status) == (10, "feasible")


def test_one_set_is_looked_for_however_late_it_is():
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * 10.0)
        found = find_alternatives(
            Univariate([3.0, 2, 1, 0]), k=2, n_alternatives=1, tau=1, time_limit=1
        )
    assert ([one.indices for one in found], found.status) == ([(0, 1)], "not_solved")
