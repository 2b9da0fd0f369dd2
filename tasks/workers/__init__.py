"""Where work runs: this process or a Dask cluster; signals and logging."""
