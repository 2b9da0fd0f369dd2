"""The pure mathematics of selection: no Prefect, no Dask, no files.

`README.md` beside this file leads from each paper's equations to the functions and their tests.
"""
