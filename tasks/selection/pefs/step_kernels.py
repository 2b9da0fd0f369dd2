"""What an iteration does between passes through the network, compiled.

The arrays are small: as operations of numpy or torch, one by one, they would cost more to call than
to compute, and in all a tenth of an iteration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled


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
    """Return what each loss is worth, as `distribution.utilities` says.

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
    """Return the probabilities after a step, as `distribution.moved` says.

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
