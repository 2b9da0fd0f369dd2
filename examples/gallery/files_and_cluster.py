"""
A table in files, and several cores
===================================

A table may be a folder of files. The fits run in this process, or on the workers of a cluster: here
two processes of this machine, elsewhere a Dask scheduler. The result is the same on any of them.
"""

from pathlib import Path

from sklearn.datasets import load_digits

import chaffinch

digits = load_digits(as_frame=True).frame.drop(columns=["pixel_0_0", "pixel_4_0", "pixel_4_7"])
digits["is_three"] = digits.pop("target") == 3
Path("digits").mkdir()
for i in range(3):
    digits[i::3].to_parquet(f"digits/part-{i}.parquet")

# %%
# The features are the pixels of a handwritten digit, but for three that are the same in all. Which
# sixteen of them tell a three from the other digits?

result = chaffinch.select("digits", "is_three", model="linear", n_features=16, cluster=2)
print(result.verdict)

# %%
# Another number of workers, the same features:

again = chaffinch.select("digits", "is_three", model="linear", n_features=16)
print(again.features == result.features)

# %%
# The kept pixels, over the mean of all threes:

import matplotlib.pyplot as plt
import numpy as np

mean = load_digits().images[digits["is_three"]].mean(axis=0)
kept = [[int(place) for place in name.split("_")[1:]] for name in result.features]
rows, columns = np.transpose(kept)
figure, axes = plt.subplots(figsize=(3.5, 3.5), layout="tight")
axes.imshow(mean, cmap="Greys")
axes.plot(columns, rows, "s", color="tab:green", fillstyle="none", markersize=20)
axes.set_axis_off()
