"""A table or query in a database is read as it is, or refused in one line; nothing is written."""

import socket
import sqlite3
import struct
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import chaffinch
from chaffinch.errors import InputError
from chaffinch.storage.datasets.dataset import LazyTable
from chaffinch.storage.sources import source_of
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.pipeline.ingestion import errors_with_source_rows, reads_cached
from chaffinch.tasks.pipeline.ingestion import ingest as ingest_as_asked
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.sources import (
    check_source,
    column_bytes,
    column_names,
    has_types,
    ingest,
    read_source,
    source_fingerprint,
    source_name,
)

FRAME = pd.DataFrame(
    {
        "n": np.arange(60),
        "x": np.arange(60) / 8,
        "code": ["00500", "10001", None] * 20,
        "yes": [True, False] * 30,
        "day": pd.date_range("2024-01-01", periods=60, freq="h"),
    }
)


def at(shop: str, asked: str) -> str:
    """Return the address of a table or a query."""
    return f"{shop}#{asked}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a database with the table ``orders`` and whatever is odd."""
    path = tmp_path_factory.mktemp("sqlite") / "shop.db"
    with sqlite3.connect(path) as database:
        columns = "n INT, x REAL, code TEXT, yes BOOLEAN, day DATETIME"
        database.execute(f"CREATE TABLE orders ({columns})")
        FRAME.to_sql("orders", database, index=False, if_exists="append")
        database.executescript(
            """
            CREATE VIEW late_orders AS SELECT * FROM orders WHERE n >= 30;
            CREATE TABLE none_yet (a INT, b TEXT);
            CREATE TABLE mixed (whole_then_real, number_then_text, photo BLOB, d DATE);
            INSERT INTO mixed VALUES (NULL, 1, x'00ff', '2024-01-01'), (7, 2, NULL, NULL);
            INSERT INTO mixed VALUES (1.5, 'red', x'01', NULL);
            CREATE TABLE "50% (of all)" ("a:b" INT);
            INSERT INTO "50% (of all)" VALUES (1);
            """
        )
    database.close()
    return f"sqlite:///{path}"


@pytest.mark.parametrize("asked", ["orders", "main.orders", "SELECT * FROM orders ORDER BY n"])
def test_a_table_or_a_query_is_read(shop: str, asked: str) -> None:
    table = read_source(f"{shop}#{asked}")
    expected = FRAME.assign(day=FRAME["day"].astype(str))
    if asked.startswith("SELECT"):
        expected["yes"] = FRAME["yes"].astype(int)
    assert table.column_names == list(FRAME.columns)
    for name in FRAME.columns:
        assert (
            table[name].to_pylist()
            == expected[name].astype(object).where(expected[name].notna(), None).tolist()
        ), name


def test_the_names_of_columns_are_known_before_all_rows_are_there(shop: str) -> None:
    assert column_names(at(shop, "orders")) == list(FRAME.columns)
    assert column_names(at(shop, "SELECT n + 1 AS more FROM orders")) == ["more"]
    without_end = (
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT n AS a FROM s"
    )
    assert column_names(at(shop, without_end)) == ["a"]
    assert column_names(at(shop, "mixed"))[0] == "whole_then_real"  # whose values cannot be read
    with pytest.raises(InputError, match=r"there is no table 'order'.*nearest: orders"):
        column_names(at(shop, "order"))


def test_a_table_is_the_same_dataset_as_in_memory_whatever_the_order_of_its_rows(
    shop: str, tmp_path: Path
) -> None:
    expected = ingest(FRAME, tmp_path).hash
    assert ingest(f"{shop}#orders", tmp_path).hash == expected
    by_chance = at(shop, "WITH o AS (SELECT * FROM orders) SELECT * FROM o ORDER BY random()")
    in_order = at(shop, " select n, x, code, yes, day from orders order by n ")
    assert ingest(by_chance, tmp_path).hash == ingest(in_order, tmp_path).hash
    late = ingest(f"{shop}#late_orders", tmp_path)
    assert late.hash == ingest(FRAME[30:], tmp_path).hash


