"""Peak memory of reading one table by each source, beside the same rows in one Parquet file.

Each is ingested by a program of its own. Memory is what the process holds by itself (RssAnon),
sampled every 10 ms, and in all (VmHWM), with the pages of files that the system takes back.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.benchmarks.scale import write_table

_PARTS = 8


def _parts(folder: Path, name: str, **options: Any) -> Path:
    rows = ds.dataset(folder / "x.parquet")
    n_rows = rows.count_rows() // _PARTS
    ds.write_dataset(
        rows, folder / name, format="parquet", max_rows_per_file=n_rows,
        max_rows_per_group=min(n_rows, 100_000), preserve_order=True,
        existing_data_behavior="overwrite_or_ignore", **options,
    )  # fmt: skip
    return folder / name


def _files(folder: Path) -> list[Path]:
    return sorted(_parts(folder, "parts").iterdir())


def _hive(folder: Path) -> Path:
    partitions = ds.partitioning(pa.schema([("y", pa.int64())]), flavor="hive")
    return _parts(folder, "hive", partitioning=partitions, max_open_files=4)


def _ipc(folder: Path, name: str, compression: str | None) -> Path:
    rows = pq.ParquetFile(folder / "x.parquet")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(folder / name, rows.schema_arrow, options=options) as writer:
        for batch in rows.iter_batches():
            writer.write_batch(batch)
    return folder / name


def _orc(folder: Path) -> Path:
    from pyarrow import orc

    with orc.ORCWriter(folder / "x.orc") as writer:
        for batch in pq.ParquetFile(folder / "x.parquet").iter_batches():
            writer.write(pa.Table.from_batches([batch]))
    return folder / "x.orc"


def _csv(folder: Path) -> Path:
    from pyarrow import csv

    rows = pq.ParquetFile(folder / "x.parquet")
    with csv.CSVWriter(folder / "x.csv", rows.schema_arrow) as writer:
        for batch in rows.iter_batches():
            writer.write_batch(batch)
    return folder / "x.csv"


def _duckdb(folder: Path) -> str:
    import duckdb

    with duckdb.connect(folder / "x.duckdb") as connection:
        connection.execute(f"CREATE TABLE x AS FROM '{folder}/x.parquet'")
    return f"duckdb:///{folder}/x.duckdb#x"


def _delta(folder: Path) -> Path:
    from deltalake import write_deltalake

    write_deltalake(folder / "x.delta", ds.dataset(folder / "x.parquet").scanner().to_reader())
    return folder / "x.delta"


def _iceberg(folder: Path) -> str:
    from pyiceberg.catalog import load_catalog

    (folder / "warehouse").mkdir()
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}"}
    os.environ |= {f"PYICEBERG_CATALOG__SHOP__{name.upper()}": catalog[name] for name in catalog}
    shop = load_catalog("shop", **catalog)
    shop.create_namespace("web")
    rows = pq.ParquetFile(folder / "x.parquet")
    table = shop.create_table("web.x", schema=rows.schema_arrow)
    for group in range(rows.num_row_groups):
        table.append(rows.read_row_group(group))
    return "iceberg://shop/web.x"


def _sqlite(folder: Path) -> str:
    from adbc_driver_sqlite import dbapi

    (folder / "x.db").unlink(missing_ok=True)
    with dbapi.connect(f"{folder}/x.db") as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("x", ds.dataset(folder / "x.parquet").scanner().to_reader())
        connection.commit()
    return f"{folder}/x.db#x"


# name -> what writes the rows of x.parquet in a folder, and returns what a user gives
DOORS: dict[str, Callable[[Path], Any]] = {
    "Parquet file": lambda folder: folder / "x.parquet",
    "folder of 8 Parquet files": lambda folder: _parts(folder, "folder"),
    "list of 8 Parquet files": _files,
    "pattern for 8 Parquet files": lambda folder: f"{_files(folder)[0].parent}/*.parquet",
    "Hive partitions": _hive,
    "Feather": lambda folder: _ipc(folder, "x.feather", "lz4"),
    "Arrow IPC, not compressed": lambda folder: _ipc(folder, "x.arrow", None),
    "ORC": _orc,
    "CSV": _csv,
    "DuckDB": _duckdb,
    "Delta": _delta,
    "Iceberg": _iceberg,
    "SQLite by ADBC": lambda folder: f"adbc:sqlite:///{_sqlite(folder)}",
    "SQLite": lambda folder: f"sqlite:///{_sqlite(folder)}",
}


def _dask(path: str, **options: Any) -> Any:
    import dask.dataframe

    return dask.dataframe.read_parquet(path, **options)


# name -> what a program makes of x.parquet before it is asked for its rows
IN_PYTHON: dict[str, Callable[[str], Any]] = {
    "data set of Arrow": ds.dataset,
    "reader of batches": lambda path: pa.RecordBatchReader.from_batches(
        pq.read_schema(path), pq.ParquetFile(path).iter_batches()
    ),
    "lazy table of polars": lambda path: __import__("polars").scan_parquet(path),
    "relation of DuckDB": lambda path: __import__("duckdb").read_parquet(path),
    "dask.dataframe": lambda path: _dask(path, split_row_groups=True),
    "dask.dataframe of one partition": _dask,
}


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def read(data: Any) -> None:
    """Ingest a table, and print the peak of memory in MB: the process's own, and all."""
    from chaffinch.storage.datasets.dataset import ingest
    from chaffinch.storage.sources import source_of

    own = [0]

    def sample() -> None:
        while True:
            own[0] = max(own[0], _status("RssAnon"))
            time.sleep(0.01)

    threading.Thread(target=sample, daemon=True).start()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as store:
        source = source_of(data)
        source.check()
        ingest(source, Path(store))
    took = time.perf_counter() - began
    sys.stdout.write(f"{own[0] / 1024:.0f} | {_status('VmHWM') / 1024:.0f} | {took:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="names of sources")
    parser.add_argument("--read", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read is not None:
        name, *paths = given.read
        data = paths[0] if len(paths) == 1 else paths
        read(IN_PYTHON[name](paths[0]) if name in IN_PYTHON else data)
        return
    print("| source | own MB | all MB | s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_table(folder / "x.parquet", given.rows, given.columns)
        for name in given.only or (*DOORS, *IN_PYTHON):
            data = DOORS[name](folder) if name in DOORS else folder / "x.parquet"
            paths = [*map(str, data if isinstance(data, list) else [data])]
            program = [sys.executable, "-m", __spec__.name, "--read", name, *paths]
            done = subprocess.run(program, capture_output=True, text=True, check=False)
            print(f"| {name} | {done.stdout.strip() or done.stderr.strip()[-300:]} |", flush=True)


if __name__ == "__main__":
    main()
