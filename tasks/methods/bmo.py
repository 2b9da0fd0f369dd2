"""One search for features, whatever the method: from what it may look at to what it finds."""

from __future__ import annotations

from chaffinch.tasks.methods.afs_bm import search_by_alternation
from chaffinch.tasks.methods.candidates import Path
from chaffinch.tasks.methods.inputs import Material, no_use_made
from chaffinch.tasks.methods.pefs import search_by_probabilities
from chaffinch.tasks.methods.rankings import rank
from chaffinch.tasks.methods.reselection import search_by_reselection
from chaffinch.tasks.methods.robust_elimination import search_by_robust_models
from chaffinch.tasks.methods.wrappers import search_by_refits
from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.core import MaskedLoss
from chaffinch.tasks.settings.methods import (
    AfsBm,
    ByScore,
    Flbmo,
    Gbmo,
    Pefs,
    Reselect,
    RobustElimination,
)
from chaffinch.tasks.settings.selection import Method


def search(method: Method | Reselect, material: Material) -> Path:
    """Return what the method finds: the order in which features leave, or whole masks.

    Parameters
    ----------
    method : Method or Reselect
        Which search, and its settings.
    material : Material
        What it may look at.

    Raises
    ------
    InputError
        If the method cannot be used with the model or the rows, or nothing tells the features
        apart.
    """
    if isinstance(method, ByScore):
        return rank(method, material)
    if isinstance(method, AfsBm):
        return search_by_alternation(method, material)
    if isinstance(method, RobustElimination):
        return search_by_robust_models(method, material)
    if isinstance(method, Pefs):
        return search_by_probabilities(method, material)
    if isinstance(method, Reselect):
        return search_by_reselection(method, material)
    if not isinstance(method, Gbmo | Flbmo):
        return search_by_refits(method, material)
    engine = material.workers.masked_loss(
        material.model, material.rows("mask_validation"), material.loss, material.baseline
    )
    path = eliminate(engine, keep=material.keep, on_removal=material.on_progress)
    _check_that_features_matter(material, path, engine)
    return path


def _check_that_features_matter(
    material: Material, path: EliminationPath, walked: MaskedLoss
) -> None:
    """Refuse a base model to which every mask is the same: what it kept would be arbitrary."""
    if material.keep or any(value != path.unmasked_loss for value in path.losses):
        return
    if walked.without_each().min() != path.unmasked_loss:
        return  # it uses one feature, and that is the one that is left
    raise no_use_made(material, path.unmasked_loss)