def test_batches_make_one_table(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_source(f"{shop}#orders")
    monkeypatch.setattr("chaffinch.storage.sources.sql._CELLS", 5)  # one row each
    parts = read_source(f"{shop}#orders")
    assert parts["x"].num_chunks > 50
    assert parts.combine_chunks().equals(whole.combine_chunks())


@pytest.mark.parametrize("cells", [1, 200_000], ids=["in batches", "at once"])
def test_values_of_several_types(
    shop: str, cells: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("chaffinch.storage.sources.sql._CELLS", cells)
    table = read_source(at(shop, "SELECT whole_then_real, photo FROM mixed"))
    assert table["whole_then_real"].to_pylist() == [None, 7.0, 1.5]
    dataset = ingest(at(shop, "SELECT whole_then_real, photo FROM mixed"), tmp_path)
    assert dataset.columns == {"whole_then_real": "float64", "photo": "other"}
    assert set(dataset.read()["photo"].drop_null().to_pylist()) == {"binary"}
    with pytest.raises(InputError, match=r"'number_then_text' holds values of int.* and str.*CAST"):
        read_source(f"{shop}#mixed")
    cast = read_source(at(shop, "SELECT CAST(number_then_text AS TEXT) AS t FROM mixed"))
    assert cast["t"].to_pylist() == ["1", "2", "red"]
    dropped = ingest(f"{shop}#mixed", tmp_path, drop=["number_then_text"])
    assert list(dropped.columns) == ["whole_then_real", "photo", "d"]
    asked = at(shop, "SELECT * FROM mixed")
    assert ingest(asked, tmp_path, drop=["number_then_text"]).n_rows == 3
    as_text = ingest(asked, tmp_path, categorical=["number_then_text"]).read()["number_then_text"]
    assert sorted(as_text.to_pylist()) == ["1", "2", "red"]
    whole = at(shop, "SELECT n, x FROM orders")
    in_memory = ingest(FRAME[["n", "x"]], tmp_path, categorical=["n", "x"]).hash
    assert ingest(whole, tmp_path, categorical=["n", "x"]).hash == in_memory


DECLARED: list[tuple[str, list[Any], list[Any]]] = [  # and what the values are read as
    ("BOOLEAN", [0, 1, None], [False, True, None]),
    ("BOOL", [1, None], [True, None]),
    ("BOOLEAN", [0, 1, 2], [0, 1, 2]),
    ("BOOLEAN", [0, -1], [0, -1]),
    ("BOOLEAN", ["t", "f"], ["t", "f"]),
    ("BOOLEAN", ["true", "false", None], ["true", "false", None]),
    ("BOOLEAN", [None], [None]),
    ("DECIMAL(20, 0)", [2**53 + 1, 2**53 + 3], [str(2**53 + 1), str(2**53 + 3)]),
    ("NUMERIC", [1.5e-11, 2.5e-12], [1.5e-11, 2.5e-12]),
    ("DECIMAL(30, 2)", [1.125, 7], [1.125, 7.0]),
    ("NUMERIC", [1e20, 1.5e25], [1e20, 1.5e25]),
    ("NUMERIC", [2**53 + 1, 1.5], [2.0**53, 1.5]),  # as from text
    ("DATE", ["2024-01-31"], [datetime(2024, 1, 31)]),
    ("DATE", ["2024-01-31 10:30:00"], [datetime(2024, 1, 31, 10, 30)]),
    ("DATE", [20240101], [20240101]),
    ("DATE", ["yesterday"], ["yesterday"]),
    ("DATETIME", ["2024-01-31T10:30"], [datetime(2024, 1, 31, 10, 30)]),
    ("TIMESTAMP", ["2024-01-31 10:00:00+02:00"], [datetime(2024, 1, 31, 8)]),
    (
        "TIMESTAMP",
        ["2024-01-31 10:00:00+02:00", "2024-01-31 11:00:00"],
        ["date in text with a zone in some rows and without one in others"] * 2,  # left out
    ),
    ("TIME", ["10:30:00"], ["10:30:00"]),
    ("JSON", ['{"a": 1}'], ['{"a": 1}']),
]


@pytest.mark.parametrize(("kind", "stored", "expected"), DECLARED)
@pytest.mark.parametrize("cells", [2, 200_000], ids=["in batches", "at once"])
def test_a_declared_type_changes_no_value(
    kind: str,
    stored: list[Any],
    expected: list[Any],
    cells: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("chaffinch.storage.sources.sql._CELLS", cells)  # one row each, or all
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute(f"CREATE TABLE t (n INT, x {kind})")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(stored))
    database.close()
    table, query = (
        ingest(at(f"sqlite:///{tmp_path / 'x.db'}", asked), tmp_path)
        for asked in ("t", "SELECT * FROM t")
    )
    rows = {row["n"]: row["x"] for row in table.read().to_pylist()}
    assert [rows[n] for n in range(len(stored))] == expected
    assert query.hash == table.hash or table.columns["x"] == "bool"


def test_a_query_is_sent_as_it_is(shop: str) -> None:
    query = """SELECT 'a # 50% :n ?' AS "x:y%", 7 % 4 AS rest FROM "50% (of all)" -- a remark"""
    assert read_source(f"{shop}#{query}").to_pylist() == [{"x:y%": "a # 50% :n ?", "rest": 3}]
    assert read_source(at(shop, "-- one\n/* two */ select 1 AS a")).num_rows == 1


def test_what_it_is_called_and_that_it_is_read_again_each_time(shop: str) -> None:
    assert source_name(f"{shop}#main.orders") == "orders"
    one, other = (source_name(at(shop, f"SELECT {i} AS n")) for i in (1, 2))
    assert one.startswith("shop-")
    assert one != other
    assert source_fingerprint(f"{shop}#orders") is None
    assert has_types(f"{shop}#orders")
    table = read_source(f"{shop}#orders")
    assert column_bytes(f"{shop}#orders") == {name: table[name].nbytes for name in FRAME.columns}


def test_inside_one_command_it_is_read_once(tmp_path: Path) -> None:
    path, settings = tmp_path / "x.db", SelectionSettings(target="y")
    address = f"sqlite:///{path}#t"

    def n_rows(given: SelectionSettings = settings) -> int:
        return ingest_as_asked(source_of(address), given, tmp_path).n_rows

    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (y INT)")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()
        with reads_cached():
            assert n_rows() == 1
            database.execute("INSERT INTO t VALUES (2)")
            database.commit()
            assert n_rows() == 1
            assert n_rows(SelectionSettings(target="y", columns={"numeric": ["y"]})) == 2
        assert n_rows() == 2
    database.close()


def test_an_error_counts_the_rows_of_a_database_without_another_query(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as database:
        values = [*range(150), None, *range(49)]
        pd.DataFrame({"x": range(200), "y": values}).to_sql("t", database, index=False)
    database.close()
    settings = SelectionSettings(target="y")
    dataset = ingest_as_asked(source_of(f"sqlite:///{path}#t"), settings, tmp_path / "store")
    path.unlink()
    with (
        pytest.raises(InputError, match=r"'y' .*row 151\b"),
        errors_with_source_rows(dataset, settings),
    ):
        describe_table(LazyTable(dataset), settings)


def test_made_features_are_of_the_rows_that_were_read(tmp_path: Path) -> None:
    days = pd.DataFrame({"day": range(200), "y": np.sin(np.arange(200)).round(6)})
    with sqlite3.connect(tmp_path / "shop.db") as database:
        days.to_sql("days", database, index=False)
    database.close()
    found = [
        chaffinch.select(
            source, "y", model="linear", time="day", history={"lags": [1, 2]}, seed=3
        ).contract
        for source in (days, f"sqlite:///{tmp_path / 'shop.db'}#days")
    ]
    assert found[0] == found[1]


WRONG = {
    "no table": ("#order", r"there is no table 'order' in sqlite:///.*shop.db; nearest: orders"),
    "no schema": ("#web.orders", r"web.orders cannot be read from .* \(unknown database .web.\)"),
    "no column": ("#SELECT price FROM orders", r"the query cannot be .* \(no such column: price\)"),
    "no SQL": ("#SELECT FROM FROM", r"cannot be read from .* \(near .*syntax error\); correct it"),
    "no rows": ("#none_yet", "none_yet has columns but no rows; give at least one"),
    "none match": ("#SELECT n FROM orders WHERE n < 0", "the query has columns but no rows"),
    "twice": ("#SELECT n, n FROM orders", "the query names column 'n' twice, at positions 1 and 2"),
    "bad option": ("?timeout=x#orders", r"shop.db cannot be opened with the options .*'x'\)"),
    "nothing asked": ("", "is a whole database; put a table or a SELECT behind it, as in"),
    "delete": ("#DELETE FROM orders", "or begin with SELECT or WITH, but begins with 'DELETE'"),
    "blanks": ("#my table", r"with 'my'; ask for a name with blanks as SELECT \* FROM \"my"),
    "pragma": ("#PRAGMA user_version = 7", "begins with 'PRAGMA'"),
    "hidden delete": ("#WITH a AS (SELECT 1) DELETE FROM orders", r"attempt to write a readonly"),
    "two": ("#SELECT 1 AS a; DELETE FROM orders", "one statement at a time"),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_answered_or_writes_is_one_line(shop: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_source(f"{shop}{asked}")
    assert "\n" not in str(caught.value)
    assert read_source(f"{shop}#orders").num_rows == 60


def test_a_file_that_is_none_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"no database, but long enough to be taken for one" * 100)
    for ask in (read_source, check_source):
        with pytest.raises(InputError, match=r"there is no file .*/shp.db; nearest: shop.db"):
            ask(f"sqlite:///{tmp_path / 'shp.db'}#orders")
    assert not (tmp_path / "shp.db").exists()
    with pytest.raises(InputError, match=r"\(file is not a database\)"):
        read_source(f"sqlite:///{tmp_path / 'shop.db'}#orders")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite://#orders", "sqlite must name a file, as in sqlite:///shop.db#orders"),
        ("sqlite:///:memory:#orders", "sqlite must name a file"),
        ("sqlite:///file:x.db?uri=true#orders", "name a file by its path, .*; leave out uri"),
        ("sqlite:///x.db?uri=false#orders", "leave out uri"),
        ("postgresql+asyncpg://host/shop#orders", r"asynchronous programs; write postgresql://"),
        ("postgresql://host:port/shop#orders", "the address of a database cannot be read; write"),
        ("oracl://host/shop#orders", "nothing is read from oracl: addresses; give a path"),
    ],
)
def test_addresses_that_cannot_be_are_refused_before_anyone_is_asked(
    address: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_source(address)


def test_a_missing_driver_and_a_missing_password_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"mysql://host/shop needs a driver .*; install it,"):
        read_source("mysql://host/shop#orders")
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(InputError, match=r"of postgresql://me@host/shop is to be in SHOP_PASSW"):
        read_source("postgresql://me@host/shop?password_from=SHOP_PASSWORD#orders")


def test_an_address_names_only_variables_that_hold_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = "postgresql://me@host/shop?password_from={}#orders"
    refused = r"password_from names 'AWS_SECRET_ACCESS_KEY', which does not contain PASSWORD; ren"
    with pytest.raises(InputError, match=refused):
        check_source(address.format("AWS_SECRET_ACCESS_KEY"))
    check_source(address.format("shop_Password_2"))
    monkeypatch.setenv("CHAFFINCH_PASSWORD_NAMES", "SHOP_KEY, SHOP_PIN")
    check_source(address.format("SHOP_PIN"))
    with pytest.raises(InputError, match="password_from names 'SHOP'"):
        check_source(address.format("SHOP"))


@contextmanager
def asks_for_the_password_in_clear() -> Iterator[tuple[str, list[bytes]]]:
    """Serve PostgreSQL's protocol up to the password; yield its place and what it was sent."""
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            while True:
                (length,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
                (code,) = struct.unpack("!i", connection.recv(length - 4)[:4])
                if code == 196608:  # version 3.0: no more questions of TLS
                    break
                connection.sendall(b"N")
            connection.sendall(b"R" + struct.pack("!ii", 8, 3))  # AuthenticationCleartextPassword
            received.append(connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        thread = Thread(target=serve, args=(listening,))
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", received
        thread.join()


@pytest.mark.parametrize(
    ("options", "is_sent"),
    [("", False), ("&sslmode=disable", False), ("&require_auth=password", True)],
)
def test_no_password_is_sent_in_clear_unless_asked_for(
    options: str, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hidden")
    with asks_for_the_password_in_clear() as (place, received):
        address = f"postgresql://me@{place}/shop?password_from=SHOP_PASSWORD{options}#orders"
        with pytest.raises(InputError) as caught:
            read_source(address)
    assert any(b"hidden" in sent for sent in received) == is_sent
    assert str(caught.value).endswith("or ?require_auth=password to send it in clear") != is_sent


SECRETS = [
    "postgresql://me:hidden@host/shop#orders",
    "postgresql+psycopg://me:hid den@host/shop#orders",
    "postgresql://:hidden@host/shop",
    "postgresql//me:hidden@host/shop#orders",
    "post\ngresql://me:hidden@host/shop#orders",
    "://me:hidden@host/shop#orders",
    "postgresql://me:12#hidden@host/shop#orders",
    "postgresql://me:1/2#hidden@host/shop#orders",
    "postgresql://host/shop?user=me&password=hidden#orders",
    "postgresql://host/shop?sslpassword=hidden#orders",
    "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Dme%3BPWD%3Dhidden#orders",
]


@pytest.mark.parametrize("address", SECRETS)
@pytest.mark.parametrize(
    "ask", [read_source, check_source, source_fingerprint, source_name, column_bytes]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(ask: Any, address: str) -> None:
    with pytest.raises(InputError, match="holds a password or another secret") as caught:
        ask(address)
    # nor by a log of the whole traceback
    lines = traceback.TracebackException.from_exception(caught.value, lookup_lines=False).format()
    assert "hid" not in "".join(lines)


def test_half_of_a_password_is_not_repeated_either() -> None:
    with pytest.raises(InputError, match="the address of a database cannot be read") as caught:
        check_source("postgresql://me:hid#den")
    assert caught.value.__suppress_context__
    assert "hid" not in str(caught.value)


def test_a_query_may_speak_of_mail_and_passwords(shop: str) -> None:
    query = "SELECT count(*) AS n FROM orders WHERE code = 'password=x' OR code LIKE 'me:x@host'"
    assert read_source(f"{shop}#{query}").to_pylist() == [{"n": 0}]


def test_a_column_of_nothing_has_no_type_yet(shop: str) -> None:
    assert read_source(at(shop, "SELECT NULL AS a, 1 AS b")).schema.types == [pa.null(), pa.int64()]


def test_an_infinite_decimal_is_no_whole_number(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE prices (price DECIMAL(10, 2))")
        database.executemany("INSERT INTO prices VALUES (?)", [(1.0,), (float("inf"),)])
    database.close()
    with pytest.raises(InputError, match="'price' must hold finite numbers but row 2 is infinite"):
        ingest(f"sqlite:///{tmp_path / 'shop.db'}#prices", tmp_path / "store")
