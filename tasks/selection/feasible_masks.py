"""Masks that satisfy constraints: features to keep, groups, costs with a budget, a largest size.

No feature is in two groups. So the cheapest way to complete a mask is computed group by group: a
group that goes together needs all of its features, and any other the cheapest of those that it
lacks. This completion is the smallest as well, so a mask can be completed if and only if its
completion is within the budget and the size.

`FeasibleMasks.best` is greedy: it takes features from best to worst, each if the mask can still be
completed. So it ends with a feasible mask whenever there is any, and no feasible mask has a better
first feature, then a better second feature, and so on. A mask with a lower loss may exist: an
expensive feature that comes first can use up the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.constraints import Constraints, costs_of
from chaffinch.tasks.selection.core import Floats, Mask

_ROUNDING = 1e-9  # of the budget: what a sum of costs may be off


@dataclass(frozen=True)
class _Group:
    features: NDArray[np.int64]  # the cheapest first
    costs: Floats
    at_least: int
    at_most: int
    all_or_none: bool
    cost: float  # paid once

    def completed(self, kept: Mask) -> tuple[float, float]:
        """Return size and cost of the completion of the kept features; infinite if it has none."""
        n_kept = int(kept.sum())
        size = max(n_kept, self.at_least)
        if self.all_or_none and size:
            size = max(size, len(self.features))
        if size > min(self.at_most, len(self.features)):
            return math.inf, math.inf
        lacking = self.costs[~kept][: size - n_kept]
        cost = self.costs[kept].sum() + lacking.sum() + (self.cost if size else 0.0)
        return size, float(cost)


class FeasibleMasks:
    """The masks over `n_features` that satisfy constraints with indices for names.

    `must_exclude` must be empty: what is left out is no feature.
    """

    def __init__(self, n_features: int, constraints: Constraints) -> None:
        groups = [group for group in constraints.groups if group.features]
        self.constraints = replace(constraints, groups=groups)
        self._costs = np.array(costs_of(constraints.costs or {}, n_features))
        budget = math.inf if constraints.budget is None else float(constraints.budget)
        self._most_cost = budget * (1 + _ROUNDING)
        self._groups: list[_Group] = []
        self._group_of = np.full(n_features, -1)  # -1: of no group
        for group in groups:
            features = np.array([int(j) for j in group.features])
            if (self._group_of[features] >= 0).any():
                raise InputError("a feature must be in one group but is in two")
            self._group_of[features] = len(self._groups)
            features = features[np.argsort(self._costs[features], kind="stable")]
            at_most = len(features) if group.at_most is None else group.at_most
            limits = group.at_least, at_most, group.all_or_none, group.cost
            self._groups.append(_Group(features, self._costs[features], *limits))

    @property
    def are_all(self) -> bool:
        """Whether nothing but features to keep restricts the masks."""
        return not self.constraints.groups and self.constraints.budget is None

    @cached_property
    def always(self) -> Mask:
        """Features of every feasible mask: those to keep, and what goes together with them."""
        mask = np.zeros(len(self._costs), dtype=bool)
        mask[self.constraints.included] = True
        for group in self._groups:
            if group.all_or_none and (group.at_least or mask[group.features].any()):
                mask[group.features] = True
        return mask

    @cached_property
    def burden(self) -> Floats:
        """How much constraints limit each feature, (d,), 0 for not at all.

        It is the share of the budget that the feature takes, with the cost of its group, and 1 more
        in a group of which not all can be kept.
        """
        cost, is_limited = self._costs.copy(), np.zeros(len(self._costs))
        for group in self._groups:
            cost[group.features] += group.cost
            is_limited[group.features] = group.at_most < len(group.features)
        has_budget = 0 < self._most_cost < math.inf
        return np.asarray(is_limited + (cost / self._most_cost if has_budget else cost > 0))

    @cached_property
    def cheapest(self) -> float:
        """The lowest cost of a mask that satisfies the groups; infinite if there is none."""
        return float(min(cost for _, cost in self._smallest))

    @cached_property
    def fewest(self) -> int | None:
        """The size of the smallest feasible mask; None if there is none."""
        sizes = [size for size, cost in self._smallest if cost <= self._most_cost]
        return int(min(sizes)) if sizes and min(sizes) < math.inf else None

    def all_or_none(self, mask: Mask | None = None) -> list[NDArray[np.int64]]:
        """Return the groups that go together, as indices among the features of a mask (d,)."""
        kept = np.ones(len(self._costs), dtype=bool) if mask is None else mask
        place = np.cumsum(kept) - 1
        whole = [group.features for group in self._groups if group.all_or_none]
        groups = [features[kept[features]] for features in whole]
        return [place[group] for group in groups if len(group)]

    def together(self, feature: int) -> NDArray[np.int64]:
        """Return the features that are kept or not with a feature, itself among them."""
        place = int(self._group_of[feature])
        group = self._groups[place] if place >= 0 else None
        return group.features if group and group.all_or_none else np.array([feature])

    def cost(self, mask: Mask) -> float:
        """Return the cost of a mask (d,): of its features, and of each group that has some."""
        of_groups = [group.cost for group in self._groups if mask[group.features].any()]
        return float(self._costs[mask].sum() + math.fsum(of_groups))

    def allow(self, mask: Mask) -> bool:
        """Return whether a mask (d,) is feasible."""
        _, size, cost = self._completed(mask)
        is_whole = mask[self.always].all() and size == mask.sum()
        return bool(mask.any() and is_whole and cost <= self._most_cost)

    def best(self, order: Sequence[int], n_taken: int, at_most: int | None = None) -> Mask:
        """Return the feasible mask that is taken from an order of the features, best first.

        It takes the first `n_taken` features that it can take. Each brings along the features that
        go together with it, and a group that then lacks features takes its best ones. `at_most` is
        the largest size of the mask, or the smallest feasible size where that is larger.
        InputError if no mask is feasible.
        """
        if self.fewest is None:
            raise InputError("the constraints must allow a mask but allow none")
        most = max(len(order) if at_most is None else at_most, self.fewest)
        mask, n_done = self.always.copy(), 0
        of_groups, size, cost = self._completed(mask)
        for j in order:
            place = int(self._group_of[j])
            group = self._groups[place] if place >= 0 else None
            lacks = group is not None and mask[group.features].sum() < of_groups[place][0]
            if not mask[j] and (n_done < n_taken or lacks):
                features = self.together(j)
                before = mask[features]
                mask[features] = True
                more = 1.0, float(self._costs[j])
                if group is not None:
                    completed = group.completed(mask[group.features])
                    more = completed[0] - of_groups[place][0], completed[1] - of_groups[place][1]
                if size + more[0] <= most and cost + more[1] <= self._most_cost:
                    size, cost = size + more[0], cost + more[1]
                    if group is not None:
                        of_groups[place] = completed
                else:
                    mask[features] = before
            n_done += int(mask[j])
        return mask

    def _completed(self, mask: Mask) -> tuple[list[tuple[float, float]], float, float]:
        """Return size and cost of each group's completion, and both of the whole mask's."""
        of_groups = [group.completed(mask[group.features]) for group in self._groups]
        single = mask & (self._group_of < 0)
        sizes, costs = zip(*of_groups, strict=True) if of_groups else ((), ())
        size, cost = single.sum() + sum(sizes), self._costs[single].sum() + sum(costs)
        return of_groups, float(size), float(cost)

    @cached_property
    def _smallest(self) -> list[tuple[float, float]]:
        """Size and cost of the smallest masks, which have at least one feature."""
        _, size, cost = self._completed(self.always)
        if size:
            return [(size, cost)]
        single = self._costs[self._group_of < 0]
        firsts = [(1.0, float(single.min()))] if len(single) else []
        return firsts + [
            group.completed(np.arange(len(group.features)) == 0) for group in self._groups
        ]
