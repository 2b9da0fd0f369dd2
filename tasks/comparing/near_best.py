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

    Attributes
    ----------
    method : str
        Whose they are.
    best : int
        The size with the lowest mean loss.
    smallest : int
        The smallest that is near it; see `smallest_near_best`.
    fewest : int
        The smallest of all that were compared.
    beats_constant : bool or None
        Whether the best has a lower mean loss than a constant; None where that is not known.
    """

    method: str
    best: int
    smallest: int
    fewest: int
    beats_constant: bool | None


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
        losses, constant = scores.losses[list(rows)][:, shared], scores.constant[shared]
        found = smallest_near_best(losses, scores.test_share[rows[0], shared], constant)
        if found is not None:
            best, smallest = found
            is_better = beats(losses[best], constant)
            yield NearBest(method, sizes[best], sizes[smallest], sizes[0], is_better)


def smallest_near_best(
    losses: Floats, test_share: Floats, constant: Floats
) -> tuple[int, int] | None:
    """Return the best size, and the smallest whose loss is within one standard error of its own.

    Breiman's standard error is that of the best's own mean loss, which also holds what makes a
    cell hard for every size; that of the difference to the best does not, but spares a size much
    that is very unsteady. So neither may be exceeded. No size is spared either that does no better
    than a constant, which looks at no feature. None where fewer than `FEWEST_PAIRS` cells have a
    loss at every size, of which no error is to be trusted.

    Parameters
    ----------
    losses : ndarray, shape (s, c)
        At s sizes, the smallest first, in c cells.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, of each cell.
    constant : ndarray, shape (c,)
        Losses of a constant; NaN where there is none.
    """
    shared = np.isfinite(losses).all(axis=0)
    if not len(losses) or shared.sum() < FEWEST_PAIRS:
        return None
    best = int(losses[:, shared].mean(axis=1).argmin())
    share, own = test_share[shared], losses[best, shared]
    for size, of_size in enumerate(losses[:best, shared]):
        excess = of_size - own
        error = min(standard_error(own, share), standard_error(excess, share))
        if excess.mean() <= error and beats(of_size, constant[shared]) is not False:
            return best, size
    return best, best


def beats(losses: Floats, constant: Floats) -> bool | None:
    """Return whether losses are on average below a constant's; None where no cell has both.

    Parameters
    ----------
    losses, constant : ndarray, shape (c,)
        Of the same cells; NaN where there is none.
    """
    excess = losses - constant
    known = np.isfinite(excess)
    return bool(excess[known].mean() < 0) if known.any() else None
