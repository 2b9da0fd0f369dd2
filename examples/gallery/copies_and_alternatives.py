"""
Copies and alternatives
=======================

Often several columns say the same. Which one stands for which others? And is there quite another
set of columns that is nearly as good, for example from another supplier?
"""

from sklearn.datasets import load_breast_cancer

import chaffinch

table = load_breast_cancer(as_frame=True).frame
settings = chaffinch.AlternativeSettings(number=2, tau=0.5, quality="binned_mrmr")
result = chaffinch.select(
    table, "target", model="linear", tolerance=0.05, n_features=8, alternatives=settings
)

# %%
# Near copies have nearly the same ranks. Of each group, the column that helps most stands for all;
# any of its copies could take its place.

why = result.why()
for column, reason in why.loc[why["why"].str.contains("Near copy"), ["column", "why"]].to_numpy():
    print(f"{column}: {reason}")

# %%
# An alternative differs from the chosen set, and from each other alternative, in at least half of
# its features (``tau``). Each is fitted and scored on the rows that judge. *Optimal* is a proof
# that no other set of this size has a higher quality.

result.alternatives

# %%
# Without a run, `chaffinch.find_alternatives` finds such sets for a quality of your choice, and
# draws which features they have.

X, y = table.drop(columns="target"), table["target"]
quality = chaffinch.qualities.binned_mrmr(X, y)
found = chaffinch.find_alternatives(quality, k=5, n_alternatives=3, tau=0.6)
print(found.status)
found.plot()
