"""A search that is ready to go, or on its way, and how much is still open in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from chaffinch.tasks.selection.alternatives.convex_part import Convexity
from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem, State
from chaffinch.tasks.selection.vocabulary import Mask


@dataclass(frozen=True)
class Limits:
    """How many features a set may share with each of some given sets.

    Attributes
    ----------
    sets : ndarray of bool, shape (r, n)
    at_most : ndarray of int64, shape (r,)
    """

    sets: Mask
    at_most: Integers

    @classmethod
    def none(cls, n_features: int) -> Limits:
        """Return no limits over n features."""
        return cls(np.zeros((0, n_features), dtype=bool), np.zeros(0, dtype=np.int64))


@dataclass
class Search:
    """A search that is ready to go.

    Attributes
    ----------
    features : ndarray of int64, shape (n,)
        What its arrays are about, in order.
    problem : Problem
    state : State
    convexity : Convexity
        Of its pair costs.
    at_least : float
        What it was asked for.
    is_rough : bool
        Whether its bound is rough, as it began late or has no room, and it is not to go on.
    is_proven : bool
        Whether such a one has nevertheless a best set.
    is_for_many : bool
        Whether it is for so many sets that it is not their proof that takes the time.
    other : tuple of Problem and State, or None
        With a convex part of its pair costs if these are without, and the other way round.
    work : dict of bool to float
        What was done with a convex part, since it was last begun, and without.
    n_begun : int
        How often it was begun with a convex part.
    is_declined : bool
        Whether that was found not to be worth it.
    """

    features: Integers
    problem: Problem
    state: State
    convexity: Convexity
    at_least: float
    is_rough: bool = False
    is_proven: bool = False
    is_for_many: bool = False
    other: tuple[Problem, State] | None = None
    work: dict[bool, float] = field(default_factory=lambda: {False: 0.0, True: 0.0})
    n_begun: int = 0
    is_declined: bool = False

    @property
    def is_convex(self) -> bool:
        """Whether it uses a convex part of its pair costs."""
        return len(self.problem.convex) > 0

    def begin(self, problem: Problem, state: State) -> None:
        """Go on with a convex part, from its beginning."""
        if not self.is_convex:
            self.other = self.problem, self.state
        self.problem, self.state = problem, state
        self.work[True], self.n_begun = 0.0, self.n_begun + 1

    def turn(self) -> None:
        """Go on the other way, where it was left."""
        if self.other is not None:
            here, (self.problem, self.state) = (self.problem, self.state), self.other
            self.other = here

    def best(self) -> tuple[int, ...]:
        """Return the best set so far, which must be there, as indices of all features."""
        return tuple(self.features[self.state.best].tolist())


def open_bound(found: Search) -> float:
    """Return what no set can exceed that a search has not met yet; -inf when it is done."""
    here = open_bound_of(found.state)
    return here if found.other is None else min(here, open_bound_of(found.other[1]))


def open_bound_of(state: State) -> float:
    """Return the same of one way to go on, or of a search that has no other."""
    if state.shares.shape[1]:
        levels = state.ceilings[int(state.level[0]) : int(state.level[1]) + 1]
        return float(levels.max(initial=-math.inf))
    bounds = [-math.inf]
    for level in range(int(state.level[0]), int(state.level[1]) + 1):
        promises = state.promises[level, max(0, state.place[level]) : state.n_candidates[level]]
        n_open = len(state.chosen) - level
        if len(promises) >= n_open:
            bounds.append(state.value[level] + state.constant[level] + promises[:n_open].sum())
    return float(max(bounds))
