"""The distribution of masks: a Bernoulli variable for each feature, moved by losses of samples.

Everything here is in float64; nothing knows of a network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.pefs.step_kernels import after_step, below, worth_of_ranks
from chaffinch.tasks.selection.vocabulary import Floats, Mask

Masks = NDArray[np.bool_]

# 1/d would leave two features no room at all: [1/2, 1/2].
_WIDEST_MARGIN = 1 / 3


def margin(n_features: int) -> float:
    """Return how near to 0 and to 1 a probability may come: 1/d, so that any mask can be drawn.

    Of two features it is a third.
    """
    return min(1 / n_features, _WIDEST_MARGIN)


def sample(probabilities: Floats, n_samples: int, random: np.random.Generator) -> Masks:
    """Draw masks.

    Parameters
    ----------
    probabilities : ndarray of float64, shape (d,)
        theta: how probable it is that each feature is kept.
    n_samples : int
        lambda.
    random : numpy.random.Generator
        The only source of randomness.

    Returns
    -------
    ndarray of bool, shape (n_samples, d)
    """
    masks: Masks = below(random.random((n_samples, len(probabilities))), probabilities)
    return masks


def utilities(losses: Sequence[float] | Floats) -> Floats:
    """Return what each sample's rank among the losses is worth (eq 5).

    Parameters
    ----------
    losses : sequence or array of float, length lambda, at least 2
        Lower is better.

    Returns
    -------
    ndarray of float64, shape (lambda,)
        1 for the best quarter, rounded up, -1 for the worst, 0 for the others. Samples of equal
        loss share what their ranks are worth, so that a tie moves nothing.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    n_samples = len(losses)
    if n_samples < 2:
        raise ValueError(f"samples must be at least 2, to compare them, but is {n_samples}")
    worth: Floats = worth_of_ranks(np.asarray(losses, np.float64), n_of_the_best(n_samples))
    return worth


def n_of_the_best(n_samples: int) -> int:
    """Return how many samples are worth 1, and how many less 1: a quarter, rounded up."""
    return -(-n_samples // 4)


def moved(
    probabilities: Floats,
    masks: Masks,
    worth: Floats,
    fixed: Mask,
    *,
    penalty: float,
    rate: float,
) -> Floats:
    """Return the probabilities after a step along the natural gradient (eq 6).

    Parameters
    ----------
    probabilities : ndarray of float64, shape (d,)
        theta.
    masks : ndarray of bool, shape (lambda, d)
        Drawn from it.
    worth : ndarray of float64, shape (lambda,)
        Their utilities.
    fixed : ndarray of bool, shape (d,)
        Features whose probability stays as it is.
    penalty : float in 0..1
        epsilon: of two samples that differ in a feature, the one that has it must win by more
        than this share of the contests for its probability to rise.
    rate : float
        eta, the size of a step.

    Returns
    -------
    ndarray of float64, shape (d,)
        No nearer to 0 and 1 than the margin of d features, but for those that are fixed.
    """
    near = margin(len(probabilities))
    after: Floats = after_step(probabilities, masks, worth, fixed, penalty, rate, near)
    return after


def entropy(probabilities: Floats) -> float:
    """Return the mean entropy of the features, in bits: 1 where each may as well go as stay."""
    inside = probabilities[(probabilities > 0) & (probabilities < 1)]
    bits = -inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside)
    return float(bits.sum() / max(1, len(probabilities)))


def jaccard(one: Mask, other: Mask) -> float:
    """Return how many of the features that either mask keeps both keep; 1 of two empty masks."""
    either = int((one | other).sum())
    return int((one & other).sum()) / either if either else 1.0
