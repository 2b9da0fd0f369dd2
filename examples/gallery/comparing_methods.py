"""
Which method for your table
===========================

No method is the best on every table. A comparison measures several on yours, by nested folds: each
selects without the rows that score it. See the `report of this comparison
<../../samples/comparison.html>`__.
"""

from sklearn.datasets import load_breast_cancer

import chaffinch

table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
table.to_parquet("tumours.parquet")
compared = chaffinch.compare(
    "tumours.parquet",
    "benign",
    methods=["auto", "anova_f", "mrmr", "select_from_model"],
    models=["linear"],
    sizes=[5, 10],
    folds=4,
    seeds=1,
    store="chaffinch-store",  # keeps the report and the results
)
compared

# %%
# Each method is scored with the number of features that it chooses by itself, and with five and ten
# features. The chart has the difference to all features, with its interval: to the left of the line
# a method is better than all features.

compared.plot()

# %%
# The same figures as a table, to work with:

frame = compared.to_frame()
frame[["method", "size", "n_features", "loss", "low", "high", "verdict"]].round(4)
