"""
The gate, night by night
========================

Every night selects anew. Should the job that loads the columns follow? The *gate* lets a new set
pass only if it is shown to be better, and is harmless. Otherwise the promoted set stays, or a
person is asked.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ExecutionSettings, ModelSettings, PromotionSettings, SelectionSettings


def orders(night, with_weather):
    """Return the orders of one night, whose price depends on three columns and the weather."""
    random = np.random.default_rng(night)
    table = pd.DataFrame(random.normal(size=(1500, 10)), columns=[f"x{i}" for i in range(10)])
    weather = random.normal(size=len(table))
    telling = 3 * table["x1"] - 2 * table["x4"] + 2 * table["x5"]
    table["price"] = telling + 1.5 * weather + random.normal(size=len(table))
    return table.assign(weather=weather) if with_weather else table


def select(night, with_weather=False):
    """Run the flow for one night, with the gate, and print how it ended."""
    Path(f"night-{night}").mkdir()
    orders(night, with_weather).to_parquet(f"night-{night}/orders.parquet")
    state = chaffinch.feature_selection(
        f"night-{night}/orders.parquet",
        SelectionSettings(target="price", model=ModelSettings(name="linear")),
        ExecutionSettings(store="chaffinch-store", cluster="none"),
        PromotionSettings(name="orders"),
        return_state=True,
    )
    print(f"night {night}: {state.name}. {state.message}")
    return state.result()


# %%
# The first night has nothing to compare with. All later contracts are measured against the first,
# and so a person takes it into use:

first = select(1)
promotion = chaffinch.promote(first, name="orders", reason="first contract")

# %%
# The second night brings new rows of the same kind. The message compares the selected columns with
# all columns. The gate compares them with the promoted ones, which they equal, so that nothing
# changes:

select(2)
print(chaffinch.promoted("orders").columns)

# %%
# In the third night there is a new column, the weather. It lowers the loss beyond chance, and few
# columns change, so that the new set passes by itself:

select(3, with_weather=True)
print(chaffinch.promoted("orders").columns)

# %%
# The history says who promoted what, and why. ``chaffinch rollback orders`` would go back.

for entry in chaffinch.promotions("orders"):
    print(entry.how, "-", entry.reason)

# %%

history = chaffinch.run_history("orders")
axes = history[["loss_all_features", "loss_selected"]].plot(style="o-", figsize=(6, 3))
axes.set(xlabel="run", ylabel="squared error", ylim=(0, None), xticks=history.index)
axes.figure.tight_layout()
