"""The engine of a network or a linear model: the Gram matrix where it answers, else the layers."""

from __future__ import annotations

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_models import read_dense
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss, is_least_squares
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.vocabulary import Floats, MaskedLoss, Predictor, Rows


def dense_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, threads: int
) -> MaskedLoss:
    """Return the masked loss of a network or a linear model; see `masked_loss`.

    Raises
    ------
    NotCovered
        If the model is neither, prepares its columns in a way that is not known here, or the
        loss is no mean over rows.
    """
    if not loss.is_mean_over_rows:
        # a rank or a threshold can turn on the last bit, and that is not the model's own here
        raise NotCovered(f"{loss.name} is no mean over rows")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    dense = read_dense(model)
    if is_least_squares(evaluator, dense):
        return LinearMaskedLoss(evaluator, dense)
    return NetworkMaskedLoss(evaluator, dense, threads=threads)
