"""Tables made on the spot, small enough to learn in a second."""

import numpy as np
import pandas as pd

N = 60


def bad_table(**columns):
    """Three features of noise and a target of two classes, N rows, changed as named."""
    random = np.random.default_rng(0)
    base = {name: random.normal(size=N).round(6) for name in "abc"}
    base["y"] = ["no", "yes"] * (N // 2)
    return pd.DataFrame(base | columns)


def good_table(n_rows=240, seed=0):
    """Two numbers and a category that matter, three that do not, gaps, and a target of classes."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n_rows, 5)).round(6)
    colour = random.choice(["red", "green", "blue"], n_rows)
    signal = 2 * numbers[:, 0] - 2 * numbers[:, 3] + 3 * (colour == "red")
    numbers[random.random((n_rows, 5)) < 0.02] = np.nan
    table = pd.DataFrame(numbers, columns=["age", "noise_1", "noise_2", "income", "noise_3"])
    table.insert(2, "colour", colour)
    noisy = signal + random.normal(size=n_rows)
    return table.assign(churned=np.where(noisy > np.median(noisy), "yes", "no"))
