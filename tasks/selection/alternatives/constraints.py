"""What feature sets must obey besides being alternatives: what is in, what is out, groups, costs.

All of it but the number of sets per feature is a system of linear rows: a set is allowed if for
each row the weights of its features sum to the row's cap at most. The search knows rows only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np

from chaffinch.tasks.selection.vocabulary import Floats

_ROUNDING = 1e-9  # costs of 0.1 and 0.2 are within a budget of 0.3

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


@dataclass(frozen=True)
class Rows:
    """Linear rows: the weights of a set's features sum to the caps at most.

    Attributes
    ----------
    weights : ndarray of float64, shape (r, n)
    caps : ndarray of float64, shape (r,)
    """

    weights: Floats
    caps: Floats


@dataclass(frozen=True)
class Constraints:
    """What every set must obey.

    Attributes
    ----------
    must_include, must_exclude : sequence of int or str
        Indices or names of features that are in every set, or in none.
    groups : sequence of Group
        They may overlap.
    costs : sequence of float, or mapping from features to float, optional
        Of each feature, at least 0; a feature that a mapping leaves out costs nothing.
    budget : float, optional
        The costs of a set sum to this at most; goes with `costs`.
    max_sets_per_feature : int, at least 1, optional
        How many of the sets that are searched for may have one feature; sets given from outside
        do not count.
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
        """Return the same with indices for names and a cost for each feature, or refuse it.

        Parameters
        ----------
        n_features : int
            n, how many features there are.
        k : int
            The size of the sets.
        n_sets : int
            m, how many sets are searched for.
        names : sequence of str, length n, optional
            By which features may be named.

        Raises
        ------
        ValueError
            If they name what is not there, contradict each other, or leave no set of size k.
        """

        def indices(features: Sequence[Feature], said: str) -> tuple[int, ...]:
            return indices_of(features, n_features, names, said)

        done = replace(
            self,
            must_include=indices(self.must_include, "must_include"),
            must_exclude=indices(self.must_exclude, "must_exclude"),
            groups=tuple(
                replace(group, features=indices(group.features, "a group's features"))
                for group in self.groups
            ),
            costs=_costs(self.costs, names, n_features),
        )
        _check_choice(done, n_features, k, n_sets)
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


def _as_indices(features: Sequence[Feature]) -> list[int]:
    return [int(feature) for feature in features]


def _costs(
    costs: Sequence[float] | Mapping[Feature, float] | None,
    names: Sequence[str] | None,
    n_features: int,
) -> Sequence[float] | None:
    if costs is None:
        return None
    if isinstance(costs, Mapping):
        of_each = np.zeros(n_features)
        for feature, cost in costs.items():
            of_each[list(indices_of([feature], n_features, names, "costs"))] = cost
    else:
        of_each = np.asarray(costs, dtype=np.float64)
    if of_each.shape != (n_features,):
        raise ValueError(f"costs must be {n_features}, one for each feature, but are {len(costs)}")
    wrong = np.flatnonzero(~(of_each >= 0) | ~np.isfinite(of_each))
    if len(wrong):
        raise ValueError(
            f"costs must be finite and at least 0 but that of feature {wrong[0]} is "
            f"{of_each[wrong[0]]}"
        )
    return tuple(of_each.tolist())


def _check_choice(done: Constraints, n_features: int, k: int, n_sets: int) -> None:
    """Raise ValueError for what contradicts itself, or cannot be met by sets of size k."""
    both = sorted(set(done.must_include) & set(done.must_exclude))
    if both:
        raise ValueError(f"a feature must be included or excluded but {both[0]} is to be both")
    if len(done.must_include) > k:
        raise ValueError(
            f"must_include must name at most k = {k} features but names {len(done.must_include)}"
        )
    if n_features - len(done.must_exclude) < k:
        raise ValueError(
            f"must_exclude must leave at least k = {k} features but leaves "
            f"{n_features - len(done.must_exclude)}"
        )
    if (done.costs is None) != (done.budget is None):
        given, missing = ("budget", "costs") if done.costs is None else ("costs", "budget")
        raise ValueError(
            f"costs and a budget go together but only {given} is given; give {missing}"
        )
    if done.budget is not None and not done.budget >= 0:
        raise ValueError(f"budget must be at least 0 but is {done.budget}")
    most = done.max_sets_per_feature
    if most is None:
        return
    if not isinstance(most, Integral):
        raise ValueError(f"max_sets_per_feature must be a whole number but is {most!r}")
    if most < 1:
        raise ValueError(f"max_sets_per_feature must be at least 1 but is {most}")
    if done.must_include and most < n_sets:
        raise ValueError(
            f"max_sets_per_feature must be at least the {n_sets} sets, since some features must "
            f"be in all, but is {most}"
        )


def _check_group(group: Group, k: int) -> None:
    """Raise ValueError for a group that no set of size k can have."""
    most = len(group.features) if group.at_most is None else group.at_most
    if most < 0:
        raise ValueError(f"a group's at_most must be at least 0 but is {most}")
    if not 0 <= group.at_least <= min(k, most, len(group.features)):
        raise ValueError(
            f"a group's at_least must be in 0..{min(k, most, len(group.features))} but is "
            f"{group.at_least}"
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
        if group.all_or_none:  # each is in only if the next one is, round and round
            for place in range(size):
                add([features[place], features[place - 1]], [1.0, -1.0], 0.0)
    if done.costs is not None and done.budget is not None:
        costs = [float(cost) for cost in done.costs]
        add(range(n_features), costs, done.budget + _ROUNDING * max(1.0, abs(done.budget)))
    return Rows(np.reshape(weights, (len(weights), n_features)), np.array(caps))
