"""What can be set of the searches that mask features of a trained model."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from chaffinch.tasks.setting_fields import SIZES, Count, Settings, Sizes, setting

_Slack = Annotated[float, Field(ge=0)]


class Gbmo(Settings):
    """General binary mask optimisation: remove features while the loss allows it."""

    model_config = ConfigDict(title="GBMO")

    kind: Literal["gbmo"] = setting(
        "gbmo",
        0,
        "Kind",
        "General binary mask optimisation finds the number of features itself.",
    )
    slacks: tuple[_Slack, ...] = setting(
        (0.00025, 0.001, 0.01, 0.05),
        1,
        "Slacks",
        "A removal is accepted while loss <= previous loss x (1 + slack); the slack whose mask "
        "does best on the model-validation rows wins.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None, 2, "At most this many features", "Go on removing until no more than these are left."
    )
    drift_cap: _Slack | None = setting(
        None,
        3,
        "Drift cap",
        "Stop as well once the loss exceeds the unmasked loss x (1 + cap). By default no cap.",
    )


class Flbmo(Settings):
    """Fixed-length binary mask optimisation: remove features until a size is reached."""

    model_config = ConfigDict(title="FLBMO")

    kind: Literal["flbmo"] = setting(
        "flbmo", 0, "Kind", "Fixed-length binary mask optimisation keeps the number it is told."
    )
    n_features: Sizes = SIZES


class AfsBm(Settings):
    """Adaptive feature selection with binary masking: train and mask at random, in turn."""

    model_config = ConfigDict(title="AFS-BM")

    kind: Literal["afs_bm"] = setting(
        "afs_bm",
        0,
        "Kind",
        "Adaptive feature selection with binary masking trains the model anew between rounds in "
        "which features, drawn at random, are masked; it finds the number of features itself.",
    )
    slacks: tuple[_Slack, ...] = setting(
        (0.01, 0.02, 0.03, 0.05),
        1,
        "Slacks",
        "A feature stays masked while loss <= last accepted loss x (1 + slack). Each slack is a "
        "search of its own; the one whose mask does best on the model-validation rows wins.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None,
        2,
        "At most this many features",
        "A search that would end with more masks the feature that costs least, and goes on.",
    )
    drift_cap: _Slack | None = setting(
        None,
        3,
        "Drift cap",
        "A feature stays masked only while loss <= very first loss x (1 + cap) as well. By default "
        "no cap.",
    )
    rejections: Count = setting(
        10, 4, "Rejections", "A round ends once this many features were put back."
    )
    patience: Count = setting(
        5, 5, "Patience", "The search ends after this many rounds in a row that masked nothing."
    )
    start: tuple[str, ...] = setting(
        (),
        6,
        "Start",
        "Features to begin with, beside those that are kept. By default all.",
    )
    tune_every_round: bool = setting(
        False,
        7,
        "Tune every round",
        "Choose the hyper-parameters anew for each training of the search. By default they are "
        "those of the base model.",
    )

    @field_validator("slacks", "start")
    @classmethod
    def _in_one_order(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Sort: the same in another order are no other settings."""
        return tuple(sorted(set(given)))
