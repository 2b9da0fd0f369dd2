"""One search for features, whatever the method: from what it may look at to the path it finds."""

from __future__ import annotations

from chaffinch.storage.errors import InputError
from chaffinch.tasks.material import Material
from chaffinch.tasks.ranking import rank
from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.selection.rivals.ranking import RankedPath
from chaffinch.tasks.selection.vocabulary import MaskedLoss
from chaffinch.tasks.settings import Gbmo, Method, Ranking

Path = EliminationPath | RankedPath


def search(method: Method, material: Material) -> Path:
    """Return the order in which features leave, with what the method says of each.

    Parameters
    ----------
    method : Method
        Which search, and its settings.
    material : Material
        What it may look at.

    Raises
    ------
    InputError
        If the method cannot be used with the model or the rows, or nothing tells the features
        apart.
    """
    if isinstance(method, Ranking):
        return rank(method, material)
    engine = material.workers.masked_loss(
        material.model, material.rows("mask_validation"), material.loss, material.baseline
    )
    path = eliminate(engine, keep=material.keep, on_removal=material.on_progress)
    _check_that_features_matter(material, path, engine)
    return path


def candidate_sizes(path: Path, method: Method) -> dict[int, list[float]]:
    """Return the sizes that a method's settings lead to, and which settings lead to each.

    Returns
    -------
    dict
        Number of features -> slacks (GBMO), the lowest score asked for, or sizes asked for.

    Raises
    ------
    ValueError
        If the path is a ranking but the method GBMO.
    """
    fewest = path.n_features - len(path.removed)
    sizes: dict[int, list[float]] = {}
    if (
        isinstance(path, RankedPath)
        and isinstance(method, Ranking)
        and method.min_score is not None
    ):
        return {path.size_at(method.min_score): [method.min_score]}
    if not isinstance(method, Gbmo):
        for asked in method.n_features or ():
            size = asked if isinstance(asked, int) else round(asked * path.n_features)
            sizes.setdefault(max(size, fewest), []).append(asked)
        return sizes
    if not isinstance(path, EliminationPath):
        raise ValueError("gbmo reads masks off masked losses, which a ranking does not have")
    for slack in method.slacks:
        mask = path.gbmo(slack, n_features=method.n_features, drift_cap=method.drift_cap)
        sizes.setdefault(int(mask.sum()), []).append(slack)
    return sizes


def _check_that_features_matter(
    material: Material, path: EliminationPath, walked: MaskedLoss
) -> None:
    """Refuse a base model to which every mask is the same: what it kept would be arbitrary."""
    if material.keep or any(value != path.unmasked_loss for value in path.losses):
        return
    if walked.without_each().min() != path.unmasked_loss:
        return  # it uses one feature, and that is the one that is left
    odd = "; ".join(material.warnings)
    raise InputError(
        f"model {material.recipe.name} makes no use of any of the {path.n_features} features: "
        f"whichever are masked, its {loss_in_words(material.loss.name)} is "
        f"{path.unmasked_loss:.4g}; "
        + (f"mend what is odd ({odd})" if odd else "give more rows, or another model or loss")
    )
