"""Compiled kernels: sweeps over dense rows, Adam's step, moments of columns.

`residual_variance.py` has the formulas. Dense rows come in blocks of 8, with the triangle within
each. A *channel* is an order of an output; its accumulator is
the sum, over the rows already met, of x~ times that channel's number of the row. The columns are
cut into tiles of a fixed width, in which everything about a column lies together: 8 rows, the
weight, the gradient, then the accumulators, in fours. Offsets inside a tile are constants, so that
the compiler sees that nothing overlaps, and works on many columns at a time; what is computed of a
column is the same wherever it stands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, reordering

_TILE = 128
_ROWS = 8
_WEIGHT = _ROWS * _TILE
_GRADIENT = (_ROWS + 1) * _TILE
_SUMS = (_ROWS + 2) * _TILE
_FOUR = 4 * _TILE


@reordering
def _products_with_four(left: Any, four: Any, out: Any) -> None:
    """Add to `out` (4,) the sums of left * each of four rows of a tile."""
    zero = left[0] - left[0]  # of the type of the table
    a = b = c = d = zero
    for t in range(_TILE):
        x = left[t]
        a += x * four[t]
        b += x * four[_TILE + t]
        c += x * four[2 * _TILE + t]
        d += x * four[3 * _TILE + t]
    out[0] += a
    out[1] += b
    out[2] += c
    out[3] += d


@compiled
def _load(tile: Any, first: int, X: Any, rows: Any, origin: Any, rest: Any, inverse: Any) -> None:
    """Centre and scale the part of 8 rows that lies in a tile; rows that are not there are 0."""
    last = min(_TILE, X.shape[1] - first)
    for b in range(_ROWS):
        place = tile[b * _TILE : (b + 1) * _TILE]
        if b >= len(rows):
            place[:] = 0
            continue
        row = X[rows[b], first : first + last]
        of, less, scale = origin[first : first + last], rest[first : first + last], inverse[first:]
        for t in range(last):
            place[t] = (row[t] - of[t]) * scale[t] - less[t]


@compiled
def _multiply(tile: Any, weighted: Any, gram: Any, sums: Any) -> None:
    """Add the products of the 8 rows with each other to gram, (8, 8), and with the sums.

    Only the fours of the triangle are needed, and of an empty gram none.
    """
    weight = tile[_WEIGHT : _WEIGHT + _TILE]
    for b in range(_ROWS):
        row = tile[b * _TILE : (b + 1) * _TILE]
        for t in range(_TILE):
            weighted[t] = row[t] * weight[t]
        for four in range(b // 4, len(gram) // 4):
            _products_with_four(
                weighted, tile[four * _FOUR : (four + 1) * _FOUR], gram[b, 4 * four : 4 * four + 4]
            )
        for four in range(sums.shape[1] // 4):
            first = _SUMS + four * _FOUR
            _products_with_four(
                weighted, tile[first : first + _FOUR], sums[b, 4 * four : 4 * four + 4]
            )


@compiled
def _accumulate(tile: Any, four: int, numbers: Any) -> None:
    """Add the 8 rows, times their numbers (8, 4), to four accumulators."""
    first = _SUMS + four * _FOUR
    place = tile[first : first + _FOUR]
    for b in range(0, _ROWS, 2):
        row, next_row = tile[b * _TILE : (b + 1) * _TILE], tile[(b + 1) * _TILE : (b + 2) * _TILE]
        r0, r1, r2, r3 = numbers[b, 0], numbers[b, 1], numbers[b, 2], numbers[b, 3]
        s0, s1, s2, s3 = (
            numbers[b + 1, 0], numbers[b + 1, 1], numbers[b + 1, 2], numbers[b + 1, 3],
        )  # fmt: skip
        for t in range(_TILE):
            x, z = row[t], next_row[t]
            place[t] += x * r0 + z * s0
            place[_TILE + t] += x * r1 + z * s1
            place[2 * _TILE + t] += x * r2 + z * s2
            place[3 * _TILE + t] += x * r3 + z * s3


@compiled
def _accumulate_backwards(tile: Any, four: int, numbers: Any, duals: Any) -> None:
    """Do the same from the last row to the first; before each row add to the gradient.

    The gradient gains x~ times the sum over the channels of dual, (8, 4), times accumulator.
    """
    first = _SUMS + four * _FOUR
    place, gradient = tile[first : first + _FOUR], tile[_GRADIENT : _GRADIENT + _TILE]
    for b in range(_ROWS - 1, 0, -2):
        row, next_row = tile[b * _TILE : (b + 1) * _TILE], tile[(b - 1) * _TILE : b * _TILE]
        l0, l1, l2, l3 = duals[b, 0], duals[b, 1], duals[b, 2], duals[b, 3]
        m0, m1, m2, m3 = duals[b - 1, 0], duals[b - 1, 1], duals[b - 1, 2], duals[b - 1, 3]
        r0, r1, r2, r3 = numbers[b, 0], numbers[b, 1], numbers[b, 2], numbers[b, 3]
        s0, s1, s2, s3 = (
            numbers[b - 1, 0], numbers[b - 1, 1], numbers[b - 1, 2], numbers[b - 1, 3],
        )  # fmt: skip
        for t in range(_TILE):
            x, z = row[t], next_row[t]
            a0, a1, a2, a3 = place[t], place[_TILE + t], place[2 * _TILE + t], place[3 * _TILE + t]
            change = x * (l0 * a0 + l1 * a1 + l2 * a2 + l3 * a3)
            a0 += x * r0
            a1 += x * r1
            a2 += x * r2
            a3 += x * r3
            gradient[t] += change + z * (m0 * a0 + m1 * a1 + m2 * a2 + m3 * a3)
            place[t] = a0 + z * s0
            place[_TILE + t] = a1 + z * s1
            place[2 * _TILE + t] = a2 + z * s2
            place[3 * _TILE + t] = a3 + z * s3


@compiled
def _room_for(n_features: int, n_outputs: int, order: int, weight: Any) -> Any:
    """Return the tiles of all columns with their weights, like `weight` (D,), in a row."""
    length = (_ROWS + 2 + 4 * ((order + 3) // 4) * n_outputs) * _TILE
    n_tiles = (n_features + _TILE - 1) // _TILE
    work = np.zeros(n_tiles * length, weight.dtype)
    for d in range(n_features):
        work[d // _TILE * length + _WEIGHT + d % _TILE] = weight[d]
    return work


@compiled
def _clear_sums(work: Any, n_features: int) -> None:
    """Set the accumulators of all tiles back to 0."""
    n_tiles = (n_features + _TILE - 1) // _TILE
    length = len(work) // n_tiles
    for tile in range(n_tiles):
        work[tile * length + _SUMS : (tile + 1) * length] = 0


@compiled
def _read_gradient(work: Any, n_rows: int, gradient: Any) -> None:
    """Write the gradient that the tiles hold, over n, shape (D,)."""
    length = len(work) // ((len(gradient) + _TILE - 1) // _TILE)
    for d in range(len(gradient)):
        gradient[d] = work[d // _TILE * length + _GRADIENT + d % _TILE] / n_rows


@compiled
def _dense_forwards(
    X: Any, rows: Any, origin: Any, rest: Any, inverse: Any, y: Any, alphas: Any, work: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Process rows from the first: l, and from it lambda.

    `work` is from `_room_for`. Returns the products of each 8 rows, (n / 8, 8, 8), and lambda, (n,
    channels) in fours.
    """
    n_rows, n_features, n_outputs, order = len(rows), X.shape[1], y.shape[1], len(alphas)
    n_fours = (order + 3) // 4
    n_channels, n_tiles = 4 * n_fours * n_outputs, (n_features + _TILE - 1) // _TILE
    length = len(work) // n_tiles
    weighted = np.empty(_TILE, X.dtype)
    n_blocks = (n_rows + _ROWS - 1) // _ROWS
    grams = np.zeros((n_blocks, _ROWS, _ROWS))
    sums = np.zeros((_ROWS, n_channels))
    numbers, duals = np.zeros((_ROWS, n_channels)), np.zeros((n_blocks * _ROWS, n_channels))
    typed = np.zeros((_ROWS, n_channels), X.dtype)
    for block in range(n_blocks):
        first, last = block * _ROWS, min(n_rows, (block + 1) * _ROWS)
        gram = grams[block]
        sums[:] = 0
        numbers[:] = 0
        for tile in range(n_tiles):
            part = work[tile * length : (tile + 1) * length]
            _load(part, tile * _TILE, X, rows[first:last], origin, rest, inverse)
            _multiply(part, weighted, gram, sums)
        for b in range(last - first):
            for c in range(n_outputs):
                base = 4 * n_fours * c
                numbers[b, base] = y[first + b, c]
                for p in range(order - 1):
                    value = sums[b, base + p]
                    for before in range(b):
                        value += gram[before, b] * numbers[before, base + p]
                    numbers[b, base + p + 1] = value
                for q in range(order):
                    for p in range(order - q):
                        duals[first + b, base + q] += alphas[p + q] * numbers[b, base + p]
        typed[:] = numbers
        for tile in range(n_tiles):
            part = work[tile * length : (tile + 1) * length]
            for four in range(n_fours * n_outputs):
                _accumulate(part, four, typed[:, 4 * four : 4 * four + 4])
    return grams, duals


