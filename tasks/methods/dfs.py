"""DFS: differentiable feature selection, as a ranking by the penalty at which a feature leaves.

The search minimises an estimated residual variance; see `chaffinch.tasks.selection.dfs`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema

from chaffinch.errors import InputError
from chaffinch.tasks.methods.baselines.rankings import Ranking, scorer_of
from chaffinch.tasks.methods.paths import RANKED_ON, ranked_path
from chaffinch.tasks.methods.protocol import Problem, candidates_at
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.search import dfs
from chaffinch.tasks.selection.limits import HIGHEST_ORDER, check_order_is_known
from chaffinch.tasks.settings.base import Count, InOrder, as_list, setting
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

_SCORE = (
    "the largest penalty at which it stays as the estimated residual variance of a linear model is "
    "descended, in units of the target's variance; up to twice the last one for what stays there"
)
ranking("dfs", score=_SCORE)(dfs)


def _known(order: int) -> int:
    check_order_is_known(order)
    return order


# The form has the limits from here: the limits of a Field would refuse without the reason.
_Order = Annotated[
    int,
    AfterValidator(_known),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": HIGHEST_ORDER}),
]


class Dfs(Ranking):
    """Differentiable feature selection: descend an estimated residual variance under a penalty."""

    model_config = ConfigDict(title="DFS")
    aims: ClassVar[tuple[str, ...]] = ("n_features", "min_score", "penalty")
    # fixed penalties; the paper does not print its own
    published = MappingProxyType(
        {"method.n_features": None, "method.penalty": (0.1, 0.3, 1.0, 3.0, 10.0)}
    )

    kind: Literal["dfs"] = setting("dfs", f"Features are ranked by dfs: {_SCORE}.")
    penalty: (
        Annotated[
            tuple[Annotated[float, Field(gt=0)], ...],
            Field(min_length=1),
            BeforeValidator(as_list),
            InOrder,
        ]
        | None
    ) = setting(
        None,
        "In place of a number: lambda of the term lambda / D sum s, in units of the target's "
        "variance. Of several, the one whose features do best on the model-validation rows wins; "
        "each descent begins where that of the smaller one ended.",
    )
    order: _Order = setting(
        4,
        "Highest power of the correlations that the estimate looks at. A higher one errs less on "
        "average, but varies more: 4 or less where rows are few.",
    )
    steps: Count = setting(
        1000,
        "At most so many; of several penalties, for each. A descent ends earlier when nothing more "
        "changes.",
    )
    batch_rows: Annotated[int, Field(ge=2)] | None = setting(
        None,
        "At least so many are looked at together; a step takes the mean over batches of 1,000 rows "
        "together. By default 1,000, or all where there are fewer.",
        title="Rows of a batch",
    )

    def candidates(self, result: SearchResult) -> list[Candidate]:
        if self.penalty is None:
            return super().candidates(result)
        path, sizes = ranked_path(result), dict[int, list[float]]()
        for penalty in self.penalty:
            sizes.setdefault(path.size_at(penalty), []).append(penalty)
        return candidates_at(result, sizes)

    def min_training_rows(self, n_classes: int) -> int:
        return max(super().min_training_rows(n_classes), self.order + 1, self.batch_rows or 0)

    def score_features(self, problem: Problem) -> Floats:
        """Return the score of every feature, shape (d,)."""
        scores = scorer_of(self.kind).scores(
            problem.rows(*RANKED_ON),
            problem.schema,
            problem.seed,
            order=self.order,
            steps=self.steps,
            batch_rows=self.batch_rows,
            penalties=self.penalty or (),
        )
        if self.penalty and not problem.keep and scores.any() and scores.max() < self.penalty[0]:
            raise InputError(
                f"penalty must be one that a feature is worth, but all {len(scores)} leave by dfs "
                f"below {self.penalty[0]:g}; give a lower one"
            )
        return scores
