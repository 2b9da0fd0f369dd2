"""What can be set of a run that nobody watches: tries, time, and its turn among others."""

from typing import Annotated

from pydantic import Field, field_validator

from chaffinch.storage.files import LONGEST_STEM, check_name
from chaffinch.tasks.setting_fields import Settings, setting

Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 365)]


class LimitSettings(Settings):
    """How often a run is tried, how long it may take, and which others it waits for.

    What was stopped or failed goes on where it was when it is started again.
    """

    retries: Annotated[int, Field(ge=0, le=100)] = setting(
        2,
        0,
        "Retries",
        "How often a run that failed is tried again. What bad input or too little time stopped is "
        "not.",
    )
    retry_delay: Annotated[float, Field(ge=0, le=60 * 24)] = setting(
        1.0, 1, "Retry delay", "Minutes before each of these."
    )
    timeout: Minutes | None = setting(
        1440.0, 2, "Timeout", "Minutes after which the run is stopped, in each try."
    )
    stage_timeout: Minutes | None = setting(
        720.0,
        3,
        "Stage timeout",
        "Minutes after which the run is stopped, in each stage.",
    )
    data_set: str | None = setting(
        None,
        4,
        "Data set",
        "Runs of one data set in a store wait for each other. By default the table's name "
        "without endings; give one where the names of tables have dates in them.",
    )

    @field_validator("data_set")
    @classmethod
    def _can_be_a_name(cls, name: str | None) -> str | None:
        return name if name is None else check_name(name, LONGEST_STEM)
