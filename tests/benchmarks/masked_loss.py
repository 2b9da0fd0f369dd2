"""``make bench-masked-loss``: the exact engines against one prediction per feature.

Both sides run in one process, one after the other, on one thread, and warm: whatever is compiled
has been. The engine's seconds contain the reading of the model. The other side is the loop anyone
would write: set a column to its baseline, predict, score, put the column back, in whichever of the
two memory layouts is faster. Where that loop would take too long it is timed on a few features and
multiplied; ``extrapolated_from`` says so.

How far an engine is from what it cannot do without is said in ``floor``: of a first visit to
trees, one plain compiled walk of every row through every tree; of an elimination by trees, one
reading of all changes at each step, at the speed at which this machine reads memory; of a linear
model under squared error, one Gram matrix; of other dense models, one addition to each unit of the
first layer for each feature, row and step.

    python -m tests.benchmarks.masked_loss [small|medium|large|threads|dask ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, masked_loss
from chaffinch.tasks.selection.masked_loss.linear import LinearMaskedLoss
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.trees import kernels
from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.workers import distributed_masked_loss
from chaffinch.tasks.workers.dask_cluster import open_workers

RESULTS = Path("bench-results/masked_loss.jsonl")
SEED = 0
TRAINING_ROWS = 5000  # at most; the time of a prediction does not depend on it
TIMED_FEATURES = {"small": 60, "medium": 30, "large": 6}
DASK_STEPS = 60


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


@dataclass(frozen=True)
class Case:
    """A model, its parameters, and the least ratios by size: elimination, one iteration."""

    model: str
    parameters: Callable[[Size], dict[str, Any]]
    n_classes: int = 0
    goals: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    largest: str = "large"  # size at which a whole elimination is walked


def _lightgbm(size: Size) -> dict[str, Any]:
    return {
        "n_estimators": size.trees,
        "num_leaves": size.leaves,
        "colsample_bytree": 0.3,
        "min_child_samples": 5,
    }


def _xgboost(size: Size) -> dict[str, Any]:
    return {
        "n_estimators": size.trees,
        "max_leaves": size.leaves,
        "max_depth": 0,
        "grow_policy": "lossguide",
        "colsample_bytree": 0.3,
    }


def _forest(size: Size) -> dict[str, Any]:
    return {"n_estimators": size.trees, "max_leaf_nodes": size.leaves, "max_features": 0.1}


def _histogram(size: Size) -> dict[str, Any]:
    return {"max_iter": size.trees, "max_leaf_nodes": size.leaves, "max_features": 0.3}


def _layers(*widths: int) -> Callable[[Size], dict[str, Any]]:
    return lambda _: {"hidden_layer_sizes": list(widths), "max_iter": 3}


CASES = {
    "LightGBM": Case(
        "lightgbm",
        _lightgbm,
        goals={"small": (25, None), "medium": (2_000, 200), "large": (10_000, None)},
    ),
    "LightGBM, log loss": Case("lightgbm", _lightgbm, 2),
    "XGBoost": Case("xgboost", _xgboost, goals={"medium": (500, None)}),
    "random forest": Case("RandomForestRegressor", _forest, goals={"medium": (1_000, None)}),
    "extra trees": Case("ExtraTreesRegressor", _forest, goals={"medium": (1_000, None)}),
    "histogram boosting": Case("HistGradientBoostingRegressor", _histogram),
    "linear": Case("linear", lambda _: {}, goals={"medium": (1_000, None)}),
    "logistic": Case("linear", lambda _: {}, 2, largest="medium"),
    "MLP of 20": Case("mlp", _layers(20), goals={"medium": (80, None)}, largest="medium"),
    "MLP of 20, 10": Case("mlp", _layers(20, 10), goals={"medium": (5, None)}, largest="medium"),
}


def made(size: Size, n_classes: int) -> Rows:
    """Make rows of which ten features matter."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(size.rows, size.features))
    y = X[:, :10].sum(axis=1) + X[:, 0] * X[:, 1] + (X[:, 2] > 0) * X[:, 3]
    y += rng.normal(size=size.rows)
    return Rows(X, (y > 0).astype(np.int64) if n_classes else y)


