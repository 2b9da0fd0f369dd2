"""``make bench-overhead``: seconds and memory around the main job, measured against their goals.

Every figure is taken in processes of its own with one thread per library. What is compared is run
in turn, so that a busy machine slows both alike. Memory is resident memory: of a process its own
maximum, of a family the largest sum, in which pages shared by two count twice.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path("bench-results/overhead.jsonl")
REPEATS = 3
LARGE = {"rows": 100_000, "columns": 500, "seed": 0}
SMALL = {"rows": 200, "columns": 20, "seed": 0}
FOREST = {"rows": 20_000, "columns": 61, "seed": 0}
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
_MEGABYTE = 1e6


@dataclass
class Bench:
    """Runs jobs, prints their figures against goals and keeps them as JSON lines."""

    folder: Path
    lines: Any
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **environment: str) -> dict[str, Any]:
        """Run a program; return its answer, its seconds and the most bytes its family held."""
        start = time.perf_counter()
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                command,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD, **self.environment, **environment},
            )
            family = _Family(process.pid)
            family.start()
            code = process.wait()
            seconds = time.perf_counter() - start
            family.stop()
            printed.seek(0)
            answers = [line for line in printed.read().splitlines() if line.startswith("{")]
        if code:
            raise RuntimeError(f"{command} ended with code {code}; run it by hand")
        answer = json.loads(answers[-1]) if answers else {}
        return {**answer, "wall": seconds, "family_bytes": family.most}

    def job(self, name: str, **arguments: Any) -> Any:
        """Run a function of `overhead_jobs` in a process of its own."""
        command = (sys.executable, "-m", "tests.benchmarks.overhead_jobs", name)
        return self.run(*command, json.dumps(arguments))

    def store(self) -> str:
        """Return a fresh store."""
        return tempfile.mkdtemp(dir=self.folder)

    def report(
        self, what: str, values: list[float], unit: str, goal: float | None = None, **details: Any
    ) -> None:
        """Print the median and the minimum, and keep all."""
        median = statistics.median(values)
        verdict = "" if goal is None else "ok" if median < goal else "NOT MET"
        bound = "" if goal is None else f"< {goal:g}"
        print(f"{what:52} {median:8.2f} {min(values):8.2f} {unit:5} {bound:>7} {verdict}")
        row = {"what": what, "unit": unit, "values": values, "goal": goal, **details}
        self.lines.write(json.dumps(row) + "\n")
        self.lines.flush()


class _Family(threading.Thread):
    """Watches a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process = psutil.Process(pid)
        self._stopped = threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self._stopped.wait(0.05):
            with suppress(psutil.Error):
                family = [self._process, *self._process.children(recursive=True)]
                self.most = max(self.most, sum(p.memory_info().rss for p in family))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def command_line(bench: Bench) -> None:
    """Import and help: what a person waits for before anything has begun."""
    python = sys.executable
    help_ = (
        "import sys; sys.argv[1:] = ['--help']; from chaffinch.flows.cli.main import main; main()"
    )
    for what, code in (("import chaffinch", "import chaffinch"), ("chaffinch --help", help_)):
        seconds = [bench.run(python, "-c", code)["wall"] for _ in range(REPEATS + 1)][1:]
        bench.report(what, seconds, "s", 0.5)


def warm_calls(bench: Bench) -> None:
    """`chaffinch.select` where everything is imported."""
    for model in ("lightgbm", "xgboost", "mlp"):
        seconds = bench.job("select_thrice", model=model)["seconds"]
        bench.report(f"chaffinch.select, warm, {model}", seconds, "s", 5)


def main_job(bench: Bench) -> None:
    """`make run` but for setting up: everything from the shell and back."""
    demonstration = Path(__file__).parents[2] / "examples" / "demonstration.py"
    command = (sys.executable, str(demonstration))
    for what, homes in (
        ("the main job, PREFECT_HOME cold", [bench.store()]),
        ("the main job, PREFECT_HOME warm", [bench.environment["PREFECT_HOME"]] * REPEATS),
    ):
        seconds = []
        for home in homes:
            with _working_in(bench.store()):
                seconds.append(bench.run(*command, PREFECT_HOME=home)["wall"])
        bench.report(what, seconds, "s", 120)


def orchestration(bench: Bench) -> None:
    """`chaffinch run` against the plain story, in turn; 3 s are 5 % of a job of a minute."""
    path = str(bench.folder / "breast_cancer.csv")
    bench.job("write_small", path=path)
    story = {
        "path": path,
        "target": "diagnosis",
        "cluster": "none",
        "n_features": 0,
        "model": {"name": "lightgbm"},
    }
    command = (
        sys.executable,
        "-c",
        "from chaffinch.flows.cli.main import main; main()",
        "run",
        path,
    )
    options = ("--target", "diagnosis", "--cluster", "none")
    with _prefect_server(bench.environment) as running:
        for what, server in (("a running server", running), ("an embedded server", {})):
            extra = []
            for _ in range(REPEATS):
                plain = bench.job("story", store=bench.store(), **story)["wall"]
                asked = (*options, "--prefect", "--store", bench.store())
                flow = bench.run(*command, *asked, **server)["wall"]
                extra.append(flow - plain)
            bench.report(f"Prefect with {what}, extra", extra, "s", 3)


