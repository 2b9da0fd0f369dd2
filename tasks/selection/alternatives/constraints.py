"""Constraints on feature sets: included and excluded features, groups, costs, dissimilarity.

All but the number of sets per feature are linear rows: a set is allowed if, for each row, the
weights of its features sum to at most the row's cap. The search only uses rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Literal, get_args

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.validation import (
    Feature,
    Group,
    check_fits,
    costs_of,
    groups_of,
    indices_of,
)
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import check_count, is_number

__all__ = ["Constraints", "Feature", "Group", "Rows", "indices_of"]


_EPSILON = float(np.finfo(np.float64).eps)
_LARGEST_WHOLE = 2**53  # sums up to here are exact


@dataclass(frozen=True)
class Rows:
    """Linear rows: the weights (r, n) of a set's features sum to at most the caps (r,)."""

    weights: Floats
    caps: Floats


@dataclass(frozen=True)
class Constraints:
    """Constraints on every set.

    Attributes
    ----------
    must_include, must_exclude : sequence of int or str
        Indices or names of features that are in every set, or in none.
    groups : sequence of Group
        They may overlap.
    costs : sequence of float, or mapping from features to float, optional
        Cost of each feature, at least 0; features missing in a mapping cost nothing.
    budget : float, optional
        Largest sum of costs of a set, up to rounding; requires `costs`, or groups with a cost.
    max_sets_per_feature : int, at least 1, optional
        Largest number of the new sets that contain one feature; previous sets do not count.
    """

    must_include: Sequence[Feature] = ()
    must_exclude: Sequence[Feature] = ()
    groups: Sequence[Group] = ()
    costs: Sequence[float] | Mapping[Feature, float] | None = None
    budget: float | None = None
    max_sets_per_feature: int | None = None
    _rows: dict[int, Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    def checked(
        self, n_features: int, k: int, n_sets: int, names: Sequence[str] | None = None
    ) -> Constraints:
        """Return the same with indices for names and a cost for each feature.

        InputError if a feature does not exist, or constraints contradict each other or exclude all
        sets of size k.
        """

        def indices(features: Sequence[Feature], name: str) -> tuple[int, ...]:
            return indices_of(features, n_features, names, name)

        done = replace(
            self,
            must_include=indices(self.must_include, "must_include"),
            must_exclude=indices(self.must_exclude, "must_exclude"),
            groups=tuple(
                replace(group, features=indices(group.features, "a group's features"))
                for group in groups_of(self.groups)
            ),
            costs=costs_of(self.costs, names, n_features),
        )
        done = _with_shared_costs(done, n_features)
        _check_choice(done, n_features, k, n_sets, names)
        for group in done.groups:
            _check_group(group, k)
        return done

    @property
    def included(self) -> list[int]:
        """Indices of `must_include`; needs indices for names."""
        return _as_indices(self.must_include)

    @property
    def excluded(self) -> list[int]:
        """Indices of `must_exclude`; needs indices for names."""
        return _as_indices(self.must_exclude)

    def rows(self, n_features: int) -> Rows:
        """Return groups and budget as linear rows over n features; needs indices for names."""
        if n_features not in self._rows:
            self._rows[n_features] = _rows_of(self, n_features)
        return self._rows[n_features]

    def allow(self, features: Collection[int], n_features: int) -> bool:
        """Return whether a set of indices obeys them; needs indices for names."""
        of_set = set(features)
        rows = self.rows(n_features)
        return (
            of_set >= set(self.included)
            and not of_set & set(self.excluded)
            and bool((rows.weights[:, sorted(of_set)].sum(axis=1) <= rows.caps).all())
        )


def _with_shared_costs(done: Constraints, n_features: int) -> Constraints:
    """Return the same with the groups' costs as costs of features, which rows can sum."""
    if not any(group.cost for group in done.groups):
        return done
    costs = np.zeros(n_features) if done.costs is None else np.array(done.costs)
    for group in done.groups:
        features = _as_indices(group.features)
        most = len(features) if group.at_most is None else group.at_most
        if group.cost and not group.all_or_none and most > 1:
            raise InputError(
                f"a group's cost of {group.cost:g} is paid once, which alternatives can count only "
                "for a group with all_or_none or at most 1 feature; give costs of features"
            )
        costs[features] += group.cost / (len(features) if group.all_or_none else 1)
    groups = tuple(replace(group, cost=0.0) for group in done.groups)
    return replace(done, costs=tuple(costs.tolist()), groups=groups)


def _as_indices(features: Sequence[Feature]) -> list[int]:
    return [int(feature) for feature in features]


def _check_choice(
    done: Constraints, n_features: int, k: int, n_sets: int, names: Sequence[str] | None
) -> None:
    """Raise InputError if constraints contradict each other, or exclude all sets of size k."""
    both = sorted({*done.included} & {*done.excluded})
    if both:
        one = both[0] if names is None else repr(names[both[0]])
        raise InputError(f"a feature must be included or excluded but {one} is to be both")
    if len(done.must_include) > k:
        raise InputError(
            f"must_include must name at most k = {k} features but names {len(done.must_include)}"
        )
    if n_features - len(done.must_exclude) < k:
        raise InputError(
            f"must_exclude must leave at least k = {k} features but leaves "
            f"{n_features - len(done.must_exclude)}"
        )
    if (done.costs is None) != (done.budget is None):
        given, missing = ("budget", "costs") if done.costs is None else ("costs", "budget")
        raise InputError(
            f"costs and a budget go together but only {given} is given; give {missing}"
        )
    check_fits("budget", done.budget)
    if done.budget is not None and not is_number(done.budget):
        raise InputError(f"budget must be a number but is {done.budget!r}; give a float")
    if done.budget is not None and not done.budget >= 0:
        raise InputError(f"budget must be at least 0 but is {done.budget}")
    most = done.max_sets_per_feature
    if most is None:
        return
    check_count("max_sets_per_feature", most, 1)
    if done.must_include and most < n_sets:
        raise InputError(
            f"max_sets_per_feature must be at least the {n_sets} sets, since some features must "
            f"be in all, but is {most}"
        )


def _check_group(group: Group, k: int) -> None:
    """Raise InputError for a group that no set of size k satisfies."""
    most = len(group.features) if group.at_most is None else group.at_most
    highest = {"k": k, "its at_most": most, "the features that it has": len(group.features)}
    limit = min(highest, key=lambda name: highest[name])
    if not 0 <= group.at_least <= highest[limit]:
        raise InputError(
            f"a group's at_least must be in 0..{highest[limit]} ({limit}) but is {group.at_least}"
        )


def _rows_of(done: Constraints, n_features: int) -> Rows:
    weights: list[Floats] = []
    caps: list[float] = []

    def add(features: Sequence[int], values: Sequence[float], cap: float) -> None:
        row = np.zeros(n_features)
        np.add.at(row, list(features), values)
        weights.append(row)
        caps.append(cap)

    for group in done.groups:
        features, size = _as_indices(group.features), len(group.features)
        if group.at_least:
            add(features, [-1.0] * size, -group.at_least)
        if group.at_most is not None and group.at_most < size:
            add(features, [1.0] * size, group.at_most)
        if group.all_or_none:  # each requires the next, cyclically
            for place in range(size):
                add([features[place], features[place - 1]], [1.0, -1.0], 0.0)
    if done.costs is not None and done.budget is not None:
        costs = [float(cost) for cost in done.costs]
        add(range(n_features), costs, done.budget + _rounding_of(costs, done.budget))
    return Rows(np.reshape(weights, (len(weights), n_features)), np.array(caps))


def _rounding_of(costs: Sequence[float], budget: float) -> float:
    """Return the possible rounding error of sums of costs and the budget: 0.1 + 0.2 is 0.3.

    Each cost, the budget, and each addition is rounded; whole numbers are exact.
    """
    if all(cost.is_integer() for cost in costs) and math.fsum(costs) <= _LARGEST_WHOLE:
        return 0.0
    return (len(costs) + 4) * _EPSILON * abs(budget)


Dissimilarity = Literal["dice", "jaccard"]

# (1 - 4/5) 5 is less than 1 in floating point
_ROUNDING = 1e-9


def dissimilarity(one: Collection[int], other: Collection[int], kind: Dissimilarity) -> float:
    """Return the dissimilarity of two sets, in 0..1; 0 for two empty sets.

    The distances of Jaccard and Dice: Bach, arXiv 2307.11607v3, eq 2-3.
    """
    total = len(one) + len(other)
    both = len(set(one) & set(other))
    if not total:
        return 0.0
    return 1 - 2 * both / total if kind == "dice" else 1 - both / (total - both)


def largest_overlap(size: int, other_size: int, tau: float, kind: Dissimilarity) -> int:
    """Return the largest number of shared features of two sets of dissimilarity `tau` or more.

    Bach, arXiv 2307.11607v3, eq 4, 7 and 8.
    If `tau` is above 0, sets are never equal. InputError if it is not in 0..1, or `kind` is
    unknown.
    """
    if kind not in get_args(Dissimilarity):
        raise InputError(f"dissimilarity must be 'dice' or 'jaccard' but is {kind!r}")
    if not isinstance(tau, Real) or isinstance(tau, bool) or not 0 <= tau <= 1:
        raise InputError(f"tau must be in 0..1 but is {tau!r}")
    share = (1 - tau) / 2 if kind == "dice" else (1 - tau) / (2 - tau)
    by_share = math.floor(share * (size + other_size) + _ROUNDING)
    at_most = size - 1 if tau > 0 and size == other_size > 0 else size  # never the same
    return min(at_most, other_size, by_share)
