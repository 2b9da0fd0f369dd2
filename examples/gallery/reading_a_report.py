"""
Reading a report
================

Why was a column kept, and why was another one dropped? Each selection answers this for every
column, in a report and in Python. See the `report of this page <../../samples/report.html>`__.
"""

from sklearn.datasets import load_breast_cancer

import chaffinch

table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
table.to_parquet("tumours.parquet")
result = chaffinch.select("tumours.parquet", "benign", model="linear", tolerance=0.05)
html = result.report("report.html")  # one file with charts, to open in a browser
markdown = result.report("report.md")  # the same for a ticket or a pull request, without charts

# %%
# ``why`` has a row for each column. Here are those of a few: kept, dropped as a near copy of
# another column, and dropped because they do not help on rows that were held out.

why = result.why().set_index("column")
for column in ("worst radius", "worst area", "texture error", "benign"):
    print(f"{column} ({why.loc[column, 'state']}): {why.loc[column, 'why']}")

# %%
# The price of a kept column is what the model explains less, at most, if that column alone is
# masked. Its rank is its place in the order of usefulness, and ``share_of_folds`` the share of the
# folds that keep it. With a low share it could be another column on other rows.

columns = ["price", "rank", "share_of_folds"]
why.loc[result.features, columns].sort_values("rank")

# %%
# How much does the loss rise if one kept column is masked? The intervals hold for all columns
# together. Where an interval lies above 0, the column is shown to matter by itself.

importance = result.importance.set_index("feature").sort_values("rise")
lengths = [importance["rise"] - importance["low"], importance["high"] - importance["rise"]]
axes = importance["rise"].plot.barh(xerr=lengths, figsize=(7, 4), color="tab:green")
axes.set_xlabel("rise of the log loss without the column")
axes.figure.tight_layout()

# %%
# The first lines of the report as Markdown:

print("\n".join(markdown.read_text().splitlines()[:20]))
