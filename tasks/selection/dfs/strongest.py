"""The top singular value of a standardised table, from its products with a few directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from chaffinch.tasks.selection.vocabulary import Floats

_MOST_ITERATIONS, _SETTLED = 20, 1e-4


def top_singular_value(
    start: Floats,
    multiply: Callable[[Floats], Floats],
    n_used: int,
    most_iterations: int = _MOST_ITERATIONS,
) -> float:
    """Return the top singular value of U over sqrt(N), slightly high.

    By Lanczos' iterations. The squares of singular values are eigenvalues, and one of them is no
    farther from the value found than the residual is long, which is added. None is above the number
    of columns that vary.

    Parameters
    ----------
    start : ndarray of float64, shape (D,)
        A sum of rows times random numbers, not of columns, whose order must not matter.
    multiply : callable
        From a direction of length 1, shape (D,), to U' U direction / N.
    n_used : int
        How many columns vary.
    most_iterations : int
        Products with a direction, if it does not settle before.
    """
    direction = start
    diagonal: list[float] = []
    beside, before = [float(np.linalg.norm(direction))], np.zeros(len(direction))
    for _ in range(min(most_iterations, n_used)):
        direction = direction / beside[-1]
        image = -(beside[-1] if diagonal else 0.0) * before
        image += multiply(direction)
        diagonal.append(float(np.sum(direction * image)))
        image -= diagonal[-1] * direction
        beside.append(float(np.linalg.norm(image)))
        values, vectors = eigh_tridiagonal(diagonal, beside[1:-1])
        top, residual = float(values[-1]), beside[-1] * abs(float(vectors[-1, -1]))
        if residual <= _SETTLED * top:
            break
        before, direction = direction, image
    return float(np.sqrt(min(top + residual, n_used)))
