"""
What a nightly job saves
========================

A job loads a table every night and trains a model on it. This case counts what the job saves if it
loads the kept columns only: columns, bytes and minutes.
"""

import time

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor

import chaffinch

# %%
# A table as jobs have it: 6,000 rows and 80 columns, of which ten tell something about the price.
# Ten more are copies of these with some noise.

random = np.random.default_rng(0)
X = random.normal(size=(6_000, 80)).astype("float32")
X[:, 10:20] = X[:, :10] + 0.02 * random.normal(size=(6_000, 10))
price = X[:, :10] @ np.linspace(3, 1, 10) + 2 * X[:, 0] * X[:, 1] + random.normal(size=6_000)
table = pd.DataFrame(X, columns=[f"column_{i}" for i in range(80)]).assign(price=price)
table.to_parquet("orders.parquet")

# %%
# The selection, once. A test part gives the verdict, which is quicker than folds.

start = time.perf_counter()
model = chaffinch.ModelSettings(name="lightgbm", tuning="none")
method = chaffinch.methods.Auto(validation="holdout")
result = chaffinch.select("orders.parquet", "price", model=model, method=method)
seconds_once = time.perf_counter() - start
print(result.verdict)

# %%
# The job, with all columns and with those of the contract:


def nightly(columns):
    """Load and train, and return the seconds that this takes."""
    start = time.perf_counter()
    rows = pd.read_parquet("orders.parquet", columns=columns)
    LGBMRegressor(verbose=-1).fit(rows.drop(columns="price"), rows["price"])
    return time.perf_counter() - start


needed = [*result.contract.columns, "price"]
seconds = {"all": nightly([*table.columns]), "kept": nightly(needed)}
read = result.contract.bytes_in("orders.parquet")

# %%
# The bill. The seconds are those of the machine that built this page; the bytes are exact.

bill = pd.DataFrame(
    {
        "columns": [80, len(result.features)],
        "megabytes a night": [read.all / 1e6, read.kept / 1e6],
        "minutes in 365 nights": [365 * seconds["all"] / 60, 365 * seconds["kept"] / 60],
    },
    index=["all columns", "kept columns"],
)
print(f"The selection took {seconds_once:.0f} s, once.")
bill.round(1)

# %%

shares = 100 * bill.loc["kept columns"] / bill.loc["all columns"]
axes = shares.plot.barh(figsize=(7, 2.5), xlim=(0, 100), color="tab:green")
axes.set_xlabel("per cent of what all columns take")
axes.figure.tight_layout()
