"""Of a Delta table the newest version is read, and no file that it no longer holds."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from chaffinch.errors import InputError
from tests.delta_tables import delete_by_vector
from tests.object_storage import ObjectStorage
from tests.sources import column_bytes, ingest, read_source, source_fingerprint

FRAME = pd.DataFrame(
    {"n": range(60), "shop": ["a b", "c%d", "é"] * 20, "x": [i / 4 for i in range(60)]}
)
pytestmark = pytest.mark.xdist_group("objects")


def orders(folder: Path, **options: object) -> Path:
    path = folder / "orders.delta"
    write_deltalake(path, FRAME, **options)
    return path


def test_columns_of_partitions_are_columns(tmp_path: Path) -> None:
    path = orders(tmp_path, partition_by=["shop"])
    table = read_source(path)
    assert table.to_pandas().sort_values("n", ignore_index=True).equals(FRAME)
    assert ingest(path, tmp_path).hash == ingest(FRAME, tmp_path).hash
    sizes = column_bytes(path)
    assert list(sizes) == list(FRAME.columns)
    n_files = len(list(path.rglob("*.parquet")))
    assert 0 < sizes["shop"] < n_files * len("shop=longest/")  # in the names of folders alone
    assert min(sizes["n"], sizes["x"]) > 0


CHANGES: dict[str, Callable[[Path], object]] = {
    "rows": lambda path: write_deltalake(path, FRAME[:1], mode="append"),
    "a column": lambda path: DeltaTable(path).alter.add_columns(
        [Field("new", PrimitiveType("long"))]
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_new_version_is_read_again(change: str, tmp_path: Path) -> None:
    path = orders(tmp_path)
    before = source_fingerprint(path)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    assert source_fingerprint(copy) == source_fingerprint(path) == before
    first = ingest(path, tmp_path)
    CHANGES[change](path)
    assert source_fingerprint(path) != before
    assert ingest(path, tmp_path).hash != first.hash


def no_log(path: Path) -> None:
    next((path / "_delta_log").iterdir()).unlink()


def damaged_log(path: Path) -> None:
    next((path / "_delta_log").iterdir()).write_text("{ no json")


def no_file(path: Path) -> None:
    next(path.glob("*.parquet")).unlink()


@pytest.mark.parametrize("damage", [no_log, damaged_log, no_file])
def test_a_damaged_table_is_one_line(damage: Callable[[Path], None], tmp_path: Path) -> None:
    path = orders(tmp_path)
    damage(path)
    with pytest.raises(InputError, match=r"orders.delta is no Delta table that can be read") as one:
        read_source(path)
    assert "\n" not in str(one.value)


def test_the_rows_of_many_files_always_have_one_order(tmp_path: Path) -> None:
    path = tmp_path / "orders.delta"
    for part in range(8):
        rows = FRAME.assign(n=FRAME["n"] + 60 * part)
        write_deltalake(path, rows, mode="append", partition_by=["shop"])
    first = read_source(path)
    assert sorted(first["n"].to_pylist()) == list(range(480))
    assert all(read_source(path).equals(first) for _ in range(5))


def test_rows_that_a_vector_deletes_make_another_table(tmp_path: Path) -> None:
    path = orders(tmp_path, configuration={"delta.enableDeletionVectors": "true"})
    files, before = sorted(path.glob("*.parquet")), source_fingerprint(path)
    delete_by_vector(path, [0, 3, 59])
    assert sorted(path.glob("*.parquet")) == files
    assert source_fingerprint(path) != before
    assert ingest(path, tmp_path).hash == ingest(FRAME.drop([0, 3, 59]), tmp_path).hash


def test_of_object_storage_the_newest_files_alone_are_copied(
    tmp_path: Path, s3: ObjectStorage
) -> None:
    path = orders(tmp_path)
    (old,) = path.glob("*.parquet")
    write_deltalake(path, FRAME[:5], mode="overwrite")
    address = s3.put(path, "newest.delta")
    assert ingest(address, tmp_path).n_rows == 5
    assert s3.n_read(f"newest.delta/{old.name}") == 0
    assert column_bytes(address) == column_bytes(path)
    no_file(path)
    no_file(path)
    with pytest.raises(InputError, match=r"cut.delta is no Delta table that can be read"):
        read_source(s3.put(path, "cut.delta"))
