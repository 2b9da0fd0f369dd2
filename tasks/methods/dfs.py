"""DFS: differentiable feature selection, as a ranking by the order of removal.

The search minimises an estimated residual variance; see `chaffinch.tasks.selection.dfs`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from chaffinch.tasks.methods.protocol import SearchContext
from chaffinch.tasks.methods.rankings import RankingMethod
from chaffinch.tasks.selection.baselines.names import SCORES, fewest_rows
from chaffinch.tasks.selection.baselines.ranking import check_rows
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.search import dfs
from chaffinch.tasks.settings.base import Count, setting
from chaffinch.tasks.settings.descent import Order


class Dfs(RankingMethod):
    """Differentiable feature selection: descend an estimated residual variance, ever fewer left."""

    model_config = ConfigDict(title="DFS")

    kind: Literal["dfs"] = setting(
        "dfs", 0, "Kind", f"Features are ranked by dfs: {SCORES['dfs']}."
    )
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

    @property
    def score(self) -> str:
        """Definition of a feature's score."""
        return SCORES["dfs"]

    @property
    def takes_weights(self) -> bool:
        """Whether rows may have weights."""
        return False

    def score_features(self, context: SearchContext) -> Floats:
        """Return the score of every feature on the training rows, shape (d,)."""
        rows, schema = context.rows("train"), context.schema
        check_rows(self.kind, rows, schema)
        return dfs(rows, schema, context.seed, order=self.order, steps=self.steps)
