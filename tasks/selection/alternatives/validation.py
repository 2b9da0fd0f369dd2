"""Checks of numbers, names, features, groups and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import check_count, is_number, read_floats

AS_FLOATS = "give a float for each feature"
LARGEST = 1e300  # sums of any possible length stay finite


def check_numbers(name: str, numbers: ArrayLike) -> Floats:
    """Return one number for each feature, shape (n,), as a copy; finite, at most `LARGEST`."""
    vector = read_floats(numbers, name, AS_FLOATS)
    if vector.ndim != 1 or not len(vector):
        raise InputError(
            f"{name} must be one number for each feature but is {vector.shape} of them"
        )
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        raise InputError(
            f"{name} must be finite but is {vector[wrong[0]]} for feature {wrong[0]}; "
            "leave such features out"
        )
    check_sizes(name, vector)
    return vector


def check_sizes(name: str, numbers: Floats) -> None:
    """Raise InputError for numbers, at least one, whose sums might overflow float64."""
    largest = numbers.flat[np.argmax(np.abs(numbers))]
    if abs(largest) > LARGEST:
        raise InputError(
            f"{name} must be at most {LARGEST:g} in size but is {largest:g}; divide all by the "
            "same number"
        )


def check_fits(name: str, value: object) -> None:
    """Raise InputError for a number that overflows float64, as an int may; other values pass."""
    try:
        if isinstance(value, Real):
            float(value)
    except OverflowError as error:
        raise InputError(
            f"{name} must be at most {LARGEST:g} in size but is {short_repr(value)}"
        ) from error


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Return the names as a tuple; InputError unless they are n distinct strings."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"names must be one for each of {n_features} features but is {names!r}")
    names = list(names)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None or None in names:
        raise InputError(f"names must be strings but hold {wrong!r}; name features by strings")
    if len(names) != n_features or len(set(names)) != n_features:
        raise InputError(
            f"names must be {n_features} different ones, one for each feature, but are "
            f"{len(set(names))} different of {len(names)}"
        )
    return tuple(str(name) for name in names)


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


def indices_of(
    features: Sequence[Feature], n_features: int, names: Sequence[str] | None, name: str
) -> tuple[int, ...]:
    """Return features given by index or by name as sorted indices; `name` is for the error."""
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise InputError(f"{name} must be a sequence of features but is {features!r}")
    if isinstance(features, np.ndarray) and features.dtype == bool:
        if features.shape != (n_features,):
            raise InputError(
                f"{name} must be a mask of shape ({n_features},) but has {features.shape}"
            )
        return tuple(np.flatnonzero(features).tolist())
    places = {name: index for index, name in enumerate(names or ())}
    found = set()
    for feature in features:
        if isinstance(feature, str) and feature not in places:
            raise InputError(f"{name} must name features but names {feature!r}, which is none")
        if isinstance(feature, bool) or not isinstance(feature, str | Integral):
            raise InputError(f"{name} must be indices or names of features but has {feature!r}")
        index = places[feature] if isinstance(feature, str) else int(feature)
        if not 0 <= index < n_features:
            raise InputError(f"{name} must have indices in 0..{n_features - 1} but has {index}")
        found.add(index)
    return tuple(sorted(found))


def costs_of(
    costs: Sequence[float] | Mapping[Feature, float] | None,
    names: Sequence[str] | None,
    n_features: int,
) -> Sequence[float] | None:
    """Return the cost of each feature, or None; InputError if they do not fit."""
    if costs is None:
        return None
    given: Sequence[object]
    if isinstance(costs, Mapping):
        given = [0.0] * n_features
        known: dict[int, Feature] = {}
        for feature, cost in costs.items():
            (place,) = indices_of([feature], n_features, names, "costs")
            if place in known:
                raise InputError(
                    f"costs must name each feature once but {known[place]!r} and {feature!r} are "
                    "the same one; leave one out"
                )
            known[place], given[place] = feature, cost
    elif isinstance(costs, str) or not isinstance(costs, Iterable):
        raise InputError(f"costs must be one for each feature, or a mapping, but are {costs!r}")
    else:
        given = list(costs)
    wrong = next((cost for cost in given if not is_number(cost)), None)
    if wrong is not None or None in given:
        raise InputError(f"costs must be numbers but hold {wrong!r}; give one for each feature")
    for one in given:
        check_fits("costs", one)
    of_each = np.array(given, dtype=np.float64)
    if of_each.shape != (n_features,):
        raise InputError(f"costs must be {n_features}, one for each feature, but are {len(costs)}")
    wrong = np.flatnonzero(~(of_each >= 0) | ~np.isfinite(of_each))
    if len(wrong):
        raise InputError(
            f"costs must be finite and at least 0 but that of feature {wrong[0]} is "
            f"{of_each[wrong[0]]}"
        )
    if len(of_each):
        check_sizes("costs", of_each)
    return tuple(of_each.tolist())


def groups_of(groups: Sequence[Group]) -> Sequence[Group]:
    """Return groups; InputError if they are none, or have wrong types."""
    if isinstance(groups, str | Mapping) or not isinstance(groups, Iterable):
        raise InputError(f"groups must be a sequence of Group but is {groups!r}; give [Group(...)]")
    found = tuple(groups)
    for group in found:
        if not isinstance(group, Group):
            raise InputError(f"groups must hold Group but hold {group!r}; give Group({group!r})")
        for name, count in (("at_least", group.at_least), ("at_most", group.at_most)):
            if count is not None or name == "at_least":
                check_count(f"a group's {name}", count, 0)
        if not isinstance(group.all_or_none, bool | np.bool_):
            raise InputError(
                f"a group's all_or_none must be True or False but is {group.all_or_none!r}"
            )
        check_fits("a group's cost", group.cost)
        if not is_number(group.cost) or not 0 <= group.cost <= LARGEST:
            raise InputError(f"a group's cost must be a number of at least 0 but is {group.cost!r}")
    return found


_MOST = 1_000_000  # alternatives: each takes a search


def check_n_alternatives(n_alternatives: int) -> None:
    """Raise InputError unless it is a number of alternatives."""
    check_count("n_alternatives", n_alternatives, 0, _MOST)