def memory(bench: Bench) -> None:
    """Most resident memory of a run, in tables as float64."""
    table = 8 * LARGE["rows"] * LARGE["columns"]
    libraries = bench.job("imported")["peak_bytes"]
    bench.report("libraries loaded, no table", [libraries / _MEGABYTE], "MB")
    bench.report("the table as float64", [table / _MEGABYTE], "MB")
    model = {"name": "lightgbm", "folds": 2, "parameters": {"n_estimators": 5}}
    common = {"target": "y", "n_features": LARGE["columns"] - 1, "model": model}
    path = str(bench.folder / "small.parquet")
    bench.job("write_large", path=path, **SMALL)
    small = {**common, "n_features": SMALL["columns"] - 1, "cluster": "none"}
    code = bench.job("story", path=path, store=bench.store(), **small)["peak_bytes"]
    bench.report("the same run of a small table", [code / _MEGABYTE], "MB", **SMALL)
    for ending in ("csv", "parquet"):
        path = str(bench.folder / f"large.{ending}")
        bench.job("write_large", path=path, **LARGE)
        got = bench.job("story", path=path, store=bench.store(), cluster="none", **common)
        bench.report(f"peak, {ending}, cluster none", [got["peak_bytes"] / _MEGABYTE], "MB")
        tables = (got["peak_bytes"] - libraries) / table
        bench.report(f"peak less libraries, {ending}, in tables", [tables], "x", 3, **LARGE)
        tables = (got["peak_bytes"] - code) / table
        bench.report(f"peak less the small run, {ending}, in tables", [tables], "x", **LARGE)
    got = bench.job("story", path=path, store=bench.store(), cluster="local", workers=2, **common)
    bench.report("peak of all, parquet, 2 workers", [got["family_bytes"] / _MEGABYTE], "MB")


def workers(bench: Bench) -> None:
    """Tuning and masks of a forest on 0, 1, 2 and 4 workers."""
    path = str(bench.folder / "forest.parquet")
    bench.job("write_large", path=path, **FOREST)
    model = {"name": "RandomForestClassifier", "folds": 3, "parameters": {"n_estimators": 30}}
    common = {"path": path, "target": "y", "n_features": FOREST["columns"] - 1, "model": model}
    for n in (0, 1, 2, 4):
        cluster = {"cluster": "local", "workers": n} if n else {"cluster": "none"}
        got = bench.job("story", store=bench.store(), **common, **cluster)
        seconds = got["stages"]["train_base_model"] + got["stages"]["optimise_mask"]
        bench.report(f"tuning and masks of a forest, {n} workers", [seconds], "s", **FOREST)
        bench.report(f"sent over loopback, {n} workers", [got["loopback_bytes"] / _MEGABYTE], "MB")
        if n:
            started = [bench.job("cluster_start", workers=n)["start"] for _ in range(REPEATS)]
            bench.report(f"start of {n} workers", started, "s")


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _prefect_server(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Start a Prefect server that stays for the length of the block; yield how to reach it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    server = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while server.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{api}/health"):  # noqa: S310
                break
            time.sleep(0.2)
        yield {"PREFECT_API_URL": api}
    finally:
        server.terminate()
        server.wait()


MEASUREMENTS = (command_line, warm_calls, main_job, orchestration, memory, workers)


def main() -> None:
    """Measure everything, or only what is named on the command line."""
    named = set(sys.argv[1:])
    RESULTS.parent.mkdir(exist_ok=True)
    libraries = ("chaffinch", "prefect", "distributed", "lightgbm", "xgboost-cpu", "torch", "numpy")
    folder = Path(tempfile.mkdtemp(prefix="chaffinch-overhead-"))
    environment = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": os.pathsep.join([str(Path("src").resolve()), str(Path.cwd())]),
    }
    try:
        with RESULTS.open("a") as lines:
            machine = {"cores": os.cpu_count(), "python": platform.python_version()}
            versions = {name: version(name) for name in libraries}
            lines.write(json.dumps({**machine, "versions": versions}) + "\n")
            print(f"{'':52} {'median':>8} {'minimum':>8} {'':5} {'goal':>7}")
            bench = Bench(folder, lines, environment)
            for measurement in MEASUREMENTS:
                if not named or measurement.__name__ in named:
                    measurement(bench)
    finally:
        shutil.rmtree(folder)
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    main()