@compiled
def _dense_backwards(
    X: Any, rows: Any, origin: Any, rest: Any, inverse: Any, y: Any, alphas: Any, work: Any,
    grams: Any, duals: Any,
) -> float:  # fmt: skip
    """Process rows from the last: r and the gradient; return z.

    The accumulators of `work` are 0; `grams` and `duals` are results of `_dense_forwards`.
    """
    n_rows, n_features, n_outputs, order = len(rows), X.shape[1], y.shape[1], len(alphas)
    n_fours = (order + 3) // 4
    n_channels, n_tiles = 4 * n_fours * n_outputs, (n_features + _TILE - 1) // _TILE
    length = len(work) // n_tiles
    weighted, none = np.empty(_TILE, X.dtype), np.zeros((0, _ROWS))
    sums, numbers = np.zeros((_ROWS, n_channels)), np.zeros((_ROWS, n_channels))
    typed, typed_duals = np.zeros((_ROWS, n_channels), X.dtype), duals.astype(X.dtype)
    z = 0.0
    for block in range(len(grams) - 1, -1, -1):
        first, last = block * _ROWS, min(n_rows, (block + 1) * _ROWS)
        gram = grams[block]
        sums[:] = 0
        numbers[:] = 0
        for tile in range(n_tiles):
            part = work[tile * length : (tile + 1) * length]
            _load(part, tile * _TILE, X, rows[first:last], origin, rest, inverse)
            _multiply(part, weighted, none, sums)
        for b in range(last - first - 1, -1, -1):
            for c in range(n_outputs):
                base = 4 * n_fours * c
                numbers[b, base] = y[first + b, c]
                for q in range(order):
                    value = sums[b, base + q]
                    for after in range(b + 1, last - first):
                        value += gram[b, after] * numbers[after, base + q]
                    z += alphas[q] * y[first + b, c] * value
                    if q + 1 < order:
                        numbers[b, base + q + 1] = value
        typed[:] = numbers
        for tile in range(n_tiles):
            part = work[tile * length : (tile + 1) * length]
            for four in range(n_fours * n_outputs):
                start = 4 * four
                of_rows = typed_duals[block * _ROWS : (block + 1) * _ROWS, start : start + 4]
                _accumulate_backwards(part, four, typed[:, start : start + 4], of_rows)
    return z


