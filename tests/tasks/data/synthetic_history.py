"""Series to make a history of, and runs on it."""

from __future__ import annotations

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ModelSettings
from chaffinch.methods import AfsBm

LINEAR = ModelSettings(name="linear", tuning="none")
QUICK = {"model": LINEAR, "method": "anova_f"}
DAYS = pd.DataFrame({"day": [3, 1, 2, 4], "y": [4.0, 1.0, 2.0, 8.0]})


def two_series(n=6):
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {"shop": ["a"] * n + ["b"] * n, "day": [*range(n)] * 2, "y": random.normal(size=2 * n)}
    )


def made(data, column="y", **asked):
    return chaffinch.with_history(data, column, time="day", **asked).to_pandas()


def daily(n=400, seed=0):
    """A series that goes by what it was one and seven days ago."""
    random = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(n):
        y[t] = 0.6 * y[t - 1] * (t > 0) + 0.3 * y[t - 7] * (t > 6) + random.normal()
    return pd.DataFrame({"day": np.arange(n), "noise": random.normal(size=n), "y": y})


def run_on_days(store):
    """Return the result of a run on `daily`, with the lags that it goes by and others."""
    return chaffinch.select(
        daily(), "y", method=AfsBm(), model=LINEAR, time="day",
        history={"lags": [1, 2, 3, 7, 14, 28], "rolling": [4, 7]},
        settings={"shares": (50, 20, 20, 10)}, store=store,
    )  # fmt: skip
