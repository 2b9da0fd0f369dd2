"""One question to any trained model: what is the loss when these features are masked.

`masked_loss` picks the fastest engine that gives the losses of the model's own predictions, up to
the order of a sum. What no engine covers goes to `BlackBox`, which only needs a `predict`, and so
does a loss in which XGBoost's own rounding shows, or a forest's unit; the reason is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from chaffinch.errors import InputError, NotCovered
from chaffinch.tasks.selection.core import Floats, MaskedLoss, Predictor, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss, is_least_squares
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.trees.engine import (
    check_rounding,
    check_unit,
    tree_engine,
)

__all__ = ["BlackBox", "MaskEvaluator", "masked_loss"]


# In these `without_each` takes the time of as many masks as features are kept; a forest and the
# Gram matrix of a linear model answer all features sooner than a mask.
_BY_MASK = (BlackBox, NetworkMaskedLoss)


def losses_ahead(engine: MaskedLoss, waiting: Sequence[int], n_sure: int) -> dict[int, float]:
    """Return feature -> loss of masking it too, for the next of `waiting` kept features.

    The first `n_sure` are answered where each costs a mask of its own, else all.
    """
    if not isinstance(engine, _BY_MASK):
        losses = engine.without_each()
        return {feature: float(losses[feature]) for feature in waiting}
    some = list(waiting[:n_sure])
    masks = np.repeat(engine.mask[np.newaxis], len(some), axis=0)
    masks[np.arange(len(some)), some] = False
    return dict(zip(some, engine(masks).tolist(), strict=True))


def dense_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, threads: int
) -> MaskedLoss:
    """Return the masked loss of a network or a linear model; NotCovered if there is none."""
    dense = model.dense()
    if not loss.is_mean_over_rows:
        # a rank or a threshold can turn on the last bit, and that is not the model's own here
        raise NotCovered(f"{loss.name} is no mean over rows")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    if is_least_squares(evaluator, dense):
        return LinearMaskedLoss(evaluator, dense)
    return NetworkMaskedLoss(evaluator, dense, threads=threads)


logger = logging.getLogger(__name__)


def masked_loss(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the masked loss of a model, by the fastest engine that covers it.

    `rows` (n, d) must not change afterwards. `baseline` (d,) is what a masked feature is set to.
    `threads` changes no number. Raises InputError for no rows, or arguments that do not fit.
    """
    if threads < 1:
        raise InputError(f"threads must be at least 1 but is {threads}")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    try:
        engine = exact_engine(model, rows, loss, baseline, threads=threads)
        check_unit(engine, rows, loss)
        check_rounding(engine, model, rows, loss)
    except NotCovered as reason:
        logger.info("masked losses of the %s model by one prediction each: %s", model.kind, reason)
        return BlackBox(evaluator)
    logger.debug("masked losses of the %s model by %s", model.kind, type(engine).__name__)
    return engine


def exact_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, *, threads: int = 1
) -> MaskedLoss:
    """Return the first exact engine that covers a model, whatever its rounding; else NotCovered."""
    reasons = []
    for build in (tree_engine, dense_engine):
        try:
            return build(model, rows, loss, baseline, threads)
        except NotCovered as reason:
            reasons.append(str(reason))
    raise NotCovered("; ".join(filter(None, reasons)) or "no engine knows how it is made")
