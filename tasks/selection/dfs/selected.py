"""What a descent chose, and how it came there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs.state import DescentState
from chaffinch.tasks.selection.vocabulary import Floats


@dataclass(frozen=True, eq=False)
class DifferentiableSelection:
    """Where a descent ended, and its way.

    Attributes
    ----------
    features : ndarray of int, shape (m,)
        Positions of the chosen features, ascending: the requested number with the highest scores,
        of equal ones those further right, constant ones never; or, for a given penalty, all with s
        above 1/2.
    scores : ndarray of float64, shape (D,)
        v; higher is better, above 0 is s above 1/2. -30 for a constant column. Where more than half
        of the columns may stay, little or nothing is held against those of noise, and the order
        says less: what tells much rests at its summit, below s = 1, and others come past it.
    kept : ndarray of float64, shape (D,)
        s = sigma(2 v); next to 0 for a constant column.
    losses : ndarray of float64, shape (steps,)
        Of each step's batch: the estimated share of the target's variance that is left, and the
        penalty.
    sums : ndarray of float64, shape (steps,)
        sum s, before each step.
    penalties : ndarray of float64, shape (steps,)
        lambda, of the term lambda / D sum s.
    state : DescentState
        To go on from.
    """

    features: NDArray[np.int64]
    scores: Floats = field(repr=False)
    kept: Floats = field(repr=False)
    losses: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    penalties: Floats = field(repr=False)
    state: DescentState = field(repr=False)
