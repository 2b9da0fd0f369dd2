"""A table that needs more memory than there is is refused before it is read."""

import gzip
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import chaffinch
from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.storage import sources
from chaffinch.storage.sources import Source, source_of
from chaffinch.tasks.pipeline import memory
from chaffinch.tasks.pipeline.memory import check_memory, log_disk_space, n_local_workers
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
    "huge has 10,000,000,000 rows x 50 columns, so a run needs about 1,600.2 GB of memory but "
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


def in_memory(method: str = "auto", **more: Any) -> SelectionSettings:
    """Return settings whose model needs its rows in memory."""
    return SelectionSettings(target="y", method=method, model={"name": "linear"}, **more)


@pytest.mark.parametrize(
    ("n_bytes", "less"),
    [
        (20, in_memory(columns=ColumnSettings(drop=tuple(f"x{i}" for i in range(25))))),
        (16, in_memory("gbmo")),
    ],
    ids=["dropped columns", "a method without folds"],
)
def test_what_needs_less_memory_is_not_refused(n_bytes: int, less: SelectionSettings) -> None:
    n_rows = memory.free_memory() // (50 * n_bytes)
    with pytest.raises(MemoryError):
        check_memory(Huge(n_rows), in_memory())
    check_memory(Huge(n_rows), less)


def test_what_needs_its_rows_in_memory_is_named_with_what_does_not() -> None:
    n_rows = memory.free_memory() // (50 * 4)
    for method in ("auto", "gbmo", "flbmo", "select_from_model"):
        for model in ("lightgbm", "xgboost"):
            check_memory(Huge(n_rows), SelectionSettings(target="y", method=method, model=model))
    with pytest.raises(MemoryError, match=r"; model linear needs its rows in memory, use lightgbm"):
        check_memory(Huge(n_rows), in_memory("gbmo"))
    relieff = SelectionSettings(target="y", method=method_of("relieff"))
    with pytest.raises(MemoryError, match="; method relieff needs the rows of its search in mem"):
        check_memory(Huge(n_rows), relieff)
    check_memory(Huge(n_rows), relieff.model_copy(update={"search_rows": n_rows // 100}))
    with pytest.raises(MemoryError, match="GB is free; drop columns"):
        check_memory(Huge(n_rows), SelectionSettings(target="y"), in_files=False)


def test_the_disk_that_a_large_table_needs_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "chaffinch.tasks.pipeline.memory")
    for n_rows in (1_000, 10**8, 10**12):
        log_disk_space(Huge(n_rows), SelectionSettings(target="y"), tmp_path / "new")
    small, large = caplog.records
    assert small.getMessage().startswith(f"huge may need 120.0 GB of disk in {tmp_path}/new, ")
    assert large.levelname == "WARNING"
    assert large.getMessage().startswith("huge may need 1,200,000.0 GB of disk")


def test_the_limit_of_the_data_of_a_process_counts_as_its_memory() -> None:
    program = (
        "import resource; from chaffinch.storage.memory import free_memory;"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31)); free = free_memory();"
        "held = bytearray(2**28); assert 2**28 <= free - free_memory() < 2**28 + 2**24;"
        "assert 2**30 < free < 2**31"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


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
