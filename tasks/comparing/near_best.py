"""Of the sizes a method was asked for, the best and the smallest that is about as good.

The rule of one standard error is that of Breiman, Friedman, Olshen and Stone (1984).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.comparing.scores import Scores
from chaffinch.tasks.comparing.statistics import FEWEST_PAIRS, standard_error
from chaffinch.tasks.selection.vocabulary import Floats


@dataclass(frozen=True)
class NearBest:
    """The sizes of one method: the best, and the smallest within one standard error of it.

    `fewest` is the smallest of all that were compared.
    """

    method: str
    best: int
    smallest: int
    fewest: int


def near_best_of(
    scores: Scores, compared: NDArray[np.bool_], shared: NDArray[np.bool_]
) -> Iterator[NearBest]:
    """Yield what to say of each method with two compared sizes or more.

    Parameters
    ----------
    scores : Scores
        Of a table and model.
    compared : ndarray of bool, shape (k,)
        Which contenders are compared at once.
    shared : ndarray of bool, shape (c,)
        Which cells all of these have.
    """
    sized: dict[str, list[tuple[int, int]]] = {}
    for i, (contender, is_compared) in enumerate(zip(scores.contenders, compared, strict=True)):
        if contender.size is not None and is_compared:
            sized.setdefault(contender.method, []).append((contender.size, i))
    for method, of_method in sized.items():
        sizes, rows = zip(*of_method, strict=True)
        if len(sizes) < 2:
            continue
        found = smallest_near_best(
            scores.losses[list(rows)][:, shared], scores.test_share[rows[0], shared]
        )
        if found is not None:
            best, smallest = found
            yield NearBest(method, sizes[best], sizes[smallest], sizes[0])


def smallest_near_best(losses: Floats, test_share: Floats) -> tuple[int, int] | None:
    """Return the best size, and the smallest whose loss is within one standard error of its own.

    Where we depart: Breiman's standard error is that of the best's own mean loss, which holds what
    makes a cell hard for every size. All sizes were scored on the same cells, so it is here that
    of the difference to the best, which spares fewer features. None where fewer than
    `FEWEST_PAIRS` cells have a loss at every size, of which no error is to be trusted.

    Parameters
    ----------
    losses : ndarray, shape (s, c)
        At s sizes, the smallest first, in c cells.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, of each cell.
    """
    shared = np.isfinite(losses).all(axis=0)
    if not len(losses) or shared.sum() < FEWEST_PAIRS:
        return None
    best = int(losses[:, shared].mean(axis=1).argmin())
    for size, excess in enumerate((losses - losses[best])[:, shared]):
        if excess.mean() <= standard_error(excess, test_share[shared]):
            return best, size
    return best, best
