"""Whole designs at once: m known sets, each worth enough, as an integer program (set packing).

    x_S in {0, 1},  sum of x_S = m,
    sum of x_S over the sets that have R <= 1, for each R of K + 1 features that two sets share,
    sum of x_S over the sets that have a feature <= what the feature may be used.

Where the smallest worth of a design counts, that is all: whether a set is worth enough is seen
before. All numbers are whole, so that no design is impossible for the solver's tolerances. The sum
of the worths is only what the solver is led by, and needs no such care.

HiGHS often proves within tenths of a second that some thousands of sets have no such design, by
cuts, where a search through cliques goes on for minutes; but not always. It is asked about small
programs only, for some nodes of its tree and half of the time that is left, so that not all is lost
where it comes to no end. Presolve, and heuristics that presolve smaller programs, can merge cliques
for minutes and heed no limit: they are off.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.prices import Bound
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

_MOST_ENTRIES = 200_000  # enough for what cliques left open among the instances of the benchmark
_OPTIONS = {
    "presolve": False,
    "node_limit": 100,
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
_LEAST_SECONDS = 1e-3
_INFEASIBLE = 2


def is_small(known: Known) -> bool:
    """Return whether a program over known sets is small enough to be asked about."""
    return len(known.sets) * math.comb(known.designs.k, known.designs.overlap + 1) <= _MOST_ENTRIES


def none_is_left(
    known: Known,
    bound: Bound,
    floor: float,
    take: Callable[[Sets], bool],
    deadline: float | None,
) -> bool:
    """Find better and better designs; return whether it is proven that no better one is left.

    Parameters
    ----------
    known : Known
        All sets that are worth enough for a better design.
    bound : Bound
        On designs.
    floor : float
        m times what each set of a better design is worth more than.
    take : function
        Takes a design, and returns whether it is better; if not, the search is given up.
    deadline : float, optional
        On the clock of `time.monotonic`.
    """
    designs = known.designs
    while not is_late(deadline):
        sets, is_none = packed(
            known, floor / designs.n_sets, bound.value / designs.n_sets, deadline
        )
        if sets is None or not take(sets):
            return is_none
        floor = designs.n_sets * float(worths(designs.form, sets).min()) + bound.slack
    return False


def packed(
    known: Known, above: float, cap: float, deadline: float | None
) -> tuple[Sets | None, bool]:
    """Return a design of known sets, each worth more than `above`, or whether there is none.

    Parameters
    ----------
    known : Known
    above : float
        What each of the sets is to be worth more than.
    cap : float
        No design has a smallest worth above this, so that more is not preferred.
    deadline : float, optional
        On the clock of `time.monotonic`.

    Returns
    -------
    sets : ndarray of int32, shape (m, k), or None
        None if there is none, or none was found.
    is_none : bool
        Whether it is proven that there is none.
    """
    designs = known.designs
    is_worth = known.worths > above
    sets = known.sets[is_worth]
    if len(sets) < designs.n_sets:
        return None, True
    merits = np.minimum(known.worths[is_worth], cap)
    merits -= merits.min()
    together, at_most = _rows(designs, sets)
    rules = [LinearConstraint(np.ones((1, len(sets))), designs.n_sets, designs.n_sets)]
    if len(at_most):
        rules.append(LinearConstraint(together, -np.inf, at_most))
    options = dict(_OPTIONS)
    if deadline is not None:
        options["time_limit"] = max(_LEAST_SECONDS, (deadline - time.monotonic()) / 2)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # scipy passes them on
        found = milp(
            -merits / (merits.max() or 1.0),
            integrality=np.ones(len(sets), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=rules,
            options=options,  # type: ignore[arg-type]
        )
    if found.x is None:
        return None, bool(found.status == _INFEASIBLE)
    return sets[found.x > 0.5], False


def _rows(designs: Designs, sets: Sets) -> tuple[sparse.csr_array, np.ndarray]:
    """Return which sets have what more than so many of them cannot have together, and how many."""
    sizes = [(designs.overlap + 1, 1)]
    if designs.overlap and designs.most_uses(1) < designs.n_sets:
        sizes.append((1, designs.most_uses(1)))
    rows: list[list[int]] = []
    at_most: list[int] = []
    for size, most in sizes:
        with_all: dict[tuple[int, ...], list[int]] = {}
        for place, features in enumerate(sets.tolist()):
            for subset in combinations(features, size):
                with_all.setdefault(subset, []).append(place)
        crowded = [places for places in with_all.values() if len(places) > most]
        rows += crowded
        at_most += [most] * len(crowded)
    starts = np.cumsum([0, *map(len, rows)])
    places = np.array([place for row in rows for place in row], dtype=np.int32)
    entries = (np.ones(len(places)), places, starts)
    return sparse.csr_array(entries, shape=(len(rows), len(sets))), np.array(at_most)
