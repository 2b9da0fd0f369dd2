"""Memory, CPU seconds and bytes of each stage of a run on a large table.

A table of normal numbers with a binary target is written by row group. Each run is a program of its
own, without a cluster. Memory is what the process holds by itself (RssAnon), sampled every 10 ms:
mapped files are page cache, which the system takes back.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_ROWS_PER_GROUP = 131_072
_USED = 5  # columns that the target depends on


def write_table(path: Path, n_rows: int, n_columns: int, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    names = [f"x{j}" for j in range(n_columns - 1)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, _ROWS_PER_GROUP):
            X = random.normal(size=(min(_ROWS_PER_GROUP, n_rows - start), len(names)))
            y = X[:, :_USED].sum(axis=1) + random.normal(size=len(X)) > 0
            writer.write_table(pa.table([*X.T, y.astype(np.int64)], schema=schema))


class Watch:
    """Measures of each stage: peak memory, CPU seconds, bytes read and written."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}
        self._peak = 0.0
        threading.Thread(target=self._sample, daemon=True).start()

    def wrap_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            before, self._peak = _counters(), 0.0
            result = step(*arguments)
            peak = max(self._peak, _status("RssAnon"))
            spent = {name: value - before[name] for name, value in _counters().items()}
            self.stages[step.__name__] = {"peak": peak, **spent}
            return result

        return watched

    def _sample(self) -> None:
        while True:
            self._peak = max(self._peak, _status("RssAnon"))
            time.sleep(0.01)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def _counters() -> dict[str, float]:
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {
        "cpu": time.process_time(),
        "wall": time.perf_counter(),
        "read": float(counted["rchar"]),
        "written": float(counted["wchar"]),
    }


def measure(table: Path, store: Path, method: str, model: str, n_estimators: int) -> None:
    """Run the pipeline in this process, and print what its stages took as JSON."""
    from chaffinch.tasks.pipeline.run import select_features
    from chaffinch.tasks.settings.method import method_of
    from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

    watch = Watch()
    settings = SelectionSettings(
        target="y",
        method=method_of(method),
        model={"name": model, "tuning": "none", "parameters": {"n_estimators": n_estimators}},
    )
    execution = ExecutionSettings(store=store, cluster="none")
    select_features(table, settings, execution, wrap_step=watch.wrap_step)
    print(json.dumps(watch.stages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_500_000, 15_000_000])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--method", default="gbmo")
    parser.add_argument("--models", nargs="+", default=["lightgbm", "xgboost"])
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--limit-gb", type=float, help="of memory that a program may ask for")
    parser.add_argument("--measure", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        measure(*asked.measure, asked.method, asked.models[0], asked.trees)
        return
    limit = None if asked.limit_gb is None else int(asked.limit_gb * 1e9)
    for model in asked.models:
        found: dict[int, dict[str, dict[str, float]]] = {}
        for n_rows in asked.rows:
            found[n_rows] = _in_a_program(asked, model, n_rows, limit)
            _print(model, n_rows, asked.columns, found[n_rows])
        _print_exponents(found)


def _in_a_program(
    asked: argparse.Namespace, model: str, n_rows: int, limit: int | None
) -> dict[str, dict[str, float]]:
    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        write_table(table, n_rows, asked.columns)
        options = ("--method", asked.method, "--models", model, "--trees", str(asked.trees))
        command = [sys.executable, "-m", "tests.benchmarks.scale", *options]
        done = subprocess.run(
            [*command, "--measure", str(table), str(Path(folder) / "store")],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=limited,
            # Arrow's own allocator reserves a gigabyte of addresses, which the limit counts
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
    if done.returncode:
        sys.exit(f"{model} on {n_rows:,} rows failed; its error is above")
    stages: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return stages


def _print(model: str, n_rows: int, n_columns: int, stages: dict[str, dict[str, float]]) -> None:
    size = 8e-9 * n_rows * n_columns
    print(f"\n{model}, {n_rows:,} x {n_columns}: {size:.2f} GB as float64")
    heads = ("peak GB", "CPU s", "CPU s/GB", "wall s", "read", "wrote")
    print(f"{'stage':20}" + "".join(map("{:>9}".format, heads)))
    for name, took in stages.items():
        print(
            f"{name:20}{took['peak'] / 1e9:9.2f}{took['cpu']:9.1f}{took['cpu'] / size:9.1f}"
            f"{took['wall']:9.1f}{took['read'] / 1e9:9.2f}{took['written'] / 1e9:9.2f}"
        )
    peak, cpu = _whole(stages)
    print(f"{'whole':20}{peak / 1e9:9.2f}{cpu:9.1f}{cpu / size:9.1f}", flush=True)


def _whole(stages: dict[str, dict[str, float]]) -> tuple[float, float]:
    return max(took["peak"] for took in stages.values()), sum(t["cpu"] for t in stages.values())


def _print_exponents(found: dict[int, dict[str, dict[str, float]]]) -> None:
    """Print how memory and CPU seconds grow from the fewest to the most rows."""
    few, many = min(found), max(found)
    if few == many:
        return
    grown = zip(("memory", "CPU"), _whole(found[many]), _whole(found[few]), strict=True)
    print("exponents:", *(f"{n} {math.log(b / a) / math.log(many / few):.2f}" for n, b, a in grown))


if __name__ == "__main__":
    main()
