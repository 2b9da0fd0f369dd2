"""First designs by annealing, where there are too many sets to hope for a proof in moments.

`exchange_kernels.py` does it; here is what it is given. Groups, a budget and a limit to the sets of
a feature are not known to it: with any of them there are no such designs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.exchange_kernels import annealed
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

_MANY_PLACES = 25
_MOVES_OF_A_PLACE, _MOST_MOVES = 4_000, 1_000_000
_PRICES = (0.5, 0.12, 2.0)  # of what is shared too often, in terms of the largest number
_OF_CONFLICT = 8.0
_OF_ALL_SETS = 50_000_000  # moves; of these each looks at all sets
_SEED = 1


def annealed_designs(
    designs: Designs, first: Sets, deadline: float | None, *, is_smallest_counted: bool = False
) -> Iterator[Sets]:
    """Yield some designs whose sets are worth much in all, none if these have few places.

    Where the smallest worth counts, they are followed by some whose worst sets are worth much.

    Parameters
    ----------
    designs : Designs
    first : ndarray of int32, shape (m', k)
        Sets to start from, if they are m.
    deadline : float, optional
        On the clock of `time.monotonic`; looked at every few milliseconds.
    is_smallest_counted : bool
    """
    rules, m, k = designs.constraints, designs.n_sets, designs.k
    fixed, excluded = rules.included, rules.excluded
    is_unknown = rules.groups or rules.costs is not None or rules.max_sets_per_feature is not None
    if is_late(deadline):  # before costs are copied
        return
    if is_unknown or m * k < _MANY_PLACES or len(fixed) >= min(k, designs.overlap + 1):
        return
    pool = np.setdiff1d(np.arange(designs.n_features), [*fixed, *excluded])
    n_free = k - len(fixed)
    start = pool[np.arange(m * n_free).reshape(m, n_free) % len(pool)]
    if len(first) == m:
        start = np.array([np.setdiff1d(features, fixed) for features in first])
    start = np.hstack((np.tile(np.array(fixed, dtype=np.int64), (m, 1)), start))
    gains, costs, pairs = designs.form.gains, np.empty((0, 0)), designs.form.pairs()
    size = float(np.abs(gains).max(initial=0.0))
    if pairs is not None:
        costs = pairs.costs
        size += pairs.largest
        if pairs.has_conflicts:
            costs = np.where(np.isinf(costs), _OF_CONFLICT * size, costs)
    at_most = np.concatenate((np.full(m, designs.overlap), designs.limits.at_most))
    most = min(_MOVES_OF_A_PLACE * m * k, _MOST_MOVES)
    few = min(most, _OF_ALL_SETS // len(at_most) + 1)  # so that there are designs in a moment

    def designs_near(start: Sets, target: float) -> Iterator[Sets]:
        for n_moves, price in product(sorted({few, most}), _PRICES):
            if is_late(deadline):
                return
            is_found, sets = annealed(
                gains,
                costs,
                start.astype(np.int32),
                len(fixed),
                pool,
                designs.limits.sets,
                at_most,
                price * size or 1.0,
                n_moves,
                _SEED,
                deadline,
                target,
            )
            if is_found and np.isfinite(worths(designs.form, sets)).all():  # without conflicts
                yield sets

    in_all = -np.inf
    for sets in designs_near(start, np.inf):
        yield np.sort(sets, axis=1)
        worth = float(worths(designs.form, sets).sum())
        if worth > in_all:
            in_all, start = worth, sets
    if is_smallest_counted and in_all > -np.inf:  # in the best of all the worst is below the mean
        for sets in designs_near(start, in_all / m):
            yield np.sort(sets, axis=1)
