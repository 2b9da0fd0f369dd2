"""The best design among known sets: by branch and bound over what designs lose, or by CP-SAT.

`pack` is a depth-first search. By prices (`prices.py`) a design is worth its bound less its loss,
which is the sum of

    what each charged set lacks to the best set, its own loss,
    what the uses of each feature and priced pair lack to the refund that they could get,
    what each two sets lack to the most that they may share, at the prices of sharing.

Sets are added in turn. What is shared with the sets so far is known when a set is added; what uses
lack is convex in the number of uses, so that each of t further sets costs at least what the first
set would. Sets that have K + 1 features in common are a *class*: no two of them are in the same
design. A partial design is therefore dropped if the increments of the best sets of t classes come
to more than may be lost. Where a design without further uses of some feature would lose too much,
the next set must have it.

Where the worst set counts, each set is worth more than the worst of the best known design. As the
charges of a design, and what its uses and pairs of sets lack, come to the refund, a partial design
is dropped if they come to more.

`pack_by_solver` is set packing as an integer program. It knows neither prices nor bound, and often
takes seconds where `pack` takes milliseconds. It has one worker, a fixed seed and no gap, so that
equal programs have equal solutions, and an optimum is a proof. Values are scaled to integers.
"""

from __future__ import annotations

import math
import time
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import DONE, PAUSED, Integers
from chaffinch.tasks.selection.alternatives.exact.prices import Bound
from chaffinch.tasks.selection.alternatives.quality import worths
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, stable_order

_UNITS = 2**36  # of the largest difference of values, in an integer program


class Pool(NamedTuple):
    """Known sets, and what they lose.

    An *item* is a feature, or a pair of features with a price.
    """

    items: NDArray[np.int32]  # (N, w), of each set: its k features, its priced pairs, and then -1
    losses: Floats  # (N,); if the worst set counts, what they are charged
    worths: Floats  # (N,)
    lacks: Floats  # (i, m + 2), of each item by the number of its uses; inf beyond what it may have
    least: Integers  # (i,), number of uses that lack nothing
    sharing: Floats  # (i,), the price of sharing each item
    of_two_sets: float  # what two sets pay at most for what they share
    k: int
    overlap: int
    in_all: float  # bound on the sum of a design; if the worst set counts, on the charges
    slack: float  # designs that differ by less are equal
    n_features: int
    most_uses: int  # of a feature
    is_min: bool  # whether the worst set counts

    @classmethod
    def of(cls, designs: Designs, bound: Bound, sets: Sets) -> Pool:
        """Return the pool of sets (N, k)."""
        prices, n, merits = bound.prices, designs.n_features, worths(designs.form, sets)
        lacks, charges = np.concatenate(prices.lacks(designs)), prices.charges(sets)
        is_min, in_all = designs.aggregate == "min", bound.value
        losses = np.maximum(bound.highest - merits + charges, 0.0)
        if is_min:
            losses, in_all = charges, bound.value - designs.n_sets * bound.highest
        has = np.zeros((n, len(sets)), dtype=bool)
        has[sets, np.arange(len(sets))[:, np.newaxis]] = True
        items = np.full((len(sets), designs.k + len(prices.pairs)), -1, dtype=np.int32)
        items[:, : designs.k] = sets
        width = np.full(len(sets), designs.k)
        for item, (first, second) in enumerate(prices.pairs.tolist(), start=n):
            with_both = np.flatnonzero(has[first] & has[second])
            items[with_both, width[with_both]] = item
            width[with_both] += 1
        of_each = prices.sharing_features, prices.sharing_pairs
        return cls(
            items=np.ascontiguousarray(items[:, : int(width.max(initial=designs.k))]),
            losses=losses,
            worths=merits,
            lacks=lacks,
            least=np.argmin(lacks, axis=1),
            sharing=np.repeat(of_each, [n, len(prices.pairs)]),
            of_two_sets=prices.per_pair_of_sets(designs),
            k=designs.k,
            overlap=designs.overlap,
            in_all=in_all,
            slack=bound.slack,
            n_features=n,
            most_uses=designs.most_uses(1),
            is_min=is_min,
        )


