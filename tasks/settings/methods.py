"""The settings of each method, and what a method declares of itself."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.selection.baselines.names import (
    OF_TRAINING_ROWS,
    PLAIN,
    REFITTING,
    SCORES,
    PlainName,
    RankingName,
    SequentialName,
    fewest_rows,
)
from chaffinch.tasks.selection.dfs.limits import HIGHEST_ORDER, check_order_is_known
from chaffinch.tasks.selection.errors import in_one_line
from chaffinch.tasks.selection.pefs.memory import check_memory
from chaffinch.tasks.settings.base import SIZES, Count, Settings, Share, Sizes, setting

_PENALTIES = (0.01, 0.02, 0.04, 0.08, 0.15)  # about equal steps of a logarithm
MOST_UNITS = 65_536  # of a hidden layer


class MethodSettings(Settings):
    """What every method declares of itself; none of it is a setting."""

    takes_sizes: ClassVar[bool] = True  # whether it can be asked for a number of features
    folded_parts: ClassVar[tuple[str, ...]] = ()  # parts of the rows that its search folds

    @property
    def named_features(self) -> tuple[str, ...]:
        """Features that a setting names."""
        return ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of features that are asked for; shares of all are left out."""
        asked = getattr(self, "n_features", None) or ()
        several = asked if isinstance(asked, tuple) else (asked,)
        return tuple(size for size in several if isinstance(size, int))

    def fewest_training_rows(self, n_classes: int) -> int:
        """Return how many training rows the method needs; `n_classes` is 0 for regression."""
        return 1

    def check_memory(self) -> None:
        """Refuse settings that need more memory than is free; InputError."""

    def check_training_rows(self, n_rows: int) -> None:
        """Refuse settings that need more training rows; InputError."""


