"""``make bench-pefs``: what PEFS costs and keeps, against the same network without selection.

The cost is that of an iteration of PEFS, with all that is drawn and moved, against a step of plain
training of the same network on as many rows: lambda x 128, all different. Both run in one process
on one thread, in short turns, so that a busy machine slows both alike; the ratio is the median over
the turns. The plain side is written here, from the same pieces, without masks.

The quality is that of digits beside as many columns of noise as there are pixels: the features
kept, and the error on a quarter held out of a network fitted on them alone, less that of one fitted
on all.

    python -m tests.benchmarks.pefs [--only cost|quality|workers]...
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from chaffinch.methods import Pefs
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.methods.pefs import searches_of
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models.mlp import adam
from chaffinch.tasks.selection.models.runtime import single_torch_thread
from chaffinch.tasks.selection.pefs.network import Prepared, Training
from chaffinch.tasks.selection.pefs.search import BATCH_SIZE, Rules, Search
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.dask_cluster import open_workers

RESULTS = Path("bench-results/pefs.jsonl")
SHAPES = {"pcmac": (1943, 3289, 2), "usps": (9298, 256, 10), "adult": (45222, 104, 2)}
MOST_COST, MOST_NOISE, MOST_ERROR = 1.15, 2, 0.005
TURNS, STEPS = 40, 8
SEEDS = range(3)
PENALTY = 0.1
PLAIN_STEPS = 2000  # about 190 epochs of digits
SWEPT = Pefs(seeds=3, most_sweeps=8)


def schema_of(n_features: int, n_classes: int) -> Schema:
    """Return the schema of as many numbers."""
    return Schema(tuple(f"x{j}" for j in range(n_features)), (0,) * n_features, n_classes)


def plain_step(
    training: Training, tensors: tuple[torch.Tensor, ...], batches: Iterator[np.ndarray]
) -> None:
    """Train on one mini-batch without masks: what `Training.train` does, less the selection."""
    inputs, target = tensors[:2]
    rows = torch.from_numpy(next(batches))
    hidden, parameters = inputs.index_select(0, rows), training.parameters
    for i in range(0, len(parameters) - 2, 4):
        weight, bias, gain, shift = parameters[i : i + 4]
        hidden = torch.relu(torch.addmm(bias, hidden, weight))
        hidden = torch.batch_norm(hidden, gain, shift, None, None, True, 0.0, 1e-5, False)
    outputs = torch.addmm(parameters[-1], hidden, parameters[-2])
    loss = torch.nn.functional.cross_entropy(outputs, target.index_select(0, rows))
    gradients = torch.autograd.grad(loss, parameters)
    training.step += 1
    with torch.no_grad():
        for one, gradient in zip(parameters, gradients, strict=True):
            if one.dim() == 2:
                gradient.add_(one, alpha=1e-4)
        adam(parameters, gradients, training.means, training.squares, 0.001, training.step)
    loss.item()


def batches_of(n_rows: int) -> Iterator[np.ndarray]:
    """Yield mini-batches of all rows in turn, shuffled again for each epoch."""
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(n_rows)
        for start in range(0, n_rows - 2 * BATCH_SIZE + 1, 2 * BATCH_SIZE):
            yield order[start : start + 2 * BATCH_SIZE]


def seconds_of(work: Callable[[], object]) -> float:
    """Time some steps in turn."""
    start = time.perf_counter()
    for _ in range(STEPS):
        work()
    return (time.perf_counter() - start) / STEPS


def of_the_shape(name: str) -> Prepared:
    """Return random rows of a table's shape."""
    n_rows, d, n_classes = SHAPES[name]
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, d))
    rows = Rows(X, random.integers(0, n_classes, n_rows))
    return Prepared.of(rows, schema_of(d, n_classes), np.zeros(d))


def cost(name: str) -> dict[str, Any]:
    """Time an iteration of PEFS and a step of plain training, on rows of a table's shape."""
    (n_rows, d, n_classes), prepared = SHAPES[name], of_the_shape(name)
    search = Search(prepared, Rules(penalty=PENALTY), 0)
    sizes = (d, 200, 200, 200, n_classes)
    training = Training.begin(sizes, torch.Generator().manual_seed(0))
    turns = []
    with single_torch_thread():
        tensors, batches = prepared.tensors(), batches_of(n_rows)
        for _ in range(TURNS):
            ours = seconds_of(lambda: search._iterate(*tensors))
            turns.append((ours, seconds_of(lambda: plain_step(training, tensors, batches))))
    turns = turns[1:]  # the first warms both up
    return {
        "what": "cost",
        "table": name,
        "shape": [n_rows, d],
        "seconds_per_iteration": statistics.median(ours for ours, _ in turns),
        "seconds_per_plain_step": statistics.median(plain for _, plain in turns),
        "ratio": statistics.median(ours / plain for ours, plain in turns),
        "goal": MOST_COST,
    }


def digits_and_noise() -> tuple[Rows, Rows]:
    """Return digits with a column of noise for each pixel: three quarters of them, and the rest."""
    X, y = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    X = np.hstack([X, random.normal(size=X.shape)])
    rows, order = Rows(X, y.astype(np.int64)), random.permutation(len(X))
    cut = len(X) * 3 // 4
    return rows.take(order[:cut]), rows.take(order[cut:])