class Walk(NamedTuple):
    """State of a search among N sets."""

    candidates: Integers  # (m, N), sets that may be added, per level
    losses: Floats  # (m, N), their own and what they lack to share with the chosen ones
    increments: Floats  # (m, N), by how much they raise the loss at least
    is_next: NDArray[np.bool_]  # (m, N), which must be tried: any better design has one of them
    n_candidates: Integers  # (m,)
    place: Integers  # (m,), of the next candidate
    lost: Floats  # (m,), by the chosen sets, and at least by their uses
    chosen: Integers  # (m,)
    uses: Integers  # (i,)
    level: Integers  # (1,); -1 at the end
    best: Integers  # (m,), -1 if there is none
    best_value: Floats  # (1,), what a design must exceed by more than slack

    @classmethod
    def of(cls, pool: Pool, n_sets: int, value: float) -> Walk:
        """Return the state at the start; designs are to be worth more than `value`."""
        shape = n_sets, len(pool.items)
        walk = cls(
            candidates=np.zeros(shape, dtype=np.int64),
            losses=np.zeros(shape),
            increments=np.zeros(shape),
            is_next=np.zeros(shape, dtype=np.bool_),
            n_candidates=np.zeros(n_sets, dtype=np.int64),
            place=np.full(n_sets, -1),
            lost=np.zeros(n_sets),
            chosen=np.zeros(n_sets, dtype=np.int64),
            uses=np.zeros(len(pool.lacks), dtype=np.int64),
            level=np.zeros(1, dtype=np.int64),
            best=np.full(n_sets, -1),
            best_value=np.array([value]),
        )
        walk.candidates[0] = np.arange(len(pool.items))
        walk.losses[0], walk.n_candidates[0] = pool.losses, len(pool.items)
        return walk


@compiled
def _lack(pool: Any, item: int, uses: int, n_open: int) -> float:
    """Return what an item's uses lack at least, once some more sets have been added."""
    nearest = min(max(pool.least[item], uses), uses + n_open)
    return float(pool.lacks[item, nearest])


@compiled
def _may_lose(pool: Any, walk: Any) -> float:
    """Return what a better design loses less than."""
    if pool.is_min:
        return float(pool.in_all + pool.slack)
    return float(pool.in_all - walk.best_value[0] - pool.slack)


@compiled
def _least_increments(pool: Any, walk: Any, level: int, n_wanted: int) -> tuple[float, int]:
    """Return the least increments of untried candidates of so many classes; inf without as many.

    Also the work. A class is known by the features that all of its sets have.
    """
    common, sizes = np.empty((n_wanted, pool.k), np.int64), np.zeros(n_wanted, np.int64)
    both, lost, n_classes, work = np.empty(pool.k, np.int64), 0.0, 0, 0
    for i in range(walk.n_candidates[level]):
        if n_classes == n_wanted:
            break
        if i < walk.place[level] and walk.is_next[level, i]:
            continue
        features, is_in_one = pool.items[walk.candidates[level, i]], False
        for c in range(n_classes):
            a, b, n = 0, 0, 0
            while a < sizes[c] and b < pool.k:
                if common[c, a] == features[b]:
                    both[n] = features[b]
                    a, b, n = a + 1, b + 1, n + 1
                elif common[c, a] < features[b]:
                    a += 1
                else:
                    b += 1
            work += pool.k
            if n > pool.overlap:
                sizes[c], is_in_one = n, True
                for j in range(n):
                    common[c, j] = both[j]
                break
        if not is_in_one:
            for j in range(pool.k):
                common[n_classes, j] = features[j]
            sizes[n_classes] = pool.k
            lost += walk.increments[level, i]
            n_classes += 1
    return (lost if n_classes == n_wanted else np.inf), work


