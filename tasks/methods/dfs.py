"""DFS: differentiable feature selection, as a ranking by the order of removal.

The search minimises an estimated residual variance; see `chaffinch.tasks.selection.dfs`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from chaffinch.tasks.methods.baselines.rankings import Ranking, scorer_of
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.search import dfs
from chaffinch.tasks.settings.base import Count, setting
from chaffinch.tasks.settings.descent import Order

_SCORE = (
    "how often the number of features left was halved before it left, as the estimated residual "
    "variance of a linear model is descended, and how much of it was kept then, 0 to 1"
)
ranking("dfs", score=_SCORE)(dfs)


class Dfs(Ranking):
    """Differentiable feature selection: descend an estimated residual variance, ever fewer left."""

    model_config = ConfigDict(title="DFS")

    kind: Literal["dfs"] = setting("dfs", 0, "Kind", f"Features are ranked by dfs: {_SCORE}.")
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

    def min_training_rows(self, n_classes: int) -> int:
        return max(super().min_training_rows(n_classes), self.order + 1)

    def score_features(self, problem: Problem) -> Floats:
        """Return the score of every feature on the training rows, shape (d,)."""
        rows = problem.rows("train")
        return scorer_of(self.kind).scores(
            rows, problem.schema, problem.seed, order=self.order, steps=self.steps
        )
