"""Whole numbers that float64 cannot hold are text: by every door, and in every role."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
import sqlalchemy as sa

from chaffinch import FeatureSelector, InputError
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.sources.sql import _array
from chaffinch.tasks.data.roles import rows_with_roles
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.sources import ingest

N_ROWS = 60
# in float64 each is equal to the next but one
IDS = [9_007_199_254_740_993 + i % 10 for i in range(N_ROWS)]
LONG = [89_490_200_000_000_000_007 + i % 10 for i in range(N_ROWS)]
X = [i / 4 + 0.5 for i in range(N_ROWS)]


def written(name: str, write: Callable[[pd.DataFrame, Path], Any]) -> Any:
    def door(ids: list[int], folder: Path) -> Any:
        frame = pd.DataFrame({"id": list(map(str, ids)), "x": X})
        write(frame, folder / name)
        return str(folder / name)

    return door


def arrow(kind: pa.DataType) -> Any:
    return lambda ids, folder: pa.table({"id": pa.array(ids, kind), "x": X})


def decimals(name: str, write: Callable[[pa.Table, Path], Any]) -> Any:
    def door(ids: list[int], folder: Path) -> Path:
        column = pa.array(list(map(Decimal, ids)), pa.decimal128(38, 0))
        write(pa.table({"id": column, "x": X}), folder / name)
        return folder / name

    return door


def duck(ids: list[int], folder: Path) -> str:
    with duckdb.connect(folder / "x.duckdb") as connection:
        connection.register("given", pd.DataFrame({"id": list(map(str, ids)), "x": X}))
        connection.execute("CREATE TABLE t AS SELECT id::HUGEINT AS id, x FROM given")
    return f"duckdb:///{folder}/x.duckdb#t"


def sqlite(ids: list[int], folder: Path) -> str:
    engine = sa.create_engine(f"sqlite:///{folder}/x.db")
    held = ids if max(ids) < 2**63 else list(map(str, ids))  # the largest that SQLite has
    pd.DataFrame({"id": held, "x": X}).to_sql("t", engine, index=False)
    engine.dispose()
    return f"sqlite:///{folder}/x.db#t"


DOORS: dict[str, Callable[[list[int], Path], Any]] = {
    "csv": written("x.csv", lambda frame, path: frame.to_csv(path, index=False)),
    "tsv": written("x.tsv.gz", lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
    "text in Parquet": written("x.parquet", lambda frame, path: frame.to_parquet(path)),
    "decimals in Parquet": decimals("x.parquet", pa.parquet.write_table),
    "decimals in ORC": decimals("x.orc", pa.orc.write_table),
    "text of pandas": lambda ids, _: pd.DataFrame({"id": list(map(str, ids)), "x": X}),
    "integers of Python": lambda ids, _: pd.DataFrame({"id": np.array(ids, object), "x": X}),
    "polars": lambda ids, _: pl.DataFrame({"id": ids, "x": X}, schema_overrides={"id": pl.Int128}),
    "arrow": arrow(pa.decimal128(38, 0)),
    "duckdb": duck,
    "sqlite": sqlite,
}
SHORT_DOORS: dict[str, Callable[[list[int], Path], Any]] = {
    **DOORS,
    "int64": arrow(pa.int64()),
    "uint64": arrow(pa.uint64()),
    "nullable integers of pandas": lambda ids, _: pd.DataFrame(
        {"id": pd.array(ids, "UInt64"), "x": X}
    ),
    "integers of polars": lambda ids, _: pl.DataFrame({"id": ids, "x": X}),
}


@pytest.mark.parametrize(
    ("ids", "door"), [*((LONG, door) for door in DOORS), *((IDS, door) for door in SHORT_DOORS)]
)
def test_every_door_gives_the_same_text(ids: list[int], door: str, tmp_path: Path) -> None:
    dataset = ingest(SHORT_DOORS[door](ids, tmp_path), tmp_path / "store")
    column = dataset.read().column(0).combine_chunks()
    assert sorted(column.dictionary.to_pylist()) == sorted(map(str, ids[:10]))
    expected = pd.DataFrame({"id": pd.Categorical(list(map(str, ids))), "x": X})
    assert dataset.hash == ingest(expected, tmp_path / "other").hash


@pytest.mark.parametrize("door", DOORS)
def test_small_whole_numbers_stay_numbers(door: str, tmp_path: Path) -> None:
    dataset = ingest(DOORS[door](list(range(N_ROWS)), tmp_path), tmp_path / "store")
    assert dataset.columns == {"id": "int64", "x": "float64"}


def test_one_large_number_late_in_a_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    lines = [f"{i},{i / 2}" for i in range(90_000)]
    path.write_text("\n".join(["id,x", *lines, f"{2**64 + 1},1e300"]))
    table = ingest(path, tmp_path / "store", drop=["x"], categorical=["id"]).read()
    assert str(2**64 + 1) in table.column(0).combine_chunks().dictionary.to_pylist()
    with pytest.raises(InputError, match=f"'id' .* but row 90001 holds {2**64 + 1}, which is bey"):
        ingest(path, tmp_path / "store", drop=["x"])
    assert ingest(path, tmp_path / "store", drop=["id"]).columns == {"x": "float64"}


def test_a_driver_may_give_integers_or_decimals_of_any_size() -> None:
    for values in (IDS, LONG, list(map(Decimal, LONG))):
        table = pa.table({"id": _array("id", values)})
        column = type_columns(table).column(0).combine_chunks()
        assert sorted(column.dictionary.to_pylist()) == sorted({str(value) for value in values})
    assert _array("x", [Decimal("1.5"), None]).to_pylist() == [1.5, None]


@pytest.mark.parametrize("ids", [IDS, LONG])
def test_named_numeric_they_are_numbers(ids: list[int]) -> None:
    table = pa.table({"id": pa.array(ids, pa.decimal128(38, 0))})
    for given in (table, pa.table({"id": list(map(str, ids))})):
        column = type_columns(given, numeric=["id"]).column(0)
        assert [float(value) for value in column.to_pylist()] == list(map(float, ids))


Y = np.arange(N_ROWS) % 7 / 3


def described(ids: list[int], role: str, **settings: Any) -> tuple[Any, SelectionSettings]:
    table = type_columns(
        pa.table({"id": list(map(str, ids)), "x": X, "y": Y}),
        numeric=settings.get("numeric", []),
        ordered=["id"] if role == "time" else [],
    )
    columns = {role: "id"} if role in ("group", "time", "weight") else {}
    target = "id" if role == "target" else "y"
    asked = SelectionSettings(
        target=target, columns=ColumnSettings(**columns, numeric=settings.get("numeric", []))
    )
    return table, asked


@pytest.mark.parametrize("ids", [IDS, LONG])
def test_as_groups_they_stay_apart(ids: list[int]) -> None:
    table, settings = described(ids, "group")
    roles = rows_with_roles(table, settings, Y, ())
    assert roles.groups is not None
    assert len(np.unique(roles.groups)) == 10


@pytest.mark.parametrize("ids", [IDS, LONG])
def test_as_a_feature_they_are_categories_and_reported(ids: list[int]) -> None:
    description = describe_table(*described(ids, "feature"))
    assert description.categories["id"] == tuple(map(str, ids[:10]))
    assert any("beyond 2^53" in warning and "'id'" in warning for warning in description.warnings)


def test_nanoseconds_as_time_keep_their_order() -> None:
    times = [1_700_000_000_000_000_000 + 7 * i for i in range(N_ROWS)]
    table, settings = described(times, "time")
    roles = rows_with_roles(table, settings, Y, ())
    assert roles.times is not None
    assert roles.times.tolist() == times


@pytest.mark.parametrize("role", ["time", "weight"])
def test_what_has_to_be_a_number_is_refused_with_a_remedy(role: str) -> None:
    with pytest.raises(InputError, match="name 'id' as numeric"):
        describe_table(*described(LONG, role))


def test_a_target_of_them_is_classes_or_refused_but_never_rounded() -> None:
    assert describe_table(*described(LONG, "target")).classes == tuple(map(str, LONG[:10]))
    many = [89_490_200_000_000_000_007 + i for i in range(N_ROWS)]
    with pytest.raises(InputError, match=r"beyond 2\^53.*; name 'id' as numeric"):
        describe_table(*described(many, "target"))


@pytest.mark.parametrize("kind", [object, np.uint64])
def test_arrays_beside_a_table_may_hold_them(kind: Any) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    groups = np.array([2**63 + 1 + i % 20 for i in range(200)], kind)
    selector = FeatureSelector("correlation", n_features=1, model="linear")
    selector.fit(x, x[:, 0] + random.normal(size=200) / 9, groups=groups)
    assert selector.result_.features == ["x0"]
