"""Search by PEFS: for each penalty or size some searches, shared out to the workers.

Where there is a place for checkpoints, whoever searches keeps one now and then, and this process
what each search found. After a kill these are read back, and what was under way goes on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.candidates import sizes_asked_for
from chaffinch.tasks.methods.inputs import Material
from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.pefs.checkpoint import found_in, found_to_bytes, restore, to_bytes
from chaffinch.tasks.selection.pefs.network import Prepared
from chaffinch.tasks.selection.pefs.results import ProbabilisticSearch, ProbabilisticSearches, Sweep
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.settings.methods import Pefs

logger = logging.getLogger(__name__)

_Item = tuple[int, float | int, int]  # its number, what is asked for, which seed


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
    checkpoints: Checkpoints | None


def search_by_probabilities(method: Pefs, material: Material) -> ProbabilisticSearches:
    """Return what each search for each penalty or size found.

    They look at the training part; the mask-validation part measures the network that they leave.
    """
    schema, keep = material.schema, material.keep
    d = len(schema.features)
    train = material.rows("train")
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
        material.checkpoints,
    )
    pairs = [(one, seed) for one in asked for seed in range(method.seeds)]
    items = [(number, *pair) for number, pair in enumerate(pairs)]
    n_missing = int(np.isnan(train.X).any(axis=0).sum())
    if n_missing and not all(_is_answered(shared, item) for item in items):
        logger.info("pefs takes the baseline for the missing values of %d features", n_missing)
    with said_to_the_user():
        found = _all_found(shared, items, material)
    if not any(one.probabilities.any() for one in found):
        raise InputError(
            f"pefs finds no use in any of the {d} features: each is the same in all training "
            "rows; give more rows, or another method"
        )
    return ProbabilisticSearches(tuple(found))


def _all_found(
    shared: _Searches, items: Sequence[_Item], material: Material
) -> list[ProbabilisticSearch]:
    """Return what each search found, of which some may have ended before a kill."""
    checkpoints = shared.checkpoints
    found: dict[int, ProbabilisticSearch] = {}
    if checkpoints is not None:
        checkpoints.begin()
        found = _found_before(checkpoints, items)
    if found:
        material.on_progress(len(found), len(items))
    left = [item for item in items if item[0] not in found]
    with closing(material.workers.as_done(_searched, shared, left)) as results:
        for position, one in results:
            number = left[position][0]
            found[number] = one
            _tell(one)
            if checkpoints is not None:
                name, of = _checkpoint(checkpoints, number)
                checkpoints.keep(name, partial(found_to_bytes, one, of))
            material.on_progress(len(found), len(items))
    return [found[number] for number, _, _ in items]


def _tell(one: ProbabilisticSearch) -> None:
    """Log where a search ended."""
    asked = f"penalty {one.asked:g}"
    if isinstance(one.asked, int):
        asked = f"{one.asked} feature{'s' * (one.asked > 1)}"
    if not one.is_made:
        logger.info("pefs, %s, seed %d: nothing to search, as one set is left", asked, one.seed)
        return
    logger.info(
        "pefs, %s, seed %d: %d iterations, entropy %.2f bits, %d of %d features as probable as not",
        asked,
        one.seed,
        one.sweeps[-1].iteration,
        one.sweeps[-1].entropy,
        one.sweeps[-1].mask.sum(),
        len(one.probabilities),
    )


def _found_before(
    checkpoints: Checkpoints, items: Sequence[_Item]
) -> dict[int, ProbabilisticSearch]:
    """Return what ended searches found, by their number; a checkpoint of no use is removed."""
    found, n_under_way = {}, 0
    for number, _, _ in items:
        name, of = _checkpoint(checkpoints, number)
        content = checkpoints.read(name)
        if content is None:
            continue
        try:
            one = found_in(content, of)
        except ValueError as error:
            _discard(checkpoints, name, error)
            continue
        n_under_way += one is None
        if one is not None:
            found[number] = one
    if found or n_under_way:
        logger.info(
            "pefs goes on after a stop; searches: %d, ended before: %d, under way: %d",
            len(items),
            len(found),
            n_under_way,
        )
    return found


def _checkpoint(checkpoints: Checkpoints, number: int) -> tuple[str, str]:
    """Return the name of a search's checkpoint, and what tells the search from any other."""
    name = f"search-{number + 1}.safetensors"
    return name, f"{checkpoints.key} {name}"


def _discard(checkpoints: Checkpoints, name: str, error: ValueError) -> None:
    reason, _, _ = str(error).partition(";")  # the remedy, which follows, is this
    checkpoints.discard(name, reason)


def _searched(shared: _Searches, item: _Item) -> ProbabilisticSearch:
    if _is_answered(shared, item):
        return _nothing_to_search(shared, item)
    search, checkpoints = _begun(shared, item), shared.checkpoints
    if checkpoints is None:
        search.run()
    else:
        name, of = _checkpoint(checkpoints, item[0])
        keep = checkpoints.now_and_then(name)
        search.run(lambda: keep(partial(to_bytes, search, of)))
    return _measured(shared, item, search)


def _is_answered(shared: _Searches, item: _Item) -> bool:
    """Return whether only one mask can be the answer."""
    _, asked, _ = item
    d, n_kept = len(shared.schema.features), len(shared.keep)
    return d == max(1, n_kept) or (isinstance(asked, int) and asked in (n_kept, d))


def _begun(shared: _Searches, item: _Item) -> Search:
    """Return a search, fresh or where its checkpoint is."""
    number, asked, nth_seed = item
    method, checkpoints, is_sized = shared.method, shared.checkpoints, isinstance(asked, int)
    rules = Rules(
        penalty=None if is_sized else asked,
        n_features=int(asked) if is_sized else None,
        samples=method.samples,
        hidden_layer_sizes=method.hidden_layer_sizes,
        batch_size=method.batch_size,
        most_sweeps=method.most_sweeps,
    )
    (seed,) = np.random.SeedSequence([shared.seed, nth_seed]).generate_state(1, np.uint64)
    prepared = Prepared.of(shared.train, shared.schema, shared.baseline)
    search = Search(prepared, rules, int(seed), keep=shared.keep)
    if checkpoints is not None:
        name, of = _checkpoint(checkpoints, number)
        content = checkpoints.read(name)
        if content is not None:
            try:
                restore(search, content, of)
            except ValueError as error:
                _discard(checkpoints, name, error)
    return search


def _measured(shared: _Searches, item: _Item, search: Search) -> ProbabilisticSearch:
    """Return what a search that is done found, with the loss of its network on rows held out."""
    _, asked, nth_seed = item
    held_out = shared.held_out
    prediction = search.network.predict(held_out.X, search.sweeps[-1].mask)
    loss = shared.loss(held_out.y, prediction, held_out.weight)
    return ProbabilisticSearch(asked, nth_seed, tuple(search.sweeps), loss)


def _nothing_to_search(shared: _Searches, item: _Item) -> ProbabilisticSearch:
    """Return the one mask that there is: every feature, or those to keep."""
    _, asked, nth_seed = item
    probabilities = np.ones(len(shared.schema.features))
    if asked == len(shared.keep):
        probabilities = np.isin(np.arange(len(probabilities)), shared.keep).astype(np.float64)
    return ProbabilisticSearch(asked, nth_seed, (Sweep(0, math.nan, 0.0, probabilities),), None)
