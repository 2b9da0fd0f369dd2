"""``make reproduce``: an experiment of a paper, with many seeds where the paper has one.

The protocols are the authors', with what their published runs did beyond them; the searches are
ours. Every figure of every seed is appended to the file of results.

    python -m tests.benchmarks.papers [EXPERIMENT] [--table FOLDER] [--seeds 20]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks.papers.run import EXPERIMENTS, RESULTS, reproduce, show


def main() -> None:
    parser = argparse.ArgumentParser(prog="make reproduce", description=__doc__.splitlines()[0])
    parser.add_argument("experiment", nargs="?", choices=EXPERIMENTS, metavar="EXPERIMENT")
    parser.add_argument("--table", type=Path, help="the file of its table, or the folder of it")
    parser.add_argument("--seeds", type=int, default=20, help="run the seeds 0 to SEEDS - 1")
    asked = parser.parse_args()
    if asked.seeds < 1:
        parser.error(f"SEEDS must be at least 1 but is {asked.seeds}")
    if asked.experiment is None:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:32} {experiment.title}")
        print("\nmake reproduce EXPERIMENT=name [TABLE=file or folder] [SEEDS=20]")
        return
    by_seed = reproduce(asked.experiment, asked.seeds, asked.table)
    show(EXPERIMENTS[asked.experiment], by_seed, asked.seeds)
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    main()
