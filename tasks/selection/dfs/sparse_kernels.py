"""The two sweeps over sparse rows, compiled: exact centring, and no column that is not stored.

A centred row is full, but what its zeros add is known: with w_d = s_d / N, the shift mu_d, p = X
(w mu), q = sum_d w_d mu_d^2 over all columns, and sums over the rows m already met

    T = sum z_m,   S = sum p_m z_m,   acc_d = sum x_md z_m,

a row n gives (A z)_n = sum_{d stored} w_d x_nd acc_d - p_n T - S + q T, and the gradient

    dz/ds_d = 1/N [ sum_n x_nd (sum_q lambda_q[n] acc_d,q - mu_d c_n) + mu_d^2 Q ],
    c_n = sum_q (lambda_q[n] T_q + r_q[n] Lam_q(n)),   Q = sum_q sum_n lambda_q[n] T_q(n),

with Lam_q(n) the sum of lambda_q over the rows before n. That is O(k (nnz + N)), and Q alone is
what the columns without any value in the batch need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.numba_tools import compiled


@compiled
def gather(
    starts: Any, indices: Any, values: Any, rows: Any,
    number: Any, ends: Any, local: Any, stored: Any, touched: Any,
) -> int:  # fmt: skip
    """Copy the rows of a batch in order, and number their columns as they occur.

    `number` (D,) is -1 everywhere; the numbers of the columns stay there. Row i is ends[i] : ends[i
    + 1] of `local` and `stored`; `touched` lists the columns. Returns how many.
    """
    n_met, place = 0, 0
    for i in range(len(rows)):
        ends[i] = place
        for j in range(starts[rows[i]], starts[rows[i] + 1]):
            d = indices[j]
            if number[d] < 0:
                number[d] = n_met
                touched[n_met] = d
                n_met += 1
            local[place] = number[d]
            stored[place] = values[j]
            place += 1
    ends[len(rows)] = place
    return n_met


@compiled
def _product_with_row(local: Any, values: Any, weight: Any, sums: Any, out: Any) -> None:
    """Write the product of a row's stored values with the sums (columns, channels): (channels,).

    Four channels are added up in registers, since a processor does them at once.
    """
    whole = len(out) // 4 * 4
    for first in range(0, whole, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(len(local)):
            u = local[j]
            x = weight[u] * values[j]
            s0 += x * sums[u, first]
            s1 += x * sums[u, first + 1]
            s2 += x * sums[u, first + 2]
            s3 += x * sums[u, first + 3]
        out[first], out[first + 1], out[first + 2], out[first + 3] = s0, s1, s2, s3
    for channel in range(whole, len(out)):
        total = 0.0
        for j in range(len(local)):
            total += weight[local[j]] * values[j] * sums[local[j], channel]
        out[channel] = total


@compiled
def _add_row(local: Any, values: Any, numbers: Any, sums: Any) -> None:
    """Add a row's stored values, times a number for each channel, to the sums of its columns."""
    whole = len(numbers) // 4 * 4
    for first in range(0, whole, 4):
        n0, n1, n2, n3 = (
            numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3],
        )  # fmt: skip
        for j in range(len(local)):
            u, x = local[j], values[j]
            sums[u, first] += x * n0
            sums[u, first + 1] += x * n1
            sums[u, first + 2] += x * n2
            sums[u, first + 3] += x * n3
    for channel in range(whole, len(numbers)):
        for j in range(len(local)):
            sums[local[j], channel] += values[j] * numbers[channel]


@compiled
def _add_gradient(local: Any, values: Any, duals: Any, sums: Any, gradient: Any) -> None:
    """Add a row's stored values, times the product of its duals and the sums, to the gradient."""
    whole = len(duals) // 4 * 4
    for first in range(0, whole, 4):
        d0, d1, d2, d3 = duals[first], duals[first + 1], duals[first + 2], duals[first + 3]
        for j in range(len(local)):
            u = local[j]
            gradient[u] += values[j] * (
                (d0 * sums[u, first] + d1 * sums[u, first + 1])
                + (d2 * sums[u, first + 2] + d3 * sums[u, first + 3])
            )
    for channel in range(whole, len(duals)):
        for j in range(len(local)):
            gradient[local[j]] += values[j] * duals[channel] * sums[local[j], channel]


