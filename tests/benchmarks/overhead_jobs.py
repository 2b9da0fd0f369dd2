"""What `tests.benchmarks.overhead` measures, one job per process.

``python -m tests.benchmarks.overhead_jobs NAME ARGUMENTS`` runs one function of this file with
JSON arguments and prints its answer as JSON, with the most memory the process ever held.
"""

from __future__ import annotations

import json
import resource
import runpy
import sys
import time
from pathlib import Path
from typing import Any

FEATURES_AT_STAKE = 8


def imported() -> dict[str, Any]:
    """Import whatever a run imports, and no more: the memory that no table can take away."""
    import lightgbm  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import pandas as pd  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.ensemble
    import sklearn.model_selection  # noqa: F401

    from chaffinch.tasks.pipeline import run as story  # noqa: F401

    return {}


def select_thrice(model: str) -> dict[str, Any]:
    """Select on the breast-cancer table; the first call warms up."""
    from sklearn.datasets import load_breast_cancer

    import chaffinch

    table = load_breast_cancer(as_frame=True).frame
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        chaffinch.select(table, "target", model=model)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds[1:]}


def write_small(path: str) -> dict[str, Any]:
    """Write the breast-cancer table."""
    demonstration = Path(__file__).parents[2] / "examples" / "demonstration.py"
    runpy.run_path(str(demonstration))["write_table"](Path(path).parent)
    return {}


def write_large(path: str, rows: int, columns: int, seed: int) -> dict[str, Any]:
    """Write a table of `columns` columns, the last the target, as CSV or Parquet."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    random = np.random.default_rng(seed)
    data = {f"x{j}": random.standard_normal(rows).round(6) for j in range(columns - 1)}
    signal = sum(data[f"x{j}"] for j in range(FEATURES_AT_STAKE)) + random.standard_normal(rows)
    table = pa.table({**data, "y": (signal > 0).astype(int)})
    write = pa.csv.write_csv if path.endswith(".csv") else pa.parquet.write_table
    write(table, path)
    return {"bytes": Path(path).stat().st_size}


def _settings(target: str, n_features: int, model: dict[str, Any]) -> Any:
    """Return settings under which all but the first few of `n_features` features are kept."""
    from chaffinch.tasks.settings.selection import SelectionSettings

    keep = [f"x{j}" for j in range(FEATURES_AT_STAKE, n_features)]
    return SelectionSettings(
        target=target,
        columns={"keep": keep},  # type: ignore[arg-type]
        model=model,  # type: ignore[arg-type]
    )


def story(
    path: str, store: str, target: str, n_features: int, model: dict[str, Any], **execution: Any
) -> dict[str, Any]:
    """Run the story as plain functions; say how long each stage took and what went over loopback.

    Everything Dask sends goes over the loopback interface, and so does its own talk.
    """
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.pipeline.run import select_features
    from chaffinch.tasks.settings.selection import ExecutionSettings

    before = _loopback_bytes()
    run = select_features(
        source_of(path),
        _settings(target, n_features, model),
        ExecutionSettings(store=Path(store), **execution),
    )
    stages = {record.stage: round(record.seconds, 3) for record in run.records()}
    return {"stages": stages, "loopback_bytes": _loopback_bytes() - before}


def cluster_start(workers: int) -> dict[str, Any]:
    """Start a local cluster and wait until every worker has answered once."""
    from chaffinch.tasks.workers.dask_cluster import open_workers

    start = time.perf_counter()
    with open_workers("local", workers) as opened:
        opened.client.run(int)  # type: ignore[attr-defined]
        started = time.perf_counter() - start
    return {"start": started, "stop": time.perf_counter() - start - started}


def _loopback_bytes() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


JOBS = {
    job.__name__: job
    for job in (imported, select_thrice, write_small, write_large, story, cluster_start)
}

if __name__ == "__main__":
    answer = JOBS[sys.argv[1]](**json.loads(sys.argv[2]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**answer, "peak_bytes": peak}))
