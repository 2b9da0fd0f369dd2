"""Rolling means and deviations: exact to the last digits, and of the window's own rows alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from chaffinch.tasks.data.rolling_windows import moments_before

KINDS = ("plain", "far from zero", "outliers", "of every size")


def numbers(kind, n, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=n)
    if kind == "far from zero":
        values += 1e9
    if kind == "outliers":
        values[random.integers(0, n, 5)] = 1e15
    if kind == "of every size":
        values *= 10.0 ** random.integers(-12, 13, size=n)
    return values


def places(*lengths):
    return np.concatenate([np.arange(length) for length in lengths])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [2, 3, 7, 28, 59])
def test_they_are_the_exact_ones_to_the_last_digits(kind, window) -> None:
    values = numbers(kind, 120)
    mean, deviation = moments_before(values, places(120), window)
    assert np.isnan(mean[:window]).all()
    for row in range(window, 120):
        past = [Fraction(float(value)) for value in values[row - window : row]]
        exact = sum(past) / window
        variance = sum((value - exact) ** 2 for value in past) / (window - 1)
        assert mean[row] == pytest.approx(float(exact), rel=3e-16, abs=0)
        assert deviation[row] == pytest.approx(math.sqrt(variance), rel=5e-16, abs=0)


@pytest.mark.parametrize("window", [2, 5, 16, 17, 18, 100])
def test_they_are_those_of_pandas_with_what_is_missing(window) -> None:
    """Series that are shorter than the window, as long, a row longer, and several times so."""
    lengths = (1, 16, 17, 18, 19, 250, 7, 101)
    values = numbers("plain", sum(lengths))
    values[np.random.default_rng(1).integers(0, len(values), 9)] = np.nan
    series = np.repeat(np.arange(len(lengths)), lengths)
    past = pd.Series(values).groupby(series).shift(1)
    rolling = past.groupby(series).rolling(window)
    mean, deviation = moments_before(values, places(*lengths), window)
    assert np.isfinite(mean).any()
    np.testing.assert_allclose(mean, rolling.mean(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(deviation, rolling.std(), rtol=1e-9, atol=1e-12)


def test_a_window_as_long_as_all_but_a_row_is_exact() -> None:
    values = numbers("of every size", 20_000)
    mean, deviation = moments_before(values, places(20_000), 19_999)
    assert np.isnan(mean[:-1]).all()
    past = [Fraction(value) for value in values[:-1].tolist()]
    exact = sum(past) / 19_999
    assert mean[-1] == pytest.approx(float(exact), rel=3e-16, abs=0)
    squares = sum(value * value for value in past) - exact * exact * 19_999
    assert deviation[-1] == pytest.approx(math.sqrt(squares / 19_998), rel=5e-16, abs=0)


@pytest.mark.parametrize("before", [1e30, np.nan, -3.0])
@pytest.mark.parametrize("window", [2, 7, 30])
def test_what_has_left_the_window_leaves_no_trace(before, window) -> None:
    """To the last bit, whatever was there and wherever the window lies in its series."""
    values = numbers("plain", 100)
    alone = [
        np.array(moments_before(values[row - window : row + 1], places(window + 1), window))[:, -1]
        for row in range(window, 100)
    ]
    for row in range(window, 100, 9):
        spoilt = values.copy()
        spoilt[: row - window] = before
        found = np.array(moments_before(spoilt, places(100), window))[:, row]
        np.testing.assert_allclose(found, alone[row - window], rtol=5e-16)
        clean = np.array(moments_before(values, places(100), window))[:, row]
        np.testing.assert_array_equal(found, clean)


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -7.3, 1e30, 1e-30])
def test_equal_values_have_themselves_as_mean_and_no_deviation(value) -> None:
    for window in (2, 3, 7, 28, 365, 5000):
        mean, deviation = moments_before(np.full(6000, value), places(6000), window)
        assert set(mean[window:]) == {value}
        assert set(deviation[window:]) == {0.0}
