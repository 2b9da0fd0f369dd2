"""Databases are read by ADBC drivers, and nothing is written."""

import re
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from chaffinch import InputError
from tests.postgres import PASSWORD, Postgres
from tests.sources import column_names, ingest, read_source, source_address, source_name

FRAME = pd.DataFrame(
    {
        "code": ["00500", "10001", None] * 20,
        "n": range(60),
        "x": [i / 4 + 0.5 for i in range(60)],
        "day": pd.date_range("2024-01-31", periods=60),
    }
)


@pytest.fixture
def shop(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "my shop?.db") as connection:
        FRAME[["code", "n", "x"]].to_sql("orders", connection, index=False)
    connection.close()
    return f"adbc:sqlite:///{tmp_path}/my shop?.db"


def test_a_query_is_read_and_its_columns_are_known_before(shop: str, tmp_path: Path) -> None:
    few = "WITH few AS (SELECT n, x FROM orders) SELECT * FROM few WHERE n < 9; "
    query = f"{shop}#{few}"
    assert column_names(query) == ["n", "x"]
    assert ingest(query, tmp_path).hash == ingest(FRAME[["n", "x"]][:9], tmp_path).hash
    assert source_name(f"{shop}#orders") == "orders"
    assert source_address(f"{shop}#orders") == f"{shop}#orders"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("orders2", r"^orders2 cannot be read from adbc:sqlite:.*no such table: orders2"),
        ("SELECT * FROM order2", r"^the query cannot be read from adbc:sqlite:.*no such table"),
        ("DELETE FROM orders", r"must be a table, such as shop.orders, or begin with SELECT"),
        ("WITH a AS (SELECT 1) DELETE FROM orders", r"attempt to write a readonly database"),
        ("", r"is a whole database; put a table or a SELECT behind it"),
        ("SELECT iif(n > 50, 'x', n) FROM orders", None),
    ],
)
def test_what_cannot_be_read_is_one_line(asked: str, message: str | None, shop: str) -> None:
    if message is None:  # SQLite may give a column values of several types
        assert len(read_source(f"{shop}#{asked}")) == 60
        return
    with pytest.raises(InputError, match=message) as caught:
        read_source(f"{shop}#{asked}")
    assert "\n" not in str(caught.value)
    assert len(read_source(f"{shop}#orders")) == 60


@pytest.mark.parametrize("late", ["b", 0.5])
def test_a_column_of_another_type_after_the_first_rows_is_named(
    late: object, tmp_path: Path
) -> None:
    firsts = [None if isinstance(late, str) else 1] * 1500
    with sqlite3.connect(tmp_path / "late.db") as connection:
        connection.execute("CREATE TABLE t (x REAL, v)")
        values = [(i / 2, value) for i, value in enumerate([*firsts, late])]
        connection.executemany("INSERT INTO t VALUES (?, ?)", values)
    connection.close()
    address = f"sqlite:///{tmp_path}/late.db"
    query = "SELECT x, v FROM t"
    for asked in ("t", query):
        with pytest.raises(InputError, match=r"^column 'v' of .*; read it by sqlite:///, or order"):
            read_source(f"adbc:{address}#{asked}")
    ordered = read_source(f"adbc:{address}#{query} ORDER BY x DESC")
    assert ordered.sort_by("x")["v"].to_pylist() == [*firsts, late]
    assert len(read_source(f"{address}#t")) == 1501


@pytest.mark.parametrize("word", ["n/a", "?", "-", "#N/A!"])
def test_a_word_among_numbers_is_missing_by_the_query_that_is_offered(
    word: str, shop: str, tmp_path: Path
) -> None:
    mixed = f"SELECT x, CASE WHEN n > 50 THEN '{word}' ELSE x END AS \"my n\" FROM orders"  # noqa: S608
    with pytest.raises(InputError, match="must hold numbers but row 52 holds") as caught:
        ingest(f"{shop}#{mixed}", tmp_path)
    offered = re.search(r"or (NULLIF\(.*\)) of SQL", str(caught.value))
    assert offered is not None
    query = f'{shop}#SELECT x, {offered[1]} AS "my n" FROM ({mixed})'  # noqa: S608
    frame = FRAME[["x"]].assign(**{"my n": FRAME["x"].where(FRAME["n"] <= 50)})
    assert ingest(query, tmp_path).hash == ingest(frame, tmp_path).hash


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("adbc:oracle://host/shop#orders", r"adbc:oracle needs the package adbc-driver-oracle, wh"),
        ("adbc:postgresql://me:pw@host/shop#orders", r"holds a password or another secret"),
        ("adbc:sqlite:///no/shop.db#orders", r"^there is no file /no/shop.db|^there is no file no"),
        ("adbc:postgresql://localhost:1/shop#orders", r"^orders cannot be read from adbc:postgres"),
    ],
)
def test_an_address_that_cannot_be_read_is_one_line(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_source(address)
    assert "\n" not in str(caught.value)


@pytest.mark.e2e
@pytest.mark.xdist_group("postgres")
def test_postgresql_gives_the_same_table_and_keeps_its_rows(
    postgres_server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_server.connected() as connection:
        FRAME.to_sql("by_adbc", connection, index=False)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    address = f"adbc:{postgres_server.at('by_adbc')}"
    assert column_names(address) == list(FRAME.columns)
    assert ingest(address, tmp_path).hash == ingest(FRAME, tmp_path).hash
    query = "WITH gone AS (DELETE FROM by_adbc RETURNING *) SELECT * FROM gone"
    read = f"adbc:{postgres_server.at(query)}"
    with pytest.raises(InputError, match="in a read-only transaction"):
        read_source(read)
    assert len(read_source(address)) == 60
