"""The best design among known sets as an integer program (set packing), solved by CP-SAT.

One worker, a fixed seed and no gap, so that equal programs have equal solutions, and an optimum is
a proof. Values are scaled to integers.
"""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.quality import worths

_UNITS = 2**36  # of the largest difference of values


def packed(
    designs: Designs, sets: Sets, value: float, deadline: float | None, seconds: float
) -> tuple[Sets | None, bool]:
    """Return the design of the best sum that is worth more than `value`, or None.

    Where the smallest counts, all sets are worth more, and any such design is returned: that there
    is none is quickly proven. Also whether there is no better one. Two sets share more than K
    features if they share some K + 1 of them, so that at most one of the sets with those can be in
    a design.
    """
    from ortools.sat.python import cp_model

    merits = worths(designs.form, sets)
    lowest, spread = float(merits.min()), float(np.ptp(merits)) or 1.0
    units = np.floor((merits - lowest) / spread * _UNITS).astype(np.int64).tolist()
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in units]
    for places in _with_all(sets, designs.overlap + 1):
        model.add_at_most_one(chosen[i] for i in places)
    if designs.constraints.max_sets_per_feature:
        for places in _with_all(sets, 1):
            model.add(sum(chosen[i] for i in places) <= designs.most_uses(1))
    model.add(sum(chosen) == designs.n_sets)
    if designs.aggregate == "sum":
        total = cp_model.LinearExpr.weighted_sum(chosen, units)
        if value > -math.inf:
            floor = math.floor((value - designs.n_sets * lowest) / spread * _UNITS)
            model.add(total > floor - designs.n_sets)  # rounding
        model.maximize(total)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers, parameters.random_seed = 1, 0
    parameters.relative_gap_limit = parameters.absolute_gap_limit = 0.0
    parameters.max_deterministic_time = seconds
    if deadline is not None:
        parameters.max_time_in_seconds = max(1e-3, deadline - time.monotonic())
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        places = [i for i, is_in in enumerate(chosen) if solver.value(is_in)]
        is_best = status == cp_model.OPTIMAL and designs.aggregate == "sum"
        return sets[places], is_best
    return None, bool(status == cp_model.INFEASIBLE)


def _with_all(sets: Sets, size: int) -> list[list[int]]:
    """Return the places of the sets that have all of some features, for each that several have."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, features in enumerate(sets.tolist()):
        for subset in combinations(features, size):
            places.setdefault(subset, []).append(place)
    return [of_subset for of_subset in places.values() if len(of_subset) > 1]
