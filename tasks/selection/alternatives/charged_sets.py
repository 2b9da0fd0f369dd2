"""Sets by what they are worth less their charges: the best, so many of the best, or all near it."""

from __future__ import annotations

import math
from dataclasses import replace

from chaffinch.tasks.selection.alternatives.branch_and_bound import (
    BestSets,
    Found,
    best_set,
    best_sets,
    sets_within,
)
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.prices import Prices

_SHARE_OF_WORTH = 0.8  # the larger, the quicker the search, and the more sets to sift


def best_charged(designs: Designs, prices: Prices, deadline: float | None) -> Found:
    """Return the best charged set."""
    return best_set(
        prices.charged(designs.form),
        designs.k,
        limits=designs.limits,
        constraints=designs.constraints,
        deadline=deadline,
    )


def best_charged_sets(
    designs: Designs,
    prices: Prices,
    least: float,
    most: int,
    deadline: float | None,
    *,
    is_any_enough: bool = False,
) -> BestSets:
    """Return the best charged sets, up to `most`, that are worth `least`; see `best_sets`.

    Without a cap and with features and pairs priced alone.
    """
    return best_sets(
        prices.charged(designs.form),
        designs.k,
        least,
        limits=designs.limits,
        constraints=designs.constraints,
        most=most,
        deadline=deadline,
        is_any_enough=is_any_enough,
    )


def charged_within(
    designs: Designs,
    prices: Prices,
    least: float,
    most: int,
    deadline: float | None,
    *,
    least_worth: float = -math.inf,
) -> tuple[Sets, bool]:
    """Return charged sets that count for `least`, up to `most`, and whether these are all.

    Where they are to be worth something without the charges, both are asked for at once, as a sum
    with shares of 1 - s and s: worth - (1 - s) charges >= (1 - s) least + s least_worth. Few sets
    have that and lack one of the two.
    """
    constraints, charges = designs.constraints, prices.layers[0].prices
    if designs.cap < math.inf and constraints.costs is None:
        # a set counts for no more than the cap less its charges
        budget = designs.cap - least + prices.rounding(designs)
        constraints = replace(constraints, costs=tuple(charges.tolist()), budget=budget)
    share = _SHARE_OF_WORTH if least_worth > -math.inf else 0.0
    sets, is_all = sets_within(
        prices.charged(designs.form, 1 - share),
        designs.k,
        (1 - share) * least + (share * least_worth if share else 0.0),
        limits=designs.limits,
        constraints=constraints,
        most=most,
        deadline=deadline,
    )
    if share or designs.cap < math.inf or len(prices.layers) > 2:
        known, rounding = Known(designs, sets), prices.rounding(designs)
        is_worth = known.worths >= least_worth - rounding
        sets = sets[is_worth & (known.charged(prices) >= least - rounding)]
    return sets, is_all
