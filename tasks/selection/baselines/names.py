"""Names and properties of the built-in rankings; imports nothing, for a fast command line."""

from typing import Literal, get_args

# Those without settings of their own.
PlainName = Literal[
    "correlation",
    "anova_f",
    "mutual_information",
    "mrmr",
    "relieff",
    "fcbf",
    "lasso",
    "elastic_net",
    "select_from_model",
    "permutation",
    "tree_shap",
    "mission",
]
RankingName = PlainName | Literal["dfs"]

SCORES: dict[RankingName, str] = {
    "correlation": "the absolute correlation with the target; for classes the greatest with one "
    "class against the rest",
    "anova_f": "the F statistic of the feature against the target",
    "mutual_information": "the mutual information with the target in nats, estimated from nearest "
    "neighbours",
    "mrmr": "the place in a greedy choice of least redundant, most relevant features; the first "
    "chosen has the highest",
    "relieff": "how much more the feature differs between near rows of unlike targets than of "
    "like ones",
    "fcbf": "the symmetrical uncertainty with the target, 0 to 1, less 1 if a better feature makes "
    "it redundant",
    "lasso": "the strength of the penalty at which a lasso first makes use of the feature, as the "
    "penalty falls",
    "elastic_net": "the same for an elastic net, half of whose penalty is the lasso's",
    "select_from_model": "the total gain in the base model's trees, or the sum of its absolute "
    "coefficients",
    "permutation": "how much the base model's loss on the mask-validation rows rises, on average, "
    "when the feature's values are shuffled",
    "tree_shap": "the mean absolute SHAP value of the base model, lightgbm or xgboost, on the "
    "mask-validation rows; for classes in log odds",
    "mission": "the absolute weight of the standardised feature in a linear model, learnt one row "
    "after the other by a count sketch that lets only the largest weights predict",
    "dfs": "how often the number of features left was halved before it left, as the estimated "
    "residual variance of a linear model is descended, and how much of it was kept then, 0 to 1",
}

# The others require equal weights.
WEIGHTED: tuple[RankingName, ...] = (
    "correlation",
    "lasso",
    "elastic_net",
    "select_from_model",
    "permutation",
    "tree_shap",
)
# Those that use the mask-validation rows rather than the training rows.
OF_ROWS_HELD_OUT: tuple[RankingName, ...] = ("permutation", "tree_shap")
# Those that use models only, or the rows held out; the others use the training rows.
_OF_MODELS: tuple[RankingName, ...] = ("select_from_model", *OF_ROWS_HELD_OUT)
OF_TRAINING_ROWS: tuple[RankingName, ...] = tuple(name for name in SCORES if name not in _OF_MODELS)
PLAIN: tuple[PlainName, ...] = get_args(PlainName)


def fewest_rows(n_classes: int) -> int:
    """Return the fewest training rows that such rankings need; `n_classes` is 0 for numbers."""
    return max(3, n_classes + 1)


SequentialName = Literal["sequential_forward", "sequential_backward"]
