"""What is freed goes back to the operating system, and nothing is held twice that need not be."""

import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from chaffinch.storage.memory import free_memory
from tests.flows.cli.programs import python
from tests.sources import ingest, read_source

N_ROWS, N_COLUMNS = 100_000, 100
TABLE_BYTES = 8 * N_ROWS * N_COLUMNS

# 64 MB in pieces too small for the C library to give back, under one that stays
PIECES = """
import numpy, psutil
from chaffinch.storage.memory import release_memory
process = psutil.Process()
before = process.memory_info().rss
pieces = [numpy.ones(1000) for _ in range(8_000)]
last = numpy.ones(1000)
del pieces
freed = process.memory_info().rss
release_memory()
print((freed - before) // 10**6, (process.memory_info().rss - before) // 10**6)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give back alone")
def test_what_is_freed_is_given_back() -> None:
    done = python(PIECES, check=True)
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
@pytest.mark.e2e
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


def cgroup(root: Path, line: str, files: dict[str, dict[str, object]]) -> int:
    """Return the free memory of a process in cgroups: files by folder, below sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"3:cpu,cpuacct:/other\n{line}\n")
    for folder, contents in files.items():
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (root / "sys/fs/cgroup" / folder / name).write_text(f"{content}\n")
    return free_memory(root)


V2 = {"memory.current": 800, "memory.stat": "anon 500\ninactive_file 200\nactive_file 100"}
V1 = {
    "memory.usage_in_bytes": 800,
    "memory.stat": "inactive_file 2\nactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100",
}


@pytest.mark.parametrize(
    ("line", "files"),
    [
        pytest.param("0::/pod/run", {"pod/run": V2 | {"memory.max": 1000}}, id="version 2"),
        pytest.param(
            "0::/pod/run",
            {"pod/run": V2 | {"memory.max": "max"}, "pod": V2 | {"memory.max": 1000}},
            id="the limit is that of the group around it",
        ),
        pytest.param("0::/on/the/host", {".": V2 | {"memory.max": 1000}}, id="in a container"),
        pytest.param(
            "4:memory:/pod",
            {
                "memory": V1 | {"memory.limit_in_bytes": 2**63 - 4096},
                "memory/pod": V1 | {"memory.limit_in_bytes": 1000},
            },
            id="version 1",
        ),
    ],
)
def test_free_memory_is_what_the_limit_of_a_cgroup_leaves_without_the_page_cache(
    tmp_path: Path, line: str, files: dict[str, dict[str, object]]
) -> None:
    assert cgroup(tmp_path, line, files) == 1000 - 800 + 300


def test_without_a_limit_free_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    assert cgroup(tmp_path, "0::/pod", {"pod": V2 | {"memory.max": "max"}}) > 10**7
    assert free_memory(tmp_path / "no such files") > 10**7


SHORT_OF_MEMORY = """
import re, resource, sys
from pathlib import Path
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.errors import InputError, StorageError
from chaffinch.storage.sources import source_of
import pyarrow.csv, pyarrow.parquet
used = int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
limit = 1024 * used + 10**6 * int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
folder = Path(sys.argv[1])
files = (SharedFile.of(folder / "table.parquet", ""),)
reads = [
    lambda: source_of(folder / "x.parquet").read(),
    Dataset(folder, "0" * 64, 3_000_000, {str(i): "float64" for i in range(10)}, files).read,
]
for read in reads:
    try:
        read()
    except MemoryError:
        print("out of memory")
"""


@pytest.mark.parametrize("megabytes", [2, 8, 20, 40])
@pytest.mark.e2e
def test_memory_that_runs_out_is_no_damage(tmp_path: Path, megabytes: int) -> None:
    # too little for a thread's stack, or for a column
    table = pa.table(dict.fromkeys(map(str, range(10)), np.zeros(3_000_000)))
    for name in ("x.parquet", "table.parquet"):
        pa.parquet.write_table(table, tmp_path / name)
    done = python(SHORT_OF_MEMORY, tmp_path, megabytes)
    assert done.stdout == "out of memory\n" * 2, done.stderr
