"""Search by PEFS: for each penalty or size some searches, shared out to the workers."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.candidates import sizes_asked_for
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.material import Material
from chaffinch.tasks.pefs_settings import Pefs
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.pefs.found import (
    ProbabilisticSearch,
    ProbabilisticSearches,
    Sweep,
)
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Searches:
    """What all searches have in common."""

    method: Pefs
    train: Rows
    held_out: Rows
    schema: Schema
    baseline: Floats
    loss: Loss
    keep: tuple[int, ...]
    seed: int


def search_by_probabilities(method: Pefs, material: Material) -> ProbabilisticSearches:
    """Return what each search for each penalty or size found.

    They look at the training part; the mask-validation part measures the network that they leave.

    Raises
    ------
    InputError
        If there are too few rows, the training diverges, or no feature varies.
    """
    schema, keep = material.schema, material.keep
    d = len(schema.features)
    train = material.rows("train")
    n_missing = int(np.isnan(train.X).any(axis=0).sum())
    if n_missing:
        logger.info("pefs takes the baseline for the missing values of %d features", n_missing)
    asked: list[float | int] = list(method.penalties or ())
    asked += sizes_asked_for(method, d, max(1, len(keep))) if method.n_features else ()
    shared = _Searches(
        method,
        train,
        material.rows("mask_validation"),
        schema,
        material.baseline,
        material.loss,
        keep,
        material.seed,
    )
    items = [(one, number) for one in asked for number in range(method.seeds)]
    with said_to_the_user():
        found = material.workers.map(_searched, shared, items, material.on_progress)
    for one in found:
        logger.info(
            "pefs, %s, seed %d: %d iterations, entropy %.2f bits, %d of %d features as probable "
            "as not",
            f"{one.asked} features" if isinstance(one.asked, int) else f"penalty {one.asked:g}",
            one.seed,
            one.sweeps[-1].iteration,
            one.sweeps[-1].entropy,
            one.sweeps[-1].mask.sum(),
            d,
        )
    if not any(one.probabilities.any() for one in found):
        raise InputError(
            f"pefs finds no use in any of the {d} features: each is the same in all training "
            "rows; give more rows, or another method"
        )
    return ProbabilisticSearches(tuple(found))


def _searched(shared: _Searches, item: tuple[float | int, int]) -> ProbabilisticSearch:
    asked, number = item
    d, method = len(shared.schema.features), shared.method
    is_sized = isinstance(asked, int)
    n_kept = len(shared.keep)
    if d == max(1, n_kept) or (is_sized and asked in (n_kept, d)):
        return _nothing_to_search(shared, asked, number)
    rules = Rules(
        penalty=None if is_sized else asked,
        n_features=int(asked) if is_sized else None,
        samples=method.samples,
        hidden_layer_sizes=method.hidden_layer_sizes,
        batch_size=method.batch_size,
        most_sweeps=method.most_sweeps,
    )
    prepared = Prepared.of(shared.train, shared.schema, shared.baseline)
    (seed,) = np.random.SeedSequence([shared.seed, number]).generate_state(1, np.uint64)
    search = Search(prepared, rules, int(seed), keep=shared.keep)
    search.run()
    held_out = shared.held_out
    prediction = search.network.predict(held_out.X, search.sweeps[-1].mask)
    loss = shared.loss(held_out.y, prediction, held_out.weight)
    return ProbabilisticSearch(asked, number, tuple(search.sweeps), loss)


def _nothing_to_search(shared: _Searches, asked: float | int, number: int) -> ProbabilisticSearch:
    """Return the one mask that there is: every feature, or those to keep."""
    probabilities = np.ones(len(shared.schema.features))
    if asked == len(shared.keep):
        probabilities = np.isin(np.arange(len(probabilities)), shared.keep).astype(np.float64)
    return ProbabilisticSearch(asked, number, (Sweep(0, math.nan, 0.0, probabilities),), None)
