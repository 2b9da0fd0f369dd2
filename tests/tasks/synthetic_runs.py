"""Quick runs of made-up tables whose target some of eight numbers make."""

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ModelSettings

LINEAR = ModelSettings(name="linear", tuning="none")


def causes(*names, n=600, seed=0, **columns):
    """Return eight numbers x1 to x8 and a target y that is made of those named."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8)).round(6)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 9)])
    y = sum(2 * frame[name] for name in names) + random.normal(size=n)
    return frame.assign(**columns, y=y.round(6))


def run_that_keeps(name, folder):
    """Return a run on a file that keeps x2 and a column of this name."""
    causes("x1", "x2").rename(columns={"x1": name}).to_parquet(folder / "orders.v2.parquet")
    result = run_of(folder / "orders.v2.parquet", folder / "store")
    assert set(result.features) == {name, "x2"}
    return result


def run_of(table, store=None, **options):
    """Select features of a table by a model that takes no time."""
    options = {"model": LINEAR, "method": "flbmo", "n_features": 2, **options}
    return chaffinch.select(table, options.pop("target", "y"), store=store, **options)


def rows_of(result, *parts):
    """Return the rows of a run in a store, all or those of some parts."""
    dataset = result.folder.parents[1] / "datasets" / result.contract["dataset"]["hash"][:16]
    rows = pd.read_parquet(dataset / "table.parquet")
    part = pd.read_parquet(result.folder / "splits.parquet")["part"]
    return rows[part.isin(parts)] if parts else rows


def runs_of_two_days(folder):
    """Return a run that keeps x1 and x2 of a table `orders`, and a later one that keeps x2, x3."""
    found = []
    for names in (("x1", "x2"), ("x2", "x3")):
        causes(*names, seed=len(found)).to_csv(folder / "orders.csv", index=False)
        found.append(run_of(folder / "orders.csv", folder / "store"))
    return found
