"""Rows in files: the same numbers as in memory, wherever they are taken."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InputError
from chaffinch.tasks.selection import mapped, models
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import xgboost


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MOST_BYTES", 0)


def in_a_file(X: np.ndarray, folder: Path) -> np.ndarray:
    matrix = mapped.empty_matrix(X.shape, folder)
    matrix[:] = X
    return matrix


index = st.one_of(
    st.lists(st.integers(0, 6), min_size=1, max_size=9).map(np.array),
    st.builds(slice, st.integers(0, 6), st.integers(7, 9)),
)
mask = st.lists(st.booleans(), min_size=4, max_size=4).filter(any).map(np.array)


@given(index=index, mask=st.none() | mask, again=mask)
def test_rows_and_columns_are_those_of_memory(tmp_path_factory, index, mask, again) -> None:
    folder = tmp_path_factory.mktemp("rows")
    X = np.arange(28.0).reshape(7, 4)
    of_memory = Rows(X, np.arange(7.0), np.arange(1.0, 8.0)).take(index, mask)
    of_file = Rows(in_a_file(X, folder), np.arange(7.0), np.arange(1.0, 8.0)).take(index, mask)
    np.testing.assert_array_equal(of_file.X, of_memory.X)
    np.testing.assert_array_equal(of_file.y, of_memory.y)
    np.testing.assert_array_equal(of_file.weight, of_memory.weight)
    some = again[: of_file.X.shape[1]]
    if some.any() and len(some) == of_file.X.shape[1]:
        np.testing.assert_array_equal(of_file.select(some).X, of_memory.select(some).X)
    assert not [*folder.iterdir()], "a file has a name"


def test_rows_of_a_file_are_in_a_file_unless_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(in_a_file(np.ones((100, 4)), tmp_path), np.ones(100))
    monkeypatch.setattr(mapped, "MOST_BYTES", 8 * 4 * 50)
    assert isinstance(rows.take(np.arange(51)).X, np.memmap)
    assert not isinstance(rows.take(np.arange(50)).X, np.memmap)
    assert not isinstance(Rows(np.ones((100, 4)), np.ones(100)).take(np.arange(51)).X, np.memmap)


@pytest.mark.parametrize("n_classes", [0, 2, 4])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_bin": 32},
        {"grow_policy": "lossguide", "max_leaves": 15, "subsample": 0.6, "colsample_bytree": 0.6},
        {"booster": "dart", "rate_drop": 0.3, "num_parallel_tree": 2},
    ],
)
def test_xgboost_fits_the_same_model_to_batches_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_classes: int, parameters: dict
) -> None:
    monkeypatch.setattr(xgboost, "_BATCH", 8 * 4 * 300)
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 4))
    X[:, 0] = random.integers(0, 7, len(X))
    X[random.random(len(X)) < 0.1, 1] = np.nan
    y = X[:, 2] + np.nan_to_num(X[:, 1]) + (X[:, 0] == 3)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    schema = Schema(("c", "x", "y", "z"), (7, 0, 0, 0), n_classes)
    settings, weight = {**parameters, "n_estimators": 8}, random.random(len(X)) + 0.1
    fitted = [
        models.fit("xgboost", Rows(matrix, y, weight), schema, settings, seed=0).to_files()
        for matrix in (X, in_a_file(X, tmp_path))
    ]
    assert fitted[0] == fitted[1]
    assert not [*tmp_path.iterdir()], "pages are left"


def test_xgboost_does_not_begin_where_the_disk_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = np.random.default_rng(0).normal(size=(1000, 4)), np.arange(1000.0)
    needed = 6 * X.size + 8 * len(X)
    for free, is_enough in ((needed - 1, False), (needed, True)):
        disk = SimpleNamespace(free=free)
        monkeypatch.setattr(mapped, "disk_usage", lambda _, disk=disk: disk)
        rows = Rows(in_a_file(X, tmp_path), y)
        given = rows, Schema(tuple("abcd"), (0,) * 4), {"n_estimators": 2}
        if is_enough:
            models.fit("xgboost", *given, seed=0)
        else:
            with pytest.raises(InputError, match="free some space"):
                models.fit("xgboost", *given, seed=0)
