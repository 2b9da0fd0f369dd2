"""From scores to the order in which features leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

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
    """The features in the order of their scores, worst first.

    Attributes
    ----------
    scores : tuple of float, length d
        Of every feature; higher is better.
    removed : tuple of int
        Features in the order in which they leave.
    """

    scores: tuple[float, ...]
    removed: tuple[int, ...]

    @classmethod
    def from_scores(cls, scores: Floats, keep: Collection[int] = ()) -> Self:
        """Rank features by scores (d,) until one is left, or only `keep`.

        Ties: the lowest index leaves first.
        """
        kept = set(keep)
        leaving = [int(j) for j in np.argsort(scores, kind="stable") if j not in kept]
        return cls(tuple(scores.tolist()), tuple(leaving if keep else leaving[:-1]))

    @classmethod
    def from_removals(cls, n_features: int, removed: Sequence[int]) -> Self:
        """Score each of `n_features` features by its place in the order of leaving, from 1.

        Features that are never removed share the place after the last.
        """
        scores = np.full(n_features, len(removed) + 1.0)
        scores[list(removed)] = np.arange(1.0, len(removed) + 1)
        return cls(tuple(scores.tolist()), tuple(removed))

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.scores)

    def best(self, n_features: int) -> Mask:
        """Return the mask of the `n_features` best.

        Raises
        ------
        ValueError
            If the path does not reach that size.
        """
        return mask_of_size(self.n_features, self.removed, n_features)

    def size_at(self, min_score: float) -> int:
        """Return the number of features with a score of at least `min_score`.

        Kept features never leave; without any, one always remains.
        """
        return self.n_features - sum(self.scores[j] < min_score for j in self.removed)


def filter_scores(name: RankingName, rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score the features by a filter's name.

    Parameters
    ----------
    name : str
        "correlation", "anova_f", "mutual_information", "mrmr", "relieff", "fcbf", "lasso",
        "elastic_net" or "mission".
    rows : Rows
        Training rows; never changed.
    schema : Schema
        What the d columns mean.
    seed : int
        The only source of randomness.

    Returns
    -------
    ndarray of float64, shape (d,)
        Higher is better.

    Raises
    ------
    ValueError
        If there are too few rows, or weights that the filter does not take.
    """
    check_rows(name, rows, schema)
    return _FILTERS[name](rows, schema, seed)


def check_rows(name: RankingName, rows: Rows, schema: Schema) -> None:
    """Refuse rows that a filter cannot score by.

    Raises
    ------
    ValueError
        If there are too few, or weights that the filter does not take.
    """
    if rows.weight is not None and name not in WEIGHTED:
        raise ValueError(f"{name} takes no sample weights; leave them out")
    fewest = fewest_rows(schema.n_classes)
    if len(rows) < fewest:
        raise ValueError(
            f"{name} needs at least {fewest} training rows but has {len(rows)}; give more rows"
        )
