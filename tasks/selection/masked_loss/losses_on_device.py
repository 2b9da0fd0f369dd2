"""From the outputs of a last layer to sums of losses, on one of torch's devices.

The formulas of `outputs`, element by element. Sums are made by halves, in one order whatever
else is added up at the same time: torch's own order depends on how many sums it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from chaffinch.tasks.selection.losses import PROBABILITY_FLOOR, Loss
from chaffinch.tasks.selection.masked_loss.dense_models import DenseModel
from chaffinch.tasks.selection.masked_loss.outputs import OutputLoss
from chaffinch.tasks.selection.vocabulary import Rows

if TYPE_CHECKING:
    import torch


class LossOnDevice:
    """Weighted sums of losses over blocks of rows.

    Parameters
    ----------
    model : DenseModel
        Its link.
    rows : Rows
        The n rows.
    loss : Loss
        Squared error, absolute error or log loss.
    output_loss : OutputLoss
        Of the same model and rows.
    by_run : callable
        Takes an array (n,) to a tensor (n_runs, rows) on the device, the last row repeated.
    """

    def __init__(
        self,
        model: DenseModel,
        rows: Rows,
        loss: Loss,
        output_loss: OutputLoss,
        by_run: Callable[[NDArray[Any]], torch.Tensor],
    ) -> None:
        self._model, self._loss = model, loss
        self._y, self._position = by_run(rows.y), by_run(output_loss.position)
        self._weight = by_run(output_loss.weight)
        self._n_rows = len(rows)

    def sums(self, outputs: torch.Tensor, run: int, rows_in_block: int) -> torch.Tensor:
        """Return the sums over the blocks of a run, shape (m, blocks).

        Parameters
        ----------
        outputs : tensor of float64, shape (m, width, rows)
            Of m first layers; overwritten.
        run : int
            Number of the run.
        rows_in_block : int
            Divides the number of rows.
        """
        if self._loss.name == "log_loss":
            losses = self._log_losses(outputs, self._position[run])
        else:
            losses = outputs[:, 0].mul_(self._model.scale).add_(self._model.location)
            losses.sub_(self._y[run])
            losses = losses.square_() if self._loss.name == "squared_error" else losses.abs_()
        losses.mul_(self._weight[run])
        losses[:, max(0, self._n_rows - run * losses.shape[1]) :] = 0  # repeats of the last row
        return _sum(losses.reshape(len(losses), -1, rows_in_block), 2)

    def _log_losses(self, outputs: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        if self._model.link == "logistic":
            truth = outputs[:, 0].neg_().exp_().add_(1).reciprocal_()
            truth.sub_((position == 0).to(truth.dtype)).abs_()
        else:
            outputs.sub_(outputs.amax(dim=1, keepdim=True)).exp_()
            index = position.clamp(min=0).expand(len(outputs), 1, -1)
            truth = outputs.gather(1, index)[:, 0].div_(_sum(outputs, 1))
        truth.masked_fill_(position < 0, 0)  # a class that the model has never seen
        return truth.clamp_(PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR).log_().neg_()


def _sum(terms: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return the sum over a dimension, which goes, made by adding one half to the other."""
    import torch

    while terms.shape[dimension] > 1:
        half = terms.shape[dimension] // 2
        first, second, odd = terms.tensor_split((half, 2 * half), dimension)
        terms = first + second
        if odd.shape[dimension]:
            terms = torch.cat((terms, odd), dimension)
    return terms.squeeze(dimension)
