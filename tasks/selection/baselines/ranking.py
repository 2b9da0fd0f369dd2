"""From scores to the order in which features leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.baselines.filters import (
    anova_f,
    correlation,
    fcbf,
    mrmr,
    mutual_information,
    relieff,
)
from chaffinch.tasks.selection.baselines.mission import mission_scores
from chaffinch.tasks.selection.baselines.names import WEIGHTED, RankingName, fewest_rows
from chaffinch.tasks.selection.baselines.penalised import elastic_net, lasso
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema, mask_of_size

Filter = Callable[[Rows, Schema, int], Floats]

# Rankings that score each feature independently of the others.
ONE_BY_ONE: tuple[RankingName, ...] = ("correlation", "anova_f", "mutual_information")
_FILTERS: dict[RankingName, Filter] = {
    "correlation": lambda rows, schema, seed: correlation(rows, schema),
    "anova_f": lambda rows, schema, seed: anova_f(rows, schema),
    "mutual_information": mutual_information,
    "mrmr": lambda rows, schema, seed: mrmr(rows, schema),
    "relieff": relieff,
    "fcbf": lambda rows, schema, seed: fcbf(rows, schema),
    "lasso": lasso,
    "elastic_net": elastic_net,
    "mission": mission_scores,
}


@dataclass(frozen=True)
class RankedPath:
    """The features in the order of their scores, worst first."""

    scores: tuple[float, ...]  # (d,), higher is better
    removed: tuple[int, ...]  # in the order in which they leave

    @classmethod
    def from_scores(cls, scores: Floats, keep: Collection[int] = ()) -> Self:
        """Rank by scores (d,) until one is left, or only `keep`; of equals the lowest goes."""
        kept = set(keep)
        leaving = [int(j) for j in np.argsort(scores, kind="stable") if j not in kept]
        return cls(tuple(scores.tolist()), tuple(leaving if keep else leaving[:-1]))

    @classmethod
    def from_removals(cls, n_features: int, removed: Sequence[int]) -> Self:
        """Score features by their place in the order of leaving, from 1; the others come last."""
        scores = np.full(n_features, len(removed) + 1.0)
        scores[list(removed)] = np.arange(1.0, len(removed) + 1)
        return cls(tuple(scores.tolist()), tuple(removed))

    @property
    def n_features(self) -> int:
        return len(self.scores)

    def best(self, n_features: int) -> Mask:
        """Return the mask of the `n_features` best; InputError if the path is shorter."""
        return mask_of_size(self.n_features, self.removed, n_features)

    def size_at(self, min_score: float) -> int:
        """Return how many have at least `min_score`; kept ones, or one, always remain."""
        return self.n_features - sum(self.scores[j] < min_score for j in self.removed)


def filter_scores(name: RankingName, rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score the features (d,), higher is better, by a filter's name; InputError as `check_rows`."""
    check_rows(name, rows, schema)
    return _FILTERS[name](rows, schema, seed)


def check_rows(name: RankingName, rows: Rows, schema: Schema) -> None:
    """Raise InputError if there are too few rows, or weights that the filter does not take."""
    if rows.weight is not None and name not in WEIGHTED:
        raise InputError(f"{name} takes no sample weights; leave them out")
    fewest = fewest_rows(schema.n_classes)
    if len(rows) < fewest:
        raise InputError(
            f"{name} needs at least {fewest} training rows but has {len(rows)}; give more rows"
        )
