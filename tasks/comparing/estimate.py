"""How much there is to do, and how long it will take, said before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaffinch.tasks.candidates import sizes_asked_for
from chaffinch.tasks.comparing.cells import Asked, Compared
from chaffinch.tasks.comparing.results import ALL
from chaffinch.tasks.comparing.settings import takes_sizes
from chaffinch.tasks.comparing.trial import Pace, is_counted, pace, pefs_searches
from chaffinch.tasks.mask_settings import AfsBm, Gbmo
from chaffinch.tasks.pefs_settings import Pefs
from chaffinch.tasks.refit_settings import ParticleSwarm, Rfe, Rfecv, RobustElimination, Sequential
from chaffinch.tasks.selection.rivals.elimination_by_refits import sizes_on_the_way
from chaffinch.tasks.selection.rivals.sequential import n_refits_backward, n_refits_forward
from chaffinch.tasks.selection.robust_elimination import n_stages, sizes_down
from chaffinch.tasks.settings import Method

# Of AFS-BM, for each slack: a few rounds mask nearly all that can go.
_TRAININGS_OF_A_WALK = 6


@dataclass(frozen=True)
class Estimate:
    """What is still to do.

    Attributes
    ----------
    cells, selections, fits : int
        Fits of models are counted roughly, and each search by PEFS, which trains a network of its
        own, is one; keeping every feature is no selection.
    seconds : float
        Until it is done, from the time of a few fits and small searches for each table and model.
    """

    cells: int
    selections: int
    fits: int
    seconds: float

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"To do: {self.selections:,} selections in {self.cells:,} cells, about "
            f"{self.fits:,} fits of models, about {_in_words(self.seconds)}."
        )


def estimate(compared: Compared, asked: Sequence[Asked], n_workers: int) -> Estimate:
    """Count what is to do, and try what it takes for each table and model.

    Parameters
    ----------
    compared : Compared
        What is compared.
    asked : sequence of Asked
        What is to do.
    n_workers : int
        How many cells are measured at a time.
    """
    alike: dict[tuple[int, int], list[Asked]] = {}
    for one in asked:
        alike.setdefault((one.cell.table, one.cell.model), []).append(one)
    selections = fits = 0
    seconds = 0.0
    for several in alike.values():
        methods = dict.fromkeys(name for one in several for name in one.methods)
        tried = pace(compared, several[0].cell, list(methods))
        for one in several:
            selections += sum(compared.plan.method(name) is not None for name in one.methods)
            n_fits, of_cell = _of_cell(compared, one, tried)
            fits += n_fits
            seconds += of_cell
    return Estimate(len(asked), selections, fits, seconds / min(n_workers, len(asked)))


def _of_cell(compared: Compared, asked: Asked, tried: Pace) -> tuple[int, float]:
    """Return how many fits a cell takes, and how many seconds."""
    plan = compared.plan
    settings = plan.selection(asked.cell)
    n_features = len(plan.sources[asked.cell.table].description.features)
    n_folds = settings.model.folds
    n_tuning = tried.n_candidates * n_folds if tried.n_candidates > 1 else 0
    in_a_fold = 1 - 1 / n_folds  # of the rows
    n_fits, seconds = n_tuning + 1, tried.fit * (n_tuning * in_a_fold + 1)
    for name in asked.methods:
        method = plan.method(name)
        if method is not None:
            n_searched = _fits_of(method, n_features, n_folds, n_tuning)
            if isinstance(method, Pefs):
                n_searched += sum(pefs_searches(plan, asked.cell, method))
            if is_counted(method):
                of_robust = 2 * tried.refit_rows * in_a_fold  # masked copies, of more rows
                each = of_robust if isinstance(method, RobustElimination) else 1.0
                seconds += n_searched * each * tried.fit_on(_share_of(method, n_features))
            else:
                seconds += tried.searches.get(name, 0.0)
        elif name == ALL:
            n_searched = 0
        else:
            continue
        n_scored = 1
        if method is not None and takes_sizes(method):
            n_scored += len(plan.sizes(asked.cell.table))
        n_fits += n_searched + n_scored
        seconds += n_scored * tried.refit_rows * tried.fit
    return n_fits, seconds


def _fits_of(method: Method, n_features: int, n_folds: int, n_tuning: int) -> int:
    """Return how often a search and the choice from what it finds fit a model, at most.

    Of AFS-BM nobody knows the most; it is about what it takes.
    """
    if isinstance(method, Gbmo):
        return len(method.slacks)
    if isinstance(method, AfsBm):
        n_fits = 1 + (n_tuning if method.tune_every_round else 0)
        return len(method.slacks) * (_TRAININGS_OF_A_WALK * n_fits + 1)
    if isinstance(method, ParticleSwarm):
        return method.individuals * method.generations
    if isinstance(method, Rfecv):
        return (n_folds + 1) * len(sizes_on_the_way(n_features, 1, method.step))
    if isinstance(method, Pefs):
        return len(method.n_features or method.penalties or ())
    n_sizes = len(method.n_features or ())
    if isinstance(method, RobustElimination):
        n_found = 0 if method.n_features else len(sizes_down(n_features, 1))
        return n_sizes + n_folds * (n_stages(n_features, 1) + n_found)
    if isinstance(method, Rfe):
        return n_sizes + len(sizes_on_the_way(n_features, 1, method.step))
    if isinstance(method, Sequential):
        sizes = sizes_asked_for(method, n_features, 1)
        if method.kind == "sequential_forward":
            return n_sizes + n_refits_forward(n_features, max(sizes), 0)
        return n_sizes + n_refits_backward(n_features, min(sizes), 0)
    return n_sizes


def _share_of(method: Method, n_features: int) -> float:
    """Return which share of the columns a search's fits have, on average."""
    if isinstance(method, Rfe | Rfecv):
        sizes = sizes_on_the_way(n_features, 1, method.step)
        return sum(sizes) / len(sizes) / n_features
    if isinstance(method, Sequential):
        asked = sizes_asked_for(method, n_features, 1)
        is_forward = method.kind == "sequential_forward"
        ends = (0, max(asked)) if is_forward else (min(asked), n_features)
        return sum(ends) / 2 / n_features
    if isinstance(method, RobustElimination):
        n = n_stages(n_features, 1)
        return sum(0.25**stage for stage in range(n)) / max(n, 1)
    return 0.5 if isinstance(method, ParticleSwarm) else 1.0


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
