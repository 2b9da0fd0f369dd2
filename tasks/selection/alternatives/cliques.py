"""Designs among known sets: cliques of sets, any two of which may go together, compiled.

A design is worth its bound less its *loss* (`prices.py`), which is the sum of

    what each charged set lacks to the best one, its own loss,
    what the uses of each priced subset lack to the refund that it could get at most,
    what each two sets lack to the most that they may share, at the prices of sharing.

The search adds sets one at a time. What is shared with the sets so far is known when a set is
added; what uses lack is convex in the number of uses, so that a further use costs as much as the
next one at least. The open places can therefore not lose less than the sum of the smallest losses
among the candidates, no two of which may be of one class (`class_kernels.py`), and a partial design
is dropped if that is above what may be lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.class_kernels import least_of_classes
from chaffinch.tasks.selection.alternatives.graph import Graph
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED, Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined
from chaffinch.tasks.selection.masked_loss.ordering import stable_order
from chaffinch.tasks.selection.vocabulary import Floats


class Walk(NamedTuple):
    """Where the search is. One row for each level 0..m - 1 of what follows.

    Attributes
    ----------
    candidates, further : ndarray, shape (m, N)
        What may be added, and what is lost by that.
    n_candidates, place, chosen : ndarray of int64, shape (m,)
    fixed, lost : ndarray, shape (m,)
        What the partial design loses by its sets and what they share; with what uses lack.
    uses : ndarray of int64, shape (i,)
        Of each item, in the partial design.
    level : ndarray of int64, shape (1,)
        The present one; -1 when the search is done.
    best : ndarray of int64, shape (m,)
        The best design so far; -1 if there is none.
    may_lose : ndarray, shape (1,)
        What is looked for loses less.
    above : ndarray, shape (1,)
        Each of its sets is worth more.
    classes : ndarray of int64, shape (m + 1, k + 1)
        Room for `least_of_classes`.
    """

    candidates: NDArray[np.int32]
    further: Floats
    n_candidates: Integers
    place: Integers
    chosen: Integers
    fixed: Floats
    lost: Floats
    uses: Integers
    level: Integers
    best: Integers
    may_lose: Floats
    above: Floats
    classes: Integers

    @classmethod
    def of(cls, graph: Graph, n_sets: int, may_lose: float, above: float) -> Walk:
        """Return the start of a search for designs of m sets."""
        shape, n_items = (n_sets, len(graph.losses)), len(graph.lacks)
        walk = cls(
            candidates=np.empty(shape, dtype=np.int32),
            further=np.empty(shape),
            n_candidates=np.zeros(n_sets, dtype=np.int64),
            place=np.zeros(n_sets, dtype=np.int64),
            chosen=np.zeros(n_sets, dtype=np.int64),
            fixed=np.zeros(n_sets),
            lost=np.zeros(n_sets),
            uses=np.zeros(n_items, dtype=np.int64),
            level=np.zeros(1, dtype=np.int64),
            best=np.full(n_sets, -1),
            may_lose=np.array([may_lose]),
            above=np.array([above]),
            classes=np.zeros((n_sets + 1, graph.k + 1), dtype=np.int64),
        )
        _start(graph, walk)
        return walk


@inlined
def _charges(graph: Any, walk: Any, n_open: int, charges: Any) -> float:
    """Write what one more use of each item costs; return what all of them lack in any case."""
    total = 0.0
    for item in range(len(charges)):
        uses = walk.uses[item]
        now, after = graph.lacks[item, uses], graph.lacks[item, uses + 1]
        if n_open == 1 or after >= now:
            total += now
            charges[item] = after - now
        else:
            lowest = after
            for more in range(2, n_open + 1):
                lowest = min(lowest, graph.lacks[item, uses + more])
            total += lowest
            charges[item] = 0.0
        charges[item] -= graph.sharing[item] * uses
    return total


@inlined
def _loss_of(graph: Any, charges: Any, s: int) -> float:
    total = graph.losses[s]
    for item in graph.items[s]:
        if item < 0:
            break
        total += charges[item]
    return float(total)


@inlined
def _least(graph: Any, walk: Any, level: int, place: int, n_wanted: int) -> tuple[float, int]:
    """Return what so many candidates from a place on lose at least, and the work."""
    n = walk.n_candidates[level]
    candidates, further = walk.candidates[level, place:n], walk.further[level, place:n]
    return least_of_classes(graph, candidates, further, walk.above[0], n_wanted, walk.classes)


@inlined
def _settle(graph: Any, walk: Any, level: int, n_open: int) -> int:
    """Order the candidates of a level, drop those that would lose too much; return the work."""
    n = walk.n_candidates[level]
    walk.place[level] = 0
    if n < n_open:
        walk.n_candidates[level] = 0
        return 0
    order = stable_order(walk.further[level, :n])
    write(walk.candidates[level, :n], walk.candidates[level, :n][order])
    write(walk.further[level, :n], walk.further[level, :n][order])
    others, work = _least(graph, walk, level, 0, n_open - 1)
    most = walk.may_lose[0] - walk.lost[level] - others
    while n > 0 and not walk.further[level, n - 1] < most:
        n -= 1
    walk.n_candidates[level] = n
    return work


@compiled
def _start(graph: Graph, walk: Walk) -> None:
    n_open = len(walk.best)
    charges = np.empty(len(graph.lacks))
    walk.lost[0] = _charges(graph, walk, n_open, charges)
    n = 0
    for s in range(len(graph.losses)):
        if graph.worths[s] > walk.above[0]:
            walk.candidates[0, n] = s
            walk.further[0, n] = _loss_of(graph, charges, s)
            n += 1
    walk.n_candidates[0] = n
    _settle(graph, walk, 0, n_open)


@inlined
def _use(graph: Any, walk: Any, s: int, change: int) -> None:
    for item in graph.items[s]:
        if item < 0:
            break
        walk.uses[item] += change


@inlined
def _descend(graph: Any, walk: Any, level: int, charges: Any, is_in: Any) -> int:
    """Add the candidate before the present place; fill the level below; return the work."""
    below, place = level + 1, walk.place[level]
    n_open, s = len(walk.best) - below, walk.chosen[level]
    fixed = walk.fixed[level] + graph.losses[s] + level * graph.of_two_sets
    for item in graph.items[s]:
        if item < 0:
            break
        fixed -= graph.sharing[item] * walk.uses[item]
    _use(graph, walk, s, 1)
    walk.fixed[below] = fixed
    lacking = _charges(graph, walk, n_open, charges)
    walk.lost[below] = fixed + lacking + n_open * below * graph.of_two_sets
    for feature in graph.items[s, : graph.k]:
        is_in[feature] = 1
    n = 0
    for i in range(place, walk.n_candidates[level]):
        other = walk.candidates[level, i]
        shared = 0
        for feature in graph.items[other, : graph.k]:
            shared += is_in[feature]
        if shared <= graph.overlap and graph.worths[other] > walk.above[0]:
            walk.candidates[below, n] = other
            walk.further[below, n] = _loss_of(graph, charges, other)
            n += 1
    for feature in graph.items[s, : graph.k]:
        is_in[feature] = 0
    work = walk.n_candidates[level] - place + len(charges)
    walk.n_candidates[below] = n
    return int(work + _settle(graph, walk, below, n_open))


@inlined
def _go_up(graph: Any, walk: Any) -> None:
    walk.level[0] -= 1
    if walk.level[0] >= 0:
        _use(graph, walk, walk.chosen[walk.level[0]], -1)


@inlined
def _keep(graph: Any, walk: Any, lost: float, is_smallest_counted: bool, in_all: float) -> None:
    """Take the complete design; what is looked for from now on is better."""
    write(walk.best, walk.chosen)
    walk.may_lose[0] = lost
    if is_smallest_counted:
        smallest = np.inf
        for s in walk.chosen:
            smallest = min(smallest, graph.worths[s])
        walk.above[0] = smallest
        walk.may_lose[0] = in_all - len(walk.best) * smallest


@compiled
def search_cliques(
    graph: Graph, walk: Walk, most_work: int, is_smallest_counted: bool, in_all: float
) -> int:
    """Search on for the design that loses least, or whose smallest worth is largest.

    Parameters
    ----------
    graph, walk
        `walk` is written to.
    most_work : int
        Pause after about so many looks at a candidate.
    is_smallest_counted : bool
        Whether what counts is the smallest worth of a design's sets, not the sum.
    in_all : float
        Then, the bound on the sum: a design of m sets, each worth more than Z, loses less than
        the bound less m Z.

    Returns
    -------
    int
        `DONE` or `PAUSED`.
    """
    n_sets, work = len(walk.best), 0
    charges = np.empty(len(graph.lacks))
    is_in = np.zeros(len(graph.lacks), np.int64)
    while walk.level[0] >= 0:
        if work > most_work:
            return PAUSED
        level = walk.level[0]
        n_open, place = n_sets - level, walk.place[level]
        lost = walk.lost[level]
        if place + n_open > walk.n_candidates[level]:
            _go_up(graph, walk)
            continue
        others, seen = _least(graph, walk, level, place, n_open)
        lost += others
        work += seen
        if not lost < walk.may_lose[0]:
            _go_up(graph, walk)
            continue
        s = walk.candidates[level, place]
        walk.place[level] += 1
        if not graph.worths[s] > walk.above[0]:
            continue
        walk.chosen[level] = s
        if n_open == 1:
            _keep(graph, walk, lost, is_smallest_counted, in_all)
            continue
        work += _descend(graph, walk, level, charges, is_in)
        walk.level[0] = level + 1
    return DONE
