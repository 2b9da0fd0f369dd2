"""What can be set of the gate that a contract passes before it is promoted."""

from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from chaffinch.storage.files import LONGEST_STEM, check_name
from chaffinch.tasks.setting_fields import Settings, setting


class PromotionSettings(Settings):
    """When the contract of a run is promoted without a person, and whether one is waited for."""

    model_config = ConfigDict(title="Promotion")

    name: str | None = setting(
        None,
        0,
        "Name",
        "Of the data set. By default the table's, without its ending; give one where the names of "
        "tables have dates in them.",
    )
    most_changed: Annotated[float, Field(ge=0, le=1)] = setting(
        0.3,
        1,
        "Most changed",
        "Largest share of the features, of those in the promoted set or the new one, that may "
        "change without a person.",
    )
    tolerance: Annotated[float, Field(ge=0)] = setting(
        0.05,
        2,
        "Tolerance",
        "Share of the promoted set's test loss by which that of a smaller set may be higher, shown "
        "at 95 %; a set that is not smaller must be shown to be better.",
    )
    wait: Annotated[float, Field(gt=0)] | None = setting(
        None,
        3,
        "Wait",
        "Hours that the run pauses for a person where one has to decide. By default it ends, and "
        "chaffinch promote is how to decide.",
    )

    @field_validator("name")
    @classmethod
    def _can_be_a_name(cls, name: str | None) -> str | None:
        return name if name is None else check_name(name, LONGEST_STEM)
