"""``make bench-masked-loss``: the exact engine of trees against one prediction per feature.

Both sides run in one process, one after the other, on one thread, and warm: whatever is compiled
has been. The engine's seconds contain the reading of the model. The other side is the loop anyone
would write: set a column to its baseline, predict, score, put the column back. Where that loop
would take too long it is timed on a few features and multiplied; ``extrapolated_from`` says so.

    python -m tests.benchmarks.masked_loss [small|medium|large|threads|dask ...]

`dask` shares the rows of the large case out to 1, 2 and 4 worker processes, each of one thread, and
walks DASK_STEPS removals; beside it stands the same walk in this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chaffinch.tasks import spreading
from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.selection.bmo import eliminate
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Rows, Schema

RESULTS = Path("bench-results/masked_loss.jsonl")
SEED = 0
TRAINING_ROWS = 5000  # at most; the time of a prediction does not depend on it
TIMED_FEATURES = 12  # of a large table; of others all
DASK_STEPS = 40


@dataclass(frozen=True)
class Size:
    """Rows, features, trees and leaves."""

    rows: int
    features: int
    trees: int
    leaves: int


SIZES = {
    "small": Size(62, 60, 20, 31),
    "medium": Size(5_000, 300, 200, 31),
    "large": Size(50_000, 1_000, 500, 63),
}
MODELS = ("lightgbm", "lightgbm, log loss", "xgboost", "RandomForest", "HistGradientBoosting")
# The least ratio of a whole elimination, and of one iteration, by model and size.
GOALS = {
    ("lightgbm", "small"): (25, None),
    ("lightgbm", "medium"): (2_000, 200),
    ("lightgbm", "large"): (10_000, None),
    ("xgboost", "medium"): (500, None),
    ("RandomForest", "medium"): (1_000, None),
}


def made(size: Size, n_classes: int, seed: int) -> Rows:
    """Make rows of which ten features matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size.rows, size.features))
    y = X[:, :10].sum(axis=1) + X[:, 0] * X[:, 1] + (X[:, 2] > 0) * X[:, 3]
    y += rng.normal(size=size.rows)
    return Rows(X, (y > 0).astype(np.int64) if n_classes else y)


def trained(name: str, size: Size) -> tuple[FittedModel, Rows]:
    """Train a model, and return the rows to ask it about."""
    family, _, loss = name.partition(", ")
    n_classes = 2 if loss else 0
    rows = made(size, n_classes, SEED)
    parameters: dict[str, float | str]
    if family == "lightgbm":
        parameters = {"n_estimators": size.trees, "num_leaves": size.leaves}
        parameters |= {"colsample_bytree": 0.3, "min_child_samples": 5}
    elif family == "xgboost":
        parameters = {"n_estimators": size.trees, "max_leaves": size.leaves, "max_depth": 0}
        parameters |= {"grow_policy": "lossguide", "colsample_bytree": 0.3}
    elif family == "RandomForest":
        parameters = {"n_estimators": size.trees, "max_leaf_nodes": size.leaves}
        parameters |= {"max_features": 0.1}
    else:
        parameters = {"max_iter": size.trees, "max_leaf_nodes": size.leaves}
        parameters |= {"max_features": 0.3}
    if family[0].isupper():
        family += "Regressor"
    few = rows.take(np.arange(min(TRAINING_ROWS, size.rows)))
    schema = Schema(tuple(f"x{j}" for j in range(size.features)), (0,) * size.features, n_classes)
    return fit(family, few, schema, parameters, seed=SEED), rows


