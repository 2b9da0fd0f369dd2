"""Addresses of tables: S3 and servers that nobody runs here, and SQLite files of all sorts.

Hosts are of this machine alone, and nothing listens on their ports.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

import chaffinch
from chaffinch import load_contract
from tests.fuzz.ground import cheap, ground
from tests.fuzz.values import NAMES, Case, Draws, Place, damaged, often, pick, shown, some

_NOWHERE = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "hidden-key",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
    "PGCONNECT_TIMEOUT": "2",
    "PGPASSWORD": "hidden-password",
}
_SECRETS = ("hidden-key", "hidden-password", "hunter2")
_SCHEMES = ["postgresql", "postgresql", "postgresql+psycopg", "postgres", "mysql", "mysql+pymysql", "mssql", "oracle",
            "postgresql+asyncpg", "sqlite+aiosqlite", "sqlite+pysqlcipher", "duckdb", "s3", "S3", "s3a", "gs", "http",
            "file", "jdbc:postgresql", "", "a\nb", "ftp", "1x", "postgresql+x"]  # fmt: skip
_USERS = ["", "u@", "u:hunter2@", ":hunter2@", "u%40x@", "a b@", "u:@", "é@"]
_HOSTS = ["127.0.0.1:9", "127.0.0.1:9", "localhost:9", "127.0.0.1:99999", "127.0.0.1:x", "127.0.0.1:-1", "[::1]:9",
          "127.0.0.1:9,127.0.0.1:10", "[::1", ""]  # fmt: skip
_PATHS = [
    "/db",
    "/",
    "",
    "/a b",
    "/a%00b",
    "/a%0ab",
    "/é",
    "/a/b/c.csv",
    "/k.parquet",
    "//",
    "/x.csv.gz",
    "/\x1b[31m",
]
_QUERIES = ["", "", "?sslmode=disable", "?sslmode=x", "?password_from=NOT_THERE", "?password_from=PGPASSWORD",
            "?password_from=", "?connect_timeout=x", "?connect_timeout=1", "?port=9", "?x=1", "?%00=1", "?options=-c%20x",
            "?sslmode=disable&sslmode=x", "?password_from=A&password_from=B", "?password=hunter2", "?application_name=a%0ab",
            "?sslcert=/nowhere", "?target_session_attrs=x", "?keepalives=x", "?=", "?&&&"]  # fmt: skip
_OF_SQLITE = ["", "", "", "?mode=ro", "?mode=rwc", "?uri=true", "?mode=ro&uri=true", "?timeout=x", "?timeout=-1", "?timeout=nan",
              "?cache=shared", "?detect_types=x", "?detect_types=1", "?isolation_level=x", "?check_same_thread=x",
              "?check_same_thread=false", "?cached_statements=x", "?nolock=1&uri=true", "?immutable=1&uri=true", "?vfs=x&uri=true",
              "?x=1", "?factory=x", "?autocommit=x", "?password_from=PGPASSWORD", "?uri=x"]  # fmt: skip
_ASKED = ["#t", "#shop.orders", "", "#", "# ", "#SELECT 1 AS a, 2 AS y", "#select", "#DROP TABLE t", "#t; DROP TABLE t",
          "#a\nb", "#SELECT * FROM nowhere", "#t.t.t", '#"t"', "#\x1b[31m", "#WITH x AS (SELECT 1) SELECT * FROM x",
          "#SELECT '%s', :a, ?", "#t#t"]  # fmt: skip
_TYPES = ["DATE", "DATETIME", "TIME", "TIMESTAMP", "DECIMAL(10,2)", "NUMERIC", "BOOLEAN", "BLOB", "REAL", "INTEGER", "TEXT",
          "VARCHAR(3)", "JSON", "UUID", "", "GEOMETRY", "INTERVAL", "BIGINT", "FLOAT", "CHAR", "ENUM('a')"]  # fmt: skip
_CELLS = [None, 1, 0, -1, 2.5, 20240101, "2024-01-01", "2024-13-45", "2024-01-01 10:00:00", "10:00", "x", "", b"\xff", b"a", 2**62,
          1e308, float("inf"), "{}", "[1]", "{", "a\nb", "12.50", "true", "\ud7ff", "0" * 40, "1e999", "nan"]  # fmt: skip
_FROM_TABLE = ["t", "t", "t", "v", "T", "main.t", "sqlite_master", "nowhere", "select * from t", "SELECT a, y FROM t",
               "SELECT a, a, y FROM t", "SELECT *, 1 FROM t", "SELECT count(*) FROM t", "WITH x AS (SELECT * FROM t) SELECT * FROM x",
               "WITH x AS (SELECT 1) DELETE FROM t", "SELECT * FROM t; DROP TABLE t", "SELECT ?", "SELECT :a", "SELECT '%'",
               "SELECT a AS '', y FROM t", "SELECT load_extension('x')", "SELECT writefile('x', 'y')", "SELECT zeroblob(9) AS a, y FROM t",
               "SELECT a, y FROM t ORDER BY random()", "SELECT", "SELECT * FROM t LIMIT 0", "SELECT * FROM pragma_table_info('t')",
               "-- x\nSELECT * FROM t", "/*", "SELECT a AS 'a\nb', y FROM t", "VALUES (1)", "PRAGMA user_version = 5"]  # fmt: skip


def draw(draws: Draws, place: Place) -> Case:
    """Draw an address, of which most lead nowhere."""
    address, said = _sqlite(draws, place) if often(draws, 0.5) else (_elsewhere(draws), "")
    door = pick(draws, ["select", "select", "validate", "bytes_in"])
    target = pick(draws, ["y", "y", "a", "prize"])
    contract = load_contract(ground().run("lightgbm") / "selection.json")

    def do() -> None:
        os.environ.update(_NOWHERE)
        try:
            if door == "select":
                chaffinch.select(address, target, model=cheap("linear"), store=place.store)
            else:
                getattr(contract, door)(address)
        except Exception as error:
            if any(secret in str(error) for secret in _SECRETS):
                raise ValueError(f"the message tells a secret: {error}") from error
            raise

    return Case(f"{door}({shown(address)}, {target!r}) {said}", do)


def _elsewhere(draws: Draws) -> str:
    scheme, user, host = pick(draws, _SCHEMES), pick(draws, _USERS), pick(draws, _HOSTS)
    if "s3" in scheme.lower():  # of which the host is a bucket
        host = pick(draws, ["bucket", "", "a.b", "A_B", "é", "..", "b:1", "x" * 100])
    path, query, asked = pick(draws, _PATHS), pick(draws, _QUERIES), pick(draws, _ASKED)
    marks = pick(draws, ["://"] * 9 + [":/", ":", ":///", "//"])
    return (
        f"{pick(draws, ['', '', '', ' ', chr(10)])}{scheme}{marks}{user}{host}{path}{query}{asked}"
    )


def _sqlite(draws: Draws, place: Place) -> tuple[str, str]:
    path = place.given / pick(
        draws, ["d.db", "d.db", "d.db", "a b.db", "a?b.db", "é.sqlite", "a%20b.db"]
    )
    n = int(pick(draws, [60, 60, 60, 5, 0]))
    names = [
        "a",
        "b",
        "y",
        *(n for n in some(draws, NAMES, 1) if n.strip() and n not in ("y", "\ud800", "a\0b")),
    ]
    kinds = [pick(draws, _TYPES) for _ in names]
    pools = [some(draws, _CELLS, 3) or [1.5, 2.5] for _ in names]
    if often(draws, 0.7):
        kinds[0], pools[0] = "REAL", [float(v) for v in draws.normal(size=20)]
        kinds[2], pools[2] = "INTEGER", [0, 1]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    rows = [[pick(draws, pool) for pool in pools] for _ in range(n)]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"CREATE TABLE t ({', '.join(f'{q} {k}' for q, k in zip(quoted, kinds, strict=True))})"
        )
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)  # noqa: S608
        database.execute("CREATE VIEW v AS SELECT * FROM t")
    if often(draws, 0.15):
        data, how = damaged(draws, path.read_bytes())
        path.write_bytes(data)
        said = f"damaged: {how}"
    else:
        said = ", ".join(
            f"{name!r} {kind} of {pool!r}"
            for name, kind, pool in zip(names, kinds, pools, strict=True)
        )
    text: Any = str(path)
    if often(draws, 0.1):
        text = pick(
            draws,
            [
                f"file:{path}",
                str(path.parent),
                f"{path}x",
                ":memory:",
                "",
                "file::memory:",
                "a\0b",
                "/proc/self/mem",
                "relative.db",
            ],
        )
    begin = pick(draws, ["sqlite:///"] * 9 + ["sqlite:////", "sqlite://", "sqlite+pysqlite:///"])
    return f"{begin}{text}{pick(draws, _OF_SQLITE)}#{pick(draws, _FROM_TABLE)}", shown(said, 400)
