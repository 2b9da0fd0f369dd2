"""What can be set of the methods that score the features once and keep the best."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, WithJsonSchema, model_validator

from chaffinch.tasks.selection.dfs.asked import HIGHEST_ORDER, check_order_is_known
from chaffinch.tasks.selection.rivals.names import PLAIN, SCORES, PlainName, RankingName
from chaffinch.tasks.setting_fields import SIZES, Count, Settings, Sizes, setting


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


class ByScore(Settings):
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
