"""The distribution of masks: a Bernoulli variable for each feature, moved by losses of samples.

Everything here is in float64; nothing knows of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# What an iteration does between passes through the network, compiled.
#
# The arrays are small: as operations of numpy or torch, one by one, they would cost more to call
# than to compute, and in all a tenth of an iteration.


@compiled
def below(uniforms: Any, theta: Any) -> Any:
    """Return masks (m, d): where uniforms (m, d) are below the probabilities theta (d,)."""
    masks = np.empty(uniforms.shape, np.bool_)
    for i in range(len(uniforms)):
        for j in range(len(theta)):
            masks[i, j] = uniforms[i, j] < theta[j]
    return masks


@compiled
def of_columns(masks: Any, feature_of_column: Any) -> Any:
    """Return masks (m, d) column by column, float32 (m, width): 1 where the feature is kept."""
    kept = np.empty((len(masks), len(feature_of_column)), np.float32)
    for i in range(len(masks)):
        for column in range(len(feature_of_column)):
            kept[i, column] = masks[i, feature_of_column[column]]
    return kept


@compiled
def worth_of_ranks(losses: Any, n_best: int) -> Any:
    """Return the utility of each loss; see `utilities`.

    It is the worth of the ranks above the losses that are lower than it, shared with its equals.

    Parameters
    ----------
    losses : ndarray of float64, shape (m,)
    n_best : int
        So many are worth 1, and so many less 1.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    n = len(losses)
    n_before_worst = n - n_best
    worth = np.empty(n)
    for i in range(n):
        lower, equal = 0, 0
        for k in range(n):
            lower += losses[k] < losses[i]
            equal += losses[k] == losses[i]
        last = lower + equal
        best = min(last, n_best) - min(lower, n_best)
        worst = max(last - n_before_worst, 0) - max(lower - n_before_worst, 0)
        worth[i] = (best - worst) / equal
    return worth


@compiled
def after_step(
    theta: Any, masks: Any, worth: Any, fixed: Any, penalty: float, rate: float, near: float
) -> Any:
    """Return the probabilities after a step; see `moved`.

    Parameters
    ----------
    theta, masks, worth, fixed, penalty, rate
        See there.
    near : float
        No nearer to 0 and to 1 than this.

    Returns
    -------
    ndarray of float64, shape (d,)
    """
    after = np.empty(len(theta))
    for j in range(len(theta)):
        after[j] = theta[j]
        if fixed[j]:
            continue
        gradient = 0.0
        for i in range(len(worth)):
            gradient += worth[i] * (np.float64(masks[i, j]) - theta[j])
        gradient = gradient / len(worth) - penalty * theta[j] * (1 - theta[j])
        after[j] = min(max(theta[j] + rate * gradient, near), 1 - near)
    return after


@compiled
def log_losses(outputs: Any, target: Any, weight: Any, n_masks: int) -> tuple[Any, Any]:
    """Return the log loss of each mask, and how the mean of them all changes with each output.

    Parameters
    ----------
    outputs : ndarray of float32, shape (n m, n_classes)
        Scores of a row under each of its m masks, then those of the next row.
    target : ndarray of int64, shape (n,)
        Classes.
    weight : ndarray of float32, shape (n,), or None
        Sample weights.
    n_masks : int
        m.

    Returns
    -------
    losses : ndarray of float64, shape (m,)
        Means over the rows.
    slopes : ndarray of float32, shape (n m, n_classes)
    """
    n, n_classes = outputs.shape
    losses, slopes = np.zeros(n_masks), np.empty(outputs.shape, np.float32)
    for i in range(n):
        share = 1.0 if weight is None else np.float64(weight[i // n_masks])
        highest, total, own = outputs[i, 0], np.float32(0), target[i // n_masks]
        for k in range(1, n_classes):
            highest = max(highest, outputs[i, k])
        for k in range(n_classes):
            slopes[i, k] = np.exp(outputs[i, k] - highest)
            total += slopes[i, k]
        losses[i % n_masks] += share * (np.log(total) + highest - outputs[i, own])
        scale = np.float32(share / n)
        for k in range(n_classes):
            slopes[i, k] *= scale / total
        slopes[i, own] -= scale
    return losses / (n // n_masks), slopes


@compiled
def squared_losses(outputs: Any, target: Any, weight: Any) -> tuple[Any, Any]:
    """Return half the squared error of each mask, and how their mean changes with each output.

    Parameters
    ----------
    outputs : ndarray of float32, shape (n, m)
        The value of each row under each mask.
    target : ndarray of float32, shape (n,)
        Values.
    weight : ndarray of float32, shape (n,), or None
        Sample weights.

    Returns
    -------
    losses : ndarray of float64, shape (m,)
        Means over the rows.
    slopes : ndarray of float32, shape (n, m)
    """
    n, n_masks = outputs.shape
    losses, slopes = np.zeros(n_masks), np.empty(outputs.shape, np.float32)
    for i in range(n):
        share = 1.0 if weight is None else np.float64(weight[i])
        for k in range(n_masks):
            excess = np.float64(outputs[i, k]) - target[i]
            losses[k] += 0.5 * share * excess * excess
            slopes[i, k] = share * excess / (n * n_masks)
    return losses / n, slopes


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
    worth: Floats = worth_of_ranks(np.asarray(losses, np.float64), -(-n_samples // 4))
    return worth


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
