"""What several sets that go together lose at least, by classes of sets that do not, compiled.

Sets that have overlap + 1 features in common are a *class*: no two of them go together. So the sets
of a design are of as many classes, and lose no less in all than the best of so many classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined


@inlined
def _in_common(common: Any, n_common: int, features: Any, k: int, into: Any) -> int:
    """Write which features are in both, of two that are sorted; return how many."""
    n, a, b = 0, 0, 0
    while a < n_common and b < k:
        if common[a] == features[b]:
            into[n] = common[a]
            n += 1
            a += 1
            b += 1
        elif common[a] < features[b]:
            a += 1
        else:
            b += 1
    return n


@compiled
def least_of_classes(
    graph: Any, candidates: Any, further: Any, above: float, n_wanted: int, classes: Any
) -> tuple[float, int]:
    """Return what so many candidates lose at least, no two of one class.

    Parameters
    ----------
    graph : Graph
    candidates : ndarray of int32, shape (c,)
        The one that loses least comes first.
    further : ndarray, shape (c,)
        What each of them loses.
    above : float
        Those that are worth no more are left out.
    n_wanted : int
    classes : ndarray of int64, shape (>= n_wanted + 1, >= k + 1)
        Room to work in.

    Returns
    -------
    loss : float
        inf if there are not so many classes.
    n_seen : int
        How many candidates were looked at.
    """
    k, size, room = graph.k, graph.overlap + 1, classes[n_wanted]
    loss, n_classes, i = 0.0, 0, 0
    while n_classes < n_wanted:
        if i == len(candidates):
            return np.inf, i
        s = candidates[i]
        i += 1
        if not graph.worths[s] > above:
            continue
        is_in_one = False
        for c in range(n_classes):
            n = _in_common(classes[c, 1:], classes[c, 0], graph.items[s], k, room)
            if n >= size:
                classes[c, 0] = n
                for a in range(n):
                    classes[c, 1 + a] = room[a]
                is_in_one = True
                break
        if not is_in_one:
            classes[n_classes, 0] = k
            for a in range(k):
                classes[n_classes, 1 + a] = graph.items[s, a]
            loss += further[i - 1]
            n_classes += 1
    return loss, i
