"""All sets of k features that are worth enough at a price that is low enough, compiled.

Features have a worth and a price, whole numbers; sets are gone through depth first. A partial set
is left where no features after it can make it worth enough, or cheap enough, or both at once: a
set of worth at least Z and price at most P has worth less price at least Z - P.

A search stops after so many steps and goes on when called again: all it knows is in its state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.search_state import DONE, FULL, PAUSED
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.masked_loss.ordering import stable_order

NEVER = 2**61  # more than any sum


class Asked(NamedTuple):
    """Which sets are asked for.

    Attributes
    ----------
    worth, price : ndarray of int64, shape (p,)
        Of the features; at least 0, descending.
    most_worth, least_price, most_gain : ndarray of int64, shape (p + 1, k + 1)
        What t features from one on can be worth, cost, or be worth less what they cost.
    least : int
        Z, what a set is to be worth.
    """

    worth: Integers
    price: Integers
    most_worth: Integers
    least_price: Integers
    most_gain: Integers
    least: int


class Found(NamedTuple):
    """Where the search is, and what it has found.

    Attributes
    ----------
    sets : ndarray of int64, shape (most, k)
    prices : ndarray of int64, shape (most,)
        Of the sets.
    progress : ndarray of int64, shape (3,)
        How many were found; P, the highest price that is looked for; how many features the
        partial set has, -1 when the search is done.
    chosen : ndarray of int64, shape (k,)
        The partial set, and the feature that was looked at last.
    sums : ndarray of int64, shape (2, k + 1)
        What the first ones are worth and cost.
    """

    sets: Integers
    prices: Integers
    progress: Integers
    chosen: Integers
    sums: Integers


def asked_for(worth: Integers, price: Integers, k: int, least: int) -> Asked:
    """Return what to look for: sets of k features that are worth `least`."""
    return Asked(
        worth,
        price,
        _largest_sums(worth, k),
        -_largest_sums(-price, k),
        _largest_sums(worth - price, k),
        least,
    )


def none_found(k: int, most: int, most_price: int) -> Found:
    """Return the state of a search that has not begun."""
    chosen = np.full(k, -1)
    return Found(
        np.zeros((most, k), dtype=np.int64),
        np.zeros(most, dtype=np.int64),
        np.array([0, most_price, 0]),
        chosen,
        np.zeros((2, k + 1), dtype=np.int64),
    )


@compiled
def _largest_sums(numbers: Integers, k: int) -> Integers:
    """Return the sums of the t largest from each on, t in 0..k; -NEVER where there are fewer."""
    p = len(numbers)
    sums = np.full((p + 1, k + 1), -NEVER)
    sums[:, 0] = 0
    largest = np.zeros(k, np.int64)
    n = 0
    for j in range(p - 1, -1, -1):
        n = min(n + 1, k + 1)
        place = n - 1
        while place > 0 and largest[place - 1] < numbers[j]:
            if place < k:
                largest[place] = largest[place - 1]
            place -= 1
        if place < k:
            largest[place] = numbers[j]
        n = min(n, k)
        for t in range(n):
            sums[j, t + 1] = sums[j, t] + largest[t]
    return sums


@compiled
def _keep_cheaper_half(found: Any) -> None:
    n = found.progress[0]
    order = stable_order(found.prices[:n])
    half = n // 2
    found.sets[:half] = found.sets[order[:half]]
    found.prices[:half] = found.prices[order[:half]]
    found.progress[0] = half
    found.progress[1] = found.prices[half - 1] - 1


@compiled
def _skip_too_dear(asked: Any, found: Any, most_price: int) -> None:
    """Let the last feature of the partial set begin where it is cheap enough."""
    last = len(found.chosen) - 1
    low, high = found.chosen[last], len(asked.price) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if asked.price[middle] > most_price:
            low = middle
        else:
            high = middle
    found.chosen[last] = low


@compiled
def find_sets(asked: Asked, found: Found, most_steps: int, is_cheapest_enough: bool) -> int:
    """Search on for affordable sets.

    Parameters
    ----------
    asked, found
        `found` is written to.
    most_steps : int
        Pause after so many features looked at.
    is_cheapest_enough : bool
        Whether to forget the dearer half, and those that cost as much, where there is no room.

    Returns
    -------
    int
        `DONE`, `PAUSED`, or `FULL` if there are more sets than room.
    """
    p, k, progress = len(asked.worth), len(found.chosen), found.progress
    worth, price = found.sums[0], found.sums[1]
    for _ in range(most_steps):
        depth = progress[2]
        if depth < 0:
            return DONE
        found.chosen[depth] += 1
        j, left = found.chosen[depth], k - depth
        if (
            j + left > p
            or worth[depth] + asked.most_worth[j, left] < asked.least
            or price[depth] + asked.least_price[j, left] > progress[1]
            or worth[depth] - price[depth] + asked.most_gain[j, left] < asked.least - progress[1]
        ):
            progress[2] -= 1
            continue
        worth[depth + 1] = worth[depth] + asked.worth[j]
        price[depth + 1] = price[depth] + asked.price[j]
        if left > 1:
            found.chosen[depth + 1] = j
            progress[2] += 1
            if left == 2:
                _skip_too_dear(asked, found, progress[1] - price[depth + 1])
        elif worth[k] >= asked.least and price[k] <= progress[1]:
            if progress[0] == len(found.sets):
                if not is_cheapest_enough:
                    return FULL
                _keep_cheaper_half(found)
                if price[k] > progress[1]:
                    continue
            found.sets[progress[0]] = found.chosen
            found.prices[progress[0]] = price[k]
            progress[0] += 1
    return PAUSED