@compiled
def dense_sweeps(
    X: Any, rows: Any, origin: Any, rest: Any, inverse: Any,
    weight: Any, y: Any, alphas: Any, gradient: Any,
) -> float:  # fmt: skip
    """Return z of the batch `rows` (n,), and write its gradient with respect to s, shape (D,).

    X, origin, rest and inverse are those of a `DenseTable`; the weight (D,) is s_d / n, y (n, C) is
    centred, and alphas (k,) are `chain_weights`.
    """
    n_features = X.shape[1]
    work = _room_for(n_features, y.shape[1], len(alphas), weight)
    grams, duals = _dense_forwards(X, rows, origin, rest, inverse, y, alphas, work)
    _clear_sums(work, n_features)
    z = _dense_backwards(X, rows, origin, rest, inverse, y, alphas, work, grams, duals)
    _read_gradient(work, len(rows), gradient)
    return z


_BLOCK = 512


@reordering
def squared_length(slopes: Any, squares: Any, kept: Any, for_all: Any, pressure: Any) -> float:
    """Return the squared length of the slope of the loss with respect to v; arrays are (D,)."""
    total, one = 0.0, kept.dtype.type(1)
    for d in range(len(kept)):
        s = kept[d]
        slope = (pressure - slopes[d] - squares[d] * for_all) * (s + s) * (one - s)
        total += slope * slope
    return total


@compiled
def adam_step(
    slopes: Any, squares: Any, kept: Any, for_all: Any, pressure: Any,
    v: Any, mean: Any, mean_square: Any, constants: Any,
) -> tuple[float, float]:  # fmt: skip
    """Move v and s by a step, set `slopes` to 0, and return sum s and sum s squares.

    Kingma and Ba, "Adam: a method for stochastic optimization", arXiv 1412.6980, with its own
    constants but for the rate. The slope of the loss is (pressure - dz/ds) ds/dv with s = sigma(2
    v); dz/ds of a feature is slopes + squares * for_all, the second part of which is 0 for a dense
    table.

    The step is constants[5] mean / (constants[6] sqrt(mean_square) + eps).
    """
    clip, old, new, old_square, new_square, forward, root = constants[:7]
    least, one = kept.dtype.type(1e-8), kept.dtype.type(1)
    total, everywhere = 0.0, 0.0
    for first in range(0, len(kept), _BLOCK):
        last = min(len(kept), first + _BLOCK)
        for d in range(first, last):
            s = kept[d]
            slope = clip * (pressure - slopes[d] - squares[d] * for_all) * (s + s) * (one - s)
            mean[d] = old * mean[d] + new * slope
            mean_square[d] = old_square * mean_square[d] + new_square * slope * slope
            v[d] -= forward * mean[d] / (root * np.sqrt(mean_square[d]) + least)
            slopes[d] = 0
        for d in range(first, last):
            kept[d] = one / (one + np.exp(-(v[d] + v[d])))
            total += kept[d]
            everywhere += kept[d] * squares[d]
    return total, everywhere


