"""Rank the features once, for the rivals of mask optimisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.inputs import Material
from chaffinch.tasks.selection.baselines.importances import (
    permutation,
    select_from_model,
    tree_shap,
)
from chaffinch.tasks.selection.baselines.names import RankingName
from chaffinch.tasks.selection.baselines.ranking import (
    ONE_BY_ONE,
    RankedPath,
    check_rows,
    filter_scores,
)
from chaffinch.tasks.selection.core import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.selection.dfs.search import dfs
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.settings.methods import ByScore, Dfs

_MOST_SHARES = 64

Features = NDArray[np.int64]
Shared = TypeVar("Shared")


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


@dataclass(frozen=True)
class _Explained:
    """The same for every share of the rows, for SHAP values."""

    model: FittedModel
    rows: Rows


def rank(method: ByScore, material: Material) -> RankedPath:
    """Score every feature and order them, worst first.

    Filters look at the training part; importances at the base model, and permutation and SHAP
    values at the mask-validation part as well.
    """
    with said_to_the_user():
        scores = (
            _by_descent(method, material)
            if isinstance(method, Dfs)
            else scores_of(method.kind, material)
        )
    if not material.keep and not scores.any():
        raise InputError(
            f"{method.kind} finds no use in any of the {len(scores)} features: each has the score "
            "0; give more rows, or another method or model"
        )
    best, asked = float(scores.max()), method.min_score
    if not material.keep and asked is not None and best < asked:
        raise InputError(
            f"min_score must be at most {best!r}, the best score by {method.kind}, but is {asked!r}"
        )
    return RankedPath.from_scores(scores, material.keep)


def scores_of(name: RankingName, material: Material) -> Floats:
    """Return the score of every feature, shape (d,), by the name of a ranking."""
    schema, seed = material.schema, material.seed
    if name == "select_from_model":
        return select_from_model(material.model)
    if name == "permutation":
        rows = material.rows("mask_validation")
        permuted = _Permuted(material.model, rows, material.loss, seed)
        return _shared_out(material, _rises, permuted)
    if name == "tree_shap":
        return _mean_shap(material, _Explained(material.model, material.rows("mask_validation")))
    train = material.rows("train")
    if name not in ONE_BY_ONE:
        return filter_scores(name, train, schema, seed)
    return _shared_out(material, _filter_scores, _Filtered(name, train, schema, seed))


def _by_descent(method: Dfs, material: Material) -> Floats:
    rows, schema = material.rows("train"), material.schema
    check_rows(method.kind, rows, schema)
    return dfs(rows, schema, material.seed, order=method.order, steps=method.steps)


def _shared_out(
    material: Material, function: Callable[[Shared, Features], Floats], shared: Shared
) -> Floats:
    """Return the scores (d,) of features that are shared out to the workers."""
    n_features = len(material.schema.features)
    shares = np.array_split(np.arange(n_features), min(n_features, _MOST_SHARES))
    return np.concatenate(material.workers.map(function, shared, shares, material.on_progress))


def _mean_shap(material: Material, explained: _Explained) -> Floats:
    """Return the mean absolute SHAP values (d,) over rows that are shared out to the workers."""
    n_rows, weight = len(explained.rows), explained.rows.weight
    shares = np.array_split(np.arange(n_rows), min(n_rows, _MOST_SHARES))
    means = material.workers.map(_shap_of_rows, explained, shares, material.on_progress)
    weights = [len(share) if weight is None else weight[share].sum() for share in shares]
    return np.asarray(np.average(means, axis=0, weights=weights))


def _shap_of_rows(shared: _Explained, share: NDArray[np.int64]) -> Floats:
    return tree_shap(shared.model, shared.rows.take(share))


def _filter_scores(shared: _Filtered, features: Features) -> Floats:
    mask = np.zeros(len(shared.schema.features), dtype=bool)
    mask[features] = True
    rows, schema = shared.rows.select(mask), shared.schema.select(mask)
    return filter_scores(shared.name, rows, schema, shared.seed)


def _rises(shared: _Permuted, features: Features) -> Floats:
    return permutation(shared.model, shared.rows, shared.loss, features.tolist(), shared.seed)
