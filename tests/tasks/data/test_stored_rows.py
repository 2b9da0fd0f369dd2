"""Rows by reference: the numbers and the models of rows in memory, and a few hundred bytes sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.datasets import steps
from chaffinch.storage.datasets.dataset import type_columns, write_dataset
from chaffinch.tasks.data import stored_rows
from chaffinch.tasks.data.matrix import load_rows
from chaffinch.tasks.data.stored_rows import RowNumbers, StoredRows, StoredTable
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.settings.selection import SelectionSettings

N_ROWS = 1000


@pytest.fixture(scope="module", autouse=True)
def batches_are_small() -> Iterator[None]:
    """Let a small table be streamed, over two parts, several row groups and batches of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "ROWS_PER_PART", 700)
        patch.setattr(steps, "ROWS_PER_GROUP", 300)
        patch.setattr(stored_rows, "_CELLS_OF_COLUMNS", 2 * N_ROWS)
        patch.setattr(stored_rows, "_CELLS_OF_A_BATCH", 5 * 128)
        patch.setattr(stored_rows, "FEW_ROWS", 0)
        patch.setattr(stored_rows, "MOST_BYTES", 0)
        patch.setattr(stored_rows, "_MOST_SENT", 0)
        yield


def stored_and_held(
    folder: Path, n_classes: int, *, weighted: bool = True
) -> tuple[StoredRows, Rows, Schema]:
    """Return rows of a table by reference, and in memory."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(N_ROWS, 3)), columns=["x", "y", "z"])
    table.loc[random.random(N_ROWS) < 0.1, "x"] = np.nan
    table.loc[random.random(N_ROWS) < 0.6, "z"] = 0.0
    table["c"] = random.choice([*"stuvw", None], N_ROWS)
    table["flag"] = random.random(N_ROWS) < 0.01
    target = table["y"] + table["x"].fillna(0) + (table["c"] == "t")
    if n_classes:
        target = pd.Series(pd.qcut(target, n_classes, labels=[*"klmn"[:n_classes]])).astype(str)
    table["target"], table["weight"] = target, random.random(N_ROWS) + 0.1
    columns = {"weight": "weight"} if weighted else {"drop": ("weight",)}
    settings = SelectionSettings(target="target", method="gbmo", columns=columns)
    if not weighted:
        table = table.drop(columns="weight")
    typed = type_columns(pa.Table.from_pandas(table))
    dataset = write_dataset(typed, folder)
    description = describe_table(dataset.read(), settings)
    whole = StoredTable.of(dataset, settings, description, folder)
    stored = StoredRows(whole, whole.numbers(np.arange(N_ROWS)), description.features)
    return stored, load_rows(dataset, settings, description), description.schema


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], tuple[StoredRows, Rows]]:
    stored, held, _ = stored_and_held(tmp_path_factory.mktemp("dataset"), 2)
    return lambda: (stored, held)  # without a long text of its own


def assert_equal(stored: Rows, held: Rows) -> None:
    assert len(stored) == len(held)
    np.testing.assert_array_equal(stored.X, held.X)
    np.testing.assert_array_equal(stored.y, held.y)
    np.testing.assert_array_equal(stored.weight, held.weight)
    for batches, whole in (
        ([batch.X for batch in stored.batches()], held.X),
        ([batch.y for batch in stored.batches()], held.y),
        ([batch.weight for batch in stored.batches()], held.weight),
    ):
        np.testing.assert_array_equal(np.concatenate(batches), whole)
    some = range(held.n_features)[::-1]
    for column, expected in zip(stored.columns(some), held.columns(some), strict=True):
        np.testing.assert_array_equal(column, expected)


index = st.one_of(
    st.lists(st.integers(0, N_ROWS - 1), min_size=1, max_size=50).map(np.array),
    st.builds(slice, st.integers(0, 900), st.integers(901, 1100)),
    st.integers(1, 400).map(lambda step: np.arange(0, N_ROWS, step)),
)
mask = st.lists(st.booleans(), min_size=5, max_size=5).filter(any).map(np.array)


@settings(max_examples=30)
@given(index=index, mask=st.none() | mask)
def test_rows_and_features_are_those_in_memory_here_and_once_sent(both, index, mask) -> None:
    stored, held = both()
    some = stored.take(index, mask)
    assert_equal(some, held.take(index, mask))
    assert_equal(cloudpickle.loads(cloudpickle.dumps(some)), held.take(index, mask))
    again = np.arange(len(held.take(index)))[::-2]
    assert_equal(stored.take(index, mask).take(again), held.take(index, mask).take(again))


@settings(max_examples=30)
@given(index=index, mask=st.none() | mask)
def test_so_are_those_of_a_wide_table_in_a_file_without_a_name(both, index, mask) -> None:
    stored, held = both()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_rows, "FEW_ROWS", N_ROWS)
        some = stored.take(index, mask)
        assert isinstance(some.X, np.memmap)
        assert not some.is_streamed
        assert_equal(some, held.take(index, mask))
        assert not [*some.temporary_path(0).parent.glob(".aside-*")]


def test_what_is_sent_is_small_and_equal_row_numbers_are_one_file(tmp_path: Path) -> None:
    stored, _, _ = stored_and_held(tmp_path, 2)
    for step, n_files in ((3, 1), (3, 1), (7, 2)):
        rows = stored.take(np.arange(0, N_ROWS, step))
        rows.y  # noqa: B018 - loaded values are not sent
        assert len(cloudpickle.dumps(rows)) < 2000
        assert len([*tmp_path.glob("rows/*")]) == n_files


def test_row_numbers_without_a_folder_are_sent_as_bits() -> None:
    sent = cloudpickle.dumps(RowNumbers(np.arange(0, 80_000, 2), 80_000))
    assert len(sent) < 80_000 / 8 + 300
    np.testing.assert_array_equal(cloudpickle.loads(sent).index, np.arange(0, 80_000, 2))


TARGETS = [(0, True), (2, False), (4, True)]  # the number of classes, and whether with weights
FITS = [
    ("lightgbm", {}),
    ("lightgbm", {"boosting_type": "dart", "max_bin": 15}),
    ("lightgbm", {"boosting_type": "goss"}),
    ("lightgbm", {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}),
    ("lightgbm", {"linear_tree": True}),
    ("lightgbm", {"extra_trees": True, "colsample_bytree": 0.7}),
    ("lightgbm", {"subsample_for_bin": 200}),
    ("lightgbm", {"zero_as_missing": True, "min_data_in_bin": 1}),
    ("xgboost", {"max_bin": 32}),
    ("xgboost", {"grow_policy": "lossguide", "max_leaves": 15, "subsample": 0.6}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.3, "num_parallel_tree": 2}),
]


@pytest.mark.parametrize(
    ("model", "parameters", "n_classes", "weighted"),
    [(*fit, *TARGETS[place % 3]) for place, fit in enumerate(FITS)],
)
def test_a_model_of_streamed_rows_is_that_of_rows_in_memory_to_the_last_byte(
    tmp_path: Path, model: str, parameters: dict, n_classes: int, weighted: bool
) -> None:
    stored, held, schema = stored_and_held(tmp_path, n_classes, weighted=weighted)
    index = np.flatnonzero(np.random.default_rng(1).random(N_ROWS) < 0.7)
    settings = {**parameters, "n_estimators": 6}
    fitted = [
        models.fit(model, rows.take(index), schema, settings, seed=3).to_files()
        for rows in (held, stored)
    ]
    assert fitted[0] == fitted[1]
    assert not [*tmp_path.glob(".aside-*")], "files are left"


def test_predictions_of_batches_are_those_of_all_rows(both) -> None:
    stored, held = both()
    schema = Schema(tuple("abcde"), (0,) * 5, 2)
    model = models.fit("lightgbm", Rows(held.X, held.y), schema, {"n_estimators": 3}, seed=0)
    np.testing.assert_array_equal(stored.predicted_by(model), model.predict(held.X))


def test_xgboost_does_not_begin_where_the_disk_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, _, schema = stored_and_held(tmp_path, 0)
    needed = 6 * stored.n_values + 8 * len(stored)
    for free, is_enough in ((needed - 1, False), (needed, True)):
        disk = SimpleNamespace(free=free)
        monkeypatch.setattr(stored_rows, "disk_usage", lambda _, disk=disk: disk)
        if is_enough:
            models.fit("xgboost", stored, schema, {"n_estimators": 2}, seed=0)
        else:
            with pytest.raises(InputError, match="free some space"):
                models.fit("xgboost", stored, schema, {"n_estimators": 2}, seed=0)


def test_a_flipped_bit_in_a_page_is_refused(tmp_path: Path) -> None:
    stored, _, _ = stored_and_held(tmp_path, 0)
    path, _ = tmp_path.glob("*/table-*.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        stored.in_memory()
