"""What a search found, and the masks that its settings read off it, to be chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaffinch.tasks.selection.afs_bm import MaskingWalks
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath, FoundMasks
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.core import Mask, mask_of_size
from chaffinch.tasks.selection.pefs.results import ProbabilisticSearches
from chaffinch.tasks.settings.methods import (
    ByScore,
    Gbmo,
    ParticleSwarm,
    Reselect,
    Rfecv,
    RobustElimination,
)
from chaffinch.tasks.settings.selection import Method

# A CrossValidatedPath is a RankedPath.
Path = EliminationPath | MaskingWalks | RankedPath | FoundMasks | ProbabilisticSearches


@dataclass(frozen=True)
class Candidate:
    """A mask that stands for choice.

    Attributes
    ----------
    mask : ndarray of bool, shape (d,)
    settings : sequence of float
        Slacks (GBMO), penalties (PEFS), a lowest score or sizes asked for that led to it; empty
        where the search itself did.
    """

    mask: Mask
    settings: Sequence[float]


def candidates(path: Path, method: Method | Reselect) -> list[Candidate]:
    """Return the masks that a method's settings lead to, the smallest first.

    Raises
    ------
    ValueError
        If the path is not one that the method walks.
    """
    if isinstance(path, MaskingWalks):
        return _ends(path)
    if isinstance(path, FoundMasks) and isinstance(method, ParticleSwarm | Reselect):
        return [Candidate(path.masks[-1], [])]
    if isinstance(method, Reselect):
        raise ValueError("a reselection reads its mask off refits, which other paths do not have")
    if isinstance(path, ProbabilisticSearches):
        return _of_searches(path, method)
    if isinstance(path, FoundMasks):
        sizes = sizes_asked_for(method, path.n_features, int(path.masks[0].sum()))
        return [Candidate(path.of_size(size), sizes[size]) for size in sorted(sizes)]
    sizes = _sizes(path, method)
    return [
        Candidate(mask_of_size(path.n_features, path.removed, size), sizes[size])
        for size in sorted(sizes)
    ]


def _ends(path: MaskingWalks) -> list[Candidate]:
    """Return the masks at which walks ended, and the slacks that led to each."""
    return _each_once([(walk.mask, [walk.slack]) for walk in path.walks])


def _of_searches(path: ProbabilisticSearches, method: Method) -> list[Candidate]:
    """Return the masks that penalties led to, or those of the sizes asked for."""
    settings: dict[float | int, list[float]] = {asked: [asked] for asked in path.asked}
    if method.n_features is not None:
        fewest = min(int(asked) for asked in path.asked)
        settings.update(sizes_asked_for(method, path.n_features, fewest).items())
    return _each_once([(path.mask(asked), settings[asked]) for asked in path.asked])


def _each_once(found: Sequence[tuple[Mask, list[float]]]) -> list[Candidate]:
    """Return each mask once, the smallest first, with all settings that led to it."""
    masks: dict[bytes, Mask] = {}
    settings: dict[bytes, list[float]] = {}
    for mask, led in found:
        masks[mask.tobytes()] = mask
        settings.setdefault(mask.tobytes(), []).extend(led)
    return [
        Candidate(mask, settings[key])
        for key, mask in sorted(masks.items(), key=lambda item: int(item[1].sum()))
    ]


def sizes_asked_for(method: Method, n_features: int, fewest: int) -> dict[int, list[float]]:
    """Return the sizes of a method that is told some, and what was asked for to lead to each."""
    if not isinstance(method.n_features, tuple):
        raise ValueError(f"{method.kind} is not told its sizes")
    sizes: dict[int, list[float]] = {}
    for asked in method.n_features:
        size = asked if isinstance(asked, int) else round(asked * n_features)
        sizes.setdefault(max(size, fewest), []).append(asked)
    return sizes


def _sizes(path: EliminationPath | RankedPath, method: Method) -> dict[int, list[float]]:
    """Return the sizes on a path of removals that the settings lead to, and which lead to each."""
    if isinstance(method, ByScore) and method.min_score is not None:
        if not isinstance(path, RankedPath):
            raise ValueError("a lowest score is for a ranking, which masked losses are not")
        return {path.size_at(method.min_score): [method.min_score]}
    if isinstance(path, CrossValidatedPath):
        return {_best_size(path, method): []}
    if not isinstance(method, Gbmo):
        return sizes_asked_for(method, path.n_features, path.n_features - len(path.removed))
    if not isinstance(path, EliminationPath):
        raise ValueError("gbmo reads masks off masked losses, which a ranking does not have")
    sizes: dict[int, list[float]] = {}
    for slack in method.slacks:
        mask = path.gbmo(slack, n_features=method.n_features, drift_cap=method.drift_cap)
        sizes.setdefault(int(mask.sum()), []).append(slack)
    return sizes


def _best_size(path: CrossValidatedPath, method: Method) -> int:
    """Return the size that cross-validated losses speak for."""
    if not isinstance(method, Rfecv | RobustElimination):
        raise ValueError(f"{method.kind} reads no size off cross-validated losses")
    at_most = method.n_features if isinstance(method, Rfecv) else None
    return path.best_size(
        at_most=at_most, within_one_standard_error=method.within_one_standard_error
    )
