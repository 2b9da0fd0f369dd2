"""The distribution of masks: a Bernoulli variable for each feature, moved by losses of samples.

What an iteration does between passes through the network is compiled: as operations of numpy or
torch, call by call, on small arrays, it would take a tenth of an iteration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

Masks = NDArray[np.bool_]

# 1/d would leave two features no room at all: [1/2, 1/2].
_WIDEST_MARGIN = 1 / 3


def margin(n_features: int) -> float:
    """Return how near to 0 and 1 a probability may come: 1/d, so that any mask can be drawn."""
    return min(1 / n_features, _WIDEST_MARGIN)


def sample(probabilities: Floats, n_samples: int, random: np.random.Generator) -> Masks:
    """Draw masks, shape (n_samples, d)."""
    masks: Masks = random.random((n_samples, len(probabilities))) < probabilities
    return masks


@compiled
def utilities(losses: Any) -> Any:
    """Return the worth of each sample's rank among the losses, shape (lambda,) (eq 5).

    1 for the best quarter, rounded up, -1 for the worst, 0 for the others. Samples of equal loss
    share what their ranks are worth, so that a tie moves nothing.
    """
    n = len(losses)
    n_best = (n + 3) // 4
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
def moved(theta: Any, masks: Any, worth: Any, fixed: Any, penalty: float, rate: float) -> Any:
    """Return the probabilities (d,) after a step along the natural gradient (eq 6).

    Masks (lambda, d) of some worth (lambda,) were drawn from theta; fixed (d,) features stay. Of
    two samples that differ in a feature, the sample that has it must win by more than the share
    `penalty` of the contests for its probability to rise. No other comes nearer to 0 and 1 than
    the margin.
    """
    near = min(1 / len(theta), _WIDEST_MARGIN)
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
    """Return the log loss of each mask, (m,), and how the mean of them changes with each output.

    Outputs (n m, n_classes) are the scores of a row under each of its m masks, then those of the
    next row; so are the slopes. The target (n,) holds classes; the losses are means over the rows.
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
    """Return half the squared error of each mask, (m,), and the slopes of their mean, (n, m).

    Outputs (n, m) are values of each row under each mask; the target has shape (n,).
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


def entropy(probabilities: Floats) -> float:
    """Return the mean entropy of the features, in bits."""
    inside = probabilities[(probabilities > 0) & (probabilities < 1)]
    bits = -inside * np.log2(inside) - (1 - inside) * np.log2(1 - inside)
    return float(bits.sum() / max(1, len(probabilities)))


def jaccard(mask: Mask, other: Mask) -> float:
    """Return the Jaccard index of two masks; 1 of two empty ones."""
    either = int((mask | other).sum())
    return int((mask & other).sum()) / either if either else 1.0