def error_of_its_network(train: Rows, test: Rows, seed: int) -> float:
    """Return the test error of the paper's network, trained with every column in every mask."""
    d = train.X.shape[1]
    prepared = Prepared.of(train, schema_of(d, 10), train.X.mean(axis=0))
    search = Search(prepared, Rules(penalty=0.0), seed, keep=range(d))
    while search.training.step < PLAIN_STEPS:
        search.sweep()
    prediction = search.network.predict(test.X, np.ones(d, dtype=bool))
    return float(np.mean(prediction.argmax(axis=1) != test.y))


def quality(seed: int) -> dict[str, Any]:
    """Select of digits and noise, and fit the same network on what is kept and on all."""
    train, test = digits_and_noise()
    d = train.X.shape[1]
    schema = schema_of(d, 10)
    start = time.perf_counter()
    search = Search(Prepared.of(train, schema, train.X.mean(axis=0)), Rules(penalty=PENALTY), seed)
    search.run()
    seconds, mask = time.perf_counter() - start, search.sweeps[-1].mask
    errors = {}
    for what, kept in (("kept", mask), ("all", np.ones(d, dtype=bool))):
        errors[what] = error_of_its_network(train.select(kept), test.select(kept), seed)
    own = search.network.predict(test.X, mask).argmax(axis=1)
    return {
        "what": "quality",
        "seed": seed,
        "kept": int(mask.sum()),
        "noise_kept": int(mask[d // 2 :].sum()),
        "error_kept": errors["kept"],
        "error_all": errors["all"],
        "error_of_its_own_network": float(np.mean(own != test.y)),
        "sweeps": len(search.sweeps),
        "seconds": seconds,
    }


def _nothing(shared: None, item: int) -> int:
    return item


def workers(n_processes: int) -> dict[str, Any]:
    """Time five penalties with three seeds each, in this process or on worker processes."""
    train, test = digits_and_noise()
    schema = schema_of(train.X.shape[1], 10)
    with open_workers("local" if n_processes > 1 else "none", n_processes) as opened:
        opened.map(_nothing, None, list(range(n_processes)))  # starts them
        recipe = Recipe("linear", {}, 0)
        material = Problem(
            settings=SelectionSettings(target="y"),
            schema=schema,
            recipe=recipe,
            base_model=lambda: recipe.fit(train.take(slice(100)), schema),  # nobody looks at it
            baseline=train.X.mean(axis=0),
            keep=(),
            rows=lambda part: train if part == "train" else test,
            folds=list,
            workers=opened,
            on_progress=lambda done, total: None,
            units=lambda *parts: np.array([], dtype=np.int64),
        )
        start = time.perf_counter()
        found = SWEPT.search(material)
        seconds = time.perf_counter() - start
    searches = searches_of(found).searches
    return {
        "what": "workers",
        "processes": n_processes,
        "searches": len(searches),
        "sweeps": sum(len(one.sweeps) for one in searches),
        "seconds": seconds,
    }


def keep(row: dict[str, Any]) -> dict[str, Any]:
    """Add the load to a row and keep it."""
    row["load"] = os.getloadavg()[0]
    with RESULTS.open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    return row


def said(holds: bool) -> str:
    """Return whether a goal is met, in words."""
    return "ok" if holds else "NOT MET"


def main(asked: list[str]) -> None:
    """Measure what is asked for, one after the other."""
    RESULTS.parent.mkdir(exist_ok=True)
    for name in SHAPES if "cost" in asked else ():
        row = keep(cost(name))
        print(
            f"{name}, {' x '.join(map(str, row['shape']))}: an iteration "
            f"{1e3 * row['seconds_per_iteration']:.2f} ms, a plain step "
            f"{1e3 * row['seconds_per_plain_step']:.2f} ms, ratio {row['ratio']:.2f} <= "
            f"{MOST_COST} {said(row['ratio'] <= MOST_COST)}, load {row['load']:.1f}",
            flush=True,
        )
    rows = [keep(quality(seed)) for seed in SEEDS] if "quality" in asked else []
    for row in rows:
        print(
            f"digits and noise, seed {row['seed']}: {row['kept']} of 128 kept, noise "
            f"{row['noise_kept']} <= {MOST_NOISE} {said(row['noise_kept'] <= MOST_NOISE)}; error "
            f"{row['error_kept']:.4f} against {row['error_all']:.4f} with all, its own network "
            f"{row['error_of_its_own_network']:.4f}; {row['sweeps']} sweeps, {row['seconds']:.0f} s"
        )
    if rows:
        rise = statistics.mean(row["error_kept"] - row["error_all"] for row in rows)
        print(f"error on the mean {rise:+.4f} <= {MOST_ERROR} {said(rise <= MOST_ERROR)}")
    for n_processes in (1, 4) if "workers" in asked else ():
        row = keep(workers(n_processes))
        print(
            f"5 penalties x 3 seeds, {n_processes} processes: {row['seconds']:.1f} s for "
            f"{row['sweeps']} sweeps, load {row['load']:.1f}",
            flush=True,
        )
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = ("cost", "quality", "workers")
    parser.add_argument("--only", action="append", choices=what, help="by default all")
    main(parser.parse_args().only or list(what))
