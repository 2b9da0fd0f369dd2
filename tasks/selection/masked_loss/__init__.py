"""One question asked of any trained model: what is the loss when these features are masked.

`masked_loss` picks the fastest engine that gives the model's exact numbers. What no engine covers
goes to `BlackBox`, which only needs a `predict`, and the reason is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_models import read_dense
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss, is_least_squares
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.state import NotCovered
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, MaskedLoss, Rows

__all__ = ["BlackBox", "MaskEvaluator", "masked_loss"]

logger = logging.getLogger(__name__)


def masked_loss(
    model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the masked loss of a model, by the fastest engine that covers it.

    Parameters
    ----------
    model : FittedModel
        Trained on d features.
    rows : Rows
        The n rows whose loss is asked for; X has shape (n, d).
    loss : Loss
        How predictions are judged.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.
    threads : int, at least 1
        How many threads an engine may use; changes no number.

    Returns
    -------
    MaskedLoss

    Raises
    ------
    ValueError
        If there are no rows, the baseline does not fit them, or `threads` is below 1.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1 but is {threads}")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    for engine in _ENGINES.get(model.kind, ()):
        try:
            return engine(evaluator, threads)
        except NotCovered as reason:
            logger.info("masked loss by one predict for each mask: %s", reason)
    return BlackBox(evaluator)


def _dense(evaluator: MaskEvaluator, threads: int) -> MaskedLoss:
    if not evaluator.loss.is_mean_over_rows:
        # a rank or a threshold can turn on the last bit, and that is not the model's own here
        raise NotCovered(f"{evaluator.loss.name} is no mean over rows")
    dense = read_dense(evaluator.model)
    if is_least_squares(evaluator, dense):
        return LinearMaskedLoss(evaluator, dense)
    return NetworkMaskedLoss(evaluator, dense, threads=threads)


_Engine = Callable[[MaskEvaluator, int], MaskedLoss]
_ENGINES: Mapping[str, tuple[_Engine, ...]] = {"mlp": (_dense,), "sklearn": (_dense,)}
