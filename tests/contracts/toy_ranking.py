"""A ranking in one file, as a developer would add it."""

from typing import Literal

from chaffinch.tasks.methods.protocol import SearchContext
from chaffinch.tasks.methods.rankings import RankingMethod
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.base import setting


class Spread(RankingMethod):
    """Rank the features by their standard deviation."""

    kind: Literal["spread"] = setting("spread", 0, "Kind", "Features are ranked by their spread.")

    @property
    def score(self) -> str:
        """What the score of a feature is."""
        return "the standard deviation of the feature on the training rows"

    def score_features(self, context: SearchContext) -> Floats:
        """Return the score of every feature, shape (d,)."""
        return context.rows("train").X.std(axis=0)
