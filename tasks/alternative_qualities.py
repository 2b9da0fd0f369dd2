"""What a set of features is worth in the search for alternatives, by name.

The names are those of `chaffinch.qualities`; the rows are those that a run may look at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.alternative_settings import QualityName
from chaffinch.tasks.material import Material
from chaffinch.tasks.ranking import scores_of
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Quality, Univariate
from chaffinch.tasks.selection.alternatives.wrapper import MaskedLossQuality
from chaffinch.tasks.selection.rivals.fcbf import uncertainties
from chaffinch.tasks.selection.rivals.filters import mutual_information_with
from chaffinch.tasks.selection.rivals.names import RankingName
from chaffinch.tasks.selection.vocabulary import Floats, MaskedLoss, Rows, Schema

# The rankings whose scores are qualities of single features.
_RANKINGS: dict[QualityName, RankingName] = {
    "mutual_information": "mutual_information",
    "relieff": "relieff",
    "permutation": "permutation",
    "model_gain": "select_from_model",
}


def quality_of(name: QualityName, material: Material) -> Quality:
    """Return the quality of that name, of the rows that a search may look at.

    Raises
    ------
    ValueError
        If the model or the rows have no such quality.
    """
    names = material.schema.features
    if name in _RANKINGS:
        return Univariate(scores_of(_RANKINGS[name], material), names)
    if name == "masked_loss":
        return MaskedLossQuality(_engine(material), names=names)
    if name == "masked_loss_importance":
        engine = _engine(material)
        return Univariate(engine.without_each() - engine.loss, names)
    rows = material.rows("train")
    if name == "mrmr":
        relevance = scores_of("mutual_information", material)
        return MRMR(relevance, _information_of_pairs(rows, material), names)
    relevance, redundancy = uncertainties(rows, material.schema)
    of_pairs = FCBF if name == "fcbf" else CFS
    return of_pairs(relevance, redundancy, names)


def _engine(material: Material) -> MaskedLoss:
    return material.workers.masked_loss(
        material.model, material.rows("mask_validation"), material.loss, material.baseline
    )


@dataclass(frozen=True)
class _Pairs:
    """What the columns of the matrix of all pairs have in common."""

    rows: Rows
    schema: Schema
    seed: int


def _information_of_pairs(rows: Rows, material: Material) -> Floats:
    """Return the mutual information of features with each other, shape (d, d), by the workers."""
    pairs = _Pairs(rows, material.schema, material.seed)
    features = range(len(material.schema.features))
    columns = material.workers.map(_information_with, pairs, features, material.on_progress)
    matrix = np.stack(columns, axis=1)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _information_with(pairs: _Pairs, feature: int) -> Floats:
    return mutual_information_with(pairs.rows, pairs.schema, pairs.seed, feature)
