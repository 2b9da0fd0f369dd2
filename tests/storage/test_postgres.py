"""Tables and queries of PostgreSQL are read in batches, by its own types; nothing is written."""

import logging
import tracemalloc
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import chaffinch
from chaffinch.errors import InputError, UnreachableError
from chaffinch.storage.sources.addresses import extra_credentials
from tests.flows.cli.programs import free_port
from tests.postgres import PASSWORD, Postgres
from tests.sources import column_names, ingest, read_source

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("postgres")]

TYPES = {
    "whole": ("int", "7", pa.int64(), 7),
    "large": ("bigint", "9007199254740993", pa.int64(), 9007199254740993),
    "small": ("real", "1.1", pa.float64(), 1.1),
    "real": ("double precision", "0.1", pa.float64(), 0.1),
    "price": ("numeric(10, 2)", "12.10", pa.float64(), 12.1),
    "code": ("text", "'00500'", pa.string(), "00500"),
    "mood": ("mood", "'fine'", pa.string(), "fine"),
    "yes": ("boolean", "true", pa.bool_(), True),
    "day": ("date", "'2024-02-29'", pa.date32(), date(2024, 2, 29)),
    "at": ("timestamp", "'2024-02-29 10:30'", pa.timestamp("us"), datetime(2024, 2, 29, 10, 30)),
    "there": (
        "timestamptz",
        "'2024-02-29 10:30+05:30'",
        pa.timestamp("us", tz="UTC"),
        pd.Timestamp("2024-02-29 05:00", tz="UTC"),
    ),
    "id": (
        "uuid",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        pa.string(),
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
}
NO_FEATURES = {
    "json": ("jsonb", """'{"a": 1}'"""),
    "list": ("int[]", "'{1, 2}'"),
    "bytes": ("bytea", r"'\\x00ff'"),
    "address": ("inet", "'127.0.0.1'"),
    "lasts": ("interval", "'3 days'"),
}


@pytest.fixture(scope="module")
def server(postgres_server: Postgres) -> Postgres:
    kinds = {name: row[:2] for name, row in (TYPES | NO_FEATURES).items()}
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    values = ", ".join(value for _, value in kinds.values())
    with postgres_server.connected() as connection:
        for statement in (
            "CREATE SCHEMA web",
            "CREATE TYPE mood AS ENUM ('sad', 'fine')",
            f"CREATE TABLE web.everything ({columns})",
            "INSERT INTO web.everything (whole) VALUES (NULL)",
            f"INSERT INTO web.everything VALUES ({values})",  # noqa: S608
            "INSERT INTO web.everything (whole) VALUES (NULL)",
            'CREATE TABLE "Orders" (n int, x double precision, y double precision)',
            """INSERT INTO "Orders" SELECT n, sin(n), 3 * sin(n) + 0.01 * cos(7 * n)
               FROM generate_series(1, 200) AS n""",
            "CREATE TABLE none_yet (a int, b text)",
            "CREATE TABLE eternal (d date)",
            "INSERT INTO eternal VALUES ('infinity')",
            "CREATE SEQUENCE counter",
        ):
            connection.exec_driver_sql(statement)
    return postgres_server


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def test_every_type_is_the_databases_own(server: Postgres) -> None:
    for asked in ("web.everything", "SELECT * FROM web.everything"):
        table = read_source(server.at(asked))
        for name, (_, _, kind, value) in TYPES.items():
            assert table[name].type == kind, name
            assert table[name].to_pylist() == [None, value, None], name


def test_of_what_cannot_be_a_feature_the_type_is_kept_unless_it_is_dropped(
    server: Postgres, tmp_path: Path
) -> None:
    address = server.at("web.everything")
    kept = ingest(address, tmp_path).columns
    assert {name for name, kind in kept.items() if kind == "other"} == set(NO_FEATURES)
    dataset = ingest(address, tmp_path, drop=list(NO_FEATURES))
    assert list(dataset.columns) == list(TYPES)
    assert dataset.columns["code"] == "category"


def test_the_same_rows_are_the_same_dataset_in_whatever_order(
    server: Postgres, tmp_path: Path
) -> None:
    table = read_source(server.at("Orders"))
    by_chance = server.at('SELECT * FROM "Orders" ORDER BY random()')
    assert table.num_rows == 200
    assert ingest(by_chance, tmp_path).hash == ingest(table, tmp_path).hash


def test_rows_come_in_batches(server: Postgres) -> None:
    """Held at once, a million values of Python would take some 40 MB, and so would their rows."""
    columns = ", ".join(f"random() AS c{i}" for i in range(10))
    address = server.at(f"SELECT {columns} FROM generate_series(1, 100000)")  # noqa: S608
    tracemalloc.start()
    try:
        table = read_source(address)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.num_rows == 100_000
    assert table["c0"].num_chunks >= 5
    assert most < 30e6
    assert "FETCH FORWARD 20000" in server.log.read_text()


def test_the_names_of_columns_are_known_before_all_rows_are_there(server: Postgres) -> None:
    without_end = (
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT n AS a FROM s"
    )
    assert column_names(server.at(without_end)) == ["a"]
    assert column_names(server.at("Orders")) == read_source(server.at("Orders")).column_names


def test_a_query_is_sent_as_it_is(server: Postgres) -> None:
    query = """WITH a AS (SELECT '5% :n %s' AS t) SELECT t, 7 % 4 AS "r:%", 1::text FROM a; -- so"""
    assert read_source(server.at(query)).to_pylist() == [{"t": "5% :n %s", "r:%": 3, "text": "1"}]


WRONG = {
    "no table": ("#orders", "there is no table 'orders' in .*; nearest: Orders"),
    "no schema": ("#shop.orders", "there is no table 'shop.orders' in postgresql://owner@127"),
    "no column": ("#SELECT cost FROM web.everything", 'column "cost" does not exist'),
    "no SQL": ("#SELECT FROM FROM", r"the query cannot be read from .* \(syntax error at or near"),
    "no rows": ("#none_yet", "none_yet has columns but no rows; give at least one"),
    "no day": ("#eternal", r"eternal cannot be read from .* \(date too large .*'infinity'\)"),
    "digits": (
        "#SELECT 10::numeric ^ 80 AS n",
        r"the query cannot be read from .* \(.*precision.*\); CAST such values to text",
    ),
    "division": ('#SELECT 1 / (n - 100) FROM "Orders"', "division by zero"),
    "delete": ('#DELETE FROM "Orders"', "must be a table, such as shop.orders, or begin with"),
    "hidden delete": (
        '#WITH d AS (DELETE FROM "Orders" RETURNING *) SELECT * FROM d',
        "must not contain data-modifying statements",
    ),
    "function": ("#SELECT nextval('counter')", "cannot execute nextval.* read-only transaction"),
    "two": ('#SELECT 1; DELETE FROM "Orders"', "cannot insert multiple commands"),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_answered_or_writes_is_one_line(
    server: Postgres, asked: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_source(f"{server.address}{asked}")
    assert "\n" not in str(caught.value)
    assert read_source(server.at("Orders")).num_rows == 200


def test_who_may_not_in_or_asks_at_the_wrong_door_learns_where_to_look(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "check host, database and user, and the password in PGPASSWORD"
    doors = {
        server.address.replace(str(server.port), str(free_port())): "Connection refused",
        server.address.replace("/shop", "/shoe"): 'database "shoe" does not exist',
        server.address.replace("127.0.0.1", "no-host.invalid"): "failed to resolve host",
    }
    for address, reason in doors.items():
        with pytest.raises(InputError) as caught:
            read_source(f"{address}#Orders")
        assert reason in str(caught.value)
        assert str(caught.value).endswith(remedy)
        assert "\n" not in str(caught.value)
    for wrong in ("not this one", ""):
        monkeypatch.setenv("PGPASSWORD", wrong)
        with pytest.raises(InputError, match=r"authentication failed|no password") as caught:
            read_source(server.at("Orders"))
        assert "not this one" not in str(caught.value)


def test_the_password_may_have_another_name_or_place(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD")
    address = f"{server.address}?application_name=a%20test&password_from=SHOP_PASSWORD#Orders"
    with extra_credentials({"SHOP_PASSWORD": PASSWORD}.get):
        assert read_source(address).num_rows == 200
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    assert read_source(address).num_rows == 200
    monkeypatch.setenv("SHOP_PASSWORD", "wrong")
    with pytest.raises(InputError, match=r"^cannot connect .* in SHOP_PASSWORD$") as refused:
        read_source(address)
    assert not isinstance(refused.value, UnreachableError)


def test_a_server_that_does_not_answer_may_do_so_later() -> None:
    with pytest.raises(UnreachableError, match=r"^cannot connect to "):
        read_source(f"postgresql://reader@127.0.0.1:{free_port()}/shop#orders")


def test_a_selection_keeps_no_password(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    with caplog.at_level(logging.DEBUG):
        result = chaffinch.select(server.at("Orders"), "y", model=model, store=tmp_path)
    assert result.run.startswith("Orders-auto-linear-")
    again = result.model.predict(server.at("Orders"))
    assert np.isfinite(again).all()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 15
    assert not any(PASSWORD.encode() in path.read_bytes() for path in files)
    assert PASSWORD not in caplog.text
