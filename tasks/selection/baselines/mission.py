"""MISSION: gradients in a count sketch, and only the largest weights predict.

Aghazadeh, Spring, LeJeune, Dasarathy, Shrivastava and Baraniuk, "MISSION: ultra large-scale
feature selection using count-sketches", ICML 2018, algorithm 1: each row's gradient is added to
the sketch, the features of the row are read back from it, and a heap keeps the k with the largest
weights, with which alone the next row is predicted.

Here rows are shuffled for every pass, an intercept is learnt as well, and the step size is in
units of the mean squared length of a row. Weights in the heap are read again before others may
replace them. A sketch as wide as the table has a cell for each feature: no hashes are needed, and
it is gradient descent with hard thresholding.

In the compiled inner loop, the root of the heap is the feature with the smallest of its weights;
`place` is the position of a feature in the heap, or -1.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from chaffinch.tasks.selection.baselines.columns import one_table, standardised
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled


@compiled
def _cell(feature: int, salt: Any, width: int) -> tuple[Any, float]:
    """Return the cell of a feature in a row of the sketch, and its sign: splitmix64."""
    z = np.uint64(feature) + salt
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    sign = 1.0 if z & np.uint64(1) else -1.0
    return np.int64((z >> np.uint64(1)) % np.uint64(width)), sign


@compiled
def _add(sketch: Any, salts: Any, feature: int, change: float) -> None:
    if not len(salts):
        sketch[0, feature] += change
        return
    for row in range(len(salts)):
        cell, sign = _cell(feature, salts[row], sketch.shape[1])
        sketch[row, cell] += sign * change


@compiled
def _read(sketch: Any, salts: Any, feature: int, room: Any) -> Any:
    """Return the median of a feature's cells; without salts each feature has its own."""
    if not len(salts):
        return sketch[0, feature]
    for row in range(len(salts)):
        cell, sign = _cell(feature, salts[row], sketch.shape[1])
        value, place = sign * sketch[row, cell], row
        while place and room[place - 1] > value:
            room[place] = room[place - 1]
            place -= 1
        room[place] = value
    middle = len(salts) // 2
    return room[middle] if len(salts) % 2 else (room[middle - 1] + room[middle]) / 2


@compiled
def _swap(heap: Any, weights: Any, place: Any, first: int, second: int) -> None:
    heap[first], heap[second] = heap[second], heap[first]
    weights[first], weights[second] = weights[second], weights[first]
    place[heap[first]], place[heap[second]] = first, second


@compiled
def _is_less(weight: float, feature: int, other_weight: float, other: int) -> bool:
    """Return whether a feature leaves before another: of equal weights the lowest index does."""
    if abs(weight) != abs(other_weight):
        return abs(weight) < abs(other_weight)
    return feature < other


@compiled
def _sift(heap: Any, weights: Any, place: Any, size: int, node: int) -> None:
    """Move what stands at a node to where it belongs."""
    while node:
        above = (node - 1) // 2
        if not _is_less(weights[node], heap[node], weights[above], heap[above]):
            break
        _swap(heap, weights, place, node, above)
        node = above
    while 2 * node + 1 < size:
        least = 2 * node + 1
        right = least + 1
        if right < size and _is_less(weights[right], heap[right], weights[least], heap[least]):
            least = right
        if not _is_less(weights[least], heap[least], weights[node], heap[node]):
            break
        _swap(heap, weights, place, node, least)
        node = least


@compiled
def _learn(
    features: Any, values: Any, target: float, rate: float, is_logistic: bool,
    sketch: Any, salts: Any, room: Any, heap: Any, weights: Any, place: Any, counts: Any,
) -> None:  # fmt: skip
    """Take a step down by a row; counts holds the size of the heap and the intercept."""
    prediction = counts[1]
    for j in range(len(features)):
        if place[features[j]] >= 0:
            prediction += values[j] * weights[place[features[j]]]
    if is_logistic:
        prediction = 1 / (1 + np.exp(-prediction))
    step = rate * (target - prediction)
    counts[1] += step
    for j in range(len(features)):
        if values[j] != 0:
            _add(sketch, salts, features[j], step * values[j])
    size = int(counts[0])
    for j in range(len(features)):
        node = place[features[j]]
        if node >= 0 and values[j] != 0:
            weights[node] = _read(sketch, salts, features[j], room)
            _sift(heap, weights, place, size, node)
    for j in range(len(features)):
        if place[features[j]] >= 0 or values[j] == 0:
            continue
        weight = _read(sketch, salts, features[j], room)
        if size < len(heap) and weight != 0:
            node, size = size, size + 1
        elif size == len(heap) and _is_less(weights[0], heap[0], weight, features[j]):
            node = 0
            place[heap[0]] = -1
        else:
            continue
        heap[node], weights[node], place[features[j]] = features[j], weight, node
        _sift(heap, weights, place, size, node)
    counts[0] = size


