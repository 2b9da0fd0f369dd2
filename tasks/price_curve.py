"""What it costs to differ: what one search finds at each tau, no worse than at a higher one.

Sets that differ by a tau differ by every lower one. A search that ends without a proof may yet find
worse ones there; then those of the higher tau are the best that is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from chaffinch.tasks.selection.alternatives.in_place import bounds_in_place
from chaffinch.tasks.selection.alternatives.sets import Alternatives, Solved

TAUS = tuple(tenths / 10 for tenths in range(1, 11))


def best_known(
    found: Mapping[float, Alternatives], n_sets: int, search: Literal["sequential", "simultaneous"]
) -> dict[float, Alternatives]:
    """Return what is known of each tau, once what was found at higher ones is looked at.

    Where sets are all there, without a proof, and those of a higher tau are worth more in all,
    these take their place. Whatever is proven stays as it is, and so do fewer sets.

    Parameters
    ----------
    found : mapping from float to Alternatives
        What the same search has found at each tau, in any order.
    n_sets : int, at least 1
        How many sets were asked for.
    search : "sequential" or "simultaneous"
        How they were searched for, by which bounds are of each set or of all.
    """
    known: dict[float, Alternatives] = {}
    best: Alternatives | None = None
    for tau in sorted(found, reverse=True):
        sets = found[tau]
        if best is not None and sets.status == "feasible" and best.total > sets.total:
            sets = _in_place_of(sets, best, search)
        if len(sets) == n_sets and (best is None or sets.total > best.total):
            best = sets
        known[tau] = sets
    return {tau: known[tau] for tau in found}


def price_of(tau: float, sets: Alternatives) -> dict[str, Any]:
    """Return what a price curve has of the sets at a tau; a bound that is not known is None."""
    return {
        "tau": tau,
        "qualities": [one.quality for one in sets],
        "bounds": [if_known(one.bound) for one in sets],
        "statuses": [one.status for one in sets],
        "bound": if_known(sets.bound),
        "status": sets.status,
    }


def if_known(value: float) -> float | None:
    """Return a number, or None for an infinite one: a set that is not allowed, or no bound."""
    return value if math.isfinite(value) else None


def _in_place_of(
    sets: Alternatives, better: Alternatives, search: Literal["sequential", "simultaneous"]
) -> Alternatives:
    """Return better sets of a higher tau, with what the search at the lower one says of them."""
    worths = [one.quality for one in better]
    if search == "sequential":
        # what bounds the first, beside the chosen set alone, bounds each
        bounds = [max(worth, sets[0].bound) for worth in worths]
        bound = math.fsum(bounds)
    else:
        bound = max(better.total, sets.bound)
        solved = Solved(None, better.total, bound, complete=False)
        # by the smallest, the highest bound of a set is one of any set
        highest = max(one.bound for one in sets) if sets.aggregate == "min" else math.inf
        bounds = bounds_in_place(worths, solved, len(worths), sets.aggregate, highest)
    each = tuple(
        replace(one, bound=known, status="feasible", seconds=old.seconds)
        for one, old, known in zip(better, sets, bounds, strict=True)
    )
    return replace(sets, sets=each, total=better.total, bound=bound)
