"""Execution in this process or on a Dask cluster; signals and logging."""
