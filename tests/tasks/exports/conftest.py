"""A run whose features are of every type, and a contract of lag features."""

import numpy as np
import pandas as pd
import pytest

import chaffinch
from tests.synthetic import good_table
from tests.tasks.synthetic_runs import LINEAR

KEPT = ("age", "colour", "income", "code", "size", "member")


def orders():
    """Return 300 rows with numbers, text, codes, whole numbers as categories and booleans."""
    rows = np.arange(300)
    return good_table(300).assign(
        code=[("00500", "10001", None)[i % 3] for i in rows],
        size=pd.array([None if i == 7 else i % 3 + 1 for i in rows], dtype="Int64"),
        member=rows % 2 == 0,
    )


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    orders().to_parquet(folder / "orders.parquet")
    result = chaffinch.select(
        folder / "orders.parquet", "churned", model=LINEAR, method="anova_f",
        n_features=len(KEPT), keep=KEPT, columns={"categorical": ["size"]}, store=folder / "store",
    )  # fmt: skip
    assert set(result.features) == set(KEPT)
    return result


@pytest.fixture(scope="session")
def of_days(tmp_path_factory):
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"noise": random.normal(size=300), "day": np.arange(300)})
    rows["y"] = random.normal(size=300).cumsum()
    result = chaffinch.select(
        rows, "y", model=LINEAR, method="anova_f", n_features=1, time="day",
        history={"lags": [1, 2]}, store=tmp_path_factory.mktemp("days"),
    )  # fmt: skip
    assert result.features == ["y_lag_1"]
    return result
