"""What a set of features is worth in the search for alternatives, by name.

The names are those of `chaffinch.qualities`; the rows are those that a run may look at. How
features depend on each other takes long to measure, whatever is then searched for: it is kept in
the store for other runs.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.storage.runs import Store
from chaffinch.tasks.alternative_settings import QualityName
from chaffinch.tasks.material import Material
from chaffinch.tasks.ranking import scores_of
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Quality, Univariate
from chaffinch.tasks.selection.alternatives.wrapper import MaskedLossQuality
from chaffinch.tasks.selection.rivals.binned import (
    binned_information,
    binned_information_of_pairs,
)
from chaffinch.tasks.selection.rivals.fcbf import uncertainties
from chaffinch.tasks.selection.rivals.filters import mutual_information_with
from chaffinch.tasks.selection.rivals.importances import select_from_model
from chaffinch.tasks.selection.rivals.names import RankingName
from chaffinch.tasks.selection.vocabulary import Floats, MaskedLoss, Rows, Schema
from chaffinch.tasks.stage import digest, versions

# The rankings whose scores are qualities of single features.
_RANKINGS: dict[QualityName, RankingName] = {
    "mutual_information": "mutual_information",
    "relieff": "relieff",
    "permutation": "permutation",
}

MODEL_GAIN = "quality model_gain"  # as it is named where a model is refused

_OF_PAIRS: dict[QualityName, type[MRMR] | type[FCBF] | type[CFS]] = {
    "mrmr": MRMR,
    "binned_mrmr": MRMR,
    "fcbf": FCBF,
    "cfs": CFS,
}
_MEASURES: dict[QualityName, str] = {
    "mrmr": "mutual information",
    "binned_mrmr": "binned mutual information",
    "fcbf": "symmetrical uncertainty",
    "cfs": "symmetrical uncertainty",
}


def quality_of(name: QualityName, material: Material, store: Store | None = None) -> Quality:
    """Return the quality of that name, of the rows that a search may look at.

    Parameters
    ----------
    name : str
    material : Material
    store : Store, optional
        Where the dependencies of features are looked for, and kept.

    Raises
    ------
    ValueError
        If the model or the rows have no such quality.
    """
    names = material.schema.features
    if name == "model_gain":
        return Univariate(select_from_model(material.model, MODEL_GAIN), names)
    if name in _RANKINGS:
        return Univariate(scores_of(_RANKINGS[name], material), names)
    if name == "masked_loss":
        return MaskedLossQuality(_engine(material), names=names)
    if name == "masked_loss_importance":
        engine = _engine(material)
        return Univariate(engine.without_each() - engine.loss, names)
    if name == "binned_mutual_information":
        return Univariate(binned_information(material.rows("train"), material.schema), names)
    relevance, redundancy = _dependencies(name, material, store)
    return _OF_PAIRS[name](relevance, redundancy, names)


def _dependencies(
    name: QualityName, material: Material, store: Store | None
) -> tuple[Floats, Floats]:
    """Return how features depend on the target (d,) and on each other (d, d)."""
    measure = _MEASURES[name]
    rows = material.rows("train")
    if store is None:
        return _measured(measure, rows, material)
    key, kept = _key(measure, rows, material), store.dependencies
    record = kept.finished(key, key)
    if record is None:
        with kept.stage(key, key) as writer:
            content = io.BytesIO()
            np.save(content, np.vstack(_measured(measure, rows, material)), allow_pickle=False)
            writer.write(f"{key}.npy", content.getvalue())
        record = writer.record
    matrix: Floats = np.load(io.BytesIO(record.read(f"{key}.npy")), allow_pickle=False)
    return matrix[0], matrix[1:]


def _measured(measure: str, rows: Rows, material: Material) -> tuple[Floats, Floats]:
    if measure == "symmetrical uncertainty":
        return uncertainties(rows, material.schema)
    if measure == "binned mutual information":
        of_pairs = binned_information_of_pairs(rows, material.schema)
        return binned_information(rows, material.schema), of_pairs
    # one column beside those of all pairs, whose progress is told: it would count twice
    unheard = replace(material, on_progress=lambda done, total: None)
    relevance = scores_of("mutual_information", unheard)
    return relevance, _information_of_pairs(rows, material)


def _key(measure: str, rows: Rows, material: Material) -> str:
    """Return the digest of all that the dependencies of features follow from."""
    schema = material.schema
    parts = [np.ascontiguousarray(part).data for part in (rows.X, rows.y)]
    hashes = [hashlib.sha256(part).hexdigest() for part in parts]
    return digest(
        {
            "measure": measure,
            "rows": hashes,
            "shape": list(rows.X.shape),
            "categories": list(schema.n_categories),
            "classes": schema.n_classes,
            "seed": material.seed,
            "versions": versions(),
        }
    )


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
