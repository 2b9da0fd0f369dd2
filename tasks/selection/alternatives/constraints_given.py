"""Features, groups and costs that constraints are given, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from chaffinch.tasks.selection.alternatives.numbers_given import check_fits, check_sizes

Feature = int | str


@dataclass(frozen=True)
class Group:
    """Features of which a set has neither too few nor too many.

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
    """

    features: Sequence[Feature]
    at_least: int = 0
    at_most: int | None = None
    all_or_none: bool = False


def indices_of(
    features: Sequence[Feature], n_features: int, names: Sequence[str] | None, said: str
) -> tuple[int, ...]:
    """Return features given by index or by name as sorted indices.

    Parameters
    ----------
    features : sequence of int or str
    n_features : int
        n, how many features there are.
    names : sequence of str, length n, or None
    said : str
        What they are, to be named in an error.

    Raises
    ------
    ValueError
        If one of them is not there.
    """
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise ValueError(f"{said} must be a sequence of features but is {features!r}")
    if isinstance(features, np.ndarray) and features.dtype == bool:
        if features.shape != (n_features,):
            raise ValueError(
                f"{said} must be a mask of shape ({n_features},) but has {features.shape}"
            )
        return tuple(np.flatnonzero(features).tolist())
    places = {name: index for index, name in enumerate(names or ())}
    found = set()
    for feature in features:
        if isinstance(feature, str) and feature not in places:
            raise ValueError(f"{said} must name features but names {feature!r}, which is none")
        if isinstance(feature, bool) or not isinstance(feature, str | Integral):
            raise ValueError(f"{said} must be indices or names of features but has {feature!r}")
        index = places[feature] if isinstance(feature, str) else int(feature)
        if not 0 <= index < n_features:
            raise ValueError(f"{said} must have indices in 0..{n_features - 1} but has {index}")
        found.add(index)
    return tuple(sorted(found))


def costs_of(
    costs: Sequence[float] | Mapping[Feature, float] | None,
    names: Sequence[str] | None,
    n_features: int,
) -> Sequence[float] | None:
    """Return a cost for each feature, if there are any; ValueError if they do not fit."""
    if costs is None:
        return None
    given: Sequence[object]
    if isinstance(costs, Mapping):
        given = [0.0] * n_features
        known: dict[int, Feature] = {}
        for feature, cost in costs.items():
            (place,) = indices_of([feature], n_features, names, "costs")
            if place in known:
                raise ValueError(
                    f"costs must name each feature once but {known[place]!r} and {feature!r} are "
                    "the same one; leave one out"
                )
            known[place], given[place] = feature, cost
    elif isinstance(costs, str) or not isinstance(costs, Iterable):
        raise ValueError(f"costs must be one for each feature, or a mapping, but are {costs!r}")
    else:
        given = list(costs)
    wrong = next((cost for cost in given if not is_number(cost)), None)
    if wrong is not None or None in given:
        raise ValueError(f"costs must be numbers but hold {wrong!r}; give one for each feature")
    for one in given:
        check_fits("costs", one)
    of_each = np.array(given, dtype=np.float64)
    if of_each.shape != (n_features,):
        raise ValueError(f"costs must be {n_features}, one for each feature, but are {len(costs)}")
    wrong = np.flatnonzero(~(of_each >= 0) | ~np.isfinite(of_each))
    if len(wrong):
        raise ValueError(
            f"costs must be finite and at least 0 but that of feature {wrong[0]} is "
            f"{of_each[wrong[0]]}"
        )
    if len(of_each):
        check_sizes("costs", of_each)
    return tuple(of_each.tolist())


def groups_of(groups: Sequence[Group]) -> Sequence[Group]:
    """Return groups; ValueError if they are none, or hold what is of another kind."""
    if isinstance(groups, str | Mapping) or not isinstance(groups, Iterable):
        raise ValueError(f"groups must be a sequence of Group but is {groups!r}; give [Group(...)]")
    found = tuple(groups)
    for group in found:
        if not isinstance(group, Group):
            raise ValueError(f"groups must hold Group but hold {group!r}; give Group({group!r})")
        for said, count in (("at_least", group.at_least), ("at_most", group.at_most)):
            if not is_whole(count) and not (said == "at_most" and count is None):
                raise ValueError(f"a group's {said} must be a whole number but is {count!r}")
        if not isinstance(group.all_or_none, bool | np.bool_):
            raise ValueError(
                f"a group's all_or_none must be True or False but is {group.all_or_none!r}"
            )
    return found


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; true and false are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a real number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
