"""A dataset of several files is one table, whichever way it is read."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from chaffinch.errors import LaterReleaseError, StorageError
from chaffinch.storage.datasets import steps
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.datasets.content_hash import content_hash, shuffle_rows
from chaffinch.storage.datasets.dataset import Dataset, write_dataset
from chaffinch.storage.files import sha256_of_file
from chaffinch.storage.objects.mirror import local_folder
from tests.object_storage import ObjectStorage
from tests.sources import ingest

N, PART = 1_000, 300
NAMES = [f"table-0000{number}.parquet" for number in range(4)]


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ROWS_PER_PART", PART)
    monkeypatch.setattr(steps, "ROWS_PER_GROUP", 128)


def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(N, 3)), columns=["a", "b", "c"])
    rows.loc[random.random(N) < 0.1, "b"] = np.nan
    rows["shop"] = random.choice(["north", "south", None], N)
    rows["user"] = [f"user {i}" for i in range(N)]  # each in one part
    rows["whole"] = random.integers(0, 9, N)
    return rows


def expected() -> pa.Table:
    return shuffle_rows(type_columns(pa.Table.from_pandas(frame(), preserve_index=False)))


def test_it_reads_as_the_whole_table(tmp_path: Path) -> None:
    dataset = ingest(frame(), tmp_path)
    assert dataset.read().equals(expected())
    assert dataset.read(["user", "a"]).equals(expected().select(["user", "a"]))
    assert dataset.in_source_order().equals(type_columns(pa.Table.from_pandas(frame())))
    assert write_dataset(expected(), tmp_path / "other").hash == dataset.hash
    assert ingest(frame()[::-1], tmp_path / "reversed").hash == dataset.hash
    assert Dataset.open(tmp_path, dataset.hash) == dataset


def test_batches_have_the_numbers_of_their_rows_over_all_parts(tmp_path: Path) -> None:
    dataset, table = ingest(frame(), tmp_path), expected()
    wanted = np.array([0, 299, 300, 555, 900, 999])
    seen = 0
    for start, batch in dataset.batches(["c", "whole"], wanted, 50):
        assert batch.equals(table.select(["c", "whole"]).slice(start, batch.num_rows))
        seen += np.isin(wanted, np.arange(start, start + batch.num_rows)).sum()
    assert seen == len(wanted)


def test_the_manifest_and_the_hash_are_as_the_page_of_the_format_has_them(tmp_path: Path) -> None:
    dataset = ingest(frame(), tmp_path)
    assert json.loads((dataset.path / "dataset.json").read_bytes()) == {
        "format_version": 2,
        "hash": dataset.hash,
        "n_rows": N,
        "columns": {
            **dict.fromkeys("abc", "float64"),
            **dict.fromkeys(["shop", "user"], "category"),
            "whole": "int64",
        },
        "files": {name: sha256_of_file(dataset.path / name) for name in NAMES},
    }
    lines = [f"2 {N}\n"]
    for name in expected().column_names:
        for start in range(0, N, PART):
            alone = type_columns(
                pa.table({name: expected()[name].slice(start, PART)}),
                categorical={name} & {"shop", "user"},
            )
            lines.append(f"{content_hash(alone)}\n")
    assert dataset.hash == hashlib.sha256("".join(lines).encode()).hexdigest()


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes((path.parent / NAMES[0]).read_bytes()),
    ],
    ids=["missing", "cut short", "another part"],
)
def test_a_part_that_is_not_as_it_was_is_refused(
    harm: Callable[[Path], object], tmp_path: Path
) -> None:
    dataset = ingest(frame(), tmp_path)
    path = dataset.path / NAMES[2]
    whole = path.read_bytes()
    harm(path)
    with pytest.raises(StorageError):
        Dataset.open(tmp_path, dataset.hash)
    with pytest.raises(StorageError):
        dataset.read(["a"])
    ingest(frame(), tmp_path)
    assert path.read_bytes() == whole


def test_a_manifest_of_other_files_or_of_a_later_release_is_refused(tmp_path: Path) -> None:
    dataset = ingest(frame(), tmp_path)
    path = dataset.path / "dataset.json"
    content = json.loads(path.read_bytes())
    files = content["files"]
    for wrong in ({}, dict(list(files.items())[1:]), dict(reversed(files.items()))):
        path.write_text(json.dumps(content | {"files": wrong}))
        with pytest.raises(StorageError, match="is damaged"):
            Dataset.open(tmp_path, dataset.hash)
    path.write_text(json.dumps(content | {"format_version": 3}))
    with pytest.raises(LaterReleaseError):
        Dataset.open(tmp_path, dataset.hash)


def test_there_are_never_more_parts_than_a_process_can_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    for n_rows in (1, 2**20, 2**20 + 1, 10**7, 2**28, 2**28 + 1, 10**9, 10**12):
        n_parts = -(-n_rows // steps.rows_per_part(n_rows))
        assert 1 <= n_parts <= 256
        assert (n_parts == 1) == (n_rows <= 2**20)


@pytest.mark.xdist_group("objects")
def test_another_machine_reads_the_parts_from_object_storage(
    tmp_path: Path, s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "one"))
    datasets = local_folder("s3://shop/parts") / "datasets"
    dataset = ingest(frame(), datasets)
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "other"))
    there = Dataset.open(local_folder("s3://shop/parts") / "datasets", dataset.hash)
    assert there.path != dataset.path
    assert there.read().equals(expected())
    shutil.rmtree(there.path)
    assert there.read(["a"]).equals(expected().select(["a"]))