@compiled
def dense_columns(X: Any, mean: Any, rest: Any, variance: Any, varies: Any) -> None:
    """Write the mean, the variance and whether a column of X (N, D) varies, each shape (D,).

    Sums are over rows in their order, for all columns in parallel.

    The mean is taken twice, the second time of what is left of the first: mean + rest is nearer.
    """
    n_rows, n_features = X.shape
    for n in range(n_rows):
        for d in range(n_features):
            mean[d] += X[n, d] / n_rows
    for n in range(n_rows):
        for d in range(n_features):
            off = X[n, d] - mean[d]
            rest[d] += off / n_rows
            variance[d] += off * off / n_rows
            varies[d] |= X[n, d] != X[0, d]
    for d in range(n_features):
        variance[d] -= rest[d] * rest[d]


@compiled
def sparse_columns(
    indices: Any, values: Any, n_rows: int,
    mean: Any, rest: Any, variance: Any, varies: Any, stored: Any,
) -> None:  # fmt: skip
    """Write the same of a sparse table, and how many values each column stores, shape (D,)."""
    n_features = len(mean)
    first = np.zeros(n_features)
    for j in range(len(indices)):
        d = indices[j]
        if not stored[d]:
            first[d] = values[j]
        stored[d] += 1
        varies[d] |= values[j] != first[d]
        mean[d] += values[j] / n_rows
    for j in range(len(indices)):
        d = indices[j]
        off = values[j] - mean[d]
        rest[d] += off / n_rows
        variance[d] += off * off / n_rows
    for d in range(n_features):
        absent = n_rows - stored[d]
        varies[d] |= absent > 0 and first[d] != 0
        variance[d] += absent * mean[d] * mean[d] / n_rows
        rest[d] -= absent * mean[d] / n_rows
        variance[d] -= rest[d] * rest[d]


@compiled
def scaled_values(indices: Any, values: Any, origin: Any, inverse: Any, out: Any) -> None:
    """Write stored values, less their column's origin (D,) and times its inverse spread (D,)."""
    for j in range(len(indices)):
        d = indices[j]
        out[j] = (values[j] - origin[d]) * inverse[d]


@compiled
def dense_combination(X: Any, mean: Any, inverse: Any, lengths: Any, out: Any) -> None:
    """Add U' lengths to `out` (D,), with U = (X - mean) inverse and lengths of shape (N,)."""
    n_rows, n_features = X.shape
    for n in range(n_rows):
        for d in range(n_features):
            out[d] += lengths[n] * (X[n, d] - mean[d])
    for d in range(n_features):
        out[d] *= inverse[d]


@compiled
def dense_lengths(X: Any, mean: Any, inverse: Any, direction: Any, lengths: Any) -> None:
    """Write U direction / N, shape (N,), in eight sums, so that the loop vectorises."""
    n_rows, n_features = X.shape
    along, sums = np.empty(n_features), np.empty(8)
    for d in range(n_features):
        along[d] = inverse[d] * direction[d]
    whole = n_features // 8 * 8
    for n in range(n_rows):
        sums[:] = 0.0
        for d in range(0, whole, 8):
            for lane in range(8):
                sums[lane] += (X[n, d + lane] - mean[d + lane]) * along[d + lane]
        for d in range(whole, n_features):
            sums[0] += (X[n, d] - mean[d]) * along[d]
        lengths[n] = sums.sum() / n_rows


@compiled
def sparse_combination(
    starts: Any, indices: Any, values: Any, shift: Any, lengths: Any, out: Any
) -> None:
    """Add U' lengths to `out` (D,), with U the values less a shift (D,) in every row."""
    total = 0.0
    for n in range(len(starts) - 1):
        total += lengths[n]
        for j in range(starts[n], starts[n + 1]):
            out[indices[j]] += lengths[n] * values[j]
    for d in range(len(shift)):
        out[d] -= total * shift[d]


@compiled
def sparse_lengths(
    starts: Any, indices: Any, values: Any, shift: Any, direction: Any, lengths: Any
) -> None:
    """Write U direction / N, shape (N,)."""
    everywhere, n_rows = 0.0, len(starts) - 1
    for d in range(len(shift)):
        everywhere += shift[d] * direction[d]
    for n in range(n_rows):
        length = -everywhere
        for j in range(starts[n], starts[n + 1]):
            length += values[j] * direction[indices[j]]
        lengths[n] = length / n_rows
