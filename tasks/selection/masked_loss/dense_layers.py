"""The layers of a network or a linear model: first layer by feature, outputs, losses.

A pre-activation is a bias plus a contribution for each feature. A feature of one encoded column
contributes value x weights; a feature of several (a one-hot category) has as many contributions
as distinct values, and these are tabulated. Masking replaces a contribution by the baseline's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.losses import PROBABILITY_FLOOR, Loss
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.runtime import single_thread


@compiled
def without_features(
    present: Floats,
    features: NDArray[np.int64],
    start: int,
    floor: float,
    out: Floats,
    values: Floats,
    value_at_baseline: Floats,
    tabulated: Mask,
    first_row: NDArray[np.int64],
    table: Floats,
    at_baseline: Floats,
) -> None:
    """Write the first layer without each of m features, for a block of rows: (m, width, rows).

    The rows are innermost, so that the loops vectorise. NaN stays NaN. `present`
    (width, n) is the first layer under the present mask; `start` the block's first row; `floor` 0
    for relu, else -inf. The other arrays are those of `FirstLayer`.
    """
    width, stop = out.shape[1], start + out.shape[2]
    for position in range(len(features)):
        feature = features[position]
        value, row = values[feature, start:stop], first_row[feature]
        for unit in range(width):
            before, after = present[unit, start:stop], out[position, unit]
            if tabulated[feature]:
                masked = at_baseline[feature, unit]
                for i in range(len(after)):
                    changed = before[i] - (table[row + int(value[i]), unit] - masked)
                    after[i] = floor if changed < floor else changed
            else:
                weight, masked = table[row, unit], value_at_baseline[feature]
                for i in range(len(after)):
                    changed = before[i] - (value[i] - masked) * weight
                    after[i] = floor if changed < floor else changed


_ROWS_AT_ONCE = 1024
_EVERY_ROW = slice(None)


class FirstLayer:
    """What n rows and the baseline contribute to the `width` units of a first layer.

    `values` (d, n): encoded values, or for a tabulated feature its position in its part of the
    table. `value_at_baseline` (d,): the encoded baseline; 0 if tabulated. `tabulated` (d,); `used`
    (d,): whether a feature has any weight. `table` (rows, width): row j < d holds the weights of
    feature j, zeros if it is tabulated; from row d on, contributions by distinct value of the
    tabulated ones, whose parts start at `first_row` (d,). `at_baseline` (d, width): contribution of
    the masked feature. `bias` (width,).

    Raises NotCovered if an encoded value is not finite.
    """

    def __init__(self, model: DenseModel, X: Floats, baseline: Floats) -> None:
        n, d = X.shape
        weights = model.weights[0]
        n_columns = np.bincount(model.feature_of_column, minlength=d)
        column = np.full(d, -1)
        column[model.feature_of_column] = np.arange(len(model.feature_of_column))
        single = np.flatnonzero(n_columns == 1)
        encoded_baseline = model.encode(baseline[np.newaxis])[0]

        self.bias = model.biases[0]
        self.tabulated: Mask = n_columns > 1
        self.value_at_baseline = np.zeros(d)
        self.value_at_baseline[single] = encoded_baseline[column[single]]
        self.values = np.zeros((d, n))
        for rows, encoded in encoded_rows(model, X):
            self.values[single, rows] = encoded[:, column[single]].T

        self._weights = np.zeros((d, weights.shape[1]))
        self._weights[single] = weights[column[single]]
        self.at_baseline = self.value_at_baseline[:, np.newaxis] * self._weights
        self.first_row = np.arange(d)
        parts, n_table_rows = [self._weights], d
        for feature in np.flatnonzero(self.tabulated):
            columns = np.flatnonzero(model.feature_of_column == feature)
            distinct, self.values[feature] = np.unique(X[:, feature], return_inverse=True)
            parts.append(_contributions(model, baseline, feature, distinct, columns))
            self.at_baseline[feature] = encoded_baseline[columns] @ weights[columns]
            self.first_row[feature] = n_table_rows
            n_table_rows += len(distinct)
        self.table = np.concatenate(parts)
        self.used = np.zeros(d, dtype=bool)
        self.used[model.feature_of_column[weights.any(axis=1)]] = True
        if not (np.isfinite(encoded_baseline).all() and np.isfinite(self.values).all()):
            raise NotCovered("an encoded value is not finite")

    def present(self, mask: Mask, rows: slice = _EVERY_ROW) -> Floats:
        """Return the pre-activations of some rows under a mask (d,), shape (width, n)."""
        kept = mask & ~self.tabulated
        values = self.values[:, rows]
        with single_thread():
            total = (self._weights * kept[:, np.newaxis]).T @ values
        total += (self.bias + self.at_baseline[~mask].sum(axis=0))[:, np.newaxis]
        for feature in np.flatnonzero(mask & self.tabulated):
            total += self.table[self.first_row[feature] + values[feature].astype(np.int64)].T
        return np.asarray(total)

    def greatest_changes(self, rows: slice, reach: Floats) -> Floats:
        """Return how far masking each feature moves an output of the network at most, (d, n)."""
        # reach (width, n_outputs): how far each unit moves each output, per unit of its own
        by_weight = (np.abs(self._weights) @ reach).max(axis=1)
        moved = np.abs(self.values[:, rows] - self.value_at_baseline[:, np.newaxis])
        moved *= by_weight[:, np.newaxis]
        for feature in np.flatnonzero(self.tabulated):
            places = self.first_row[feature] + self.values[feature, rows].astype(np.int64)
            change = np.abs(self.table[places] - self.at_baseline[feature])
            moved[feature] = (change @ reach).max(axis=1)
        return moved

    def into_changes(self) -> Floats:
        """Return what masking each takes from a layer of one unit, (d, n); uses up `values`."""
        for feature in np.flatnonzero(self.tabulated):
            rows = self.first_row[feature] + self.values[feature].astype(np.int64)
            self.values[feature] = self.table[rows, 0] - self.at_baseline[feature, 0]
        single = ~self.tabulated
        self.values -= self.value_at_baseline[:, np.newaxis]
        self.values *= np.where(single, self._weights[:, 0], 1)[:, np.newaxis]
        return self.values

    def write_without(
        self, present: Floats, features: NDArray[np.int64], start: int, floor: float, out: Floats
    ) -> None:
        encoded = self.values, self.value_at_baseline, self.tabulated
        contributions = self.first_row, self.table, self.at_baseline
        without_features(present, features, start, floor, out, *encoded, *contributions)


def encoded_rows(model: DenseModel, X: Floats) -> Iterator[tuple[slice, Floats]]:
    # a few rows at a time, so that no second table of one-hot columns is held
    for start in range(0, len(X), _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, len(X)))
        yield rows, model.encode(X[rows])


def _contributions(
    model: DenseModel,
    baseline: Floats,
    feature: np.int64,
    distinct: Floats,
    columns: NDArray[np.int64],
) -> Floats:
    """Return what each distinct value of a feature contributes, shape (len(distinct), width)."""
    probes = np.repeat(baseline[np.newaxis], len(distinct), axis=0)
    probes[:, feature] = distinct
    parts = [encoded[:, columns] for _, encoded in encoded_rows(model, probes)]
    weights = model.weights[0][columns]
    total = np.zeros((len(distinct), weights.shape[1]))
    # not a product of matrices, whose rounding may depend on how many values there are
    for values, of_column in zip(np.concatenate(parts).T, weights, strict=True):
        total += values[:, np.newaxis] * of_column
    return total


_ROWS_TO_CHECK, _AGREEMENT = 256, 1e-9


class OutputLoss:
    """Losses of n rows from their outputs; `loss` is a mean over rows.

    The same formulas as the model's `predict` and `Loss.per_row`, for many maskings of a block of
    rows at once. Where a probability is 1 minus another, it is so here too: more exact values would
    give other losses than the model's predictions do.

    `weight` (n,): ones where rows have none. `position` (n,): of each row's class among the
    outputs' classes, -1 if it is none; all 0 for regression.
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
        """Return what the model would predict, (n,) or (n, n_classes), of outputs (width, n)."""
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
        """Return the weighted sums (m,) of a block's losses; spoils outputs (m, width, rows)."""
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
    """Raise NotCovered unless outputs (width, n) lead to the model's own predictions."""
    # a few rows are enough: what could be misread is the same for all
    expected = evaluator.model.predict(evaluator.rows.X[:_ROWS_TO_CHECK])
    prediction = output_loss.prediction(outputs[:, :_ROWS_TO_CHECK])
    if not np.allclose(prediction, expected, rtol=0, atol=_AGREEMENT * np.abs(expected).max()):
        raise NotCovered("its layers do not give its own predictions")


def _logistic(outputs: Floats) -> Floats:
    with np.errstate(over="ignore"):  # 1 / (1 + inf) is the 0 that it should be
        return np.asarray(1 / (1 + np.exp(-outputs)))
