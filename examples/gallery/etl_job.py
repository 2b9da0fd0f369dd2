"""
Inside an ETL job
=================

The job that loads rows for a model asks the *contract* of a selection which columns it needs. It
reads these only, and refuses rows that do not fit any more.
"""

import matplotlib.pyplot as plt
import polars as pl
from sklearn.datasets import load_diabetes

import chaffinch

table = pl.from_pandas(load_diabetes(as_frame=True).frame)
table.write_parquet("patients.parquet")
result = chaffinch.select(
    "patients.parquet", "target", model="linear", tolerance=0.1, store="chaffinch-store"
)
print(result.verdict)

# %%
# The contract is a file, ``selection.json``. The job loads it by the name of the run.

contract = chaffinch.load_contract(result.run)
contract.columns

# %%
# How many bytes of the file are those of other columns, and need not be read?

read = contract.bytes_in("patients.parquet")
figure, axes = plt.subplots(figsize=(6, 1.6), layout="tight")
axes.barh(["all columns", "contract"], [read.all, read.kept], color=["silver", "tab:green"])
axes.set_xlabel(f"bytes; {read.share_saved:.0%} saved")

# %%
# With polars, the scan reads the columns of the contract from the file, and no others:

rows = pl.scan_parquet("patients.parquet").select(contract.columns).collect()
contract.validate(rows)
result.model.predict(rows)[:5]

# %%
# With pandas it is the same list. Rows that lack a column are refused by its name, before they
# reach the model:

import pandas as pd

rows = pd.read_parquet("patients.parquet", columns=contract.columns)
try:
    contract.validate(rows.drop(columns="bmi"))
except chaffinch.InputError as error:
    print(error)
