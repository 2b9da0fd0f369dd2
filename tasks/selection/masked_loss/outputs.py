"""From the outputs of a last layer to losses, in the model's and the loss's own arithmetic.

The same formulas as the model's `predict` and `Loss.per_row`, for many maskings of a block of
rows at once. Where a probability is 1 minus another, it is so here too: a more exact one would
give other losses than the model's predictions do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.losses import PROBABILITY_FLOOR, Loss
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_models import DenseModel
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

_ROWS_TO_CHECK, _AGREEMENT = 256, 1e-9


class OutputLoss:
    """Losses of n rows, given outputs.

    Parameters
    ----------
    model : DenseModel
        Its link, and the classes its outputs stand for.
    rows : Rows
        Truth and weights of n rows.
    schema : Schema
        The number of classes in all.
    loss : Loss
        A mean over rows.

    Attributes
    ----------
    weight : ndarray of float64, shape (n,)
        Of the rows; ones where they have none.
    position : ndarray of int64, shape (n,)
        Of each row's class among the outputs' classes, -1 if it is none; all 0 for regression.
    """

    def __init__(self, model: DenseModel, rows: Rows, schema: Schema, loss: Loss) -> None:
        self._model, self._y, self._loss = model, rows.y, loss
        self._n_classes = schema.n_classes
        self.weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        self.position = np.zeros(len(rows), dtype=np.int64)
        if schema.n_classes:
            position = np.full(schema.n_classes, -1)
            position[model.classes] = np.arange(len(model.classes))
            self.position = position[rows.y.astype(np.int64)]

    def prediction(self, outputs: Floats) -> Floats:
        """Return what the model would predict: (n,) or (n, n_classes), of outputs (width, n)."""
        model = self._model
        if model.link == "identity":
            return np.asarray(model.location + model.scale * outputs[0])
        prediction = np.zeros((outputs.shape[1], self._n_classes))
        if model.link == "logistic":
            second = _logistic(outputs[0])
            prediction[:, model.classes] = np.column_stack((1 - second, second))
        else:
            exponentials = np.exp(outputs - outputs.max(axis=0))
            prediction[:, model.classes] = (exponentials / exponentials.sum(axis=0)).T
        return prediction

    def sums(self, outputs: Floats, rows: slice) -> Floats:
        """Return the weighted sums of a block of rows' losses.

        Parameters
        ----------
        outputs : ndarray, shape (m, width, rows)
            For m maskings; overwritten.
        rows : slice
            The block.

        Returns
        -------
        ndarray of float64, shape (m,)
        """
        if self._loss.name == "log_loss":
            losses = self._log_losses(outputs, self.position[rows])
        else:
            losses = outputs[:, 0]
            losses *= self._model.scale
            losses += self._model.location
            losses -= self._y[rows]
            if self._loss.name == "squared_error":
                np.square(losses, out=losses)
            else:
                np.abs(losses, out=losses)
        losses *= self.weight[rows]
        return np.asarray(losses.sum(axis=1))

    def _log_losses(self, outputs: Floats, position: NDArray[np.int64]) -> Floats:
        if self._model.link == "logistic":
            truth = _logistic(outputs[:, 0])
            truth -= position == 0
            np.abs(truth, out=truth)  # p, or 1 - p where the first class is true
        else:
            outputs -= outputs.max(axis=1, keepdims=True)
            np.exp(outputs, out=outputs)
            truth = outputs[:, position, np.arange(len(position))]
            truth /= outputs.sum(axis=1)
        truth[:, position < 0] = 0  # a class that the model has never seen
        np.clip(truth, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR, out=truth)
        np.log(truth, out=truth)
        return np.asarray(np.negative(truth, out=truth))


def check_agreement(evaluator: MaskEvaluator, output_loss: OutputLoss, outputs: Floats) -> None:
    """Raise NotCovered unless outputs (width, n) lead to the model's own predictions.

    A few rows are enough: what could be misread is the same for all.
    """
    expected = evaluator.model.predict(evaluator.rows.X[:_ROWS_TO_CHECK])
    given = output_loss.prediction(outputs[:, :_ROWS_TO_CHECK])
    if not np.allclose(given, expected, rtol=0, atol=_AGREEMENT * np.abs(expected).max()):
        raise NotCovered("its layers do not give its own predictions")


def _logistic(outputs: Floats) -> Floats:
    with np.errstate(over="ignore"):  # 1 / (1 + inf) is the 0 that it should be
        return np.asarray(1 / (1 + np.exp(-outputs)))
