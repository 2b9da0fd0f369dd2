"""What can be set of the searches that refit the model as they go."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from chaffinch.tasks.selection.rivals.refit_names import REFITTING, SequentialName
from chaffinch.tasks.setting_fields import SIZES, Count, Settings, Share, Sizes, setting

# Far beyond any use; a pull without a limit would leave the range of numbers.
_Pull = Annotated[float, Field(ge=0, le=10)]


def _said(*kinds: str) -> str:
    return "; ".join(f"{kind}: {REFITTING[kind]}" for kind in kinds) + "."


def _at_most(position: int) -> Any:
    return setting(
        None,
        position,
        "At most this many features",
        "The search finds the number of features itself, and none above this.",
    )


_STEP = setting(
    0.1,
    2,
    "Step",
    "Share of the features left that leaves after each refit: rounded down, and one at least.",
)


def _within_one_standard_error(position: int) -> Any:
    return setting(
        False,
        position,
        "Within one standard error",
        "Take the smallest size whose mean loss over the folds exceeds the lowest by no more than "
        "its standard error. By default the size with the lowest mean loss.",
    )


class Rfe(Settings):
    """Recursive feature elimination: refit, drop the least important, and again."""

    model_config = ConfigDict(title="RFE")

    kind: Literal["rfe"] = setting("rfe", 0, "Kind", _said("rfe"))
    n_features: Sizes = SIZES
    step: Share = _STEP


class Rfecv(Settings):
    """Recursive feature elimination that finds the size by cross-validation."""

    model_config = ConfigDict(title="RFECV")

    kind: Literal["rfecv"] = setting("rfecv", 0, "Kind", _said("rfecv"))
    n_features: Count | None = _at_most(1)
    step: Share = _STEP
    within_one_standard_error: bool = _within_one_standard_error(3)


class Sequential(Settings):
    """Sequential selection: add or remove one feature at a time, each by a refit."""

    model_config = ConfigDict(title="Sequential")

    kind: SequentialName = setting(
        "sequential_forward", 0, "Kind", _said("sequential_forward", "sequential_backward")
    )
    n_features: Sizes = SIZES


class RobustElimination(Settings):
    """Backward elimination by models that have seen masked rows, judged across folds."""

    model_config = ConfigDict(title="Robust elimination")

    kind: Literal["robust_elimination"] = setting(
        "robust_elimination", 0, "Kind", _said("robust_elimination")
    )
    n_features: Sizes | None = setting(
        None,
        1,
        "Sizes",
        "Numbers of features to keep, or shares of all; of several, the one that does best on the "
        "model-validation rows wins. By default refits on the same folds find the number.",
    )
    within_one_standard_error: bool = _within_one_standard_error(2)

    @model_validator(mode="after")
    def _sizes_are_asked_for_or_found(self) -> Self:
        if self.n_features is not None and self.within_one_standard_error:
            raise ValueError(
                "within_one_standard_error is for a number of features that refits find; leave it "
                "out, or n_features"
            )
        return self


class ParticleSwarm(Settings):
    """Binary particle swarm: masks that move towards the best that were found."""

    model_config = ConfigDict(title="Particle swarm")

    kind: Literal["particle_swarm"] = setting("particle_swarm", 0, "Kind", _said("particle_swarm"))
    n_features: Count | None = _at_most(1)
    individuals: Count = setting(10, 2, "Individuals", "Masks that are judged at a time.")
    generations: Count = setting(
        25, 3, "Generations", "How often they are judged; each mask costs a refit the first time."
    )
    inertia: _Pull = setting(
        0.7298, 4, "Inertia", "How much of its velocity a mask keeps from one generation on."
    )
    cognitive: _Pull = setting(
        1.49618, 5, "Cognitive coefficient", "How strongly a mask is drawn to its own best."
    )
    social: _Pull = setting(
        1.49618, 6, "Social coefficient", "How strongly a mask is drawn to the best of all."
    )