def trained(case: Case, size: Size) -> tuple[FittedModel, Rows]:
    """Train a model, and return the rows to ask it about."""
    rows = made(size, case.n_classes)
    few = rows.take(np.arange(min(TRAINING_ROWS, size.rows)))
    names = tuple(f"x{j}" for j in range(size.features))
    schema = Schema(names, (0,) * size.features, case.n_classes)
    return fit(case.model, few, schema, case.parameters(size), seed=SEED), rows


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


def seconds_per_prediction(
    model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, n_features: int
) -> float:
    """Time the loop of predictions, in the faster layout of the table."""
    fastest = np.inf
    for order in ("C", "F"):
        X = np.array(rows.X, order=order)  # type: ignore[call-overload]

        def one_each(X: Floats = X) -> None:
            for j in range(n_features):
                X[:, j] = baseline[j]
                loss(rows.y, model.predict(X))
                X[:, j] = rows.X[:, j]

        with single_thread():
            model.predict(X[:10])
            fastest = min(fastest, seconds_of(one_each) / n_features)
    return fastest


def floors(engine: MaskedLoss, rows: Rows, asked: int) -> tuple[float | None, float | None]:
    """Return the seconds that one iteration, and an elimination that asks so often, cannot beat."""
    n = len(rows)
    if isinstance(engine, TreeEngine):
        columns = np.ascontiguousarray(engine.forest.prepare(rows.X).T)
        score = np.zeros((len(engine.forest.base), n), np.int64)
        kernels.scores(engine._trees, columns[:, :2].copy(), score[:, :2].copy())  # compiles
        walk = seconds_of(lambda: kernels.scores(engine._trees, columns, score))
        read = np.ones(2**25)
        read.sum()
        seconds_per_byte = seconds_of(read.sum) / read.nbytes
        return walk, 8 * n * len(score) * asked * seconds_per_byte
    with single_thread():
        if isinstance(engine, LinearMaskedLoss):
            return None, seconds_of(lambda: rows.X.T @ rows.X)
    if isinstance(engine, NetworkMaskedLoss):
        some = np.ones(2**15)
        np.add(some, some, out=some)
        width = len(engine._present)
        per_number = seconds_of(lambda: [np.add(some, 1, out=some) for _ in range(100)])
        per_number /= 100 * len(some)
        return per_number * n * width * rows.X.shape[1], per_number * n * width * asked
    raise TypeError(f"{type(engine).__name__} has no floor yet; give it one")


def measure(name: str, size_name: str, threads: int = 1) -> dict[str, object]:
    """Time both sides once, in this process."""
    case, size = CASES[name], SIZES[size_name]
    model, rows = trained(case, size)
    loss = resolve_loss(None, model.schema)
    baseline: Floats = rows.X.mean(axis=0)
    # The last rows: most models have not seen them, so that there is a loss to ask for.
    warm = masked_loss(model, rows.take(np.arange(len(rows) - 8, len(rows))), loss, baseline)
    warm.without_each()  # compiles or loads
    warm.remove(0)
    if isinstance(warm, BlackBox):
        raise RuntimeError(f"{name} went to the black box; see the log")
    n_timed = TIMED_FEATURES[size_name]
    per_prediction = seconds_per_prediction(model, rows, loss, baseline, n_timed)

    def engine() -> MaskedLoss:
        return masked_loss(model, rows, loss, baseline, threads=threads)

    one = seconds_of(lambda: engine().without_each())
    is_walked = list(SIZES).index(size_name) <= list(SIZES).index(case.largest)
    fewest = size.features // 4
    asked = sum(range(fewest + 1, size.features + 1))
    whole = seconds_of(lambda: eliminate(engine(), min_features=fewest)) if is_walked else None
    floor_one, floor_whole = floors(engine(), rows, asked)
    goal_whole, goal_one = case.goals.get(size_name, (None, None))
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
        "one_iteration_floor": floor_one,
        "elimination_seconds": whole,
        "elimination_ratio": None if whole is None else per_prediction * asked / whole,
        "elimination_goal": goal_whole,
        "elimination_floor": floor_whole,
        "table_mb": rows.X.nbytes / 2**20,
        "engine_peak_mb": peak_mb(lambda: engine().without_each()),
        "load": os.getloadavg()[0],
    }


