"""The pure mathematics of selection: no Prefect, no Dask, no files.

`README.md` in this folder maps each paper's equations to functions and their tests.
"""
