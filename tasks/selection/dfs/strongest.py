"""The top singular value of a standardised table, from its products with a few directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from chaffinch.tasks.selection.vocabulary import Floats


@dataclass(frozen=True)
class Effort:
    """When iterations end.

    Attributes
    ----------
    most_iterations : int
        Products with a direction, at most.
    settled : float
        Enough, of the residual over what was found.
    """

    most_iterations: int
    settled: float


EXACTLY = Effort(300, 1e-6)  # two orders of the rows differ by that much at most


def top_singular_value(
    start: Floats,
    multiply: Callable[[Floats], Floats],
    n_used: int,
    effort: Effort,
) -> float:
    """Return the top singular value of U over sqrt(N), slightly high.

    By Lanczos' iterations. The squares of singular values are eigenvalues, and one of them is no
    farther from the value found than the residual is long, which is added. None is above the number
    of columns that vary.

    Parameters
    ----------
    start : ndarray of float64, shape (D,)
        A sum of rows times `random_lengths`, not of columns, whose order must not matter.
    multiply : callable
        From a direction of length 1, shape (D,), to U' U direction / N.
    n_used : int
        How many columns vary.
    effort : Effort
    """
    direction = start
    diagonal: list[float] = []
    beside, before = [float(np.linalg.norm(direction))], np.zeros(len(direction))
    for _ in range(min(effort.most_iterations, n_used)):
        direction = direction / beside[-1]
        image = -(beside[-1] if diagonal else 0.0) * before
        image += multiply(direction)
        diagonal.append(float(np.sum(direction * image)))
        image -= diagonal[-1] * direction
        beside.append(float(np.linalg.norm(image)))
        values, vectors = eigh_tridiagonal(diagonal, beside[1:-1])
        top, residual = float(values[-1]), beside[-1] * abs(float(vectors[-1, -1]))
        if residual <= effort.settled * top:
            break
        before, direction = direction, image
    return float(np.sqrt(min(top + residual, n_used)))


def random_lengths(first: int, n_rows: int) -> Floats:
    """Return random numbers for some rows, shape (n_rows,), the same however rows are cut.

    Parameters
    ----------
    first : int
        How many rows there are before them.
    n_rows : int
    """
    bits = np.random.PCG64(0)
    bits.advance(first)  # one draw for each row
    lengths: Floats = np.random.Generator(bits).random(n_rows) - 0.5
    return lengths
