"""A table that needs more memory than there is is refused before it is read."""

import gzip
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa

import chaffinch
from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.storage import sources
from chaffinch.storage.sources import Source, source_of
from chaffinch.tasks.pipeline import memory
from chaffinch.tasks.pipeline.memory import check_memory, n_local_workers
from chaffinch.tasks.selection.models.runtime import cores
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import SelectionSettings


@dataclass(frozen=True)
class Huge(Source):
    """``huge://n``: a table of n rows that nothing may read."""

    n: int

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        return cls(int(data.removeprefix("huge://"))) if scheme == "huge" else None

    @property
    def name(self) -> str:
        return "huge"

    def load(self, categorical: Collection[str], drop: Collection[str]) -> pa.Table:
        pytest.fail("it is read")

    def shape(self) -> tuple[int, int]:
        return self.n, 50


@pytest.fixture(autouse=True)
def huge_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "KINDS", [Huge, *sources.KINDS])


REFUSED = (
    "huge has 10,000,000,000 rows x 50 columns, so a run needs about 10,000.3 GB of memory but "
)


def test_a_table_larger_than_memory_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(MemoryError, match=f"^{REFUSED}.* GB is free; drop columns, give fewer"):
        chaffinch.select("huge://10000000000", "y")
    with pytest.raises(MemoryError, match=r"^huge has 10,000,000,000 rows x 50 columns, so a run"):
        chaffinch.compare(["huge://10000000000"], "y")


def test_the_command_line_ends_with_a_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "huge://10000000000", "--target", "y", "--store", str(tmp_path / "store")]
    assert exit_code(lambda **options: cli.main(command, **options)) == 4
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed.startswith(f"Error: {REFUSED}")


def test_columns_that_are_dropped_need_no_memory() -> None:
    n_rows = memory.free_memory() // (50 * 20)
    settings = SelectionSettings(target="y")
    with pytest.raises(MemoryError):
        check_memory(Huge(n_rows), settings)
    half = ColumnSettings(drop=tuple(f"x{i}" for i in range(25)))
    check_memory(Huge(n_rows), settings.model_copy(update={"columns": half}))


def test_a_method_without_folds_needs_less() -> None:
    n_rows = memory.free_memory() // (50 * 16)
    with pytest.raises(MemoryError):
        check_memory(Huge(n_rows), SelectionSettings(target="y"))
    check_memory(Huge(n_rows), SelectionSettings(target="y", method=method_of("gbmo")))


def test_local_workers_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_cores = cores()
    assert n_local_workers([(1_000, 10)]) == n_cores
    shape = (10**6, 100)  # 0.8 GB as float64: 2.3 GB for the run, 1.8 GB for each worker
    for free, expected in ((2.4e9, 1), (4.2e9, 1), (6.0e9, 2), (7.8e9, 3)):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: int(free))
        assert n_local_workers([shape]) == min(n_cores, expected)


ROWS = pd.DataFrame({"x": np.random.default_rng(0).normal(size=40_000), "y, z": 'a "b"\nc'})


def test_the_shape_of_a_source_is_known_without_its_rows(tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "x.parquet")
    (tmp_path / "parts").mkdir()
    for i in range(3):
        ROWS.to_parquet(tmp_path / "parts" / f"{i}.parquet")
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    ROWS.to_sql("orders", engine, index=False)
    engine.dispose()
    assert source_of(tmp_path / "x.parquet").shape() == (40_000, 2)
    assert source_of(tmp_path / "parts").shape() == (120_000, 2)
    assert source_of(f"sqlite:///{tmp_path}/shop.db#orders").shape() == (40_000, 2)
    query = "SELECT x FROM orders"
    assert source_of(f"sqlite:///{tmp_path}/shop.db#{query}").shape() is None
    assert source_of(ROWS).shape() == (40_000, 2)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_the_rows_of_text_are_estimated_from_a_sample(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    ROWS[:100].to_csv(path, index=False)
    assert source_of(path).shape() == (100, 2)
    ROWS.to_csv(path, index=False)
    shape = source_of(path).shape()
    assert shape is not None
    assert shape[0] == pytest.approx(40_000, rel=0.05)
    assert shape[1] == 2


def test_text_that_ends_early_in_its_compression_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(ROWS.to_csv(index=False).encode())[:100_000])
    with pytest.raises(chaffinch.InputError, match=r"^x.csv.gz is damaged \("):
        source_of(path).shape()
