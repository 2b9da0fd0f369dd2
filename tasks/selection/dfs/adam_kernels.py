"""One step of Adam over the relaxed mask, compiled: O(D), in two passes.

Kingma and Ba, "Adam: a method for stochastic optimization", arXiv 1412.6980, with its own constants
but for the rate. The slope of the loss is (pressure - dz/ds) ds/dv with s = sigma(2 v); dz/ds of a
feature is slopes + squares * for_all, the second part of which is 0 for a dense table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled, reordering

_BLOCK = 512


@reordering
def squared_length(slopes: Any, squares: Any, kept: Any, for_all: Any, pressure: Any) -> float:
    """Return the squared length of the slope of the loss with respect to v.

    Parameters
    ----------
    slopes, squares, kept : ndarray of one type, shape (D,)
        The parts of dz/ds, and s.
    for_all, pressure : scalars of that type
        What `squares` count for, and penalty / D.
    """
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
    """Move v and s by one step, set `slopes` back to 0 and return sum s and sum s squares.

    Parameters
    ----------
    slopes, squares, kept, for_all, pressure
        See `squared_length`.
    v, mean, mean_square : ndarray of the same type, shape (D,)
        The state of Adam.
    constants : ndarray of the same type, shape (7,)
        What clips the slope, the two shares kept of the means and what is new of them, and what
        makes up for their start: step = constants[5] mean / (constants[6] sqrt(mean_square) + eps).
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
def peaks_above(
    slopes: Any, squares: Any, for_all: Any, peaks: Any, decay: Any, least: Any, out: Any
) -> int:
    """Raise the peaks to dz/ds, write those above `least` to `out` (D,) and return how many.

    Parameters
    ----------
    slopes, squares, for_all
        See `squared_length`.
    peaks : ndarray of the same type, shape (D,)
        What each dz/ds was at most; where it is above 0 it first falls by the factor `decay`.
    decay, least : scalars of that type
    out : ndarray of the same type, shape (D,)
    """
    count = 0
    for d in range(len(slopes)):
        slope, peak = slopes[d] + squares[d] * for_all, peaks[d] * decay
        peaks[d] = peak if peaks[d] > 0 and peak > slope else slope
        out[count] = peaks[d]
        count += peaks[d] > least
    return count
