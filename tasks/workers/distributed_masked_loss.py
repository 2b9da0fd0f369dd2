"""Masked losses distributed over workers, equal to the local engine's to the last bit.

An engine that sums over rows is distributed by rows: each worker keeps part of them with its state,
and a step transfers a few vectors of sums. A black box is distributed by masks. Other engines, and
those too fast to gain, stay in this process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from chaffinch.tasks.selection.masked_loss.black_box import EvaluateMasks
from chaffinch.tasks.selection.masked_loss.distributed_rows import (
    PartedLoss,
    Request,
    RowPart,
    parts_of,
)
from chaffinch.tasks.selection.masked_loss.row_blocks import PartialSums, RowSums

if TYPE_CHECKING:
    from chaffinch.tasks.workers.dask_map import OverDask

logger = logging.getLogger(__name__)

# Least seconds of a batch of masks, and least seconds saved in a step, that are worth distributing:
# to schedule a batch takes about 15 ms; a step goes directly to the workers, in 3 ms.
_WORTH_A_BATCH, _WORTH_A_STEP = 0.02, 0.005
_ROWS_TO_TIME = 4096  # at least as many as `check_rounding` reads to decide for all rows
_BYTES_A_SECOND = 1e8  # of a gigabit network; local transfers are twice as fast


def spread_masked_loss(
    model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, workers: OverDask
) -> MaskedLoss:
    """Return the masked loss of a model, distributed to the workers where that is faster."""
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    n_timed = min(len(rows), _ROWS_TO_TIME)
    engine = masked_loss(model, rows.take(slice(n_timed)), loss, baseline)
    if isinstance(engine, BlackBox):
        return BlackBox(evaluator, spread_masks(evaluator, workers))
    reason = _reason_to_stay(engine, rows, n_timed, workers)
    if isinstance(engine, RowSums) and not reason:
        parts = parts_of(model, rows, loss, baseline, engine.rows_in_block, workers.n_threads)
        send = workers.for_each(parts)
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        n_blocks = -(-len(rows) // engine.rows_in_block)

        def send_all(request: Request) -> list[PartialSums]:
            return send(RowPart.answer, request)

        def exactly(masks: Mask) -> Floats:
            return evaluator(list(masks))

        loss_of_all = PartedLoss(
            engine, weight, n_blocks, send_all, None if engine.exactly is None else exactly
        )
        try:
            loss_of_all.loss  # noqa: B018 - raises NotCovered early for rows that no engine covers
        except NotCovered as uncovered:
            logger.info("masked losses by one prediction each: %s", uncovered)
            return BlackBox(evaluator, spread_masks(evaluator, workers))
        return loss_of_all
    logger.debug("masked losses stay in this process: %s", reason)
    return engine if n_timed == len(rows) else masked_loss(model, rows, loss, baseline)


def seconds_of_a_step(
    engine: MaskedLoss, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats
) -> float:
    """Return the estimated seconds of all losses by an engine that adds up rows; 0 for others."""
    if not (isinstance(engine, RowSums) and engine.is_summed):
        return 0.0
    n_timed = min(len(rows), _ROWS_TO_TIME)
    if n_timed < len(rows):
        engine = masked_loss(model, rows.take(slice(n_timed)), loss, baseline)
    return len(rows) / n_timed * _measure_seconds(engine)


def _measure_seconds(engine: MaskedLoss) -> float:
    """Return the CPU seconds of all losses, which do not depend on other programs."""
    engine.without_each()  # compile before timing
    start = time.process_time()
    engine.without_each()
    return time.process_time() - start


def _reason_to_stay(engine: MaskedLoss, rows: Rows, n_timed: int, workers: OverDask) -> str:
    """Return why an engine is not worth distributing; "" if it is."""
    if not (isinstance(engine, RowSums) and engine.is_summed):
        return "their engine does not add up rows"
    seconds = len(rows) / n_timed * _measure_seconds(engine)
    logger.debug("a step of masked losses takes about %.1f ms on one thread", 1e3 * seconds)
    if seconds < _WORTH_A_STEP:
        return "that is less than it takes to ask the workers"
    n_threads = workers.n_threads
    gain = seconds * (1 - 1 / n_threads)
    if gain < _WORTH_A_STEP:
        return f"sharing a step out to {n_threads} would gain less than it takes to ask them"
    # an elimination has a step per feature, and the last ones evaluate few
    gain_of_a_walk = gain * rows.X.shape[1] / 2
    if gain_of_a_walk - rows.X.nbytes / _BYTES_A_SECOND < _WORTH_A_STEP:
        return f"sending {rows.X.nbytes / 1e6:.0f} MB would take longer than a walk would gain"
    return ""


def spread_masks(
    evaluator: MaskEvaluator, workers: OverDask, seconds_per_mask: float = 0.0
) -> EvaluateMasks:
    """Return a function that evaluates masks and sends long batches of them to the workers."""
    evaluate_there: Callable[..., list[Any]] | None = None

    def evaluate(masks: Sequence[Mask]) -> Floats:
        nonlocal seconds_per_mask, evaluate_there
        if len(masks) == 1 or seconds_per_mask * len(masks) < _WORTH_A_BATCH:
            start = time.perf_counter()
            losses = evaluator(masks)
            seconds_per_mask = (time.perf_counter() - start) / len(masks)
            return losses
        if evaluate_there is None:
            logger.info("masked losses go to the workers: %.1f ms each", 1e3 * seconds_per_mask)
            evaluate_there = workers.for_batches(evaluator)
        return np.array(evaluate_there(_evaluate, masks))

    return evaluate


def _evaluate(evaluator: MaskEvaluator, masks: list[Mask]) -> list[float]:
    return list(evaluator(masks).tolist())
