"""`chaffinch.differentiable_selection` of files: the same by every door, in bounded memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import psutil
import pytest
import scipy.sparse

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.selection.dfs.passes import Sharing
from chaffinch.tasks.selection.dfs.search import Rules, open_descent
from chaffinch.tasks.workers.dask_cluster import open_workers

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
INFORMATIVE = [3, 17, 25]


def synthetic(n_rows=4000, n_features=60, seed=0):
    """Rows sorted by their target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    y = X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)
    order = np.argsort(y)
    return X[order], y[order]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_chosen_features_of_a_table_are_named(kind):
    X, y = synthetic(600, 30)
    table = kind({f"x{j}": X[:, j] for j in range(30)})
    found = chaffinch.differentiable_selection(table, y, n_features=3)
    assert list(found.names) == [f"x{j}" for j in found.features]
    assert chaffinch.differentiable_selection(X, y, n_features=3).names is None


def written(folder, form="sparse", **options):
    X, y = synthetic(**options)
    rows = scipy.sparse.csr_array(X) if form == "sparse" else X
    return chaffinch.shuffle_pieces([(rows, y)], folder / f"{form}.parquet", block_rows=1000)


def read_all(table):
    parts = [table.read(block) for block in range(len(table.block_rows))]
    stack = scipy.sparse.vstack if scipy.sparse.issparse(parts[0][0]) else np.vstack
    return stack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


@FORMS
def test_a_file_that_was_sorted_by_its_target_finds_what_memory_finds(tmp_path, form) -> None:
    table = written(tmp_path, form)
    assert len(table.block_rows) == 4
    found = chaffinch.differentiable_selection(table, n_features=3)
    X, y = read_all(table)
    assert found.features.tolist() == INFORMATIVE
    assert chaffinch.differentiable_selection(X, y, n_features=3).features.tolist() == INFORMATIVE
    whole = chaffinch.shuffle_pieces([(X, y)], tmp_path / "whole.parquet", seed=5)
    assert whole.block_rows == (4000,)
    one = chaffinch.differentiable_selection(whole, n_features=3)
    memory = chaffinch.differentiable_selection(*whole.read(0), n_features=3)
    assert (one.scores == memory.scores).all()
    path = chaffinch.differentiable_path(table, penalties=[0.3, 30.0], blocks_per_step=2)
    assert set(INFORMATIVE) <= set(path[0].features)
    assert len(path[1].features) < len(path[0].features)


@pytest.mark.e2e
def test_no_number_of_workers_changes_a_bit(tmp_path) -> None:
    table = written(tmp_path)
    asked = {"n_features": 3, "steps": 12, "blocks_per_step": 4}
    here = chaffinch.differentiable_selection(table, **asked)
    there = chaffinch.differentiable_selection(table, **asked, cluster=3)
    assert there.scores.tobytes() == here.scores.tobytes()
    assert there.losses.tolist() == here.losses.tolist()
    assert there.state.learned.top == here.state.learned.top


class Deadly:
    """A source that takes the process down in which it is read first, if that is a worker."""

    def __init__(self, table, marker):
        self._table, self._marker, self._home = table, marker, os.getpid()
        self.shape, self.block_rows = table.shape, table.block_rows
        self.target_type, self.labels = table.target_type, table.labels

    def read(self, block):
        if os.getpid() != self._home and block == 2 and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._table.read(block)


def process_id(shared, item):
    time.sleep(item)
    return os.getpid()


@pytest.mark.e2e
def test_workers_that_are_killed_change_no_bit(tmp_path) -> None:
    source, rules = Deadly(written(tmp_path), tmp_path / "died"), Rules(blocks_per_step=4)
    expected = open_descent(source, rules)
    with open_workers("local", 2) as workers:
        descent = open_descent(source, rules, Sharing(workers.for_each, lambda: 2))
        assert (tmp_path / "died").exists()
        for step in range(9):
            if step in (2, 5):
                os.kill(workers.map(process_id, None, [0.01] * 4)[0], signal.SIGKILL)
            assert descent.step(n_features=3) == expected.step(n_features=3)
    assert descent.v.tobytes() == expected.v.tobytes()


