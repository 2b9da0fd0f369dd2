"""The search for alternatives that a run asks for, and why there are no more than it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np

from chaffinch.tasks.alternative_settings import AlternativeSettings
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.dissimilarity import largest_overlap
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import FCBF, Quality, Univariate
from chaffinch.tasks.selection.alternatives.sets import Alternatives

# Why no more sets are possible; each is proven.
Reason = Literal["tau", "at_once", "redundant", "all_features", "all_kept", "no_more"]
# What would make room for more; each has been tried, or is known to.
Remedy = Literal[
    "lower_tau",
    "fewer_alternatives",
    "sequential",
    "fewer_kept",
    "fewer_features",
    "another_quality",
]

_LEAST_TAU = 1e-9  # at which sets are only not the same


class Missing(TypedDict):
    """Why there are fewer sets than were asked for, and what would make room."""

    reason: Reason
    remedies: list[Remedy]


@dataclass(frozen=True)
class Search:
    """A search for sets besides the chosen one, at any tau.

    Attributes
    ----------
    quality : Quality
        Over n features.
    asked : AlternativeSettings
    chosen, keep : tuple of int
        The chosen set, and what is in every set.
    """

    quality: Quality
    asked: AlternativeSettings
    chosen: tuple[int, ...]
    keep: tuple[int, ...]

    def sets(self, tau: float) -> Alternatives:
        """Return the sets that there are, at most as many as are asked for."""
        asked = self.asked
        options: dict[str, Any] = {}
        if asked.aggregate is not None:
            options["aggregate"] = asked.aggregate
        return find_alternatives(
            self.quality,
            k=len(self.chosen),
            n_alternatives=asked.number - 1,
            tau=tau,
            dissimilarity=asked.dissimilarity,
            search=asked.search,
            constraints=Constraints(must_include=self.keep),
            previous=[self.chosen],
            time_limit=asked.time_limit,
            **options,
        )

    def one_by_one(self, number: int) -> Search:
        """Return the same search for a number of sets, one after the other."""
        alone = {"number": number, "search": "sequential", "aggregate": None}
        return replace(self, asked=self.asked.model_copy(update=alone))

    def by_no_pairs(self) -> Search:
        """Return the same search where no two features are too much for one set."""
        return replace(self, quality=Univariate(np.zeros(self.quality.n_features)))


def missing_of(
    search: Search, found: Alternatives, prices: Sequence[Mapping[str, Any]]
) -> Missing | None:
    """Return why there are fewer sets than were asked for, if it is proven that there are.

    Parameters
    ----------
    search : Search
    found : Alternatives
        By it, at the tau that is asked for.
    prices : sequence of mapping
        ``tau`` and ``qualities`` of the sets at others.
    """
    if found.status != "infeasible":
        return None
    tau, n_found = search.asked.tau, len(found)

    def finds_more(other: Search, at: float) -> bool:
        return len(other.sets(at)) > n_found

    remedies: list[Remedy] = []
    is_there_room_below = any(
        price["tau"] < tau and len(price["qualities"]) > n_found for price in prices
    )
    if is_there_room_below or finds_more(search, _LEAST_TAU):
        remedies.append("lower_tau")
    is_at_once = search.asked.search == "simultaneous" and search.asked.number > 1
    is_one_there = is_at_once and finds_more(search.one_by_one(1), tau)
    if is_one_there:
        remedies += ["fewer_alternatives", "sequential"]
    if search.keep and finds_more(replace(search, keep=()), tau):
        remedies.append("fewer_kept")
    if _have_smaller_sets_room(search):
        remedies.append("fewer_features")
    if isinstance(search.quality, FCBF) and finds_more(search.by_no_pairs(), tau):
        remedies.append("another_quality")
    return {"reason": _reason(search, n_found, is_one_there=is_one_there), "remedies": remedies}


def _reason(search: Search, n_found: int, *, is_one_there: bool) -> Reason:
    """Return the nearest reason that is proven."""
    if len(search.chosen) == search.quality.n_features:
        return "all_features"
    if len(search.keep) == len(search.chosen):
        return "all_kept"
    if is_one_there:
        return "at_once"
    one_more = search.one_by_one(n_found + 1)
    if one_more.sets(_LEAST_TAU).status != "infeasible":
        return "tau"
    is_by_pairs = isinstance(search.quality, FCBF)
    if is_by_pairs and one_more.by_no_pairs().sets(_LEAST_TAU).status != "infeasible":
        return "redundant"
    return "no_more"


def _have_smaller_sets_room(search: Search) -> bool:
    """Return whether there are as many sets of what is kept and one feature more, each its own."""
    n_kept, asked = len(search.keep), search.asked
    size = n_kept + 1
    if size >= len(search.chosen) or (n_kept and isinstance(search.quality, FCBF)):
        return False
    overlap = largest_overlap(size, size, asked.tau, asked.dissimilarity)
    return overlap >= n_kept and search.quality.n_features - size >= asked.number
