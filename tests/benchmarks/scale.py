"""Memory, CPU seconds and bytes of each stage of a run on a large table.

A table of normal numbers with a binary target is written by row group. Each run is a program of its
own, with its rows in files. Memory is what the process holds by itself (RssAnon), sampled every 10
ms: mapped files are page cache, which the system takes back. With --compare the fewest rows are
also selected from in memory, where the contract must be equal, and by what a user would write with
pandas and SelectFromModel; with --workers also on a Dask cluster, whose contract must be equal too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
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


def measure(
    table: Path, store: Path, method: str, model: str, n_estimators: int, how: str, n_workers: int
) -> None:
    """Run the pipeline from this process, and print what its stages took as JSON."""
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.pipeline import memory
    from chaffinch.tasks.pipeline.run import select_features
    from chaffinch.tasks.settings.method import method_of
    from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

    memory.SHARE_IN_MEMORY = math.inf if how == "in memory" else 0.0
    watch = Watch()
    settings = SelectionSettings(
        target="y",
        method=method_of(method),
        model={"name": model, "tuning": "none", "parameters": {"n_estimators": n_estimators}},
    )
    execution = ExecutionSettings(store=store, cluster="none")
    with ExitStack() as opened:
        client, sent = None, _sent()
        if how == "on workers":
            client = opened.enter_context(_cluster(n_workers))
            execution = ExecutionSettings.with_client(client, store=store)
        run = select_features(source_of(table), settings, execution, wrap_step=watch.wrap_step)
        if client is not None:
            peaks = client.run(_status, "VmHWM")
            figures = ", ".join(f"{peak / 1e9:.2f}" for peak in peaks.values())
            wire = (_sent() - sent) / 1e6
            print(f"peak GB of each worker: {figures}; {wire:.0f} MB over lo", file=sys.stderr)
    contract = hashlib.sha256((run.folder / "selection.json").read_bytes()).hexdigest()
    print(json.dumps({"stages": watch.stages, "contract": contract}))


def _cluster(n_workers: int) -> Any:
    from distributed import Client

    return Client(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


def _sent() -> int:
    """Return the bytes that were sent over the loopback interface, by other programs too."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if "lo:" in line)


def measure_by_hand(table: Path, model: str, n_estimators: int) -> None:
    """Select with pandas and scikit-learn in this process, and print what it took as JSON."""
    import pandas as pd
    from lightgbm import LGBMClassifier
    from sklearn.feature_selection import SelectFromModel
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split
    from xgboost import XGBClassifier

    def by_hand() -> None:
        rows = pd.read_parquet(table)
        train, test = train_test_split(rows, test_size=0.15, random_state=0)
        kind = LGBMClassifier if model == "lightgbm" else XGBClassifier
        X, y = train.drop(columns="y"), train["y"]
        found = SelectFromModel(kind(n_estimators=n_estimators)).fit(X, y)
        kept = X.columns[found.get_support()]
        final = kind(n_estimators=n_estimators).fit(X[kept], y)
        for fitted, names in ((found.estimator_, X.columns), (final, kept)):
            log_loss(test["y"], fitted.predict_proba(test[names]))

    watch = Watch()
    watch.wrap_step(by_hand)()
    print(json.dumps({"stages": watch.stages, "contract": ""}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_500_000, 15_000_000])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--method", default="gbmo")
    parser.add_argument("--models", nargs="+", default=["lightgbm", "xgboost"])
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--limit-gb", type=float, help="of memory that a program may ask for")
    parser.add_argument(
        "--compare", action="store_true", help="at the fewest rows, with memory and with pandas"
    )
    parser.add_argument("--workers", type=int, default=0, help="also with so many of Dask")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        how, table, store = asked.measure[0], *map(Path, asked.measure[1:])
        model = asked.models[0]
        if how == "by hand":
            measure_by_hand(table, model, asked.trees)
        else:
            measure(table, store, asked.method, model, asked.trees, how, asked.workers)
        return
    for model in asked.models:
        found: dict[int, dict[str, dict[str, float]]] = {}
        for n_rows in sorted(asked.rows):
            compared = ("in memory", "by hand") if asked.compare and not found else ()
            spread = ("on workers",) if asked.workers else ()
            each = _in_programs(asked, model, n_rows, ("in files", *spread, *compared))
            for how, took in each.items():
                _print(f"{model}, {how}", n_rows, asked.columns, took["stages"])
            for how in {*spread, *compared} - {"by hand"}:
                is_equal = each["in files"]["contract"] == each[how]["contract"]
                print(f"the contracts in files and {how} are", "equal" if is_equal else "UNEQUAL")
            found[n_rows] = each["in files"]["stages"]
        _print_exponents(found)


def _in_programs(
    asked: argparse.Namespace, model: str, n_rows: int, ways: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return what each way to select took, each in a program of its own, on the same table."""
    limit = None if asked.limit_gb is None else int(asked.limit_gb * 1e9)

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        write_table(table, n_rows, asked.columns)
        options = ("--method", asked.method, "--models", model, "--trees", str(asked.trees))
        options = (*options, "--workers", str(asked.workers))
        command = [sys.executable, "-m", "tests.benchmarks.scale", *options]
        for how in ways:
            store = str(Path(folder) / f"store {how}")
            done = subprocess.run(
                [*command, "--measure", how, str(table), store],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                preexec_fn=limited if how == "in files" else None,
                # Arrow's own allocator reserves a gigabyte of addresses, and glibc's keeps those of
                # large arrays that are freed; the limit counts both
                env={
                    **os.environ,
                    "ARROW_DEFAULT_MEMORY_POOL": "system",
                    "MALLOC_MMAP_THRESHOLD_": str(2**20),
                },
            )
            if done.returncode:
                sys.exit(f"{model} {how} on {n_rows:,} rows failed; its error is above")
            found[how] = json.loads(done.stdout.splitlines()[-1])
    return found


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
