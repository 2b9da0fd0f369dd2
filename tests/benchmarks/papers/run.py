"""Run an experiment over seeds, and print the published figures with ours."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from tests.benchmarks.papers import afs_bm, alternatives, dfs, gbmo, pefs
from tests.benchmarks.papers.experiment import Experiment, Figure, Measured

RESULTS = Path("bench-results/papers.jsonl")
PAPERS = (gbmo, afs_bm, alternatives, pefs, dfs)
EXPERIMENTS: dict[str, Experiment] = {
    name: experiment for paper in PAPERS for name, experiment in paper.EXPERIMENTS.items()
}


def reproduce(name: str, n_seeds: int, table: Path | None = None) -> dict[int, Measured]:
    """Return the figures of the seeds 0 to n_seeds - 1 and of the authors' own; keep each."""
    experiment = EXPERIMENTS[name]
    authors = {experiment.authors_seed} - {None}
    seeds = sorted({*range(n_seeds), *authors})
    RESULTS.parent.mkdir(exist_ok=True)
    by_seed: dict[int, Measured] = {}
    start = time.perf_counter()
    with RESULTS.open("a") as lines:
        for seed, measured in measured_by_seed(experiment, seeds, table):
            by_seed[seed] = measured
            print(f"seed {seed}, after {time.perf_counter() - start:.0f} s", flush=True)
            for (row, column), value in measured.items():
                of_figure = {"row": row, "column": column, "value": float(value)}
                lines.write(json.dumps({"experiment": name, "seed": seed, **of_figure}) + "\n")
            lines.flush()
    return by_seed


def measured_by_seed(
    experiment: Experiment, seeds: Sequence[int], table: Path | None
) -> Iterator[tuple[int, Measured]]:
    """Yield each seed and its figures, as soon as they are measured; a process per core."""
    shared = experiment.read(table)
    # a fork would copy the threads of OpenMP and torch
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(os.cpu_count() or 1, len(seeds)), mp_context=context)
    try:
        running = {pool.submit(experiment.measure, shared, seed): seed for seed in seeds}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def is_inside(figure: Figure, ours: Sequence[float]) -> bool | None:
    """Return whether the published figure is within the range of ours, to the digits printed.

    None where nothing was printed, or the two cannot be compared.
    """
    if figure.published is None or figure.incomparable is not None:
        return None
    decimals = figure.decimals
    if decimals is None:
        printed = np.format_float_positional(figure.published, trim="-")
        decimals = len(printed.partition(".")[2])
    rounding = 0.5 * 10.0**-decimals * (1 + 1e-9)
    return bool(min(ours) - rounding <= figure.published <= max(ours) + rounding)


def show(experiment: Experiment, by_seed: dict[int, Measured], n_seeds: int) -> None:
    """Print a line for each figure, and what one needs to know to read them."""
    print(f"\n{experiment.source}\n{experiment.title}; ours over {n_seeds} seeds\n")
    authors = experiment.authors_seed
    headings = ["published", "mean", "deviation", "lowest", "highest", "inside"]
    rows = [["", "", *headings, "" if authors is None else f"seed {authors}"]]
    for figure in experiment.figures or [Figure(*place) for place in by_seed[0]]:
        place = figure.row, figure.column
        ours = [by_seed[seed][place] for seed in range(n_seeds)]
        deviation = float(np.std(ours, ddof=1)) if n_seeds > 1 else None
        numbers = (figure.published, float(np.mean(ours)), deviation, min(ours), max(ours))
        inside = {True: "yes", False: "no", None: ""}[is_inside(figure, ours)]
        own = None if authors is None else by_seed[authors][place]
        rows.append([*place, *map(short, numbers), inside, short(own)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{'<' if i < 2 else '>'}{widths[i]}}" for i, cell in enumerate(row)]
        print("  ".join(cells).rstrip())
    print(
        "\nInside: the published figure is between our lowest and highest, to its digits. One seed "
        f"more of ours would be outside with a chance of at most 2 in {n_seeds + 1}."
    )
    reasons = dict.fromkeys(f.incomparable for f in experiment.figures if f.incomparable)
    print(*experiment.notes, *reasons, sep="\n")


def short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
