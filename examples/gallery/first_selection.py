"""
First selection
===============

Which of 30 measurements of a tumour does a linear model need to tell whether it is malignant?
The table is scikit-learn's: 569 tumours, and a target of 0 or 1.
"""

from sklearn.datasets import load_breast_cancer

import chaffinch

table = load_breast_cancer(as_frame=True).frame
result = chaffinch.select(table, "target", model="linear", tolerance=0.05)
result

# %%
# The first line is the *verdict*. It compares the kept features with all features, on rows that no
# choice has seen. *As good with fewer columns* means that the smaller set is shown to lose at most
# the tolerance, here 5 % of what all features explain. :doc:`/docs/verdict` has the other verdicts.
#
# The kept features are a list of names, in the order of the table:

result.features

# %%
# The curve has the loss for each number of features that was tried.

result.plot()

# %%
# The model is fitted on the kept features, with all rows. It reads them from a table by their
# names, and ignores the others.

print("predicted:", result.model.predict(table.head(8)))
print("true:     ", table["target"].head(8).to_numpy())

# %%
# ``transform`` returns the kept columns of any table that has them.

result.transform(table.head(3))
