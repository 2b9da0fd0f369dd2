"""A large table read by workers becomes the dataset that one process makes of it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from chaffinch.errors import InputError
from chaffinch.storage.datasets import steps
from chaffinch.storage.datasets.dataset import Dataset, ingest
from chaffinch.storage.sources import source_of
from chaffinch.tasks.workers import dask_map
from chaffinch.tasks.workers.dask_cluster import open_workers
from chaffinch.tasks.workers.interface import InProcess, Workers
from tests.tasks.workers.rows_in_files import contract

pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.usefixtures("undrawn")]

N = 1_000


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ROWS_PER_PART", 300)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with open_workers("local", 2) as workers:
        yield workers


def table(n_rows: int = N) -> pd.DataFrame:
    """Numbers with gaps, texts, codes, days, equal rows, and a target that some rows lack."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(n_rows, 6)), columns=[f"x{j}" for j in range(6)])
    rows.loc[random.random(n_rows) < 0.1, "x1"] = np.nan
    rows["whole"] = random.integers(-(2**62), 2**62, n_rows)
    rows["shop"] = random.choice(["north", "größe", "", "east"], n_rows)
    rows["code"] = [f"{i % 90:05}" for i in range(n_rows)]
    rows["late"] = [None] * (n_rows - 2) + ["two values", "at the end"]
    rows["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 400, n_rows), "D")
    rows["y"] = random.choice(["0", "1", None], n_rows)
    return pd.concat([rows, rows.iloc[:50]], ignore_index=True)


def parquet(rows: pd.DataFrame, folder: Path) -> Path:
    rows.to_parquet(folder / "orders.parquet", row_group_size=170)
    return folder / "orders.parquet"


def folder_of_parquet(rows: pd.DataFrame, folder: Path) -> Path:
    (folder / "orders").mkdir()
    for number, start in enumerate(range(0, len(rows), 400)):
        rows.iloc[start : start + 400].to_parquet(folder / "orders" / f"{number}.parquet")
    return folder / "orders"


def csv(rows: pd.DataFrame, folder: Path) -> Path:
    rows.to_csv(folder / "orders.csv", index=False)
    return folder / "orders.csv"


def frame(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    return rows


def dask_frame(rows: pd.DataFrame, folder: Path) -> Any:
    return dd.from_pandas(rows, npartitions=3)


SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "roles": {"categorical": ["code"], "numeric": ["x0"], "drop": ["x2"], "ordered": ["day"]},
    "rows with a target": {"rows_with": "y", "labels": "y"},
    "parts of dates": {"whole_dates": []},
    "few rows with a target": {"rows_with": "late"},
}


def files_of(dataset: Dataset) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in dataset.path.iterdir()}


def opened(workers: Any) -> Callable[[int], AbstractContextManager[Any]]:
    return lambda n_rows: nullcontext(workers)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", [parquet, folder_of_parquet, csv, frame, dask_frame])
def test_the_dataset_is_that_of_one_process(
    kind: Callable[[pd.DataFrame, Path], Any], settings: str, tmp_path: Path, workers: Workers
) -> None:
    data = kind(table(), tmp_path)
    alone = ingest(source_of(data), tmp_path / "alone", **SETTINGS[settings])
    there = ingest(
        source_of(data), tmp_path / "there", open_workers=opened(workers), **SETTINGS[settings]
    )
    assert (len(files_of(alone)) > 2) == (alone.n_rows > steps.ROWS_PER_PART)
    assert files_of(there) == files_of(alone)
    assert (there.hash, there.columns, there.n_left_out, there.zoned) == (
        *(alone.hash, alone.columns, alone.n_left_out, alone.zoned),
    )
    np.testing.assert_array_equal(there.rows_in_source(), alone.rows_in_source())
    assert not [*(tmp_path / "there").glob(".aside-*")]


