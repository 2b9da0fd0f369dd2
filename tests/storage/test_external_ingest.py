"""A table that does not fit into memory becomes the same dataset, to the last bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pyarrow import feather

from chaffinch import InputError, StorageError
from chaffinch.storage import spilled
from chaffinch.storage.datasets import dataset
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.datasets.content_hash import content_hash, shuffle_rows
from chaffinch.storage.datasets.dataset import write_dataset
from chaffinch.storage.sources import source, source_of
from chaffinch.storage.spilled import spill_folder
from tests.flows.cli.programs import python
from tests.object_storage import ObjectStorage
from tests.sources import ingest, read_source

N = 700
RANDOM = np.random.default_rng(0)
DAYS = pd.Timestamp("2024-01-01") + pd.to_timedelta(RANDOM.integers(0, 10**6, N), "s")


def numbers() -> pa.Table:
    X = RANDOM.normal(size=(N, 6))
    X[RANDOM.random(X.shape) < 0.1] = np.nan
    whole = pa.array(RANDOM.integers(-(2**62), 2**62, N), mask=RANDOM.random(N) < 0.1)
    return pa.table({f"x{j}": X[:, j] for j in range(6)} | {"whole": whole, "yes": X[:, 0] > 0})


def text() -> pa.Table:
    late = [None] * (N - 2) + ["a", "first one at the end"]
    columns = {
        "colour": RANDOM.choice(["red", "green", "", " ", "größe"], N),
        "user": [f"user {i}" for i in range(N)],
        "code": [f"{i % 90:05}" for i in range(N)],
        "number": [f"{i / 4}" for i in range(N)],
        "late": late,
        "empty": pa.nulls(N, pa.string()),
    }
    return pa.table(columns)


def equal_rows() -> pa.Table:
    return pa.table({"a": np.zeros(N), "b": ["x"] * N, "c": np.arange(N) // 100})


def typed_by_the_source() -> pa.Table:
    return pa.table(
        {
            "small": RANDOM.integers(0, 9, N).astype("int8"),
            "single": RANDOM.normal(size=N).astype("float32"),
            "day": pa.array(DAYS.date),
            "time": pa.array(DAYS).cast(pa.timestamp("ns", "Europe/Berlin")),
            "colour": pa.array(RANDOM.choice(["b", "a"], N)).dictionary_encode(),
            "list": pa.array([[1]] * (N - 1) + [None]),
        }
    )


TABLES = {made.__name__: made() for made in (numbers, text, equal_rows, typed_by_the_source)}


def parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "x.parquet", row_group_size=100)
    return folder / "x.parquet"


def parts(table: pa.Table, folder: Path) -> Path:
    (folder / "parts").mkdir()
    pq.write_table(table.slice(0, 0), folder / "parts" / "empty.parquet")
    for number, start in enumerate(range(0, N, 300)):
        pq.write_table(table.slice(start, 300), folder / "parts" / f"{number}.parquet")
    return folder / "parts"


def csv(table: pa.Table, folder: Path) -> Path:
    plain = [column for column in table.column_names if not pa.types.is_list(table[column].type)]
    decoded = table.select(plain).to_pandas()
    decoded.to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def sqlite(table: pa.Table, folder: Path) -> str:
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    plain = [column for column in table.column_names if not pa.types.is_list(table[column].type)]
    table.select(plain).to_pandas().to_sql("orders", engine, index=False)
    engine.dispose()
    return f"sqlite:///{folder}/shop.db#orders"


def frame(table: pa.Table, folder: Path) -> pd.DataFrame:
    return table.to_pandas()


@pytest.fixture(params=[0, 6_000], ids=["nothing is kept", "a column is kept"])
def little_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "MOST_BYTES", request.param)
    monkeypatch.setattr(source, "_CELLS_AT_A_TIME", 2 * N)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", [parquet, parts, csv, sqlite, frame])
@pytest.mark.parametrize("table", TABLES)
def test_it_is_the_dataset_of_the_table_in_memory(
    table: str, kind: Callable[[pa.Table, Path], Any], tmp_path: Path
) -> None:
    data = kind(TABLES[table], tmp_path)
    whole = type_columns(read_source(data), has_others=True)
    expected = shuffle_rows(whole)
    dataset = ingest(data, tmp_path / "there")
    assert dataset.hash == content_hash(expected)
    assert dataset.read().equals(expected)
    pq.write_table(
        expected,
        tmp_path / "expected.parquet",
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[f.name for f in expected.schema if f.type != pa.float64()],
    )
    written = (dataset.path / "table.parquet").read_bytes()
    assert written == (tmp_path / "expected.parquet").read_bytes()
    assert write_dataset(expected, tmp_path / "here").hash == dataset.hash
    assert [path.name for path in (tmp_path / "there").glob(".aside-*")] == []


@pytest.mark.usefixtures("little_memory")
@pytest.mark.xdist_group("objects")
def test_nor_does_it_matter_that_it_comes_from_s3(tmp_path: Path, s3: ObjectStorage) -> None:
    for made in (parquet, csv):
        path = made(TABLES["numbers"], tmp_path)
        there = ingest(s3.put(path, f"large/{path.name}"), tmp_path / "store")
        assert there.hash == ingest(path, tmp_path / "other").hash


@pytest.mark.usefixtures("little_memory")
def test_text_that_changes_its_type_late_is_read_again(tmp_path: Path) -> None:
    lines = ["a,b", *(f"{i},{i}" for i in range(200_000)), "0.5,007"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    dataset = ingest(tmp_path / "x.csv", tmp_path)
    assert dataset.columns == {"a": "float64", "b": "category"}


ONE = pa.table({"a": [1, 2], "b": [0.5, 1.5]})
DRIFTS = {
    "missing": (ONE.select(["a"]), "column 'b' is in 1.parquet but not in 3.parquet"),
    "new": (ONE.append_column("c", ONE["a"]), "column 'c' is in 3.parquet but not in 1.parquet"),
    "order": (ONE.select(["b", "a"]), "1.parquet and 3.parquet order their columns differently"),
    "width": (
        ONE.set_column(0, "a", ONE["a"].cast("int32")),
        "column 'a' is int64 in 1.parquet but int32 in 3.parquet",
    ),
    "precision": (
        ONE.set_column(1, "b", ONE["b"].cast("float32")),
        "column 'b' is double in 1.parquet but float in 3.parquet",
    ),
    "text": (ONE.set_column(0, "a", pa.array(["x", "y"])), "is int64 in 1.parquet but string in 3"),
    "zone": (
        ONE.set_column(0, "a", ONE["a"].cast(pa.timestamp("us", "UTC"))),
        "is int64 in 1.parquet but timestamp\\[us, tz=UTC\\] in 3.parquet",
    ),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_files_of_two_schemas_are_refused_before_a_row_is_read(drift: str, tmp_path: Path) -> None:
    other, message = DRIFTS[drift]
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, table in (("1", ONE), ("2", ONE), ("3", other)):
        pq.write_table(table, folder / f"{name}.parquet")
    # the first file has a footer, but no rows that could be read
    content = (folder / "1.parquet").read_bytes()
    size_of_footer = int.from_bytes(content[-8:-4], "little")
    rows = bytes(len(content) - 12 - size_of_footer)
    (folder / "1.parquet").write_bytes(b"PAR1" + rows + content[4 + len(rows) :])
    with pytest.raises(InputError, match=message):
        ingest(folder, tmp_path / "store")


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
@pytest.mark.parametrize("how", ["written again", "replaced", "cut short", "removed"])
def test_a_file_that_changes_while_it_is_read_is_named(kind: str, how: str, tmp_path: Path) -> None:
    write: Any = {
        "parquet": pq.write_table,
        "csv": pa.csv.write_csv,
        "feather": feather.write_feather,
    }[kind]
    path, other = tmp_path / f"x.{kind}", tmp_path / f"other.{kind}"
    write(TABLES["numbers"], path)
    write(TABLES["numbers"].slice(0, N - 1), other)

    def change(done: int, total: int) -> None:
        if done > 1:
            return
        if how == "written again":
            path.write_bytes(other.read_bytes())
        elif how == "replaced":
            other.replace(path)
        elif how == "cut short":
            path.write_bytes(path.read_bytes()[:1000])
        else:
            path.unlink()

    store = tmp_path / "store"
    with pytest.raises(InputError, match=rf"^x\.{kind} has changed while it was read; run again$"):
        dataset.ingest(source_of(path), store, on_done=change)
    assert not list(store.glob("*"))


def test_a_full_disk_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "MOST_BYTES", 0)
    store = tmp_path / "store"
    store.mkdir()
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from chaffinch.storage import spilled\n"
        "from chaffinch.storage.datasets.dataset import ingest\n"
        "from chaffinch.storage.sources import source_of\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); spilled.MOST_BYTES = 0\n"
        "ingest(source_of(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    last = python(code, csv(TABLES["numbers"], tmp_path), store).stderr.splitlines()[-1]
    assert last.startswith(f"{StorageError.__module__}.StorageError: no space left")
    assert not [*store.glob(".aside-*"), *store.glob("*/table.parquet")]


def test_what_a_killed_ingestion_left_is_removed_by_the_next_and_nothing_of_a_live_one(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from chaffinch.storage.spilled import spill_folder\n"
        "with spill_folder(Path(sys.argv[1])) as inner:\n"
        "    (inner / 'columns').write_text('rows'); print(inner, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        inner = Path(program.stdout.readline().strip())
        with spill_folder(tmp_path):
            assert (inner / "columns").exists()
        program.send_signal(signal.SIGKILL)
    while program.poll() is None:
        time.sleep(0.01)
    with spill_folder(tmp_path) as other:
        assert not inner.exists()
        assert other.exists()
    assert list(tmp_path.iterdir()) == []
