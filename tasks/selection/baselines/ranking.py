"""What a ranking is: a function that scores features; and the order in which features leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, Self, TypeVar

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema, mask_of_size

Score = TypeVar("Score", bound=Callable[..., Floats])


@dataclass(frozen=True)
class Scorer:
    """A function that scores d features, higher is better, and what it declares."""

    name: str
    function: Callable[..., Floats]
    score: str  # what the score of a feature is
    weights: bool  # whether it uses sample weights; if not, rows must have none
    one_by_one: bool  # whether a feature's score does not depend on the other features
    is_place: bool  # whether the score is a place in an order, and measures nothing more
    reads: Literal["training rows", "model", "rows held out"]

    def fewest_rows(self, n_classes: int) -> int:
        """Return how many training rows it needs; `n_classes` is 0 for regression."""
        return max(3, n_classes + 1) if self.reads == "training rows" else 1

    def scores(self, rows: Rows, schema: Schema, seed: int, **settings: Any) -> Floats:
        """Return the scores (d,) by training rows; InputError for too few rows, or weights."""
        if rows.weight is not None and not self.weights:
            raise InputError(f"{self.name} takes no sample weights; leave them out")
        fewest = self.fewest_rows(schema.n_classes)
        if len(rows) < fewest:
            raise InputError(
                f"{self.name} needs at least {fewest} training rows but has {len(rows)}; give more "
                "rows"
            )
        if "seed" in signature(self.function).parameters:
            settings["seed"] = seed
        return self.function(rows, schema, **settings)


SCORERS: dict[str, Scorer] = {}  # of the modules that are imported


def ranking(
    name: str,
    *,
    score: str,
    weights: bool = False,
    one_by_one: bool = False,
    is_place: bool = False,
    reads: Literal["training rows", "model", "rows held out"] = "training rows",
) -> Callable[[Score], Score]:
    """Return a decorator that makes a ranking of a function; see `Scorer` for what it declares.

    A function of the training rows takes `rows`, `schema` and, if it is random, `seed`.
    """

    def register(function: Score) -> Score:
        SCORERS[name] = Scorer(name, function, score, weights, one_by_one, is_place, reads)
        return function

    return register


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