@compiled
def learn(
    features: Any, values: Any, starts: Any, rows: Any, y: Any, rate: float, is_logistic: bool,
    sketch: Any, salts: Any, heap: Any, weights: Any, place: Any, counts: Any,
) -> None:  # fmt: skip
    """Take a step by each row of a table in compressed rows, in the order of `rows`.

    In a dense table every row has all `features`. `y` is 0 and 1 if logistic (log loss), else
    numbers (half the squared error). `sketch` (depth, width); `salts` (depth,) of the hashes, none
    where each feature has a cell of its own. `heap`, `weights` (k,): the features that predict;
    `place` (D,): where in the heap, or -1. `counts`: how many are in the heap, and the intercept.
    """
    room = np.empty(len(salts))
    for n in rows:
        part = slice(starts[n], starts[n + 1])
        of_row = features[part] if len(features) == len(values) else features
        _learn(
            of_row, values[part], y[n], rate, is_logistic,
            sketch, salts, room, heap, weights, place, counts,
        )  # fmt: skip


@compiled
def read_all(sketch: Any, salts: Any, out: Any) -> None:
    room = np.empty(len(salts))
    for feature in range(len(out)):
        out[feature] = _read(sketch, salts, feature, room)


_DEPTH, _PASSES, _RATE = 3, 10, 0.1
_NARROWEST, _SHARE = 1_000, 4  # a sketch is a quarter as wide as the table, but not narrower


def mission(
    X: Any,
    y: Floats,
    *,
    n_features: int,
    loss: Literal["squared_error", "log_loss"],
    width: int,
    depth: int = _DEPTH,
    passes: int = _PASSES,
    rate: float = _RATE,
    seed: int = 0,
) -> tuple[NDArray[np.int64], Floats]:
    """Learn a linear model of few features from row after row.

    X (N, D) in C order or csr_array has columns of about the same spread. A sketch of a `width`
    from D on is exact; of its `depth` rows, odd, the median is taken. `rate` is that of a step over
    the mean squared length of a row. Returns the features in the heap, ascending, at most
    `n_features`, and the weights (D,) of all features as the sketch has them.
    """
    random = np.random.default_rng(seed)
    n_rows, n_columns = X.shape
    is_exact = width >= n_columns
    salts = random.integers(0, 2**64, 0 if is_exact else depth, dtype=np.uint64)
    sketch = np.zeros((1, n_columns) if is_exact else (depth, width))
    heap, weights = np.zeros(n_features, np.int64), np.zeros(n_features)
    place, counts = np.full(n_columns, -1, np.int64), np.zeros(2)
    state = (sketch, salts, heap, weights, place, counts)
    is_sparse, is_logistic = issparse(X), loss == "log_loss"
    step = rate * n_rows / float(((X.data if is_sparse else X) ** 2).sum())
    if is_sparse:
        table = X.indices, X.data, X.indptr
    else:
        table = np.arange(n_columns), X.ravel(), n_columns * np.arange(n_rows + 1)
    for _ in range(passes):
        learn(*table, random.permutation(n_rows), y, step, is_logistic, *state)
    read_all(sketch, salts, out := np.empty(n_columns))
    return np.sort(heap[: int(counts[0])]), out


@ranking(
    "mission",
    score="the absolute weight of the standardised feature in a linear model, learnt one row "
    "after the other by a count sketch that lets only the largest weights predict",
)
def mission_scores(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by the absolute weights that MISSION learns, half of the columns predicting."""
    # a feature has its best column's; more than two classes the sum over each against the rest
    scores = np.zeros(len(schema.features))
    table, feature = one_table(rows, schema)
    if not len(feature) or (rows.y == rows.y[0]).all():
        return scores
    table = _of_one_spread(table)
    total = np.zeros(len(feature))
    for target in _targets(rows, schema):
        _, weights = mission(
            table,
            target,
            n_features=(len(feature) + 1) // 2,
            loss="log_loss" if schema.n_classes else "squared_error",
            width=max(_NARROWEST, len(feature) // _SHARE),
            seed=seed,
        )
        total += np.abs(weights)
    np.maximum.at(scores, feature, total)
    return scores


def _of_one_spread(table: Any) -> Any:
    """Return a table whose columns have the standard deviation 1, centred unless it is sparse."""
    is_sparse: bool = issparse(table)
    if is_sparse:
        variance = (table**2).mean(axis=0) - table.mean(axis=0) ** 2
        table.data /= np.sqrt(variance)[table.indices]
        return table
    for place, column in enumerate(table.T):
        table[:, place] = standardised(column)
    return table


def _targets(rows: Rows, schema: Schema) -> list[Floats]:
    """Return the target in units of its spread, or 0 and 1 for each class but of two."""
    if not schema.n_classes:
        target = standardised(np.asarray(rows.y, dtype=np.float64))
        return [] if target is None else [target]
    there = np.unique(rows.y)
    return [
        (rows.y == label).astype(np.float64) for label in (there if len(there) > 2 else there[1:])
    ]
