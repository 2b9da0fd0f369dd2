"""What Figure 1 of PEFS shows, on a table that everyone has: digits with columns of noise."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.datasets import load_digits

from chaffinch.tasks.reproducing.experiment import Measured, nothing_to_read
from chaffinch.tasks.reproducing.pefs_figure_1 import Effort, experiment_with, measure
from chaffinch.tasks.reproducing.pefs_protocol import Table

# An epsilon above .3 leaves no column; LASSO keeps none below a C of .01.
_EFFORT = Effort(
    penalties=(0.0, 0.01, 0.03, 0.1, 0.2, 0.3),
    most_sweeps=60,
    strengths=(0.01, 0.03, 0.1, 1.0),
    steps=1000,
    at=(20, 30, 40, 50),
)


def digits_and_noise(seed: int) -> Table:
    """Return scikit-learn's digits, with a column of noise for each of the 64 pixels.

    X, shape (1797, 128), the pixels of 0..16 first and then standard normal noise, and the digits
    y, shape (1797,).
    """
    X, y = load_digits(return_X_y=True)
    noise = np.random.default_rng(seed).normal(size=X.shape)
    return np.hstack((X, noise)), y.astype(np.int64)


def measure_digits(shared: None, seed: int, *, effort: Effort = _EFFORT) -> Measured:
    """Return the figures of one seed, which the noise is drawn by as well."""
    return measure(digits_and_noise(seed), seed, effort=effort)


DIGITS = experiment_with(
    "digits-and-noise",
    _EFFORT,
    nothing_to_read,
    partial(measure_digits, effort=_EFFORT),
    "The paper does not show this table: scikit-learn's digits, with a column of noise for each of "
    "the 64 pixels that is drawn anew with each seed.",
)
