"""The two sweeps over dense rows, compiled: blocks of 8 rows, and the triangle within each.

`residual_variance.py` has the formulas. A *channel* is one order of one output; its accumulator is
the sum, over the rows already met, of x~ times that channel's number of the row. The columns are
cut into tiles of a fixed width, in which everything about a column lies together: 8 rows, the
weight, the gradient, then the accumulators, in fours. Offsets inside a tile are constants, so that
the compiler sees that nothing overlaps, and works on many columns at a time; what is computed of a
column is the same wherever it stands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled, reordering

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
        one, two = tile[b * _TILE : (b + 1) * _TILE], tile[(b + 1) * _TILE : (b + 2) * _TILE]
        r0, r1, r2, r3 = numbers[b, 0], numbers[b, 1], numbers[b, 2], numbers[b, 3]
        s0, s1, s2, s3 = (
            numbers[b + 1, 0], numbers[b + 1, 1], numbers[b + 1, 2], numbers[b + 1, 3],
        )  # fmt: skip
        for t in range(_TILE):
            x, z = one[t], two[t]
            place[t] += x * r0 + z * s0
            place[_TILE + t] += x * r1 + z * s1
            place[2 * _TILE + t] += x * r2 + z * s2
            place[3 * _TILE + t] += x * r3 + z * s3


@compiled
def _accumulate_backwards(tile: Any, four: int, numbers: Any, duals: Any) -> None:
    """Do the same from the last row to the first, and add to the gradient before each row.

    x~ times the sum over the channels of a dual (8, 4) and the accumulator so far.
    """
    first = _SUMS + four * _FOUR
    place, gradient = tile[first : first + _FOUR], tile[_GRADIENT : _GRADIENT + _TILE]
    for b in range(_ROWS - 1, 0, -2):
        one, two = tile[b * _TILE : (b + 1) * _TILE], tile[(b - 1) * _TILE : b * _TILE]
        l0, l1, l2, l3 = duals[b, 0], duals[b, 1], duals[b, 2], duals[b, 3]
        m0, m1, m2, m3 = duals[b - 1, 0], duals[b - 1, 1], duals[b - 1, 2], duals[b - 1, 3]
        r0, r1, r2, r3 = numbers[b, 0], numbers[b, 1], numbers[b, 2], numbers[b, 3]
        s0, s1, s2, s3 = (
            numbers[b - 1, 0], numbers[b - 1, 1], numbers[b - 1, 2], numbers[b - 1, 3],
        )  # fmt: skip
        for t in range(_TILE):
            x, z = one[t], two[t]
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
def room_for(n_features: int, n_outputs: int, order: int, weight: Any) -> Any:
    """Return the tiles of all columns with their weights, like `weight` (D,), in one row."""
    length = (_ROWS + 2 + 4 * ((order + 3) // 4) * n_outputs) * _TILE
    n_tiles = (n_features + _TILE - 1) // _TILE
    work = np.zeros(n_tiles * length, weight.dtype)
    for d in range(n_features):
        work[d // _TILE * length + _WEIGHT + d % _TILE] = weight[d]
    return work


@compiled
def clear_sums(work: Any, n_features: int) -> None:
    """Set the accumulators of all tiles back to 0."""
    n_tiles = (n_features + _TILE - 1) // _TILE
    length = len(work) // n_tiles
    for tile in range(n_tiles):
        work[tile * length + _SUMS : (tile + 1) * length] = 0


@compiled
def read_gradient(work: Any, n_rows: int, gradient: Any) -> None:
    """Write the gradient that the tiles hold, over n, shape (D,)."""
    length = len(work) // ((len(gradient) + _TILE - 1) // _TILE)
    for d in range(len(gradient)):
        gradient[d] = work[d // _TILE * length + _GRADIENT + d % _TILE] / n_rows


@compiled
def dense_forwards(
    X: Any, rows: Any, origin: Any, rest: Any, inverse: Any, y: Any, alphas: Any, work: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Go through rows, or those that follow others, from the first: l, and from it lambda.

    Parameters
    ----------
    X, rows, origin, rest, inverse, y, alphas
        See `dense_sweeps`.
    work : ndarray like X
        What `room_for` returned, with the accumulators of the rows before; of these as well after.

    Returns
    -------
    grams : ndarray of float64, shape (n / 8, 8, 8)
        Products of each 8 rows.
    duals : ndarray of float64, shape (n, channels)
        lambda, in fours, and 8 rows at a time.
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
def dense_backwards(
    X: Any, rows: Any, origin: Any, rest: Any, inverse: Any, y: Any, alphas: Any, work: Any,
    grams: Any, duals: Any,
) -> float:  # fmt: skip
    """Go through rows, or those that others follow, from the last: r, z and the gradient.

    Parameters
    ----------
    X, rows, origin, rest, inverse, y, alphas
        See `dense_sweeps`.
    work : ndarray like X
        As in `dense_forwards`, of the rows after; the gradient is added to.
    grams, duals
        What `dense_forwards` returned.

    Returns
    -------
    float
        What these rows add to z.
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
    """Return z of a batch of rows, and write its gradient with respect to s.

    Parameters
    ----------
    X, origin, rest, inverse
        See `DenseTable`.
    rows : ndarray of int64, shape (n,)
        The batch, in the order that counts.
    weight : ndarray like X, shape (D,)
        s_d / n.
    y : ndarray of float64, shape (n, C)
        Centred outputs of these rows.
    alphas : ndarray of float64, shape (k,)
        See `chain_weights`.
    gradient : ndarray like X, shape (D,)
        Where to write.
    """
    n_features = X.shape[1]
    work = room_for(n_features, y.shape[1], len(alphas), weight)
    grams, duals = dense_forwards(X, rows, origin, rest, inverse, y, alphas, work)
    clear_sums(work, n_features)
    z = dense_backwards(X, rows, origin, rest, inverse, y, alphas, work, grams, duals)
    read_gradient(work, len(rows), gradient)
    return z