class Pefs(MethodSettings):
    """Probabilistic embedded feature selection: a network and the probability of each feature.

    Without penalties and without a number of features, a grid of penalties is swept.
    """

    model_config = ConfigDict(title="PEFS")

    kind: Literal["pefs"] = setting(
        "pefs",
        0,
        "Kind",
        "Probabilistic embedded feature selection trains a network of its own and, at the same "
        "time, the probability of each feature, by which of two random masks has the lower loss.",
    )
    penalties: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)] | (
        None
    ) = setting(
        None,
        1,
        "Penalties",
        "A feature stays if masks that have it win by more than this share of the contests. Each "
        "penalty is a search of its own; the one whose mask does best on the model-validation "
        "rows wins. By default 0.01, 0.02, 0.04, 0.08 and 0.15, unless there are sizes.",
    )
    n_features: Sizes | None = setting(
        None,
        2,
        "Sizes",
        f"{SIZES.description} The penalty is steered to each, in place of penalties.",
    )
    seeds: Count = setting(
        1, 3, "Seeds", "Searches for each penalty or size; their probabilities are averaged."
    )
    samples: Annotated[int, Field(ge=2)] = setting(
        2, 4, "Samples", "Masks that are compared on each mini-batch."
    )
    hidden_layer_sizes: tuple[Annotated[int, Field(ge=1, le=MOST_UNITS)], ...] = setting(
        (200, 200, 200), 5, "Hidden layers", "Units of each hidden layer.", min_length=1
    )
    batch_size: Annotated[int, Field(ge=2)] | None = setting(
        None,
        6,
        "Batch size",
        "Rows of a mini-batch. By default 128, or all training rows if there are fewer.",
    )
    most_sweeps: Count = setting(
        60,
        7,
        "Most sweeps",
        "A search ends after so many times as many iterations as there are features (of fewer "
        "than 128 features, 128), whether or not its probabilities have settled.",
    )

    def check_memory(self) -> None:
        """Refuse hidden layers that do not fit into the memory that is free here; InputError.

        They are counted as if they had one input and one output, and mini-batches were as small as
        may be: the search itself, which knows the table, refuses what is too much with it.
        """
        with said_to_the_user():
            check_memory((1, *self.hidden_layer_sizes, 1), n_rows=2 * self.samples)

    def check_training_rows(self, n_rows: int) -> None:
        """Refuse a mini-batch of more rows than the `n_rows` to train on; InputError."""
        if self.batch_size is not None and self.batch_size > n_rows:
            raise InputError(
                f"batch_size must be at most {n_rows}, the number of training rows, but is "
                f"{self.batch_size}; leave it out, or give more rows"
            )

    @field_validator("penalties")
    @classmethod
    def _in_one_order(cls, given: tuple[float, ...] | None) -> tuple[float, ...] | None:
        """Sort: the same in another order are no other settings."""
        return None if given is None else tuple(sorted(set(given)))

    @model_validator(mode="before")
    @classmethod
    def _without_device(cls, values: Any) -> Any:
        """Read what earlier releases wrote: a device, of which the CPU alone is left."""
        if not isinstance(values, dict) or "device" not in values:
            return values
        if values["device"] != "cpu":
            raise ValueError(
                f"device must be cpu but is {in_one_line(values['device'])}; GPUs are not "
                "supported any more, so leave it out and select again"
            )
        return {name: value for name, value in values.items() if name != "device"}

    @model_validator(mode="before")
    @classmethod
    def _penalties_unless_sizes(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_told = any(values.get(name) is not None for name in ("penalties", "n_features"))
        return values if is_told else {**values, "penalties": _PENALTIES}

    @model_validator(mode="after")
    def _penalties_or_sizes(self) -> "Pefs":
        if self.penalties is not None and self.n_features is not None:
            penalties, sizes = (
                ", ".join(f"{one:g}" for one in given)
                for given in (self.penalties, self.n_features)
            )
            raise ValueError(
                f"penalties and n_features exclude each other but are {penalties} and {sizes}; "
                "give one of them"
            )
        return self


_Slack = Annotated[float, Field(ge=0)]


class Gbmo(MethodSettings):
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


class Flbmo(MethodSettings):
    """Fixed-length binary mask optimisation: remove features until a size is reached."""

    model_config = ConfigDict(title="FLBMO")

    kind: Literal["flbmo"] = setting(
        "flbmo",
        0,
        "Kind",
        "Fixed-length binary mask optimisation keeps a fixed number of features.",
    )
    n_features: Sizes = SIZES


class AfsBm(MethodSettings):
    """Adaptive feature selection with binary masking: train and mask at random, in turn."""

    model_config = ConfigDict(title="AFS-BM")
    takes_sizes = False  # masks are drawn at random: one of some size says nothing of that size

    @property
    def named_features(self) -> tuple[str, ...]:
        return self.start

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


def _said(*kinds: RankingName) -> str:
    return "Features are ranked by " + "; ".join(f"{k}: {SCORES[k]}" for k in kinds) + "."


def _known(order: int) -> int:
    check_order_is_known(order)
    return order


# The form has the limits from here; those of a Field would refuse without the reason.
Order = Annotated[
    int,
    AfterValidator(_known),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": HIGHEST_ORDER}),
]


class ByScore(MethodSettings):
    """What the rankings have in common: they keep the best.

    Without a size and a lowest score, `n_features` becomes the sizes that FLBMO tries.
    """

    kind: RankingName
    n_features: Sizes | None = setting(
        None,
        1,
        "Sizes",
        f"{SIZES.description} By default 1/6, 1/5, 1/4 and 1/2 of all, unless there is a lowest "
        "score.",
    )
    min_score: float | None = setting(
        None,
        2,
        "Lowest score",
        "Keep the features whose score is at least this, in place of a number of features.",
    )

    @model_validator(mode="before")
    @classmethod
    def _sizes_unless_a_lowest_score(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_told = any(values.get(name) is not None for name in ("n_features", "min_score"))
        return values if is_told else {**values, "n_features": SIZES.default}

    @model_validator(mode="after")
    def _sizes_or_a_lowest_score(self) -> "ByScore":
        if self.n_features is not None and self.min_score is not None:
            sizes = ", ".join(f"{size:g}" for size in self.n_features)
            raise ValueError(
                f"n_features and min_score exclude each other but are {sizes} and "
                f"{self.min_score:g}; give one of them"
            )
        return self


class Ranking(ByScore):
    """Rank the features once, in one of the ways that are in use today, and keep the best."""

    model_config = ConfigDict(title="Ranking")

    kind: PlainName = setting("anova_f", 0, "Kind", _said(*PLAIN))

    def fewest_training_rows(self, n_classes: int) -> int:
        return fewest_rows(n_classes) if self.kind in OF_TRAINING_ROWS else 1


class Dfs(ByScore):
    """Differentiable feature selection: descend an estimated residual variance, ever fewer left."""

    model_config = ConfigDict(title="DFS")

    kind: Literal["dfs"] = setting("dfs", 0, "Kind", _said("dfs"))
    order: Order = setting(
        4,
        3,
        "Order",
        "Highest power of the correlations that the estimate looks at. A higher one errs less on "
        "average, but varies more: 4 or less where rows are few.",
    )
    steps: Count = setting(
        30, 4, "Steps", "How many there are each time that the number of features is halved."
    )

    def fewest_training_rows(self, n_classes: int) -> int:
        return max(fewest_rows(n_classes), self.order + 1)


# Far beyond any use; a pull without a limit would leave the range of numbers.
_Pull = Annotated[float, Field(ge=0, le=10)]


def _refits_in_words(*kinds: str) -> str:
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


class Rfe(MethodSettings):
    """Recursive feature elimination: refit, drop the least important, and again."""

    model_config = ConfigDict(title="RFE")

    kind: Literal["rfe"] = setting("rfe", 0, "Kind", _refits_in_words("rfe"))
    n_features: Sizes = SIZES
    step: Share = _STEP


class Rfecv(MethodSettings):
    """Recursive feature elimination that finds the size by cross-validation."""

    model_config = ConfigDict(title="RFECV")
    folded_parts = ("train",)

    kind: Literal["rfecv"] = setting("rfecv", 0, "Kind", _refits_in_words("rfecv"))
    n_features: Count | None = _at_most(1)
    step: Share = _STEP
    within_one_standard_error: bool = _within_one_standard_error(3)


class Sequential(MethodSettings):
    """Sequential selection: add or remove one feature at a time, each by a refit."""

    model_config = ConfigDict(title="Sequential")

    kind: SequentialName = setting(
        "sequential_forward",
        0,
        "Kind",
        _refits_in_words("sequential_forward", "sequential_backward"),
    )
    n_features: Sizes = SIZES


class RobustElimination(MethodSettings):
    """Backward elimination by models that have seen masked rows, judged across folds."""

    model_config = ConfigDict(title="Robust elimination")
    folded_parts = ("train", "mask_validation")

    kind: Literal["robust_elimination"] = setting(
        "robust_elimination", 0, "Kind", _refits_in_words("robust_elimination")
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


class ParticleSwarm(MethodSettings):
    """Binary particle swarm: masks that move towards the best that were found."""

    model_config = ConfigDict(title="Particle swarm")
    takes_sizes = False  # masks are drawn at random: one of some size says nothing of that size

    kind: Literal["particle_swarm"] = setting(
        "particle_swarm", 0, "Kind", _refits_in_words("particle_swarm")
    )
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


FeatureKind = Literal["number", "category"]

_GAIN = (
    "Gain",
    "Share of the loss that a feature must save to be of help; what is shown to help returns, or "
    "stays.",
)
_SLACK = (
    "Slack",
    "Share by which the loss may rise, shown at 95 %, for all features together that leave in a "
    "round.",
)
_REJECTIONS = ("Rejections", "How many features a round may try in vain to let return, or leave.")
_Share = Annotated[float, Field(ge=0)]


class Reselect(MethodSettings):
    """The search of a reselection, and the former set that it begins with."""

    model_config = ConfigDict(title="Reselection")

    kind: Literal["reselect"] = setting(
        "reselect",
        0,
        "Kind",
        "Begins with the features of a former run and lets features return as well as leave; "
        "chaffinch reselect and the reselection flow fill it in from the former run.",
    )
    former: dict[str, FeatureKind] = setting(
        ..., 1, "Former features", "What the former run kept: number or category by feature."
    )
    known: tuple[str, ...] = setting(
        (),
        2,
        "Known",
        "What the former run's table had beside them, left out by its search, as no use, as asked "
        "or as the target; any other column is new.",
    )
    former_run: str = setting("", 3, "Former run", "Its name, for the report.")
    gain: _Share = setting(0.01, 4, *_GAIN)
    slack: _Share = setting(0.05, 5, *_SLACK)
    rejections: Count = setting(10, 6, *_REJECTIONS)
    former_classes: tuple[str, ...] = setting(
        (), 7, "Former classes", "Of the target; none where it was another, or of numbers."
    )
    former_rows: str = setting("", 8, "Former rows", "Hash of the former run's dataset.")
    former_drop: tuple[str, ...] = setting(
        (), 9, "Former drop", "What the former run was told to drop; newer rows may lack it."
    )

    @field_validator("former")
    @classmethod
    def _at_least_one(cls, former: dict[str, FeatureKind]) -> dict[str, FeatureKind]:
        if not former:
            raise ValueError("former must name at least 1 feature but names none")
        return dict(sorted(former.items()))

    @field_validator("known", "former_drop")
    @classmethod
    def _in_one_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Sort: the same in another order are no other settings."""
        return tuple(sorted(set(names)))


class ReselectionSettings(Settings):
    """What a person can set of a reselection; all else is as in the former run."""

    target: str | None = setting(
        None, 0, "Target", "Column to predict. By default the former run's."
    )
    drop: tuple[str, ...] | None = setting(
        None, 1, "Drop", "Columns that are left out altogether. By default the former run's."
    )
    model: str | None = setting(
        None, 2, "Model", "Name of the model. By default the former run's, as it was set."
    )
    gain: _Share = setting(0.01, 3, *_GAIN)
    slack: _Share = setting(0.05, 4, *_SLACK)
    rejections: Count = setting(10, 5, *_REJECTIONS)
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = setting(
        None, 6, "Seed", "The only source of randomness. By default the former run's."
    )
