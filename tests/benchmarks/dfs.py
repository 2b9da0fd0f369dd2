"""Differentiable feature selection: one thread, against the paper's recurrence in torch.

`make bench-dfs TABLES=folder` looks for PCMAC.csv and BASEHOCK.csv, gzipped or not, in the folder.
The other side is eq 1 of the paper as lemma 2.1 computes it, with cumulative sums over N x D and
autograd; on a sparse table it needs the table dense, as the paper says. Times are the best of a few
steps of each side in turn, so that both meet the same load.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from chaffinch import differentiable_selection
from chaffinch.tasks.selection.dfs.estimate import (
    COEFFICIENTS,
    DenseTable,
    chain_weights,
    dense_z,
    sparse_z,
)
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.residual_variance import read_table
from chaffinch.tasks.selection.dfs.search import Rules, open_descent
from tests.selection.dfs.synthetic import outputs_in

ORDER = 4
NUMBERS = (10, 20, 50, 100, 200, 400)
GOALS = {"dense": 100.0, "sparse": 1000.0}


def recurrence(scaled: Any, y: Any, s: Any) -> Any:
    """Return the value of equation 1; each power takes a cumulative sum of every column."""
    n_rows = len(y)
    value, power = y @ y / n_rows, y
    for i, a in enumerate(COEFFICIENTS[ORDER]):
        products = scaled * power[:, None]
        below = products.flip(0).cumsum(0).flip(0) - products
        power = (scaled * below) @ s
        value = value - a / comb(n_rows, i + 2) * (y @ power)
    return value


def in_torch(scaled: Any, y: Any) -> Callable[[], Any]:
    """Return one step's value and gradient by autograd, from tensors."""
    import torch

    s = torch.full((scaled.shape[1],), 0.5, dtype=scaled.dtype, requires_grad=True)

    def step() -> Any:
        s.grad = None
        value = recurrence(scaled, y, s)
        value.backward()
        return float(value.detach()), s.grad.numpy()

    return step


def ours(X: Any, y: np.ndarray) -> tuple[Callable[[], Any], Any]:
    """Return one step's value and gradient, and the table as it is computed with."""
    table = read_table(X)
    n_rows, n_features = table.shape
    rows, s = np.arange(n_rows), np.full(n_features, 0.5)
    alphas, outputs = chain_weights(ORDER, n_rows), y[:, None]
    number = np.full(n_features, -1, np.int32)

    def step() -> Any:
        if isinstance(table, DenseTable):
            z, slope = dense_z(table, rows, s, outputs, alphas)
            return 1 - z, -slope
        everywhere = float(s @ table.shift**2) / n_rows
        z, for_all, touched, part = sparse_z(table, rows, s, outputs, alphas, everywhere, number)
        slope = table.shift**2 * for_all
        slope[touched] += part
        return 1 - z, -slope

    return step, table


def as_dense(table: Any) -> np.ndarray:
    """Return the columns as the estimate sees them, N x D."""
    if isinstance(table, DenseTable):
        return (table.values - table.origin) * table.inverse - table.rest
    parts = (table.values, table.indices, table.starts)
    return scipy.sparse.csr_array(parts, shape=table.shape).toarray() - table.shift.astype(
        table.values.dtype
    )