def seconds_of(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb(work: Callable[[], object]) -> float:
    """Return the most memory that one call holds at a time, in MB; what was there before is not in.

    numpy reports its arrays to tracemalloc, and the kernels hold nothing of size.
    """
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def measure(name: str, size_name: str, threads: int = 1) -> dict[str, object]:
    """Time both sides once, in this process."""
    size = SIZES[size_name]
    model, rows = trained(name, size)
    loss = resolve_loss(None, model.schema)
    baseline: Floats = rows.X.mean(axis=0)
    masked_loss(model, rows.take(np.arange(2)), loss, baseline).without_each()  # compiles or loads

    n_timed = TIMED_FEATURES if size_name == "large" else size.features

    def one_prediction_each() -> None:
        X = rows.X.copy()
        for j in range(n_timed):
            X[:, j] = baseline[j]
            loss(rows.y, model.predict(X))
            X[:, j] = rows.X[:, j]

    with single_thread():
        model.predict(rows.X[:10])
        per_prediction = seconds_of(one_prediction_each) / n_timed

    def one_iteration() -> None:
        masked_loss(model, rows, loss, baseline, threads=threads).without_each()

    one = seconds_of(one_iteration)
    fewest = size.features // 4
    whole = seconds_of(
        lambda: eliminate(
            masked_loss(model, rows, loss, baseline, threads=threads), min_features=fewest
        )
    )
    n_predictions = sum(range(fewest + 1, size.features + 1))
    goal_whole, goal_one = GOALS.get((name, size_name), (None, None))
    return {
        "model": name,
        "size": size_name,
        "shape": [size.rows, size.features],
        "trees": size.trees,
        "leaves": size.leaves,
        "seed": SEED,
        "threads": threads,
        "seconds_per_prediction": per_prediction,
        "extrapolated_from": n_timed,
        "one_iteration_seconds": one,
        "one_iteration_ratio": per_prediction * size.features / one,
        "one_iteration_goal": goal_one,
        "elimination_seconds": whole,
        "elimination_ratio": per_prediction * n_predictions / whole,
        "elimination_goal": goal_whole,
        "table_mb": rows.X.nbytes / 2**20,
        "engine_peak_mb": peak_mb(one_iteration),
        "load": os.getloadavg()[0],
    }


def measure_workers(n_workers: int) -> dict[str, object]:
    """Time the first losses and then a walk, in this process (0 workers) or on worker processes."""
    size = SIZES["large"]
    model, rows = trained("lightgbm", size)
    loss, baseline = resolve_loss(None, model.schema), rows.X.mean(axis=0)
    masked_loss(model, rows.take(np.arange(2)), loss, baseline).without_each()
    spreading._WORTH_SPREADING = -1.0
    opened = open_workers("local" if n_workers else "none", n_workers or None)
    with opened as workers:
        workers.map(max, 0, list(range(n_workers)))  # has them started
        start = time.perf_counter()
        engine = workers.masked_loss(model, rows, loss, baseline)
        engine.without_each()
        first = time.perf_counter() - start
        walk = seconds_of(lambda: eliminate(engine, min_features=size.features - DASK_STEPS))
    return {
        "model": "lightgbm",
        "size": "large",
        "workers": n_workers,
        "first_losses_seconds": first,
        "seconds_per_step": walk / DASK_STEPS,
        "removals": DASK_STEPS,
        "load": os.getloadavg()[0],
    }


def main_workers() -> None:
    """Measure each number of workers in a process of its own."""
    with RESULTS.open("a") as lines:
        for n_workers in (0, 1, 2, 4):
            command = [sys.executable, "-m", "tests.benchmarks.masked_loss", f"workers={n_workers}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout)
            lines.write(json.dumps(row) + "\n")
            who, seconds = n_workers or "no", row["first_losses_seconds"]
            step = 1e3 * row["seconds_per_step"]
            print(
                f"lightgbm large, {who} workers: first losses {seconds:.1f} s, then {step:.0f} ms "
                f"a step (load {row['load']:.1f})",
                flush=True,
            )


def main(sizes: list[str]) -> None:
    """Measure each case in a process of its own."""
    cases = [(name, size, 1) for size in sizes if size in SIZES for name in MODELS]
    if "threads" in sizes:
        cases += [("lightgbm", "large", threads) for threads in (1, 4)]
    RESULTS.parent.mkdir(exist_ok=True)
    print(
        "model                 size    thr  iteration s (ratio)   elimination s (ratio)   peak MB"
    )
    with RESULTS.open("a") as lines:
        for name, size, threads in cases:
            command = [sys.executable, "-m", "tests.benchmarks.masked_loss"]
            case = json.dumps([name, size, threads])
            done = subprocess.run([*command, case], capture_output=True, text=True, check=True)
            row = json.loads(done.stdout)
            lines.write(json.dumps(row) + "\n")
            print(
                f"{name:21} {size:7} {threads:3}  "
                f"{row['one_iteration_seconds']:8.4f} ({row['one_iteration_ratio']:5.0f})"
                f"     {row['elimination_seconds']:8.3f} ({row['elimination_ratio']:7.0f})"
                f"      {row['engine_peak_mb']:8.0f} (table {row['table_mb']:.0f})",
                flush=True,
            )
    if "dask" in sizes:
        main_workers()
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("["):
        print(json.dumps(measure(*json.loads(sys.argv[1]))))
    elif sys.argv[1:] and sys.argv[1].startswith("workers="):
        print(json.dumps(measure_workers(int(sys.argv[1].partition("=")[2]))))
    else:
        main(sys.argv[1:] or [*SIZES, "threads"])
