"""
Columns that cost money
=======================

A column may be bought from a supplier, must stay for legal reasons, or makes sense only together
with others. Every method obeys such constraints.
"""

from sklearn.datasets import load_breast_cancer

import chaffinch
from chaffinch import Constraints, Group

table = load_breast_cancer(as_frame=True).frame
worst = [name for name in table.columns if name.startswith("worst")]
errors = [name for name in table.columns if name.endswith("error")]

# %%
# The worst values come from one supplier, and the errors from another. Each is paid once, whichever
# of its columns are kept. Of the errors at most two may be kept, and the mean texture must stay.


def constraints(budget):
    return Constraints(
        groups=[Group(worst, cost=5), Group(errors, at_most=2, cost=3)],
        budget=budget,
        must_include=["mean texture"],
    )


losses, kept = {}, {}
for budget in (0, 3, 5, 8):
    result = chaffinch.select(
        table, "target", model="linear", tolerance=0.05, constraints=constraints(budget)
    )
    losses[budget] = result.losses["out_of_fold"]["selected"]
    kept[budget] = result.features
    print(f"budget {budget}: {len(result.features)} columns for {result.costs['kept']}")

# %%
# What does the money buy? The loss for each budget:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(losses.keys(), losses.values(), "o-", color="tab:green")
axes.set(xlabel="budget", ylabel="log loss of held-out rows", ylim=(0, None))
figure.tight_layout()

# %%
# Without money, the means alone are left:

kept[0]
