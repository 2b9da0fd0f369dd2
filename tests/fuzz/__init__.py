"""Fuzzing: random tables, settings, addresses, contracts and files against the public functions."""

import os

# Read by libraries as they are imported: cases share the cores, and a fork keeps but one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[_name] = "1"
