"""Settings of retries, timeouts, data sets, promotions and serving."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from chaffinch.storage.files import LONGEST_STEM, check_name
from chaffinch.tasks.settings.base import Settings, setting

_Name = Annotated[str, AfterValidator(lambda name: check_name(name, LONGEST_STEM))]
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 365)]
Unattended = Literal["complete", "fail"]


class LimitSettings(Settings):
    """How often a run is tried, how long it may take, and which others it waits for.

    A stopped or failed run resumes when it is started again.
    """

    retries: Annotated[int, Field(ge=0, le=100)] = setting(
        2,
        "How often a run that failed is tried again. What bad input or too little time stopped is "
        "not.",
    )
    retry_delay: Annotated[float, Field(ge=0, le=60 * 24)] = setting(
        1.0, "Minutes before each of these."
    )
    timeout: Minutes | None = setting(
        1440.0, "Minutes after which the run is stopped, in each try."
    )
    stage_timeout: Minutes | None = setting(
        720.0, "Minutes after which the run is stopped, in each stage."
    )
    data_set: _Name | None = setting(
        None,
        "Runs of one data set in a store wait for each other. By default the table's name "
        "without endings; give one where the names of tables have dates in them.",
    )


class ServeSettings(LimitSettings):
    """Options of `chaffinch serve` beside those of the selection."""

    cron: str = setting("0 2 * * *", "When the nightly run starts.")
    timezone: str = setting("UTC", "Time zone of the schedule.", title="Time zone")
    name: str | None = setting(
        None, "Name of the data set, under which newer ones are announced; by default the table's."
    )
    promote: bool = setting(False, "Promote the contracts of scheduled runs that pass the gate.")
    wait_for_approval: Annotated[float, Field(gt=0)] | None = setting(
        None,
        "Hours that a scheduled run pauses for a person where one has to decide; with promote. By "
        "default it ends; on the command line the option without a value means 12.",
    )
    unattended: Unattended = setting(
        "complete",
        "How a scheduled run ends that needs a decision that nobody took: complete or fail; with "
        "promote.",
    )
    reports_port: Annotated[int, Field(ge=1, le=65535)] | None = setting(
        None,
        "Serve the store's reports to this machine, and link to them; by default paths are named.",
        title="Port of the reports",
    )

    @model_validator(mode="after")
    def _decided_with_promote(self) -> "ServeSettings":
        for name, default in (("wait_for_approval", None), ("unattended", "complete")):
            if getattr(self, name) != default and not self.promote:
                raise ValueError(f"{name} is for runs that promote; set promote as well")
        return self


class PromotionSettings(Settings):
    """When the contract of a run is promoted without a person, and whether one is waited for."""

    model_config = ConfigDict(title="Promotion")

    name: _Name | None = setting(
        None,
        "Of the data set. By default the table's, without its ending; give one where the names of "
        "tables have dates in them.",
    )
    most_changed: Annotated[float, Field(ge=0, le=1)] = setting(
        0.3,
        "Largest share of the features, of those in the promoted set or the new one, that may "
        "change without a person.",
    )
    wait: Annotated[float, Field(gt=0)] | None = setting(
        None,
        "Hours that the run pauses for a person where one has to decide. By default it ends, and "
        "chaffinch promote is how to decide.",
    )

    unattended: Unattended = setting(
        "complete",
        "How a run ends that needs a decision that nobody took. complete: in the state "
        "NeedsDecision, whose message gives the reason. fail: it fails with this message.",
    )
