"""Settings of the search for alternatives to the chosen features."""

from collections.abc import Mapping
from numbers import Integral
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field, model_validator

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.settings.base import Settings, setting

QualityName = Literal[
    "permutation",
    "masked_loss_importance",
    "model_gain",
    "mutual_information",
    "binned_mutual_information",
    "relieff",
    "mrmr",
    "binned_mrmr",
    "fcbf",
    "cfs",
    "masked_loss",
    "wrapper",
]
SearchName = Literal[
    "sequential", "simultaneous", "greedy_replacement", "greedy_balancing", "greedy_depth_search"
]
GREEDY: tuple[SearchName, ...] = get_args(SearchName)[2:]
# Qualities that are a sum over features, as greedy searches need.
UNIVARIATE: tuple[QualityName, ...] = (
    "permutation",
    "masked_loss_importance",
    "model_gain",
    "mutual_information",
    "binned_mutual_information",
    "relieff",
)
# Qualities that hill climbing maximises: its sets have no bound.
CLIMBED: tuple[QualityName, ...] = ("masked_loss", "wrapper")
# Qualities of features and pairs, as the simultaneous search needs.
_AT_ONCE: tuple[QualityName, ...] = tuple(
    name for name in get_args(QualityName) if name not in CLIMBED
)
# Qualities that take sample weights.
WEIGHTED: tuple[QualityName, ...] = (
    "permutation",
    "masked_loss_importance",
    "model_gain",
    "masked_loss",
    "wrapper",
)
MOST = 1_000  # sets
_Number = Annotated[int, Field(ge=1, le=MOST)]


class AlternativeSettings(Settings):
    """Feature sets of the chosen size that differ from it and from each other."""

    model_config = ConfigDict(title="Alternatives")
    published: ClassVar[Mapping[str, Any]] = MappingProxyType({"together": True})  # as of a method

    shown_as = MappingProxyType(  # for --alternatives and select(alternatives=...) alike
        {"number": "alternatives", "time_limit": "the time_limit of alternatives"}
    )

    number: _Number = setting(
        ..., f"How many sets to find besides the chosen one, {MOST:,} at most: each is refitted."
    )
    tau: Annotated[float, Field(gt=0, le=1)] = setting(
        0.5,
        "How far apart each two sets are at least: the share of features in which they differ; 1 "
        "for sets that share nothing.",
    )
    quality: QualityName = setting(
        "permutation",
        "What a set is worth. The sum over its features of how much the base model's loss on the "
        "mask-validation rows rises when a feature is shuffled (permutation) or masked "
        "(masked_loss_importance), of the base model's gain (model_gain), mutual_information with "
        "the target, or relieff. Relevance against redundancy: mrmr, fcbf, cfs. Or less the base "
        "model's loss with all but the set masked: masked_loss, without proof. Or less the loss of "
        "a model fitted on the set, of one of the folds of the training rows: wrapper, slow. "
        "binned_mutual_information and binned_mrmr part numbers into bins, which is much faster.",
    )
    search: SearchName = setting(
        "sequential",
        "sequential: one set after the other, each the best next to those before it; simultaneous: "
        "all at once. Without proof, in one pass over the features, and with together only: "
        "greedy_replacement, greedy_balancing, greedy_depth_search.",
    )
    aggregate: Literal["sum", "min"] | None = setting(
        None,
        "What is best of sets that are searched for all at once: their sum, which is the default, "
        "or the worst of them.",
    )
    dissimilarity: Literal["dice", "jaccard"] = setting("dice", "What tau is measured by.")
    time_limit: Annotated[float, Field(gt=0)] = setting(
        60.0, "Seconds of one search, after which the best sets so far are taken, with a bound."
    )
    price_curve: bool = setting(
        False,
        "Search at every tau from 0.1 to 1 as well, to show what tau costs in quality: ten "
        "searches instead of one.",
    )
    certified: bool = setting(
        False,
        "Also find sets, as far apart as possible, that are all shown to lose no more than the "
        "tolerance against all features, on rows that took no part in finding them. Their tau "
        "rises from 0.1.",
    )

    certified_size: Annotated[int, Field(ge=1)] | None = setting(
        None,
        "How many features each certified set has, by default as many as were chosen. Larger sets "
        "are shown more often, and to differ more.",
        title="Size of certified sets",
    )
    together: bool = setting(
        False,
        "Search for one set more, in place of the chosen set: all differ from each other, and none "
        "need differ from the chosen one. So the paper searches.",
    )

    @property
    def n_sets(self) -> int:
        """Number of sets to find."""
        return self.number + self.together

    @model_validator(mode="after")
    def _search_fits(self) -> "AlternativeSettings":
        if self.certified_size is not None and not self.certified:
            raise ValueError(
                f"certified_size is {self.certified_size} but no certified sets are asked for; add "
                "certified, or leave it out"
            )
        if self.aggregate is not None and self.search != "simultaneous":
            raise ValueError(
                f"aggregate is for the simultaneous search but search is {self.search}; leave it "
                "out"
            )
        if self.search == "simultaneous" and self.quality not in _AT_ONCE:
            raise ValueError(
                f"the simultaneous search needs one of the qualities {', '.join(_AT_ONCE)} but "
                f"quality is {self.quality}; use sequential"
            )
        if self.search in GREEDY and self.quality not in UNIVARIATE:
            raise ValueError(
                f"search {self.search} needs one of the qualities {', '.join(UNIVARIATE)} but "
                f"quality is {self.quality}; use sequential"
            )
        if self.search in GREEDY and not self.together:
            raise ValueError(
                f"search {self.search} finds all sets from the best features, next to no chosen "
                "set; add together, or use sequential"
            )
        return self


# Input of `alternatives_of`, for the form.
AlternativesInput = (
    AlternativeSettings
    | Annotated[
        _Number,
        Field(title="Number", description="How many sets; all else as it is by default."),
    ]
    | None
)


def alternatives_of(value: Any) -> Any:
    """Return the settings of alternatives; a number is short for them."""
    if isinstance(value, bool) or not isinstance(value, Integral | Mapping | Settings | None):
        raise InputError(
            "alternatives must be how many to find, or how to search for them, but is "
            f"{short_repr(value)}; give a whole number or AlternativeSettings"
        )
    if isinstance(value, Mapping) and "number" not in value:
        raise InputError(
            "alternatives must have a number, how many sets to find, but is "
            f"{short_repr(value)}; give one, as in {{'number': 3}}"
        )
    return AlternativeSettings(number=int(value)) if isinstance(value, Integral) else value
