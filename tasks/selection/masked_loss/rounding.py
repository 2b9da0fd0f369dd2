"""How small a loss may be before an engine's own rounding shows in it.

An engine rounds at the size of the terms that it adds and subtracts: a forest at the unit of its
largest values, a network at the terms that masking removes. One huge value can be far larger than
all that is left of an ordinary row without it. So for each question an engine bounds the error per
row, and these errors are averaged as the loss itself is. As the means of squared and of absolute
errors have the triangle inequality, a loss larger than that mean by a fixed factor is accurate to
`MOST_ROUNDING`, for any mask. A smaller loss is computed in another way. Comparing each returned
loss is cheap, and holds for every later mask; the model with every feature kept would not show it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.losses import Loss

MOST_ROUNDING = 5e-10  # of the size of a loss's errors; of squared ones twice as much
_MOST_OF_A_CLASS = 5e-12  # half of the reach within which `settle_ties` asks the model
_MOST_LOG_LOSS = 37.0  # of a probability of nothing, which counts as float64's epsilon


def of_rows(loss: str, errors: Floats) -> Floats:
    """Return how far off rows' losses may be, from how far off their scores may be."""
    if loss == "squared_error":
        with np.errstate(over="ignore"):  # nothing is sure then
            return np.square(errors)
    if loss == "absolute_error":
        return errors
    # A small error changes a row's log loss by that share of it, and none does by more than all.
    # Of a softmax two scores are compared, each with an error of its own.
    return np.where(2 * errors > MOST_ROUNDING, np.minimum(2 * errors, _MOST_LOG_LOSS), 0)


def shows(
    rounding: float, loss: Loss, prediction: Floats, y: NDArray[np.float64] | NDArray[np.int64]
) -> bool:
    """Return whether an error of that size in every row may show in a loss.

    `prediction` is that under the mask in question. For a scorer of numbers, whose formula is not
    known, it is compared with the median row's error, and the smallest value but 0.
    """
    if loss.task == "classification":
        return rounding > _MOST_OF_A_CLASS
    errors = np.abs(prediction - y)
    if loss.is_mean_over_rows:
        typical = np.mean(of_rows(loss.name, errors))
    else:  # a score may be relative to a row's own value, however small
        sizes = np.abs(np.concatenate([prediction, y]))
        typical = min(np.median(errors), np.min(sizes[sizes > 0], initial=np.inf))
    root = 2 if loss.name == "squared_error" else 1
    return bool(rounding > MOST_ROUNDING * typical ** (1 / root))


def least_loss(loss: str, mean: Floats) -> Floats:
    """Return the least loss in which rounding does not show, from the mean of `of_rows`."""
    return mean / MOST_ROUNDING ** (2 if loss == "squared_error" else 1)
