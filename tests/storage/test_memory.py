"""What is freed goes back to the operating system, and nothing is held twice that need not be."""

import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from chaffinch.storage.datasets.dataset import ingest
from tests.sources import read_source

N_ROWS, N_COLUMNS = 100_000, 100
TABLE_BYTES = 8 * N_ROWS * N_COLUMNS

# 64 MB in pieces too small for the C library to give back, under one that stays
PIECES = """
import numpy, psutil
from chaffinch.storage.memory import give_back
process = psutil.Process()
before = process.memory_info().rss
pieces = [numpy.ones(1000) for _ in range(8_000)]
last = numpy.ones(1000)
del pieces
freed = process.memory_info().rss
give_back()
print((freed - before) // 10**6, (process.memory_info().rss - before) // 10**6)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give back alone")
def test_what_is_freed_is_given_back() -> None:
    command = [sys.executable, "-c", PIECES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 50
    assert left < 10


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Arrow's memory, counted from here on."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(usual)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ingestion_never_holds_the_table_twice(
    tmp_path: Path, pool: pa.MemoryPool, ending: str
) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**6, (N_COLUMNS, N_ROWS))
    path = tmp_path / f"x.{ending}"
    write = pa.csv.write_csv if ending == "csv" else pa.parquet.write_table
    write(pa.table({f"x{j}": column for j, column in enumerate(numbers)}), path)
    assert pool.max_memory() < TABLE_BYTES / 2  # what was written counts for nothing below
    assert ingest(path, tmp_path).n_rows == N_ROWS
    assert TABLE_BYTES <= pool.max_memory() < 1.7 * TABLE_BYTES


def test_of_wide_text_a_column_is_in_few_pieces(tmp_path: Path) -> None:
    # each piece costs a column half a kilobyte, however few rows it has
    names, row = ",".join(f"x{j}" for j in range(5_000)), ",".join(["123"] * 5_000)
    (tmp_path / "x.csv").write_text("\n".join([names, *[row] * 200, ""]))
    assert read_source(tmp_path / "x.csv")["x0"].num_chunks <= 2
