"""One question asked of any trained model: what is the loss when these features are masked.

`masked_loss` picks the fastest engine that gives the losses of the model's own predictions, up to
the order of a sum. What no engine covers goes to `BlackBox`, which only needs a `predict`, and so
does a loss in which XGBoost's own rounding shows, or a forest's unit; the reason is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense import dense_engine
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.masked_loss.trees import tree_engine
from chaffinch.tasks.selection.masked_loss.trees.rounding import check_rounding, check_unit
from chaffinch.tasks.selection.vocabulary import Floats, MaskedLoss, Predictor, Rows

__all__ = ["BlackBox", "MaskEvaluator", "masked_loss"]

logger = logging.getLogger(__name__)

Builder = Callable[[Predictor, Rows, Loss, Floats, int], MaskedLoss]

# By a model's kind: the engines to try, in this order.
_ENGINES: dict[str, tuple[Builder, ...]] = {
    "lightgbm": (tree_engine,),
    "xgboost": (tree_engine,),
    "mlp": (dense_engine,),
    "sklearn": (tree_engine, dense_engine),
    "torch": (dense_engine,),
}


def masked_loss(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the masked loss of a model, by the fastest engine that covers it.

    Parameters
    ----------
    model : Predictor
        Trained on d features.
    rows : Rows
        The n rows whose loss is asked for; X has shape (n, d). They must not change afterwards.
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
    try:
        engine = exact_engine(model, rows, loss, baseline, threads=threads)
        check_unit(engine, rows, loss)
        check_rounding(engine, model, rows, loss)
    except NotCovered as reason:
        logger.info("masked losses of the %s model by one prediction each: %s", model.kind, reason)
        return BlackBox(evaluator)
    logger.info("masked losses of the %s model by %s", model.kind, type(engine).__name__)
    return engine


def exact_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the first exact engine that covers a model; parameters are those of `masked_loss`.

    Raises
    ------
    NotCovered
        If none does; whether its rounding suits the loss is not looked at.
    """
    reasons = []
    for build in _ENGINES.get(model.kind, ()):
        try:
            return build(model, rows, loss, baseline, threads)
        except NotCovered as reason:
            reasons.append(str(reason))
    raise NotCovered("; ".join(reasons) or "no engine knows how it is made")
