"""Rows whose rank or class turns on the last bit of a sum: the model itself is asked about them.

The engine's sums are exact, a library's are rounded as it goes, so that two scores which tie in one
may differ by a bit in the other. Of a mean over rows that is a rounding like any other. A scorer of
classes however counts who comes first. So wherever two probabilities of a class, or the two
likeliest classes of a row, are nearer than rounding reaches, the model's own predictions of these
rows take the place of the engine's; all other rows keep their places whatever the last bits are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.models import XGBoostModel
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Predictor, Rows

Settle = Callable[[Floats, Mask], Floats]

# More than twice what a probability is off by: of sums in float64, and of XGBoost's in float32.
_REACH, _REACH_IN_SINGLE_PRECISION = 1e-11, 1e-5


def settle_ties(model: Predictor, rows: Rows, loss: Loss, baseline: Floats) -> Settle | None:
    """Return what makes the probabilities under a mask rank as the model's own do.

    Parameters
    ----------
    model, rows, loss, baseline
        See `masked_loss`.

    Returns
    -------
    callable or None
        Takes probabilities (n, n_classes) and a mask (d,) to probabilities; None where no rank
        and no class counts.
    """
    if loss.is_mean_over_rows or loss.task != "classification":
        return None
    reach = _REACH_IN_SINGLE_PRECISION if isinstance(model, XGBoostModel) else _REACH

    def settled(prediction: Floats, mask: Mask) -> Floats:
        near = np.flatnonzero(_is_near(prediction, reach))
        if len(near):
            prediction[near] = model.predict(np.where(mask, rows.X[near], baseline))
        return prediction

    return settled


def _is_near(prediction: Floats, reach: float) -> Mask:
    """Return the rows, shape (n,), of which a probability is near another that it is told from."""
    in_order = np.sort(prediction, axis=1)  # any two classes may be told apart, as by a top three
    near: Mask = np.diff(in_order, axis=1).min(axis=1) <= reach
    for probability in prediction.T:
        order = np.argsort(probability)
        is_close = np.diff(probability[order]) <= reach
        near[order[1:][is_close]] = near[order[:-1][is_close]] = True
    return near
