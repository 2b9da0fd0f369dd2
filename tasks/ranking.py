"""Rank the features once, for the rivals of mask optimisation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.storage.runs import StageRecord
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.ingestion import description_of, part_rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.rivals.importances import permutation, select_from_model
from chaffinch.tasks.selection.rivals.names import RankingName
from chaffinch.tasks.selection.rivals.ranking import ONE_BY_ONE, RankedPath, filter_scores
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.settings import Ranking
from chaffinch.tasks.stage import Context
from chaffinch.tasks.training import loss_of, read_model

_MOST_SHARES = 64

Features = NDArray[np.int64]
Shared = TypeVar("Shared")


@dataclass(frozen=True)
class Ranked:
    """What ranking found.

    Attributes
    ----------
    path : RankedPath
        The features, worst first, with their scores.
    unmasked_loss : float
        Loss of the base model on the mask-validation part with every feature, which the walk of
        mask optimisation begins with as well.
    """

    path: RankedPath
    unmasked_loss: float


@dataclass(frozen=True)
class _Filtered:
    """What every share of the features has in common, for a filter."""

    name: RankingName
    rows: Rows
    schema: Schema
    seed: int


@dataclass(frozen=True)
class _Permuted:
    """The same for permutation importance."""

    model: FittedModel
    rows: Rows
    loss: Loss
    seed: int


def rank(
    context: Context,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    keep: Collection[int],
) -> Ranked:
    """Score every feature and order them, worst first.

    Filters look at the training part; importances at the base model, and permutation at the
    mask-validation part as well.

    Parameters
    ----------
    context : Context
        Its settings' method must be a ranking.
    described, divided, trained : StageRecord
        Of the stages before.
    keep : collection of int
        Features that never leave.

    Raises
    ------
    InputError
        If the model or the rows cannot be ranked by, or no feature has any score.
    ValueError
        If the method is no ranking.
    """
    schema, method = description_of(described).schema, context.settings.method
    if not isinstance(method, Ranking):
        raise ValueError(f"method must be a ranking but is {method.kind}")
    model = read_model(context, trained, "base_model", trained.result["kind"], schema)
    with said_to_the_user():
        scores = _scores(context, described, divided, model, method.kind)
    if not keep and not scores.any():
        raise InputError(
            f"{method.kind} finds no use in any of the {len(scores)} features: each has the score "
            "0; give more rows, or another method or model"
        )
    held_out = part_rows(context, described, divided, "mask_validation")
    prediction = model.predict(held_out.X)
    unmasked_loss = loss_of(context, schema)(held_out.y, prediction, held_out.weight)
    return Ranked(RankedPath.from_scores(scores, keep), unmasked_loss)


def _scores(
    context: Context,
    described: StageRecord,
    divided: StageRecord,
    model: FittedModel,
    name: RankingName,
) -> Floats:
    """Return the score of every feature, shape (d,); lets go of the rows it looked at."""
    schema, seed = description_of(described).schema, context.settings.seed
    if name == "select_from_model":
        return select_from_model(model)
    if name == "permutation":
        held_out = part_rows(context, described, divided, "mask_validation")
        permuted = _Permuted(model, held_out, loss_of(context, schema), seed)
        return _shared_out(context, _rises, permuted, len(schema.features))
    train = part_rows(context, described, divided, "train")
    if name not in ONE_BY_ONE:
        return filter_scores(name, train, schema, seed)
    filtered = _Filtered(name, train, schema, seed)
    return _shared_out(context, _filter_scores, filtered, len(schema.features))


def _shared_out(
    context: Context,
    function: Callable[[Shared, Features], Floats],
    shared: Shared,
    n_features: int,
) -> Floats:
    """Return the scores (d,) of features that are shared out to the workers."""
    shares = np.array_split(np.arange(n_features), min(n_features, _MOST_SHARES))
    scores = context.workers.map(
        function,
        shared,
        shares,
        lambda done, total: context.on_progress("optimise_mask", done, total),
    )
    return np.concatenate(scores)


def _filter_scores(shared: _Filtered, features: Features) -> Floats:
    mask = np.zeros(len(shared.schema.features), dtype=bool)
    mask[features] = True
    rows, schema = shared.rows.select(mask), shared.schema.select(mask)
    return filter_scores(shared.name, rows, schema, shared.seed)


def _rises(shared: _Permuted, features: Features) -> Floats:
    return permutation(shared.model, shared.rows, shared.loss, features.tolist(), shared.seed)