@compiled
def _needed_item(pool: Any, walk: Any, n_open: int, counts: Any, extra: Any, room: float) -> int:
    """Return the item, of the fewest sets, that a further set must have; -1 if there is none.

    Without it a design would lose too much, or the other features are too few for the open sets.
    """
    supply, needed = -n_open * pool.k, -1
    for item in range(pool.n_features):
        supply += min(n_open, counts[item], pool.most_uses - walk.uses[item])
    for item in range(len(counts)):
        is_needed = extra[item] >= room
        if item < pool.n_features:
            is_needed |= min(n_open, counts[item], pool.most_uses - walk.uses[item]) > supply
        if is_needed and (needed < 0 or counts[item] < counts[needed]):
            needed = item
    return needed


@compiled
def _settle(pool: Any, walk: Any, level: int) -> int:
    """Compute the increments of a level's candidates, drop the hopeless, and sort the rest."""
    n, n_open = walk.n_candidates[level], len(walk.chosen) - level
    counts = np.zeros(len(pool.lacks), np.int64)
    # by how much another use raises what an item lacks, and by how much none does
    raises, extra = np.zeros(len(counts)), np.zeros(len(counts))
    for i in range(n):
        for item in pool.items[walk.candidates[level, i]]:
            if item >= 0:
                counts[item] += 1
    base, lacking = 0.0, 0.0
    for item in range(len(counts)):
        uses, most = walk.uses[item], counts[item]
        now = _lack(pool, item, uses, min(n_open, most))
        without = _lack(pool, item, uses, min(n_open - 1, most))
        if most > 0:
            raises[item] = _lack(pool, item, uses + 1, min(n_open, most) - 1) - without
        extra[item] = pool.lacks[item, uses] - now - n_open * (without - now)
        base += without - now
        lacking += now
    least_worth = walk.best_value[0] if pool.is_min else -np.inf
    increments = np.empty(n)
    for i in range(n):
        candidate = walk.candidates[level, i]
        increments[i] = walk.losses[level, i] + base
        for item in pool.items[candidate]:
            if item < 0:
                break
            increments[i] += raises[item]
        if pool.worths[candidate] <= least_worth:
            increments[i] = np.inf
    order = stable_order(increments)
    candidates, losses = walk.candidates[level, :n][order], walk.losses[level, :n][order]
    for i in range(n):
        walk.candidates[level, i], walk.losses[level, i] = candidates[i], losses[i]
        walk.increments[level, i] = increments[order[i]]
    walk.lost[level] += lacking
    walk.n_candidates[level], walk.place[level] = n, 0
    others, work = _least_increments(pool, walk, level, n_open - 1)
    room = _may_lose(pool, walk) - walk.lost[level] - others
    kept = 0
    while kept < n and walk.increments[level, kept] < room:
        kept += 1
    for i in range(kept, n):
        for item in pool.items[walk.candidates[level, i]]:
            if item >= 0:
                counts[item] -= 1
    walk.n_candidates[level] = kept
    others, looks = _least_increments(pool, walk, level, n_open)
    room = _may_lose(pool, walk) - walk.lost[level] - others
    needed = _needed_item(pool, walk, n_open, counts, extra, room)
    for i in range(kept):
        walk.is_next[level, i] = needed < 0
        for item in pool.items[walk.candidates[level, i]]:
            if item < 0 or walk.is_next[level, i]:
                break
            walk.is_next[level, i] = item == needed
    return int(2 * n * pool.items.shape[1] + len(raises) + work + looks)