def test_a_descent_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path) -> None:
    table, asked = written(tmp_path), {"n_features": 3, "blocks_per_step": 2}
    whole = chaffinch.differentiable_selection(table, steps=20, **asked)
    first = chaffinch.differentiable_selection(table, steps=7, **asked)
    path = tmp_path / "state.safetensors"
    chaffinch.save_state(first.state, path)
    second = chaffinch.differentiable_selection(table, steps=13, start=path, **asked)
    assert second.scores.tobytes() == whole.scores.tobytes()
    assert [*first.losses, *second.losses] == whole.losses.tolist()
    newer = chaffinch.shuffle_pieces(
        [(scipy.sparse.csr_array(synthetic(seed=1)[0]), synthetic(seed=1)[1])],
        tmp_path / "n.parquet",
    )
    later = chaffinch.differentiable_selection(newer, n_features=3, start=str(path))
    assert later.features.tolist() == INFORMATIVE
    assert later.state.learned.columns.n_rows == 8_000


def test_what_cannot_be_is_an_error_of_the_user_in_one_line(tmp_path) -> None:
    X, y = synthetic(1200)
    found = chaffinch.differentiable_selection(X, y, n_features=3, steps=1)
    for options, said in (
        ({"cluster": "local"}, "cluster must be none for a table in memory but is local; workers"),
        ({"cluster": 2}, "cluster must be none for a table in memory but is local; workers"),
        ({"start": tmp_path / "none"},
         "start .*none cannot be read: No such file or directory; name .* as state.safetensors$"),
        ({"start": tmp_path},
         f"is a folder; name the state in it, .* {tmp_path}/state.safetensors$"),
        ({"blocks_per_step": 2}, r"blocks_per_step must be in 1\.\.1, .* in memory is one block"),
        ({"start": found}, "start must be the state of a descent but is .* as in result.state"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said) as refusal:
            chaffinch.differentiable_selection(X, y, n_features=3, **options)
        assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=r"state must be the state of a .* as in result.state"):
        chaffinch.save_state(found, tmp_path / "state")
    table, others = written(tmp_path), {*psutil.Process().children()}
    with pytest.raises(InputError, match=r"n_features must be in 1\.\.60 but is 61"):
        chaffinch.differentiable_selection(table, n_features=61, cluster="local")
    assert {*psutil.Process().children()} <= others  # it was said before workers were started
    (tmp_path / "state").write_bytes(b"x")
    with pytest.raises(InputError, match="is a folder; name a file in it"):
        chaffinch.save_state(found.state, tmp_path)
    with pytest.raises(InputError, match=f"start {tmp_path}/state: the state cannot be read"):
        chaffinch.differentiable_selection(X, y, n_features=3, start=tmp_path / "state")


MEMORY = r"""
import re, sys, numpy as np, scipy.sparse, chaffinch
from pathlib import Path
n_rows, n_columns, per_row = int(sys.argv[2]), 50_000, 60

def pieces():
    random = np.random.default_rng(0)
    for _ in range(0, n_rows, 2000):
        indices = np.sort(random.integers(0, n_columns, (2000, per_row), np.int32), axis=1)
        starts = np.arange(0, indices.size + 1, per_row)
        indices[::2, :30] = np.arange(30)  # these go together, so that few passes are needed
        values = random.random(indices.size, np.float32) + 1
        X = scipy.sparse.csr_array((values, indices.ravel(), starts), (2000, n_columns))
        yield X, random.random(2000)

table = chaffinch.shuffle_pieces(pieces(), Path(sys.argv[1]), block_rows=2000)
chaffinch.differentiable_selection(table, n_features=10, steps=5)
# not getrusage, whose peak is at least that of the process that started this one
print(int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says the peak there")
@pytest.mark.e2e
def test_five_times_the_rows_need_no_more_memory(tmp_path) -> None:
    """In memory the rows alone would be 58 MB more."""
    peaks = []
    for n_rows in (30_000, 150_000):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / "x.parquet"), str(n_rows)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(float(done.stdout))
    assert peaks[1] < peaks[0] + 40
