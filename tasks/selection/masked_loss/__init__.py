"""One question asked of any trained model: what is the loss when these features are masked.

`masked_loss` picks the engine: an exact one that knows how the model is made, where there is one,
and else one prediction per mask. All give the losses of the model's own predictions, up to the
order of a sum.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_models import read_dense
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss, is_least_squares
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.masked_loss.trees import tree_engine
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, MaskedLoss, Rows

__all__ = ["BlackBox", "MaskEvaluator", "masked_loss"]

logger = logging.getLogger(__name__)


def masked_loss(
    model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the masked loss of a trained model, by the fastest engine that is exact for it.

    Parameters
    ----------
    model : FittedModel
        Trained on d features.
    rows : Rows
        The n rows whose loss is asked for; X has shape (n, d). They must not change afterwards.
    loss : Loss
        How predictions are judged.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to, finite.
    threads : int, at least 1
        Threads of an exact engine; they never change a bit of the result.

    Returns
    -------
    MaskedLoss

    Raises
    ------
    ValueError
        If there is no row, the baseline does not fit, or `threads` is below 1.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1 but is {threads}")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    reasons = []
    for engine in _ENGINES.get(model.kind, ()):
        try:
            return engine(evaluator, threads)
        except NotCovered as reason:
            reasons.append(str(reason))
    logger.info(
        "masked losses of the %s model by one prediction each: %s",
        model.kind,
        "; ".join(reasons) or "no engine knows how it is made",
    )
    return BlackBox(evaluator)


def _trees(evaluator: MaskEvaluator, threads: int) -> MaskedLoss:
    return tree_engine(evaluator.model, evaluator.rows, evaluator.loss, evaluator.baseline, threads)


def _dense(evaluator: MaskEvaluator, threads: int) -> MaskedLoss:
    if not evaluator.loss.is_mean_over_rows:
        # a rank or a threshold can turn on the last bit, and that is not the model's own here
        raise NotCovered(f"{evaluator.loss.name} is no mean over rows")
    dense = read_dense(evaluator.model)
    if is_least_squares(evaluator, dense):
        return LinearMaskedLoss(evaluator, dense)
    return NetworkMaskedLoss(evaluator, dense, threads=threads)


_Engine = Callable[[MaskEvaluator, int], MaskedLoss]

# By a model's kind: the engines to try, in this order.
_ENGINES: Mapping[str, tuple[_Engine, ...]] = {
    "lightgbm": (_trees,),
    "xgboost": (_trees,),
    "mlp": (_dense,),
    "sklearn": (_trees, _dense),
}
