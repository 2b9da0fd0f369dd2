"""What each use of a feature costs a design, so that few sets can be in one that is worth enough.

Let each of m sets of k features be worth Z or more, and any two share K features at most. With a
price p_j >= 0 for a feature and r >= 0 for a pair of sets that share one, let s_j be the most that

    p_j c - r c (c - 1) / 2,  c = 0 .. m,

can be. In c_j of the sets, feature j costs them p_j c_j in all, which is s_j, less a penalty of at
least 0 for a c_j that does not suit it, plus r for each pair of these sets. So sets and penalties
come to no more than the *budget*

    s_1 + ... + s_n + r m (m - 1) / 2 K.

If the cheapest set that is worth Z costs C, then no set costs more than the budget less (m - 1) C,
and there is no design if that is less than C. A value above Z counts as Z, since a set is then
worth enough by that feature alone, if no value is below 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.alternatives.affordable_kernels import (
    NEVER,
    Found,
    asked_for,
    find_sets,
    none_found,
)
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.uses import Uses, best_uses
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers

_STEPS_BETWEEN_LOOKS = 500_000  # at the clock: some milliseconds


@dataclass(frozen=True)
class Question:
    """Designs of m sets of k features that are each worth so much.

    Attributes
    ----------
    worth : ndarray of int64, shape (p,)
        Of the features, descending; in 0..least.
    k, n_sets, n_pairs : int
        k, m, and m (m - 1) / 2 K.
    most_uses : int
        In how many of the sets a feature may be.
    least : int
        Z.
    """

    worth: Integers
    k: int
    n_sets: int
    n_pairs: int
    most_uses: int
    least: int


@dataclass(frozen=True)
class Prices:
    """Prices in whole numbers, and what follows from them.

    Attributes
    ----------
    of_features : ndarray of int64, shape (p,)
    penalties : ndarray of int64, shape (p, u + 1)
        For so many uses, u at most.
    budget : int
    """

    of_features: Integers
    penalties: Integers
    budget: int


def best_uses_for(question: Question, deadline: float | None) -> Uses:
    """Return the best uses; ValueError if even the most even ones make too many pairs.

    What is over by the deadline is at a price that is not the best: its bound holds as well.
    """
    n_places = question.n_sets * question.k
    uses = best_uses(question.worth, question.most_uses, n_places, question.n_pairs, deadline)
    if uses is None:
        raise ValueError("no uses although there are sets")
    return uses


def prices_of_uses(question: Question, uses: Uses) -> Prices:
    """Return the prices at which the best uses suit the features."""
    of_features = np.maximum(question.worth - uses.threshold, 0)
    if question.most_uses == question.n_sets:  # a price tells no more sets from others than this
        of_features = np.minimum(of_features, uses.price * (question.n_sets - 1))
    counts = np.arange(question.most_uses + 1)
    saved = of_features[:, None] * counts - uses.price * (counts * (counts - 1) // 2)
    most_saved = saved.max(axis=1)
    budget = int(most_saved.sum()) + uses.price * question.n_pairs
    return Prices(of_features, most_saved[:, None] - saved, budget)


def sets_in_budget(
    question: Question, prices: Prices, most: int, most_steps: int, deadline: float | None
) -> tuple[Integers, Integers] | None:
    """Return all sets that can be in a design, and what they cost, the cheapest first.

    Parameters
    ----------
    question : Question
    prices : Prices
    most : int
        How many sets are too many.
    most_steps : int
        How many looks at a feature are too many.
    deadline : float or None

    Returns
    -------
    sets : ndarray of int64, shape (N, k)
    costs : ndarray of int64, shape (N,)
        None in place of both if it is too much, or too late.
    """
    cheapest = none_found(question.k, 2, NEVER)
    if not _is_found(question, prices, cheapest, most_steps, deadline, is_cheapest_enough=True):
        return None
    n = cheapest.progress[0]
    least = int(cheapest.prices[:n].min(initial=NEVER))
    found = none_found(question.k, most, prices.budget - (question.n_sets - 1) * least)
    if not _is_found(question, prices, found, most_steps, deadline, is_cheapest_enough=False):
        return None
    n = found.progress[0]
    order = np.argsort(found.prices[:n], kind="stable")
    return found.sets[order], found.prices[order]


def _is_found(
    question: Question,
    prices: Prices,
    found: Found,
    most_steps: int,
    deadline: float | None,
    *,
    is_cheapest_enough: bool,
) -> bool:
    asked = asked_for(question.worth, prices.of_features, question.k, question.least)
    ended, steps = PAUSED, 0
    while ended == PAUSED and steps < most_steps and not is_late(deadline):
        ended = find_sets(asked, found, _STEPS_BETWEEN_LOOKS, is_cheapest_enough)
        steps += _STEPS_BETWEEN_LOOKS
    return ended == DONE
