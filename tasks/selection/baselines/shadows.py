"""Boruta: features that are more important than shuffled copies of all features.

Kursa and Rudnicki, "Feature selection with the Boruta package", Journal of Statistical Software 36,
11 (2010). In each round a model is fitted on the features left and on their shadows: copies whose
rows are shuffled, five at least. A feature has a hit where its importance is above that of every
shadow. By chance it has one in at most half of the rounds: a binomial test of its hits, by
Bonferroni's rule over all features, confirms it, or rejects it, which removes it and its shadow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema

_FEWEST_SHADOWS = 5
ROUNDS_AT_ONCE = 5  # between two looks at the hits, so that workers have some to share

# Mask (d,) of the k features left, and numbers of rounds -> margins (rounds, k): by how much each
# is more important than every shadow, as a share of all importance.
Margins = Callable[[Mask, Sequence[int]], Floats]


@dataclass(frozen=True)
class Confirmed:
    """What the rounds came to, for d features."""

    shares: Floats  # (d,): the share of its rounds in which a feature had a hit, until that decides
    margins: Floats  # (d,): the mean of its margins in all rounds that it took part in
    confirmed: Mask
    tentative: Mask  # neither confirmed nor rejected in the end


def confirm(
    margins: Margins,
    n_features: int,
    *,
    rounds: int,
    alpha: float,
    keep: Collection[int] = (),
    on_rounds: Callable[[int, int], None] | None = None,
) -> Confirmed:
    """Confirm or reject features until all are decided; those to keep are never rejected."""
    from scipy.stats import binom  # takes all that lists the methods half a second

    kept = np.isin(np.arange(n_features), [*keep])
    n_hits, n_rounds = np.zeros(n_features), np.zeros(n_features)
    sums, n_in = np.zeros(n_features), np.zeros(n_features)
    confirmed, rejected = np.zeros((2, n_features), dtype=bool)
    for start in range(0, rounds, ROUNDS_AT_ONCE):
        undecided = ~(confirmed | rejected)
        if not (undecided & ~kept).any():
            break
        left, numbers = ~rejected, range(start, min(start + ROUNDS_AT_ONCE, rounds))
        of_rounds = margins(left, numbers)
        sums[left] += of_rounds.sum(axis=0)
        n_in[left] += len(numbers)
        n_hits[undecided] += (of_rounds > 0).sum(axis=0)[undecided[left]]
        n_rounds[undecided] += len(numbers)
        level = alpha / n_features
        confirmed |= undecided & (binom.sf(n_hits - 1, n_rounds, 0.5) <= level)
        rejected |= undecided & ~kept & (binom.cdf(n_hits, n_rounds, 0.5) <= level)
        if on_rounds is not None:
            on_rounds(numbers[-1] + 1, rounds)
    return Confirmed(n_hits / n_rounds, sums / n_in, confirmed, ~(confirmed | rejected))


def with_shadows(rows: Rows, schema: Schema, random: np.random.Generator) -> tuple[Rows, Schema]:
    """Return rows with shuffled copies of their k columns behind them, and what these are."""
    k = len(schema.features)
    copied = np.arange(max(k, _FEWEST_SHADOWS)) % k
    X = np.empty((len(rows), k + len(copied)), order="F")
    X[:, :k] = rows.X
    for place, feature in enumerate(copied, start=k):
        X[:, place] = random.permutation(rows.X[:, feature])
    suffix = " shuffled"
    while any(suffix in name for name in schema.features):
        suffix += "_"
    names = (f"{schema.features[j]}{suffix}{place}" for place, j in enumerate(copied))
    categories = (schema.n_categories[j] for j in copied)
    extended = Schema(
        (*schema.features, *names), (*schema.n_categories, *categories), schema.n_classes
    )
    return Rows(X, rows.y, rows.weight), extended
