"""Constraints on feature sets: included and excluded features, groups, costs and a budget.

All but the number of sets per feature are linear rows as well: a set is allowed if, for each row,
the weights of its features sum to at most the row's cap. Searches for alternatives only use rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import LARGEST, check_count, is_number

_EPSILON = float(np.finfo(np.float64).eps)
_LARGEST_WHOLE = 2**53  # sums up to here are exact

Feature = int | str


@dataclass(frozen=True)
class Group:
    """Features of which a set contains a limited number.

    Attributes
    ----------
    features : sequence of int or str
        Indices or names.
    at_least : int, at least 0
        A set has at least this many of them.
    at_most : int, optional
        A set has at most this many of them.
    all_or_none : bool
        A set has all of them or none.
    cost : float, at least 0
        Cost that is paid once if a set has any of them, in addition to their own costs.
    """

    features: Sequence[Feature]
    at_least: int = 0
    at_most: int | None = None
    all_or_none: bool = False
    cost: float = 0.0


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
        Largest number of the new sets that contain a feature; previous sets do not count.
    """

    must_include: Sequence[Feature] = ()
    must_exclude: Sequence[Feature] = ()
    groups: Sequence[Group] = ()
    costs: Sequence[float] | Mapping[Any, float] | None = None
    budget: float | None = None
    max_sets_per_feature: int | None = None
    _rows: dict[int, Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    def renamed(self, rename: Callable[[str, Any], Sequence[Feature]]) -> Constraints:
        """Return the same with each list of features as ``rename(role, features)`` returns it.

        InputError if a group is none, or costs name a feature twice.
        """
        costs = self.costs
        if isinstance(costs, Mapping):
            by_name: dict[Feature, float] = {}
            for feature, cost in costs.items():
                for name in rename("costs", [feature]):
                    if name in by_name:
                        raise InputError(
                            f"costs must name each feature once but name feature {feature!r} "
                            "twice; leave one out"
                        )
                    by_name[name] = cost
            costs = by_name
        return replace(
            self,
            must_include=rename("must_include", self.must_include),
            must_exclude=rename("must_exclude", self.must_exclude),
            groups=tuple(
                replace(group, features=rename("a group's features", group.features))
                for group in groups_of(self.groups)
            ),
            costs=costs,
        )

    def checked(
        self, n_features: int, k: int, n_sets: int, names: Sequence[str] | None = None
    ) -> Constraints:
        """Return the same with indices for names and a cost for each feature.

        InputError if a feature does not exist, or constraints contradict each other or exclude all
        sets of size k.
        """
        indices = {name: j for j, name in enumerate(names or ())}
        done = self.renamed(lambda role, some: indices_of(some, n_features, indices, role))
        done = replace(done, costs=costs_of(done.costs, n_features))
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
        feature = both[0] if names is None else repr(names[both[0]])
        raise InputError(f"a feature must be included or excluded but {feature} is to be both")
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
        present, missing = ("budget", "costs") if done.costs is None else ("costs", "budget")
        raise InputError(
            f"costs and a budget go together but only {present} is given; give {missing}"
        )
    if done.budget is not None:
        check_cost("budget", done.budget)
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


def indices_of(
    features: Sequence[Feature], n_features: int, indices: Mapping[str, int], role: str
) -> tuple[int, ...]:
    """Return features, by index or by name, as sorted indices; `indices` has those of names."""
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise InputError(f"{role} must be a sequence of features but is {features!r}")
    if isinstance(features, np.ndarray) and features.dtype == bool:
        if features.shape != (n_features,):
            raise InputError(
                f"{role} must be a mask of shape ({n_features},) but has {features.shape}"
            )
        return tuple(np.flatnonzero(features).tolist())
    chosen = set()
    for feature in features:
        if isinstance(feature, str) and feature not in indices:
            raise InputError(f"{role} must name features but names {feature!r}, which is none")
        if isinstance(feature, bool) or not isinstance(feature, str | Integral):
            raise InputError(f"{role} must be indices or names of features but has {feature!r}")
        index = indices[feature] if isinstance(feature, str) else int(feature)
        if not 0 <= index < n_features:
            raise InputError(f"{role} must have indices in 0..{n_features - 1} but has {index}")
        chosen.add(index)
    return tuple(sorted(chosen))


def groups_of(groups: Sequence[Group]) -> Sequence[Group]:
    """Return groups; InputError if they are none, or have wrong types."""
    if isinstance(groups, str | Mapping) or not isinstance(groups, Iterable):
        raise InputError(f"groups must be a sequence of Group but is {groups!r}; give [Group(...)]")
    groups = tuple(groups)
    for group in groups:
        if not isinstance(group, Group):
            raise InputError(f"groups must hold Group but hold {group!r}; give Group({group!r})")
        for name, count in (("at_least", group.at_least), ("at_most", group.at_most)):
            if count is not None or name == "at_least":
                check_count(f"a group's {name}", count, 0)
        if not isinstance(group.all_or_none, bool | np.bool_):
            raise InputError(
                f"a group's all_or_none must be True or False but is {group.all_or_none!r}"
            )
        check_cost("a group's cost", group.cost)
    return groups


def costs_of(
    costs: Sequence[float] | Mapping[Any, float] | None, n_features: int
) -> tuple[float, ...] | None:
    """Return the cost of each feature, or None; InputError if they do not fit."""
    if isinstance(costs, Mapping):
        costs = [costs.get(j, 0.0) for j in range(n_features)]
    if costs is None:
        return None
    if isinstance(costs, str) or not isinstance(costs, Iterable):
        raise InputError(f"costs must be one for each feature, or a mapping, but are {costs!r}")
    costs = tuple(costs)
    if len(costs) != n_features:
        raise InputError(f"costs must be {n_features}, one for each feature, but are {len(costs)}")
    for j, cost in enumerate(costs):
        check_cost(f"the cost of feature {j}", cost)
    return tuple(map(float, costs))


def check_cost(name: str, value: Any) -> None:
    """Raise InputError for a cost, or a budget, that cannot be."""
    if not is_number(value) or not 0 <= value <= LARGEST:
        raise InputError(f"{name} must be a number in 0..{LARGEST:g} but is {short_repr(value)}")
