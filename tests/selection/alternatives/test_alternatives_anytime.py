"""Searches that are stopped: their bounds hold, and more time never leaves a worse set.

Time is told by a clock that moves a little whenever it is looked at, so that no machine's speed
decides anything.
"""

import itertools
import time

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives.exact import best_sets
from chaffinch.tasks.selection.alternatives.exact.best_sets import GRACE
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate

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
        patch.setattr(best_sets, "_WORK_BETWEEN_LOOKS", 30_000)
        patch.setattr(best_sets, "_WORK_OF_FIRST_SET", 30_000)
        limit = n_looks * TICK
        asked = {"n_alternatives": 0, "tau": 0.5, "time_limit": limit} | options
        (found,) = find_alternatives(quality, k=k, **asked)
    return found


@pytest.mark.parametrize(("kind", "seed"), [(CFS, 0), (MRMR, 1)])
def test_more_time_never_leaves_a_worse_set(kind, seed):
    quality = kind(*correlations(40, seed))
    found = [stopped(quality, 8, n_looks) for n_looks in (1, 3, 12, 50, 200)]
    worths = [one.quality for one in found]
    assert worths == sorted(worths)
    assert found[0].status == "feasible"
    assert all(one.quality <= one.bound for one in found)


def test_a_limit_holds_however_many_sets_are_asked_for():
    """By a clock on which each set takes a fiftieth of a second at least."""
    looks = itertools.count()
    quality = Univariate(np.random.default_rng(0).random(60))
    find_alternatives(quality, k=4, n_alternatives=0, tau=0.3, time_limit=9)  # compiles
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
    assert len(found) == 10


def test_one_set_is_looked_for_however_late_it_is():
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * 10.0)
        found = find_alternatives(
            Univariate([3.0, 2, 1, 0]), k=2, n_alternatives=1, tau=1, time_limit=1
        )
    assert ([one.indices for one in found], found.status) == ([(0, 1)], "not_solved")


@pytest.mark.parametrize("kind", [CFS, FCBF, MRMR])
@pytest.mark.parametrize("seed", range(3))
def test_whenever_a_set_is_stopped_its_bound_holds(kind, seed):
    relevance, among = correlations(30, seed)
    quality = kind(relevance, among**4 if kind is FCBF else among)  # few are in conflict
    rules = {"previous": [(0, 1, 2, 3, 4)]}
    (best,) = find_alternatives(quality, k=5, n_alternatives=0, tau=0.5, **rules)
    for n_looks in range(1, 12):
        one = stopped(quality, 5, n_looks, **rules)
        assert one.quality <= best.quality <= one.bound + 1e-12


@pytest.mark.parametrize(("aggregate", "seed"), [("sum", 0), ("min", 1)])
def test_whenever_sets_at_once_are_stopped_their_bound_holds(aggregate, seed):
    quality = MRMR(*correlations(14, seed))
    asked = {"k": 4, "n_alternatives": 2, "tau": 0.5}
    asked |= {"search": "simultaneous", "aggregate": aggregate}
    best = find_alternatives(quality, **asked)
    for n_looks in range(1, 12):
        looks = itertools.count()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", lambda looks=looks: next(looks) * TICK)
            found = find_alternatives(quality, time_limit=n_looks * TICK, **asked)
        assert found.total <= best.total <= found.bound + 1e-12


def test_sets_at_once_are_there_although_the_first_could_take_all_the_time():
    """By a clock on which each look takes a tenth of a second."""
    looks = itertools.count()
    quality = MRMR(*correlations(100, 0))
    asked = {"search": "simultaneous", "k": 12, "n_alternatives": 3, "tau": 0.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(looks) * 0.1)
        patch.setattr(best_sets, "_WORK_BETWEEN_LOOKS", 3_000)
        found = find_alternatives(quality, time_limit=2.5, **asked)
    assert (len(found), found.status) == (4, "feasible")
