"""Settings of constraints on the selected features: groups, costs and a budget."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from chaffinch.errors import short_repr
from chaffinch.storage.column_names import quoted
from chaffinch.tasks.settings.base import InOrder, Settings, setting

_Cost = Annotated[float, Field(ge=0, le=1e300)]
_Number = Annotated[int, Field(ge=0)]


class FeatureGroup(Settings):
    """Features that are kept together, or of which some are kept."""

    model_config = ConfigDict(title="Group of features")

    features: Annotated[tuple[str, ...], Field(min_length=1), InOrder] = setting(
        ..., "Features of the group; no feature is in two groups."
    )
    at_least: _Number = setting(0, "Keep at least this many of them.")
    at_most: _Number | None = setting(None, "Keep at most this many of them. By default all.")
    all_or_none: bool = setting(False, "Keep all of them or none, as for one-hot columns.")
    cost: _Cost = setting(0.0, "Paid once if any of them is kept, in addition to their own costs.")

    @property
    def label(self) -> str:
        """The group in an error."""
        return f"the group of {quoted(self.features, limit=3)}"

    @property
    def has_linear_cost(self) -> bool:
        """Whether the group's cost is a sum of costs of its features in every mask."""
        return self.all_or_none or self.at_most in (0, 1) or len(self.features) == 1

    @model_validator(mode="after")
    def _limits_fit(self) -> "FeatureGroup":
        n_features = len(self.features)
        if self.all_or_none and (self.at_least or self.at_most is not None):
            raise ValueError(
                f"{self.label} has all_or_none, with which at_least and at_most have no meaning; "
                "leave them out, or all_or_none"
            )
        highest = n_features if self.at_most is None else min(self.at_most, n_features)
        if self.at_least > highest:
            what = "its at_most" if highest == self.at_most else "the number of its features"
            raise ValueError(
                f"at_least of {self.label} must be at most {highest}, {what}, but is "
                f"{self.at_least}"
            )
        return self


# Sorted: the order of the values does not change the identity of the settings.
_GroupsInOrder = AfterValidator(
    lambda groups: tuple(sorted(groups, key=lambda group: group.features))
)
_CostsInOrder = AfterValidator(lambda costs: dict(sorted(costs.items())))


class ConstraintSettings(Settings):
    """Constraints on the selected features, besides those to keep and to drop."""

    model_config = ConfigDict(title="Constraints")

    groups: Annotated[tuple[FeatureGroup, ...], _GroupsInOrder] = setting(
        (), "Features that are kept together, or of which some are kept."
    )
    costs: Annotated[dict[str, _Cost], _CostsInOrder] = setting(
        {}, "Cost by feature; the others cost nothing but what their group does."
    )
    budget: _Cost | None = setting(
        None, "Largest cost of the kept features. By default there is no limit."
    )

    @property
    def has_costs(self) -> bool:
        return bool(self.costs) or any(group.cost for group in self.groups)

    @model_validator(mode="after")
    def _fit_each_other(self) -> "ConstraintSettings":
        seen: set[str] = set()
        for group in self.groups:
            if both := sorted(seen.intersection(group.features)):
                raise ValueError(f"feature {both[0]!r} is in two groups; name it in one")
            seen.update(group.features)
        if self.budget is not None and not self.has_costs:
            raise ValueError(
                f"a budget of {self.budget:g} needs costs but there are none; give costs, as in "
                "--cost COLUMN=1.5, or leave the budget out"
            )
        return self


def _settings_of(constraints: Any) -> Any:
    """Return the settings of a `chaffinch.Constraints`; None if it limits nothing."""
    if not hasattr(constraints, "max_sets_per_feature"):  # its module takes long to import
        return constraints
    if (
        constraints.must_include
        or constraints.must_exclude
        or constraints.max_sets_per_feature is not None
    ):
        raise ValueError(
            "constraints of settings are groups, costs and a budget; name features to include or "
            "exclude by keep or drop of the columns, and leave out max_sets_per_feature"
        )
    costs = {} if constraints.costs is None else constraints.costs
    if not isinstance(costs, Mapping):
        raise ValueError(
            f"costs must be a mapping from features, as in {{'age': 1.5}}, but are "
            f"{short_repr(costs)}"
        )
    from chaffinch.tasks.selection.constraints import groups_of

    groups = tuple(map(vars, groups_of(constraints.groups)))
    is_free = not groups and not costs and constraints.budget is None
    return None if is_free else {"groups": groups, "costs": costs, "budget": constraints.budget}


MaybeConstraints = Annotated[ConstraintSettings | None, BeforeValidator(_settings_of)]


def constraints_setting(by_default: str = "By default none.") -> Any:
    words = f"Groups of features, costs and a budget that the kept features obey. {by_default}"
    return setting(None, words, title="Constraints")