@pytest.mark.parametrize("kind", [parquet, csv])
@pytest.mark.parametrize("who", [None, InProcess()])
def test_progress_grows_to_all_of_it(
    who: InProcess | None, kind: Callable[[pd.DataFrame, Path], Path], tmp_path: Path
) -> None:
    shares: list[float] = []
    ingest(
        source_of(kind(table(), tmp_path)),
        tmp_path / "there",
        open_workers=None if who is None else opened(who),
        on_done=lambda done, total: shares.append(done / total),
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1


WRONG: dict[str, tuple[Callable[[pd.DataFrame], Any], dict[str, Any]]] = {
    "two columns": (
        lambda rows: rows.assign(
            x5=np.inf, code=[*rows.code[1:], "1,5"], x0=[*rows.x0[1:], np.inf]
        ),
        {"numeric": ["code"]},
    ),
    "a column of the last share": (
        lambda rows: rows.assign(last=[*map(str, range(len(rows) - 1)), "1,5"]),
        {},
    ),
    "no such column": (lambda rows: rows, {"numeric": ["price"]}),
    "a column of both roles": (lambda rows: rows, {"numeric": ["y"], "categorical": ["y", "x0"]}),
    "no target": (lambda rows: rows.assign(y=None), {"rows_with": "y"}),
    "dropped to nothing": (lambda rows: rows[["y", "x0"]], {"drop": ["x0", "y"]}),
}


@pytest.mark.parametrize("kind", [parquet, csv, dask_frame])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_one_process_refuses_is_refused_with_the_same_line(
    wrong: str, kind: Callable[[pd.DataFrame, Path], Any], tmp_path: Path, workers: Workers
) -> None:
    spoil, settings = WRONG[wrong]
    data = kind(spoil(table()), tmp_path)
    with pytest.raises(InputError) as alone:
        ingest(source_of(data), tmp_path / "alone", **settings)
    with pytest.raises(InputError) as there:
        ingest(source_of(data), tmp_path / "there", open_workers=opened(workers), **settings)
    assert str(there.value) == str(alone.value)
    assert there.value.column == alone.value.column
    assert not [*(tmp_path / "there").glob("*/*")]


def test_a_file_that_changes_while_workers_read_it_is_named(tmp_path: Path) -> None:
    path = parquet(table(), tmp_path)

    class Changing(InProcess):
        def map(self, *arguments: Any) -> list[Any]:
            table(N + 1).to_parquet(path)
            return super().map(*arguments)

    with pytest.raises(InputError, match=r"^orders.parquet has changed while it was read"):
        ingest(source_of(path), tmp_path / "there", open_workers=opened(Changing()))


class Blind(InProcess):
    """A worker that sees neither, or not the source."""

    def __init__(self, sees_folder: bool) -> None:
        self.sees_folder, self.done = sees_folder, set[str]()

    def on_each(self, function: Any, shared: Any) -> list[Any]:
        return [function(shared), (self.sees_folder, "there is no file orders.parquet")]

    def map(self, function: Any, *arguments: Any) -> list[Any]:
        self.done.add(function.__name__)
        return super().map(function, *arguments)


@pytest.mark.parametrize(("sees_folder", "done"), [(False, set()), (True, {"place", "write_part"})])
def test_workers_do_what_they_see_and_a_line_says_so(
    sees_folder: bool, done: set[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, blind = parquet(table(), tmp_path), Blind(sees_folder)
    alone = ingest(source_of(path), tmp_path / "alone")
    with caplog.at_level(logging.INFO, logger=steps.__name__):
        there = ingest(source_of(path), tmp_path / "there", open_workers=opened(blind))
    assert files_of(there) == files_of(alone)
    assert blind.done == done
    assert len(caplog.messages) == 1
    assert "orders.parquet" in caplog.text


def test_a_table_of_one_part_needs_no_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(table(), tmp_path)
    monkeypatch.setattr(steps, "ROWS_PER_PART", len(table()))

    def refused(n_rows: int) -> Any:
        pytest.fail("workers are opened")

    assert set(files_of(ingest(source_of(path), tmp_path, open_workers=refused))) == {
        "dataset.json",
        "table.parquet",
    }


@pytest.mark.parametrize("kind", [parquet, dask_frame])
def test_the_contract_is_that_of_one_process(
    kind: Callable[[pd.DataFrame, Path], Any], tmp_path: Path, scheduler: str
) -> None:
    rows = table().drop(columns=["late", "day"]).dropna(subset="y")
    alone = contract(parquet(rows, tmp_path), tmp_path / "alone", "gbmo")
    data = kind(rows, tmp_path)
    assert contract(data, tmp_path / "there", "gbmo", scheduler) == alone
    (home,) = (path.parent for path in (tmp_path / "there").rglob("dataset.json"))
    assert len([*home.glob("table-*.parquet")]) > 1


class Killing:
    """Workers of which one is killed as a step begins, once."""

    def __init__(self, workers: dask_map.OverDask, step: Callable[..., Any]) -> None:
        self._workers, self._step = workers, step
        self.is_killed = False

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        if function is self._step:
            (pid, *_others) = self._workers.client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
            self.is_killed = True
        return self._workers.map(function, *arguments)

    def on_each(self, function: Callable[..., Any], shared: Any) -> list[Any]:
        return self._workers.on_each(function, shared)


@pytest.mark.e2e
@pytest.mark.parametrize("step", [steps.type_share, steps.place, steps.write_part])
def test_a_worker_that_dies_changes_nothing(step: Callable[..., Any], tmp_path: Path) -> None:
    path = parquet(table(20_000), tmp_path)
    alone = ingest(source_of(path), tmp_path / "alone")
    with open_workers("local", 2) as workers:
        assert isinstance(workers, dask_map.OverDask)
        killing = Killing(workers, step)
        there = ingest(source_of(path), tmp_path / "there", open_workers=opened(killing))
    assert killing.is_killed
    assert files_of(there) == files_of(alone)
