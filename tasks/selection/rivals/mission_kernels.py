"""The inner loop of MISSION, compiled: `mission.py` tells what it does.

The heap holds the features with the largest weights, the smallest of them at the root; `place` says
where in the heap a feature is, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled


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
def _swap(heap: Any, weights: Any, place: Any, one: int, other: int) -> None:
    heap[one], heap[other] = heap[other], heap[one]
    weights[one], weights[other] = weights[other], weights[one]
    place[heap[one]], place[heap[other]] = one, other


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
    """Take one step down by one row; counts holds the size of the heap and the intercept."""
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
def learn_dense(
    X: Any, rows: Any, y: Any, rate: float, is_logistic: bool,
    sketch: Any, salts: Any, heap: Any, weights: Any, place: Any, counts: Any,
) -> None:  # fmt: skip
    """Go through rows of a dense table (N, D), one step each.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
    rows : ndarray of int64, shape (n,)
        In which order.
    y : ndarray of float64, shape (N,)
        Targets; 0 and 1 if logistic.
    rate : float
        Of a step.
    is_logistic : bool
        Log loss, or half the squared error.
    sketch : ndarray of float64, shape (depth, width)
    salts : ndarray of uint64, shape (depth,)
        Of the hashes; none where each feature has a cell of its own.
    heap, weights : ndarray, shape (k,)
        The features that predict.
    place : ndarray of int64, shape (D,)
        Where in the heap each feature is, or -1.
    counts : ndarray of float64, shape (2,)
        How many are in the heap, and the intercept.
    """
    features, room = np.arange(X.shape[1]), np.empty(len(salts))
    for n in rows:
        _learn(
            features, X[n], y[n], rate, is_logistic,
            sketch, salts, room, heap, weights, place, counts,
        )  # fmt: skip


@compiled
def learn_sparse(
    starts: Any, indices: Any, values: Any, rows: Any, y: Any, rate: float, is_logistic: bool,
    sketch: Any, salts: Any, heap: Any, weights: Any, place: Any, counts: Any,
) -> None:  # fmt: skip
    """Go through rows of a table in compressed rows; else as `learn_dense`."""
    room = np.empty(len(salts))
    for n in rows:
        part = slice(starts[n], starts[n + 1])
        _learn(
            indices[part], values[part], y[n], rate, is_logistic,
            sketch, salts, room, heap, weights, place, counts,
        )  # fmt: skip


@compiled
def read_all(sketch: Any, salts: Any, out: Any) -> None:
    """Write the weight of every feature, shape (D,), as the sketch has it."""
    room = np.empty(len(salts))
    for feature in range(len(out)):
        out[feature] = _read(sketch, salts, feature, room)
