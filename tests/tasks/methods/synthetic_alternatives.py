"""Alternatives of a table that each feature is in four times."""

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import AlternativeSettings, ModelSettings

LINE = ModelSettings(name="linear", tuning="none")


def table() -> pd.DataFrame:
    """Two features that predict the target, each four times with more and more noise."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(400, 2))
    columns = {
        f"{name}{copy}": causes[:, place] + 0.3 * copy * random.normal(size=400)
        for copy in range(4)
        for place, name in enumerate("ab")
    }
    target = np.where(causes.sum(axis=1) + 0.3 * random.normal(size=400) > 0, "yes", "no")
    return pd.DataFrame(columns).assign(y=target)


def select(data=None, *, alternatives, **options):
    options = {"method": "flbmo", "n_features": 2, "model": LINE, **options}
    return chaffinch.select(
        table() if data is None else data, "y", alternatives=alternatives, **options
    )


def two_that_share_nothing() -> chaffinch.SelectionResult:
    return select(alternatives=AlternativeSettings(number=2, tau=1.0, quality="mutual_information"))
