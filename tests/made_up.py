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