@compiled
def _forwards(
    ends: Any, local: Any, values: Any, weight: Any, shift: Any, everywhere: float,
    y: Any, alphas: Any, sums: Any, totals: Any, off: Any, duals: Any,
) -> None:  # fmt: skip
    """Process rows from the first: l, and from it lambda.

    `sums` (columns, channels) becomes acc and `totals` (3, channels) T, S and the sum of lambda,
    from 0. Writes p to `off` (n,) and lambda to `duals` (n, channels).
    """
    n_rows, n_outputs, order = len(ends) - 1, y.shape[1], len(alphas)
    n_channels = n_outputs * order
    numbers, products = np.zeros(n_channels), np.zeros(n_channels)
    total, off_total, dual_total = totals[0], totals[1], totals[2]
    for n in range(n_rows):
        columns, stored = local[ends[n] : ends[n + 1]], values[ends[n] : ends[n + 1]]
        for j in range(len(columns)):
            off[n] += weight[columns[j]] * stored[j] * shift[columns[j]]
        _product_with_row(columns, stored, weight, sums, products)
        for c in range(n_outputs):
            numbers[c * order] = y[n, c]
            for channel in range(c * order, (c + 1) * order - 1):
                numbers[channel + 1] = (
                    products[channel] + (everywhere - off[n]) * total[channel] - off_total[channel]
                )
            for q in range(order):
                for p in range(order - q):
                    duals[n, c * order + q] += alphas[p + q] * numbers[c * order + p]
        for channel in range(n_channels):
            total[channel] += numbers[channel]
            off_total[channel] += off[n] * numbers[channel]
            dual_total[channel] += duals[n, channel]
        _add_row(columns, stored, numbers, sums)


@compiled
def _backwards(
    ends: Any, local: Any, values: Any, weight: Any, shift: Any, everywhere: float,
    y: Any, alphas: Any, sums: Any, totals: Any, off: Any, duals: Any, gradient: Any,
) -> tuple[float, float]:  # fmt: skip
    """Process rows from the last: r, z and the gradient but for mu_d^2 Q; return z and Q.

    `sums` and `totals` begin at 0, but for the sum of lambda, which is that of all rows. The
    gradient is n times too large.
    """
    n_rows, n_outputs, order = len(ends) - 1, y.shape[1], len(alphas)
    n_channels = n_outputs * order
    numbers, products = np.zeros(n_channels), np.zeros(n_channels)
    total, off_total, dual_total = totals[0], totals[1], totals[2]
    z, for_all = 0.0, 0.0
    for n in range(n_rows - 1, -1, -1):
        columns, stored = local[ends[n] : ends[n + 1]], values[ends[n] : ends[n + 1]]
        _product_with_row(columns, stored, weight, sums, products)
        common = 0.0
        for c in range(n_outputs):
            numbers[c * order] = y[n, c]
            for q in range(order):
                channel = c * order + q
                value = (
                    products[channel] + (everywhere - off[n]) * total[channel] - off_total[channel]
                )
                z += alphas[q] * y[n, c] * value
                if q + 1 < order:
                    numbers[channel + 1] = value
        for channel in range(n_channels):
            dual_total[channel] -= duals[n, channel]
            common += duals[n, channel] * total[channel] + numbers[channel] * dual_total[channel]
            for_all += duals[n, channel] * total[channel]
            total[channel] += numbers[channel]
            off_total[channel] += off[n] * numbers[channel]
        for j in range(len(columns)):
            gradient[columns[j]] -= stored[j] * shift[columns[j]] * common
        _add_gradient(columns, stored, duals[n], sums, gradient)
        _add_row(columns, stored, numbers, sums)
    return z, for_all


@compiled
def sparse_sweeps(
    ends: Any, local: Any, values: Any, weight: Any, shift: Any, everywhere: float,
    y: Any, alphas: Any, gradient: Any,
) -> tuple[float, float]:  # fmt: skip
    """Return z of a batch and Q / n, and write the gradient but for mu_d^2 Q / n.

    Rows are as `gather` writes them. Of the columns there, the weight is s_d / n and the shift
    mu_d; `everywhere` is q, over all columns. y (n, C) is centred; alphas (k,) are `chain_weights`.
    """
    n_rows, n_channels = len(ends) - 1, y.shape[1] * len(alphas)
    sums, totals = np.zeros((len(weight), n_channels)), np.zeros((3, n_channels))
    off, duals = np.zeros(n_rows), np.zeros((n_rows, n_channels))
    _forwards(ends, local, values, weight, shift, everywhere, y, alphas, sums, totals, off, duals)
    sums[:], totals[:2] = 0.0, 0.0
    z, for_all = _backwards(
        ends, local, values, weight, shift, everywhere, y, alphas, sums, totals, off, duals,
        gradient,
    )  # fmt: skip
    for u in range(len(weight)):
        gradient[u] /= n_rows
    return z, for_all / n_rows
