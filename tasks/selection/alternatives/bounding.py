"""How little any design can be worth at most: prices of features, pairs and larger subsets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import (
    Found,
    Limits,
    best_set,
)
from chaffinch.tasks.selection.alternatives.charged_sets import best_charged, best_charged_sets
from chaffinch.tasks.selection.alternatives.columns import close, enumerated, searched
from chaffinch.tasks.selection.alternatives.deadlines import (
    is_far_too_late,
    is_late,
    share_of_time,
)
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.master import Master, Solution
from chaffinch.tasks.selection.alternatives.prices import Bound, Prices
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

_SHARE = 0.5  # of the time
_ROUNDS_OF_PAIRS = 12
_BEYOND = 1e-6
_DEARER = 1e3
_ROUNDS_FURTHER = 40
_WORTHWHILE = 1e-4
_MOST_PAIRS = 2**27  # of features, 8 bytes each
_SHARE_LEFT = 0.03  # between two rounds that price more subsets
_SHARE_ABOVE = 0.05  # of what is between a cap that is proven and one that is guessed


def one_after_another(designs: Designs, deadline: float | None) -> Sets:
    """Return sets, shape (m', k), m' <= m, each a good one that goes with those before it.

    Each is the best, unless that takes long. None is searched for longer than for half of what is
    left of half of the time.
    """
    chosen: list[tuple[int, ...]] = []
    until = share_of_time(deadline, _SHARE)
    while len(chosen) < designs.n_sets and not (chosen and is_far_too_late(deadline)):
        others = np.array(chosen, dtype=np.int32)
        latest = share_of_time(until, 0.5)
        found = best_beside(designs, others, latest, is_any_enough=True)
        if found.indices is None:
            break
        chosen.append(found.indices)
    return np.array(chosen, dtype=np.int32).reshape(-1, designs.k)


def best_beside(
    designs: Designs,
    others: Sets,
    deadline: float | None,
    at_least: float = -math.inf,
    *,
    is_any_enough: bool = False,
) -> Found:
    """Return the best set that goes with others, shape (r, k) or (0,); see `best_set`."""
    has = np.zeros((len(others), designs.n_features), dtype=bool)
    if len(others):
        has[np.arange(len(others))[:, None], others] = True
    limits, most = designs.limits, designs.most_uses(1)
    if designs.overlap:
        limits = Limits(
            np.concatenate((limits.sets, has)),
            np.concatenate((limits.at_most, np.full(len(others), designs.overlap))),
        )
    used_up = np.flatnonzero(has.sum(axis=0) >= most)  # with an overlap of 0, whatever is used
    constraints = designs.constraints
    excluded = {*(int(j) for j in constraints.must_exclude), *used_up.tolist()}
    if excluded & set(constraints.must_include):
        return Found(None, -math.inf, -math.inf, complete=True)
    return best_set(
        designs.form,
        designs.k,
        limits=limits,
        constraints=replace(constraints, must_exclude=tuple(sorted(excluded))),
        at_least=at_least,
        deadline=deadline,
        is_any_enough=is_any_enough,
    )


def price(
    designs: Designs, first: Sets, deadline: float | None, *, is_short: bool = False
) -> tuple[Bound, Master | None]:
    """Return the least bound on the sum that prices of features and pairs give.

    Parameters
    ----------
    designs : Designs
        Without a cap.
    first : ndarray of int32, shape (N, k)
        Sets to start from.
    deadline : float, optional
        On the clock of `time.monotonic`.
    is_short : bool
        Whether larger subsets will be priced in any case, so that pairs are once at most, if two
        sets can share more than one feature.

    Returns
    -------
    bound : Bound
        Its value is -inf if there is no design.
    master : Master or None
        The linear program that gave it; None if it was given up.
    """
    nothing = Prices.none(designs.n_features)
    if is_late(deadline):  # without a first set, which takes some tens of milliseconds
        late = best_charged_sets(designs, nothing, -designs.penalty, 1, deadline)
        if not late.complete:
            return Bound.of(designs, nothing, late.bound), None
    found = best_charged(designs, nothing, deadline)
    bound = Bound.of(designs, nothing, found.bound)
    if found.indices is None:
        return bound, None
    master = Master(designs, designs.penalty, deadline)
    master.add(np.concatenate((first, np.array([found.indices], dtype=np.int32))))
    find = searched(designs, deadline)
    bound, solution = close(master, bound, find)
    if solution is not None and solution.beyond > _BEYOND:
        known, is_possible = _possible(designs, master.sets, deadline)
        if not is_possible:
            return replace(bound, value=-math.inf), None
        master.add(known)
        master.penalty *= _DEARER
        bound, solution = close(master, bound, find)
    for _ in range(1 if is_short and designs.overlap > 1 else _ROUNDS_OF_PAIRS):
        if solution is None or _is_wide(designs) or not master.price_subsets(solution, 2):
            break
        bound, solution = close(master, bound, find, share_left=_SHARE_LEFT)
    return bound, None if solution is None else master


def price_further(
    master: Master, bound: Bound, is_smallest_counted: bool, deadline: float | None
) -> tuple[Designs, Bound]:
    """Return a lower bound, with larger subsets priced, and the designs that it holds for.

    Where the smallest worth counts, what a set is worth beyond it does not. If designs count for
    B in all at most, none has a smallest worth above B / m, if that is no more than the cap; so
    that B / m is the next cap.

    A lower cap c is guessed first. A design whose smallest worth is above c would count for m c, so
    that there is none if designs come to less than that; if not, the guess is taken back.
    """
    solution, n_sets, is_guessing = master.solve(), master.designs.n_sets, is_smallest_counted
    for _ in range(_ROUNDS_FURTHER):
        cap, proven = master.designs.cap, bound
        guess = _next_cap(master, solution, bound) if is_guessing else math.inf
        if is_smallest_counted:
            master.cap(min(guess, bound.value / n_sets))
        sizes = range(2, 2 if _is_wide(master.designs) else master.designs.overlap + 2)
        if solution is None or not (
            sum(master.price_subsets(solution, size) for size in sizes) or is_smallest_counted
        ):
            break
        find = enumerated(master.designs, deadline)
        bound, solution = close(master, bound, find, share_left=_SHARE_LEFT)
        if guess <= bound.value / n_sets:
            master.cap(cap)
            bound, solution, is_guessing = proven, master.solve(), False
        elif proven.value - bound.value < _WORTHWHILE * abs(bound.value):
            break
    return master.designs, bound


def _is_wide(designs: Designs) -> bool:
    """Return whether a table of what pairs of features are charged would be too large."""
    return designs.n_features**2 > _MOST_PAIRS


def _next_cap(master: Master, solution: Solution | None, bound: Bound) -> float:
    """Return a cap that designs are likely to keep; inf if there is nothing to guess by.

    What designs count for at most is concave in the cap c, and its slope is how many sets are worth
    more than c. So it is no more than m c where the tangent is (Newton's method).
    """
    cap, n_sets, highest = master.designs.cap, master.designs.n_sets, bound.value
    if solution is None or cap == math.inf:
        return math.inf
    n_above = float(solution.shares[worths(master.designs.form, solution.sets) > cap].sum())
    if n_above >= n_sets:
        return math.inf
    guess = (highest - n_above * cap) / (n_sets - n_above)
    return guess + _SHARE_ABOVE * (highest / n_sets - guess)


def _possible(designs: Designs, first: Sets, deadline: float | None) -> tuple[Sets, bool]:
    """Return sets that designs can be made of, and False if it is proven that there are none.

    All sets are worth nothing, and a use beyond what designs may have costs 1: if every design
    would have to cost something, there is none.
    """
    costs = designs.form.pair_costs
    if costs is not None:
        costs = np.where(np.isfinite(costs), 0.0, np.inf)
    worthless = replace(designs, form=Form(np.zeros(designs.n_features), costs))
    master = Master(worthless, 1.0, deadline)
    master.add(first)
    nothing = Prices.none(designs.n_features)
    find = searched(worthless, deadline)
    bound, _ = close(master, Bound.of(worthless, nothing, 0.0), find)
    return master.sets, bound.value >= 0
