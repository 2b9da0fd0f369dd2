"""What each feature's splits or coefficient take off the loss, on rows that may be held out.

The loss of a row is followed on the straight line of scores from a constant to the row's own, or
to the share of the way, one for all rows, that leaves the least loss: a model whose scores go too
far would take something off by no feature (a slope of calibration, Cox 1958, "Two further
applications of a model for binary regression"). The score moves by phi[j] for each feature j:

- trees: the sum, over the splits by j on the row's way down, of value(child) - value(node), where
  the value of a node is the mean of its leaves by cover. After Saabas (2014), "Interpreting random
  forests"; the constant is the mean leaf.
- linear models: coefficient times (x - mean).

Feature j takes off -slope x phi[j], where the slope is the mean gradient of the loss on the line,
by 6-point Gauss. These shares add up to the loss of the constant less that of the row: what the
quadrature leaves of the difference is added along the line.

Attributions of this kind count nothing that a model has merely memorised: a feature whose splits do
not hold on new rows has about 0, or less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats, Predictor, Rows
from chaffinch.tasks.selection.losses import PROBABILITY_FLOOR, Loss
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_layers import (
    OutputLoss,
    check_agreement,
    encoded_rows,
)
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

_ROWS_AT_ONCE = 4096
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2  # from -1..1 to 0..1
_ROUNDING = 1e-12  # of a row's losses
_SHARES = tuple(share / 20 for share in range(20, 0, -1))  # of the way to a model's scores

Predict = Callable[[Floats], Floats]


def attributions(model: Predictor, rows: Rows, loss: Loss) -> Floats | None:
    """Return the mean over rows of what each feature takes off the loss, shape (d,).

    They add up to the loss of a constant, the model's mean score, less that of the model, whose
    scores are drawn towards the constant where this leaves less loss on these rows.

    Returns
    -------
    ndarray of shape (d,), or None
        None for a score of a whole table, and for models other than trees and linear ones.
    """
    by_block = attributions_by_block(model, rows, loss, [slice(0, len(rows))])
    return None if by_block is None else by_block[0]


def attributions_by_block(
    model: Predictor, rows: Rows, loss: Loss, blocks: Sequence[slice]
) -> Floats | None:
    """Return what each of b blocks, which part the rows, adds to the attributions, (b, d)."""
    if not loss.is_mean_over_rows:
        return None
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    weighted = Rows(rows.X, rows.y, weight / weight.sum())
    for of_model in (_of_forest, _of_linear):
        try:
            return of_model(model, weighted, loss, blocks)
        except NotCovered:
            continue
    return None


def _of_forest(model: Predictor, rows: Rows, loss: Loss, blocks: Sequence[slice]) -> Floats:
    forest = model.forest()
    value = forest.value / forest.divisor
    mean = np.zeros((len(forest.column), value.shape[1]))
    _fill_means(forest.child, value, forest.cover, mean)
    tests = forest.column, forest.threshold, forest.missing_left
    categories = forest.category_start, forest.category_left
    nodes = forest.child, forest.root, forest.output, mean, value, forest.feature_of_column
    start = forest.base.copy()
    for root, output in zip(forest.root, forest.output, strict=True):
        of_root = mean[root] if root >= 0 else value[~root]
        start[output : output + value.shape[1]] += of_root
    totals = np.zeros((len(blocks), rows.X.shape[1]))
    every_class = np.arange(model.schema.n_classes)
    score = np.tile(forest.base, (len(rows), 1))
    parts = [
        (slice(at, min(at + _ROWS_AT_ONCE, block.stop)), total)
        for block, total in zip(blocks, totals, strict=True)
        for at in range(block.start, block.stop, _ROWS_AT_ONCE)
    ]

    def walk(part: slice, slope: Floats, total: Floats) -> None:
        columns = forest.prepare(rows.X[part])
        _walk(*tests, *categories, *nodes, columns, slope, score[part], total)

    for part, total in parts:
        walk(part, np.zeros_like(score[part]), total)
    share = _share(rows, loss, start, score, forest.predict)
    ends = start + share * (score - start)
    for part, total in parts:
        of_part = rows.take(part), loss, start, ends[part], forest.predict, forest.link, every_class
        walk(part, share * _slopes(*of_part), total)
    return totals


@compiled
def _fill_means(child: Any, value: Any, cover: Any, mean: Any) -> None:
    """Write the mean leaf below each inner node; children come after their parents."""
    total = np.zeros(len(mean))
    for node in range(len(mean) - 1, -1, -1):
        right, left = child[node]
        of_right = total[right] if right >= 0 else cover[~right]
        of_left = total[left] if left >= 0 else cover[~left]
        total[node] = of_right + of_left
        share = of_right / total[node] if total[node] > 0 else 0.5
        for o in range(mean.shape[1]):
            mean[node, o] = share * (mean[right, o] if right >= 0 else value[~right, o])
            mean[node, o] += (1 - share) * (mean[left, o] if left >= 0 else value[~left, o])


@compiled
def _walk(
    column: Any,
    threshold: Any,
    missing_left: Any,
    category_start: Any,
    category_left: Any,
    child: Any,
    root: Any,
    output: Any,
    mean: Any,
    value: Any,
    feature_of_column: Any,
    rows: Any,
    slope: Any,
    score: Any,
    total: Any,
) -> None:
    """Walk rows (n, n_columns) down: add leaves to `score`, -slope x phi to `total` by feature."""
    for tree in range(len(root)):
        for row in range(len(rows)):
            node = root[tree]
            while node >= 0:
                x, start = rows[row, column[node]], category_start[node]
                if start >= 0:
                    left = category_left[start + int(x)]
                elif missing_left[node]:
                    left = not x > threshold[node]
                else:
                    left = x <= threshold[node]
                below, feature = child[node, int(left)], feature_of_column[column[node]]
                for o in range(mean.shape[1]):
                    after = mean[below, o] if below >= 0 else value[~below, o]
                    total[feature] -= slope[row, output[tree] + o] * (after - mean[node, o])
                node = below
            for o in range(mean.shape[1]):
                score[row, output[tree] + o] += value[~node, o]


def _of_linear(model: Predictor, rows: Rows, loss: Loss, blocks: Sequence[slice]) -> Floats:
    dense = model.dense()
    if len(dense.weights) > 1 or dense.scale != 1:
        raise NotCovered("it is no linear model")
    weights, bias = dense.weights[0], dense.biases[0]
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    mean = np.zeros(len(weights))
    for part, encoded in encoded_rows(dense, rows.X):
        mean += np.einsum("n,nc->c", weight[part], encoded)
    if not np.isfinite(mean).all():
        raise NotCovered("an encoded value is not finite")
    of_output = OutputLoss(dense, rows, model.schema, loss)

    def predict(scores: Floats) -> Floats:
        return of_output.prediction(scores.T)

    start = bias + np.einsum("c,ck->k", mean, weights)
    score = np.empty((len(rows), weights.shape[1]))
    for part, encoded in encoded_rows(dense, rows.X):
        score[part] = bias + np.einsum("nc,ck->nk", encoded, weights)
        if part.start == 0:
            evaluator = MaskEvaluator(model, rows, loss, np.zeros(rows.X.shape[1]))
            check_agreement(evaluator, of_output, score[part].T)
    share = _share(rows, loss, start, score, predict)
    ends = start + share * (score - start)
    totals = np.zeros((len(blocks), rows.X.shape[1]))
    for block, total in zip(blocks, totals, strict=True):
        moved = np.zeros_like(weights)
        for inside, encoded in encoded_rows(dense, rows.X[block]):
            part = slice(block.start + inside.start, block.start + inside.start + len(encoded))
            of_part = rows.take(part), loss, start, ends[part], predict, dense.link, dense.classes
            moved -= share * np.einsum("nc,nk->ck", encoded - mean, _slopes(*of_part))
        np.add.at(total, dense.feature_of_column, (moved * weights).sum(axis=1))
    return totals


def _share(rows: Rows, loss: Loss, start: Floats, score: Floats, predict: Predict) -> float:
    """Return the share of the way from `start` (k,) to scores (n, k) that leaves the least loss."""

    def loss_at(share: float) -> float:
        predicted = predict(start + share * (score - start))
        return float(np.average(loss.per_row(rows.y, predicted), weights=rows.weight))

    return min(_SHARES, key=loss_at)


def _slopes(
    rows: Rows,
    loss: Loss,
    start: Floats,
    score: Floats,
    predict: Predict,
    link: str,
    classes: NDArray[np.int64],
) -> Floats:
    """Return each row's weighted mean gradient from `start` (k,) to its score, (n, k)."""
    n, move = len(score), score - start
    constant = predict(np.tile(start, (n, 1)))
    truth = np.zeros_like(constant)
    if loss.task == "classification":
        truth[np.arange(n), rows.y] = 1

    def gradient(prediction: Floats) -> Floats:
        if loss.name == "squared_error":
            return 2 * (prediction - rows.y)[:, np.newaxis]
        if loss.name == "absolute_error":
            return np.sign(prediction - rows.y)[:, np.newaxis]
        if link == "probability":
            of_class = -truth / np.maximum(prediction, PROBABILITY_FLOOR)
            return of_class if score.shape[1] > 1 else of_class[:, 1:] - of_class[:, :1]
        of_class = (prediction - truth)[:, classes]
        return of_class if score.shape[1] > 1 else of_class[:, 1:]

    slope = np.zeros_like(score)
    for place, weight in zip(_NODES, _WEIGHTS, strict=True):
        slope += weight * gradient(predict(start + place * move))
    before, after = (loss.per_row(rows.y, made) for made in (constant, predict(score)))
    left = after - before - (slope * move).sum(axis=1)
    along = move * truth if link == "probability" and score.shape[1] > 1 else move
    length = np.square(along).sum(axis=1)
    is_off = (np.abs(left) > _ROUNDING * (before + after)) & (length > 0)
    slope[is_off] += (left[is_off] / length[is_off])[:, np.newaxis] * along[is_off]
    return slope if rows.weight is None else slope * rows.weight[:, np.newaxis]