def against(name: str, kind: str, X: Any, target: np.ndarray, times: int = 3) -> None:
    """Print seconds of both sides, their ratio and how far apart the gradients are."""
    import torch

    torch.set_num_threads(1)
    y = outputs_in(target)[:, 0]
    step, table = ours(X, y)
    scaled = torch.from_numpy(as_dense(table))
    other = in_torch(scaled, torch.from_numpy(y).to(scaled.dtype))
    step()
    seconds: dict[str, list[float]] = {"ours": [], "torch": []}
    for _ in range(times):
        for side, call in (("ours", step), ("torch", other)):
            start = perf_counter()
            _, slope = call()
            seconds[side].append(perf_counter() - start)
            if side == "ours":
                gradient = slope
    error = np.abs(gradient - slope).max() / np.abs(slope).max()
    best = {side: min(taken) for side, taken in seconds.items()}
    ratio = best["torch"] / best["ours"]
    print(
        f"{name:28}{X.shape[0]:>7} x {X.shape[1]:<8}{str(scaled.dtype)[6:]:9}"
        f"{best['ours'] * 1e3:10.2f} ms{best['torch'] * 1e3:11.1f} ms{ratio:9.0f}x "
        f"(goal {GOALS[kind]:.0f}x)   gradients differ by {error:.1e}",
        flush=True,
    )


def synthetic(n_rows: int, n_features: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return sparse rows of about 100 values in float32, some columns fuller, and a target."""
    random = np.random.default_rng(seed)
    indices = (n_features * random.random((n_rows, 100), np.float32) ** 2).astype(np.int32)
    indices.sort(axis=1)
    values = random.random(indices.size, np.float32)
    X = scipy.sparse.csr_array(
        (values, indices.ravel(), np.arange(0, indices.size + 1, 100)), shape=(n_rows, n_features)
    )
    X.sum_duplicates()
    return X, X[:, :50].sum(axis=1) + random.random(n_rows)


def million(n_rows: int = 200_000, n_features: int = 1_000_000) -> None:
    """Print seconds a step and the peak memory of a sparse table of a million features."""
    X, target = synthetic(n_rows, n_features)
    start = perf_counter()
    descent = open_descent(Observations(X, target), Rules(order=ORDER))
    ready = perf_counter() - start
    taken = []
    for _ in range(100):
        start = perf_counter()
        descent.step(n_features=1000)
        taken.append(perf_counter() - start)
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**20
    print(
        f"{'in memory, batches of 1,000':28}{n_rows:>7} x {n_features:<8}{'float32':9}"
        f"{np.mean(taken) * 1e3:10.2f} ms a step (goal 25; median {np.median(taken) * 1e3:.1f}, "
        f"best {min(taken) * 1e3:.1f}), 100 non-zeros a row; {ready:.1f} s to read; "
        f"peak memory of the process {peak:.2f} GB (goal 1)",
        flush=True,
    )


def tables(folder: Path) -> Any:
    """Yield the text tables that are there: name, sparse X, target."""
    for path in sorted(folder.glob("*.csv*")):
        name = path.name.partition(".")[0]
        if name.lower() in ("pcmac", "basehock"):
            table = pd.read_csv(path)
            X = scipy.sparse.csr_array(table.iloc[:, :-1].to_numpy(np.float64))
            yield name, X, table.iloc[:, -1].to_numpy()


def steering(name: str, X: Any, y: np.ndarray) -> None:
    """Print how many features are above one half in the end, for each number asked for."""
    said = []
    for n_features in NUMBERS:
        start = perf_counter()
        found = differentiable_selection(X, y, n_features=n_features)
        said.append(f"{n_features}: {int((found.kept > 0.5).sum())}")
        seconds = perf_counter() - start
    print(f"{name}: asked for and left  {', '.join(said)}  ({seconds:.2f} s each)")


def main() -> None:
    """Print every figure beside its goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="has pcmac.csv and BASEHOCK.csv")
    folder = parser.parse_args().folder
    print(f"one thread, order {ORDER}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    # by itself, since its memory is that of a process, and torch is no part of it
    script = "import tests.benchmarks.dfs as benchmark; benchmark.million()"
    subprocess.run([sys.executable, "-c", script], check=True)
    for name, X, y in tables(folder) if folder else ():
        against(name, "sparse", X, y)
        steering(name, X, y)
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 5000))
    y = X[:, :20].sum(axis=1) + random.normal(size=6000)
    against("dense", "dense", X, y)
    against("dense", "dense", X.astype(np.float32), y)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
