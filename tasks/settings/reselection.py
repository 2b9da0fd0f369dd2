"""Settings of a reselection: by the user, and by the former run."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from chaffinch.tasks.settings.base import Count, Name, Names, Settings, setting
from chaffinch.tasks.settings.constraints import MaybeConstraints, constraints_setting
from chaffinch.tasks.settings.method import Method

FeatureKind = Literal["number", "category"]

_Share = Annotated[float, Field(ge=0)]


class Reselect(Method):
    """The search of a reselection, and what it begins with; no form shows it.

    `chaffinch.reselect`, the command and the flow fill it in from the former run.
    """

    model_config = ConfigDict(title="Reselection")

    kind: Literal["reselect"] = "reselect"
    former: dict[str, FeatureKind]  # what the former run kept: number or category by feature
    # Other columns of the former run's table: dropped by its search, of no use, left out by its
    # settings, or the target. Any further column is new.
    known: Names = ()
    former_run: str = ""  # its name, for the report
    gain: _Share = 0.01
    slack: _Share = 0.05
    rejections: Count = 10
    former_classes: tuple[str, ...] = ()  # of the target; none where it was another, or of numbers
    former_target: str = ""  # type of the target; none where it was another, or of classes
    former_rows: str = ""  # hash of the former run's dataset
    # categories of features that delimited text reads as missing, such as NA
    former_words: dict[str, tuple[str, ...]] = Field({})
    former_drop: Names = ()  # what the former run was set to drop; newer rows may lack it

    @field_validator("former")
    @classmethod
    def _at_least_one(cls, former: dict[str, FeatureKind]) -> dict[str, FeatureKind]:
        if not former:
            raise ValueError("former must name at least 1 feature but names none")
        return dict(sorted(former.items()))


class ReselectionSettings(Settings):
    """What a person can set of a reselection; all else is as in the former run."""

    target: Name | None = setting(None, "Column to predict. By default the former run's.")
    drop: tuple[Name, ...] | None = setting(
        None, "Columns that are left out altogether. By default the former run's."
    )
    model: str | None = setting(
        None, "Name of the model. By default the former run's, as it was set."
    )
    gain: _Share = setting(
        0.01,
        "Share of the loss that a feature must save to be of help; what is shown to help returns, "
        "or stays.",
    )
    slack: _Share = setting(
        0.05,
        "Share by which the loss may rise, shown at 95 %, for all features together that leave in "
        "a round.",
    )
    rejections: Count = setting(10, "How many features a round may reject.")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = setting(
        None, "The only source of randomness. By default the former run's."
    )
    constraints: MaybeConstraints = constraints_setting("By default the former run's.")
