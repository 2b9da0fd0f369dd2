"""Searches by PEFS of which a checkpoint is kept after each sweep, and their sweeps counted."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from chaffinch.storage.runs import stages
from chaffinch.storage.runs.store import Run
from chaffinch.tasks.selection.checkpoint_file import unsealed
from chaffinch.tasks.selection.pefs.search import Search


def hasten(counted: Path, then: Callable[[int], object] = lambda n_made: None) -> None:
    """Keep a checkpoint after each sweep in this process, and count the sweeps in a file.

    What is called then, with how many this process has made, comes before the checkpoint.
    """
    stages._SECONDS_APART, stages._SHARE = 0.0, math.inf
    sweep = Search.sweep

    def counting(search: Search) -> None:
        sweep(search)
        with (counted / str(os.getpid())).open("ab") as file:
            file.write(b".")
            n_made = file.tell()
        then(n_made)

    Search.sweep = counting


def n_sweeps(counted: Path) -> int:
    """Return how many sweeps were counted, in whatever process."""
    return sum(path.stat().st_size for path in counted.iterdir())


def kept(store: Path) -> dict[str, tuple[str, int]]:
    """Return for each checkpoint on the disk what it is, and how many sweeps it has."""
    found = {}
    for path in sorted(store.glob("runs/*/checkpoints/optimise_mask/*/[!.]*")):
        tensors, words, is_whole = unsealed(path.read_bytes())
        assert is_whole
        found[path.name] = words["what"].rpartition("PEFS")[2], len(tensors["figures"])
    return found


def all_sweeps(run: Run) -> int:
    """Return how many sweeps all searches of a run have."""
    return pq.read_table(run.folder / "elimination.parquet").num_rows


def same_searches(found, other) -> None:
    """Refuse searches that differ in a bit."""
    for one, another in zip(found.searches, other.searches, strict=True):
        assert (one.asked, one.seed) == (another.asked, another.seed)
        assert type(one.asked) is type(another.asked)
        assert one.held_out_loss == another.held_out_loss
        for sweep, same in zip(one.sweeps, another.sweeps, strict=True):
            assert sweep.iteration == same.iteration
            assert str(sweep.loss) == str(same.loss)  # which may be NaN
            assert sweep.penalty == same.penalty
            assert (sweep.probabilities == same.probabilities).all()
