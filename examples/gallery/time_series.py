"""
Which days of the past matter
=============================

A shop sells more if it sold more a week ago, and on days with an offer. Features are made of
earlier rows, and the selection finds those that help on later rows.
"""

import numpy as np
import pandas as pd

import chaffinch

random, n = np.random.default_rng(0), 3000
offer = random.random(n) < 0.2
sold = np.zeros(n)
for day in range(n):
    week_ago = sold[day - 7] if day >= 7 else 50
    sold[day] = 20 + 0.6 * week_ago + 15 * offer[day] + random.normal(scale=3)
days = pd.date_range("2018-01-01", periods=n)
table = pd.DataFrame({"day": days, "offer": offer.astype(int), "sold": sold})
table["visitors"] = random.normal(100, 10, size=n)  # has nothing to do with it

# %%
# ``lags`` are the values of earlier rows, and ``rolling`` the means and deviations of the rows
# before. Rows are split by time: every judgement is about later rows than those that were fitted.

history = chaffinch.HistorySettings(lags=(1, 2, 3, 7, 14), rolling=(7,))
result = chaffinch.select(table, "sold", model="linear", time="day", history=history)
print(result.verdict)
result.features

# %%

for row in result.why().itertuples():
    print(f"{row.column} ({row.state}): {row.why}")

# %%
# New rows get the same features from their past, and the model predicts from these.

features = chaffinch.with_history(table, "sold", time="day", lags=(1, 2, 3, 7, 14), rolling=(7,))
last = features.to_pandas().tail(60)
last["predicted"] = result.model.predict(last)
axes = last.set_index("day")[["sold", "predicted"]].plot(figsize=(7, 3))
axes.figure.tight_layout()