@compiled
def _descend(pool: Any, walk: Any, level: int, own: float) -> int:
    """Add the next candidate and list those that go with it; return the work."""
    place, below, width = walk.place[level], level + 1, pool.items.shape[1]
    added = walk.candidates[level, place]
    walk.chosen[level] = added
    is_in = np.zeros(len(pool.lacks), np.bool_)
    for item in pool.items[added]:
        if item >= 0:
            is_in[item] = True
            walk.uses[item] += 1
    n, n_features = 0, pool.k
    for i in range(walk.n_candidates[level]):
        if i <= place and walk.is_next[level, i]:
            continue
        other, shared, paid = walk.candidates[level, i], 0, 0.0
        for j in range(width):
            item = pool.items[other, j]
            if item < 0:
                break
            if is_in[item]:
                shared += j < n_features
                paid += pool.sharing[item]
        if shared <= pool.overlap:
            walk.candidates[below, n] = other
            walk.losses[below, n] = walk.losses[level, i] + max(0.0, pool.of_two_sets - paid)
            n += 1
    walk.n_candidates[below], walk.place[below] = n, -1
    walk.lost[below] = own
    return int(walk.n_candidates[level] * width)


@compiled
def pack(pool: Pool, walk: Walk, most_work: int) -> int:
    """Search on; return `DONE`, or `PAUSED` after about so many looks at an item of a set."""
    work, n_sets = 0, len(walk.chosen)
    own = np.zeros(n_sets + 1)  # lost by the chosen sets themselves
    for level in range(walk.level[0]):
        place = walk.place[level]
        own[level + 1] = own[level] + walk.losses[level, place]
    while walk.level[0] >= 0:
        if work > most_work:
            return PAUSED
        level = walk.level[0]
        n_open = n_sets - level
        if walk.place[level] < 0:
            walk.lost[level] = own[level]
            work += _settle(pool, walk, level)
        place = walk.place[level]
        while place < walk.n_candidates[level] and not walk.is_next[level, place]:
            place += 1
        walk.place[level] = place
        lost = np.inf
        if place < walk.n_candidates[level]:
            others, looks = _least_increments(pool, walk, level, n_open - 1)
            lost = walk.lost[level] + walk.increments[level, place] + others
            work += looks
        if lost >= _may_lose(pool, walk):
            walk.level[0] = level - 1
            if level > 0:
                for item in pool.items[walk.chosen[level - 1]]:
                    if item >= 0:
                        walk.uses[item] -= 1
                walk.place[level - 1] += 1
            continue
        if n_open == 1:
            walk.chosen[level] = walk.candidates[level, place]
            value = np.inf if pool.is_min else 0.0
            for chosen in walk.chosen:
                worth = pool.worths[chosen]
                value = min(value, worth) if pool.is_min else value + worth
            if value > walk.best_value[0]:
                walk.best_value[0] = value
                for i in range(n_sets):
                    walk.best[i] = walk.chosen[i]
            walk.place[level] += 1
            continue
        own[level + 1] = own[level] + walk.losses[level, place]
        work += _descend(pool, walk, level, own[level + 1])
        walk.level[0] = level + 1
    return DONE


def pack_by_solver(
    designs: Designs,
    sets: Sets,
    merits: Floats,
    value: float,
    deadline: float | None,
    seconds: float,
) -> tuple[Sets | None, bool]:
    """Return the design of the best sum of merits that is worth more than `value`, or None.

    Where the smallest counts, all sets are worth more, and any such design is returned: that there
    is none is quickly proven. Also whether there is no better design. Two sets share more than K
    features if they share some K + 1 of them, so that at most one of the sets with those can be in
    a design.
    """
    from ortools.sat.python import cp_model

    lowest, spread = float(merits.min()), float(np.ptp(merits)) or 1.0
    units = np.floor((merits - lowest) / spread * _UNITS).astype(np.int64).tolist()
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in units]
    for places in _list_sets_sharing(sets, designs.overlap + 1):
        model.add_at_most_one(chosen[i] for i in places)
    if designs.constraints.max_sets_per_feature:
        for places in _list_sets_sharing(sets, 1):
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


def _list_sets_sharing(sets: Sets, size: int) -> list[list[int]]:
    """Return the places of the sets that have all of some features, for each that several have."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, features in enumerate(sets.tolist()):
        for subset in combinations(features, size):
            places.setdefault(subset, []).append(place)
    return [of_subset for of_subset in places.values() if len(of_subset) > 1]
