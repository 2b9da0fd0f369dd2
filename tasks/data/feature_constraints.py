"""Constraints of the settings on the features of a table, and their contradictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from chaffinch.errors import InputError
from chaffinch.storage.column_names import quoted, quoted_with_reasons
from chaffinch.tasks.data.arrow import column_of
from chaffinch.tasks.selection.constraints import Constraints, Group
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from chaffinch.tasks.settings.constraints import ConstraintSettings
from chaffinch.tasks.settings.selection import SelectionSettings


def feasible_masks(features: Sequence[str], settings: SelectionSettings) -> FeasibleMasks:
    """Return the masks of a table's features that the settings allow."""
    constraints = settings.constraints or ConstraintSettings()
    groups = [Group(**vars(group)) for group in constraints.groups]
    by_name = Constraints(settings.columns.keep, (), groups, constraints.costs, constraints.budget)
    position = {name: j for j, name in enumerate(features)}
    return FeasibleMasks(
        len(features),
        by_name.renamed(lambda _, names: [position[name] for name in names if name in position]),
    )


def check_constrained_columns(
    table: object, roles: Mapping[str, str], settings: SelectionSettings
) -> None:
    """Raise InputError if a group or a cost names no column of a table, or no feature."""
    if settings.constraints is None:
        return
    left_out, former = set(settings.columns.drop), settings.former
    if former is not None:  # newer rows may lack columns of the former run
        left_out |= {*former.former, *former.known, *former.former_drop}
    in_groups = {name for group in settings.constraints.groups for name in group.features}
    for role, names in (("group", in_groups), ("cost", {*settings.constraints.costs})):
        for name in sorted(names - (left_out - roles.keys())):
            column_of(table, name, f"{role} feature")
            if roles[name] not in ("feature", "drop"):
                raise InputError(
                    f"{role} feature {name!r} is the {roles[name]} column; leave it out"
                )


def check_constraints(
    features: Sequence[str], excluded: Mapping[str, str], settings: SelectionSettings
) -> FeasibleMasks:
    """Return the masks that the settings allow; InputError if they allow none."""
    constraints, keep, usable = settings.constraints, {*settings.columns.keep}, {*features}
    for group in () if constraints is None else constraints.groups:
        present = [name for name in group.features if name in usable]
        if group.at_least > len(present):
            gone = dict.fromkeys(group.features, "dropped") | dict(excluded)
            left_out = {name: gone[name] for name in group.features if name not in usable}
            raise InputError(
                f"at_least of {group.label} is {group.at_least} but {len(present)} of them can be "
                f"kept (left out: {quoted_with_reasons(left_out)})",
                "keep fewer of them",
            )
        kept = [name for name in group.features if name in keep]
        if group.at_most is not None and len(kept) > group.at_most:
            raise InputError(
                f"at_most of {group.label} is {group.at_most} but {quoted(kept)} are to be kept",
                "take some off the keep list, or allow more",
            )
    masks = feasible_masks(features, settings)
    if math.isinf(masks.cheapest):
        raise InputError(
            "the constraints allow no feature: at_most is 0 for the group of each", "allow some"
        )
    if masks.fewest is None and constraints is not None:
        always = [name for name, needed in zip(features, masks.always, strict=True) if needed]
        what = f"keeping {quoted(always)}" if always else "the cheapest set of features"
        raise InputError(
            f"the budget is {constraints.budget:g} but {what} costs {masks.cheapest:g}",
            "raise the budget, or keep fewer features",
        )
    return masks