def measure_workers(n_workers: int) -> dict[str, object]:
    """Time the first losses and then a walk, in this process (0 workers) or on worker processes."""
    size = SIZES["large"]
    model, rows = trained(CASES["LightGBM"], size)
    loss, baseline = resolve_loss(None, model.schema), rows.X.mean(axis=0)
    masked_loss(model, rows.take(np.arange(2)), loss, baseline).without_each()
    distributed_masked_loss._WORTH_A_STEP = -np.inf  # also for a single worker
    opened = open_workers("local" if n_workers else "none", n_workers or None)
    with opened as workers:
        few = rows.take(slice(1024))
        workers.masked_loss(model, few, loss, baseline).without_each()  # starts them, and imports
        start = time.perf_counter()
        engine = workers.masked_loss(model, rows, loss, baseline)
        engine.without_each()
        first = time.perf_counter() - start
        walk = seconds_of(lambda: eliminate(engine, min_features=size.features - DASK_STEPS))
    return {
        "model": "LightGBM",
        "size": "large",
        "workers": n_workers,
        "first_losses_seconds": first,
        "seconds_per_step": walk / DASK_STEPS,
        "removals": DASK_STEPS,
        "load": os.getloadavg()[0],
    }


def in_a_process_of_its_own(what: list[object]) -> dict[str, Any]:
    """Measure one case where nothing else has been, and keep the result."""
    command = [sys.executable, "-m", "tests.benchmarks.masked_loss", json.dumps(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout)
    with RESULTS.open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    return row


def told(seconds: float | None, ratio: float | None, goal: int | None, floor: float | None) -> str:
    """Return one measurement in words: seconds, ratio, goal, and times the floor."""
    if seconds is None or ratio is None:
        return f"{'not walked':>36}"
    goal_said = "" if goal is None else f" >= {goal:,} {'ok' if ratio >= goal else 'NOT MET'}"
    floor_said = "" if floor is None else f", {seconds / floor:.1f} x floor"
    return f"{seconds:9.4f} s {ratio:8,.0f} x{goal_said}{floor_said}".ljust(52)


def main(asked: list[str]) -> None:
    """Measure each case in a process of its own."""
    RESULTS.parent.mkdir(exist_ok=True)
    cases = [(name, size, 1) for size in SIZES if size in asked for name in CASES]
    if "threads" in asked:
        cases += [("LightGBM", "large", threads) for threads in (1, 4)]
    for name, size, threads in cases:
        row = in_a_process_of_its_own([name, size, threads])
        one, whole = (
            told(*(row[f"{what}_{x}"] for x in ("seconds", "ratio", "goal", "floor")))
            for what in ("one_iteration", "elimination")
        )
        shape, seed = " x ".join(f"{n:,}" for n in row["shape"]), row["seed"]
        print(
            f"{name}, {size} ({shape}, seed {seed}), threads {threads}, load {row['load']:.1f}\n"
            f"   one iteration {one}\n   elimination   {whole}\n"
            f"   peak {row['engine_peak_mb']:,.0f} MB beside a table of {row['table_mb']:,.0f} MB",
            flush=True,
        )
    for n_workers in (0, 1, 2, 4) if "dask" in asked else ():
        row = in_a_process_of_its_own([n_workers])
        print(
            f"LightGBM, large, {n_workers or 'no'} workers, load {row['load']:.1f}: first losses "
            f"{row['first_losses_seconds']:.1f} s, then {1e3 * row['seconds_per_step']:.0f} ms a "
            "step",
            flush=True,
        )
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("["):
        what = json.loads(sys.argv[1])
        print(json.dumps(measure_workers(*what) if len(what) == 1 else measure(*what)))
    else:
        main(sys.argv[1:] or [*SIZES, "threads", "dask"])
