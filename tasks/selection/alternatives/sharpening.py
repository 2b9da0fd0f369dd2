"""A lower bound for designs of known sets: larger subsets are priced, and sets dropped.

Where all sets that a better design can have are known, the linear program may price subsets of any
size: no branch and bound has to find sets by those prices. With a lower bound fewer sets can be
part of a better design, and without those the bound may be lower still.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.alternatives.columns import close, listed
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.master import Master
from chaffinch.tasks.selection.alternatives.prices import Bound

_FIRST = 300
_ROUNDS = 40
_WORTHWHILE = 0.02
_WORTH_A_CAP = 0.1  # of what is between: without one, prices tell sets apart better


def sharpened(
    known: Known,
    bound: Bound,
    floor: float,
    is_smallest_counted: bool,
    deadline: float | None,
) -> tuple[Known, Bound]:
    """Return the sets that are left, and a bound on designs of them above a floor.

    Parameters
    ----------
    known : Known
        All sets that a design worth more than `floor` can have.
    bound : Bound
        On designs.
    floor : float
        What designs in all are to be worth more than.
    is_smallest_counted : bool
        Whether a design counts for its worst set, m times, so that what a set is worth beyond B / m
        does not count.
    deadline : float, optional
        On the clock of `time.monotonic`.
    """
    if len(known.sets) < known.designs.n_sets:
        return known, bound
    master = Master(known.designs, known.designs.penalty, deadline)
    master.priced = [layer.subsets[layer.prices > 0] for layer in bound.prices.layers[1:]]
    master.add(known.sets[np.argsort(-known.charged(bound.prices), kind="stable")[:_FIRST]])
    known, bound = _lowered(master, known, bound, floor, deadline, is_capped=False)
    if is_smallest_counted and min(len(known.sets), len(master.sets)) > 0:
        capped = _lowered(master, known, bound, floor, deadline, is_capped=True)
        if bound.value - capped[1].value >= _WORTH_A_CAP * (bound.value - floor):
            return capped
    return known, bound


def _lowered(
    master: Master,
    known: Known,
    bound: Bound,
    floor: float,
    deadline: float | None,
    *,
    is_capped: bool,
) -> tuple[Known, Bound]:
    """Price more and more subsets, and drop sets, for as long as it is worthwhile."""
    for _ in range(_ROUNDS):
        before = bound.value
        if is_capped:
            master.cap(min(master.designs.cap, bound.value / master.designs.n_sets))
            known = Known(master.designs, known.sets)
        bound, solution = close(master, bound, listed(known), floor=floor)
        if solution is None or is_late(deadline):
            break
        sizes = range(2, known.designs.overlap + 2)
        new = sum(master.price_subsets(solution, size) for size in sizes)
        is_kept = bound.highest - known.charged(bound.prices) < bound.value - floor
        if not is_kept.all():
            known = Known(master.designs, known.sets[is_kept])
            left = {features.tobytes() for features in known.sets}
            master.keep(np.array([features.tobytes() in left for features in master.sets]))
        is_worthwhile = before - bound.value >= _WORTHWHILE * (bound.value - floor)
        if min(len(known.sets), len(master.sets)) == 0 or not (
            is_worthwhile or (new and not is_kept.all())
        ):
            break
    return known, bound
