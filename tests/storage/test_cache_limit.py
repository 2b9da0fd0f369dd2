"""With a limit, the caches of a machine hold the files of rows that were used last."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.errors import InputError
from chaffinch.storage.datasets.dataset import Dataset, write_dataset
from chaffinch.storage.files import locked_here
from chaffinch.storage.objects.mirror import local_folder

pytestmark = [pytest.mark.xdist_group("objects"), pytest.mark.usefixtures("s3")]

BYTES_OF_A_ROW = 7.9  # from 7.7 to 7.9, in Parquet
ROWS = (4_000, 9_000, 3_000, 6_000, 5_000)


def table(n_rows: int) -> pa.Table:
    return pa.table({"x": np.random.default_rng(n_rows).normal(size=n_rows)})


@pytest.fixture
def addresses() -> tuple[str, str]:
    """Two stores, which have one cache."""
    return tuple(f"s3://shop/stores/{uuid4().hex}" for _ in range(2))


@pytest.fixture
def datasets(
    addresses: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Dataset]:
    """Datasets of another machine; the cache of this one is empty."""
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "elsewhere"))
    made = [
        write_dataset(table(n_rows), local_folder(addresses[number % 2]) / "datasets")
        for number, n_rows in enumerate(ROWS)
    ]
    (tmp_path / "elsewhere").rename(tmp_path / "not seen")
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "here"))
    return made


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what limits the cache to so many rows."""

    def to(n_rows: int) -> None:
        monkeypatch.setenv("CHAFFINCH_CACHE_GB", str(BYTES_OF_A_ROW * n_rows / 1e9))

    return to


def held(folder: Path) -> list[int]:
    """Return the numbers of rows of the datasets in a cache."""
    files = folder.glob("stores/*/datasets/*/table.parquet")
    return sorted(pa.parquet.read_metadata(path).num_rows for path in files)


def test_the_files_that_were_used_last_stay(datasets, limit, tmp_path):
    limit(15_000)
    expected: list[int] = []
    for number in np.random.default_rng(0).integers(0, len(datasets), 40):
        dataset, n_rows = datasets[number], ROWS[number]
        assert dataset.read().equals(table(n_rows))
        if n_rows in expected:
            expected.remove(n_rows)
        else:
            while sum(expected) + n_rows > 15_000:
                expected.pop(0)
        expected.append(n_rows)
        assert held(tmp_path / "here") == sorted(expected)


def test_without_a_limit_all_stay(datasets, tmp_path):
    for dataset in datasets:
        dataset.read()
    assert held(tmp_path / "here") == sorted(ROWS)


def test_a_file_that_is_being_read_is_read_to_its_end(datasets, limit, tmp_path):
    limit(9_000)
    reading = datasets[1].batches(["x"], np.arange(9_000), 1_000)
    batches = [next(reading)[1]]
    assert datasets[3].read().equals(table(6_000))
    assert held(tmp_path / "here") == [6_000]
    batches += [batch for _, batch in reading]
    assert pa.concat_tables(batches).combine_chunks().equals(table(9_000))


def test_what_is_written_here_makes_room_too_and_what_is_unfinished_stays(
    datasets, addresses, limit, tmp_path
):
    limit(10_000)
    home = datasets[2].files[0].here().parent
    datasets[3].read()
    with locked_here(home.with_name(f".{home.name}.lock"), "a dataset"):  # by who writes it
        written = write_dataset(table(7_000), local_folder(addresses[0]) / "datasets")
    assert held(tmp_path / "here") == [3_000, 7_000]
    assert written.read().equals(table(7_000))


def test_a_file_larger_than_the_limit_is_refused(datasets, addresses, limit, tmp_path, s3):
    limit(8_000)
    datasets[0].read()
    with pytest.raises(InputError, match=r"table.parquet has 69,\d{3} bytes, but CHAFFINCH_CACHE"):
        datasets[1].read()
    with pytest.raises(InputError, match=r"raise it, or unset it for no limit$"):
        write_dataset(table(8_500), local_folder(addresses[0]) / "datasets")
    assert held(tmp_path / "here") == [4_000]
    assert len([name for name in s3.below(addresses[0]) if "table.parquet" in name]) == 3


@pytest.mark.parametrize("said", ["0", "-1", "many", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(datasets, said, monkeypatch):
    monkeypatch.setenv("CHAFFINCH_CACHE_GB", said)
    with pytest.raises(InputError, match=f"gigabytes above 0 but is {said!r}; correct it, or"):
        datasets[0].read()


PROGRAM = """
import pickle, sys
import numpy as np
datasets, seed = pickle.load(sys.stdin.buffer), int(sys.argv[1])
for number in np.random.default_rng(seed).integers(0, len(datasets), 60):
    x = np.random.default_rng(datasets[number].n_rows).normal(size=datasets[number].n_rows)
    np.testing.assert_array_equal(datasets[number].read()["x"].to_numpy(), x)
"""


@pytest.mark.e2e
def test_processes_that_share_a_cache_read_what_the_others_remove(datasets, limit, tmp_path):
    limit(10_000)
    programs = [
        subprocess.Popen((sys.executable, "-c", PROGRAM, str(seed)), stdin=subprocess.PIPE)
        for seed in range(3)
    ]
    for program in programs:
        program.stdin.write(pickle.dumps(datasets))
        program.stdin.close()
    assert [program.wait(300) for program in programs] == [0, 0, 0]
    assert sum(held(tmp_path / "here")) <= 10_000
