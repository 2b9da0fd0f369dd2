"""
How much may be lost
====================

The *tolerance* is the share of what all features explain that a smaller set may lose. The larger it
is, the fewer columns are kept. It is a decision about your job, which no method can make.
"""

import pandas as pd
from sklearn.datasets import load_breast_cancer

import chaffinch

table = load_breast_cancer(as_frame=True).frame
rows = {}
for tolerance in (0, 0.02, 0.05, 0.1, 0.2):
    result = chaffinch.select(table, "target", model="linear", tolerance=tolerance)
    accuracy = result.metrics["accuracy"]["selected"]
    lost = result.comparison["share_lost_at_most"]
    verdict = result.comparison["verdict"]
    rows[tolerance] = (len(result.features), accuracy, lost, verdict)
columns = ["columns", "accuracy", "loses at most", "verdict"]
table_of_tolerances = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
table_of_tolerances.rename_axis("tolerance").round(4)

# %%
# *Loses at most* is the upper bound, with 95 % confidence, of what the kept features explain less
# than all. If it is above the tolerance, 569 rows do not show that the set is as good. The verdict
# is then *worse* if they show that its loss is higher, and otherwise *cannot tell*.

axes = table_of_tolerances["columns"].plot.bar(rot=0, figsize=(6, 3), color="tab:green")
axes.set_xlabel("tolerance")
axes.set_ylabel("kept columns")
axes.figure.tight_layout()
