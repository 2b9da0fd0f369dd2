"""
What fewer columns cost
=======================

Five columns or ten? A selection measures several numbers of features, so that you can choose after
you have seen the price of each.
"""

from sklearn.datasets import load_diabetes

import chaffinch

table = load_diabetes(as_frame=True).frame
result = chaffinch.select(table, "target", model="linear", store="chaffinch-store")
print(result.verdict)

# %%
# The price list: ``share_lost`` is what a number of features explains less than all of them, as a
# share of what all explain, and ``share_lost_at_most`` its upper bound with 95 % confidence. Below
# 0 the smaller set explains more.

result.curve.round(3)

# %%

result.plot()

# %%
# Take another number. The order of the features, the folds and the tuning are those of the first
# run, so that this is quick. It is a run of its own, with a verdict about this number:

four = result.at(4)
print(four.features)
print(four.verdict)

# %%
# Such a price holds for a number that was fixed before the list was read. If you choose the
# cheapest number of a long list, its true price may be higher.
