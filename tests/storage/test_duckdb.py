"""A table or query in a DuckDB file is read as it is, and no query sees more than the file."""

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from chaffinch.errors import InputError
from tests.flows.cli.programs import python
from tests.sources import check_source, column_names, ingest, read_source, source_name


def at(shop: str, asked: str) -> str:
    """Return the address of a table or a query."""
    return f"{shop}#{asked}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a file with the table ``orders``, with 60 rows of many types."""
    path = tmp_path_factory.mktemp("duckdb") / "shop.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            """
            CREATE TABLE orders AS SELECT
                range AS n, (range / 8)::DECIMAL(9, 3) AS exact, range::HUGEINT AS huge,
                ['S', 'M', 'L'][1 + range % 3]::ENUM('S', 'M', 'L') AS size,
                TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours(range::INT) AS at, NULL AS nothing
            FROM range(60);
            CREATE SCHEMA web;
            CREATE VIEW web.late AS SELECT * FROM orders WHERE n >= 30;
            """
        )
    return f"duckdb:///{path}"


def test_types_are_those_of_the_same_values_in_memory(shop: str, tmp_path: Path) -> None:
    n = pd.Series(range(60))
    frame = pd.DataFrame(
        {
            "n": n,
            "exact": n / 8,
            "huge": n,
            "size": n.mod(3).map(dict(enumerate("SML"))),
            "at": pd.date_range("2024-01-01", periods=60, freq="h", tz="UTC"),
            "nothing": [None] * 60,
        }
    )
    dataset = ingest(f"{shop}#orders", tmp_path)
    assert dataset.columns["size"] == "category"
    assert dataset.hash == ingest(frame, tmp_path).hash
    assert ingest(f"{shop}#web.late", tmp_path).hash == ingest(frame[30:], tmp_path).hash


def test_batches_make_one_table(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = at(shop, "SELECT range AS n FROM range(10000)")
    whole = read_source(query)
    monkeypatch.setattr("chaffinch.storage.sources.duckdb._CELLS", 2048)
    parts = read_source(query)
    assert parts["n"].num_chunks > 3
    assert parts.combine_chunks().equals(whole.combine_chunks())


def test_a_query_that_needs_more_memory_than_there_is(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"memory_limit": "20MB", "max_temp_directory_size": "0MB"}
    monkeypatch.setattr("chaffinch.storage.sources.duckdb._OPTIONS", limits)
    with pytest.raises(MemoryError, match="Out of Memory"):
        read_source(at(shop, "SELECT range AS n FROM range(10000000) ORDER BY hash(n)"))


def test_names(shop: str) -> None:
    assert source_name(f"{shop}#web.late") == "late"
    query = at(shop, "SELECT n FROM orders")
    assert source_name(query).startswith("shop-")
    assert source_name(query) != source_name(f"{query} WHERE n > 1")
    failing = at(shop, "SELECT CAST('x' AS INT) AS whole FROM orders")
    assert column_names(failing) == ["whole"]  # without running the query


REFUSED = {
    "": "is a whole database; put a table or a SELECT behind it",
    "DROP TABLE orders": "must be a table, such as shop.orders, or begin with SELECT or WITH",
    "order": "there is no table 'order' in .*; nearest: orders",
    "SELECT wrong FROM orders": 'cannot be read from .*Referenced column "wrong" not found',
    "SELECT n, n FROM orders": "names column 'n' twice",
    "SELECT n FROM orders WHERE n < 0": "the query has columns but no rows",
    "SELECT 1; CREATE TABLE other AS SELECT 1": "read-only mode",
    "SELECT * FROM read_csv('{secret}')": "asks for more than .*shop.duckdb holds",
    "SELECT * FROM '{secret}'": "does not exist|asks for more",
    "SELECT * FROM glob('{folder}/*')": "asks for more than",
    "SELECT 1; COPY orders TO '{folder}/copy.csv'": "asks for more than",
    "SELECT 1; SET enable_external_access = true": "the configuration has been locked",
    "SELECT 1; LOAD httpfs": "asks for more than|cannot be read",
    "SELECT * FROM frame": "Table with name frame does not exist",
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_writes_or_looks_elsewhere_is_refused_in_one_line(
    asked: str, shop: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"a": [1]})  # which DuckDB would otherwise find by its name
    secret = tmp_path / "secret.csv"
    frame.to_csv(secret, index=False)
    with pytest.raises(InputError, match=REFUSED[asked]) as caught:
        read_source(at(shop, asked.format(secret=secret, folder=tmp_path)))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [secret]


@pytest.mark.parametrize("address", ["duckdb://", "duckdb:///:memory:#t", "duckdb:///x?a=b#t"])
def test_an_address_names_a_file(address: str) -> None:
    with pytest.raises(InputError, match="duckdb must name a file"):
        check_source(address)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "shop.duckdb").write_text("a,b\n1,2\n" * 1000)
    with pytest.raises(InputError, match="not a valid DuckDB database file"):
        read_source(f"duckdb:///{tmp_path}/shop.duckdb#t")


def test_a_file_that_another_connection_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    ask = f"from tests.sources import read_source; read_source('duckdb:///{path}#t')"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(InputError, match="is open in this program"):
            read_source(f"duckdb:///{path}#t")
        done = python(ask, cwd=Path(__file__).parents[2])
    assert "is open for writing in another program" in done.stderr.splitlines()[-1]
    assert read_source(f"duckdb:///{path}#t").num_rows == 1
