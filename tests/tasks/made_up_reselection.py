"""Tables whose target moves from some columns to others, and their selection."""

from __future__ import annotations

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ModelSettings

LINEAR = ModelSettings(name="linear", tuning="none")


def table(*causes, n=600, seed=0, **columns):
    """Eight numbers, of which some make the target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8)).round(6)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 9)])
    y = sum(2 * frame[name] for name in causes) + random.normal(size=n)
    return frame.assign(**columns, y=y.round(6))


def select(data, **options):
    options = {"model": LINEAR, "method": "flbmo", "n_features": 2, **options}
    return chaffinch.select(data, "y", **options)
