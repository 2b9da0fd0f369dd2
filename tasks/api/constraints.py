"""`chaffinch.Constraints` as settings of a selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.validation import groups_of
from chaffinch.tasks.settings.base import listed
from chaffinch.tasks.settings.constraints import ConstraintSettings, constraints_of


def named(constraints: Any, name_of: Callable[[Any], Any]) -> Constraints:
    """Return constraints with each feature by its name; those of None allow every set."""
    if constraints is None:
        return Constraints()
    if not isinstance(constraints, Constraints):
        raise InputError(
            f"constraints must be chaffinch.Constraints but are {short_repr(constraints)}"
        )
    if constraints.max_sets_per_feature is not None:
        raise InputError("max_sets_per_feature is for find_alternatives; leave it out")
    costs = constraints.costs
    if not isinstance(costs, Mapping | None):
        raise InputError(
            f"costs must be a mapping from features, as in {{'age': 1.5}}, but are "
            f"{short_repr(costs)}"
        )

    def names(role: str, features: Any) -> tuple[Any, ...]:
        return tuple(map(name_of, listed(role, features, "a list of features")))

    groups = groups_of(constraints.groups)
    return replace(
        constraints,
        must_include=names("must_include", constraints.must_include),
        must_exclude=names("must_exclude", constraints.must_exclude),
        groups=tuple(replace(one, features=names("a group", one.features)) for one in groups),
        costs=None if costs is None else {name_of(name): cost for name, cost in costs.items()},
    )


def constraint_settings(constraints: Constraints) -> ConstraintSettings | None:
    """Return settings of groups, costs and budget of `named` constraints; None without any."""
    limits = replace(constraints, must_include=(), must_exclude=())
    settings: ConstraintSettings | None = None
    if limits != Constraints():
        settings = constraints_of(limits)
    return settings
