"""Addresses of tables: of servers and S3 where nothing listens, and of SQLite files of all sorts.

Every host is this machine.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import chaffinch
from tests.fuzz.ground import cheap, ground
from tests.fuzz.values import NAMES, Broken, Case, Draws, damaged, often, pick, shown, some

_SECRETS = ("hunter2", "hidden-key", "hidden-password")
_ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden-key",
    "PGCONNECT_TIMEOUT": "2", "AWS_EC2_METADATA_DISABLED": "true", "PGPASSWORD": "hidden-password",
}  # fmt: skip
# fmt: off
_SCHEMES = [
    *["postgresql"] * 4, "postgresql+psycopg", "postgres", "mysql", "mysql+pymysql", "mssql",
    "oracle", "postgresql+asyncpg", "sqlite+aiosqlite", "sqlite+pysqlcipher", "duckdb", "s3", "S3",
    "s3a", "gcs", "http", "file", "jdbc:postgresql", "", "a\nb", "ftp", "1x", "postgresql+x",
]
_USERS = ["", "", "", "u@", "u@", "u:hunter2@", ":hunter2@", "u%40x@", "a b@", "u:@", "é@"]
_HOSTS = ["127.0.0.1:9", "127.0.0.1:9", "localhost:9", "127.0.0.1:99999", "127.0.0.1:x",
          "127.0.0.1:-1", "[::1]:9", "127.0.0.1:9,127.0.0.1:10", "[::1", ""]
_BUCKETS = ["bucket", "", "a.b", "A_B", "é", "..", "b:1", "x" * 100]
_PATHS = ["/db", "/", "", "/a b", "/a%00b", "/a%0ab", "/é", "/a/b/c.csv", "/k.parquet", "//",
          "/\x1b[31m"]
_QUERIES = [
    "", "", "", "sslmode=disable", "sslmode=x", "password_from=NOT_THERE",
    "password_from=PGPASSWORD", "password_from=", "connect_timeout=x", "connect_timeout=1",
    "port=9", "x=1", "%00=1", "&&", "=", "sslmode=disable&sslmode=x",
    "password_from=A&password_from=B", "password=hunter2", "sslcert=/no", "application_name=a%0ab",
    "target_session_attrs=x", "keepalives=x", "options=-c%20x",
]
_OF_SQLITE = [
    *[""] * 12, "mode=ro", "mode=rwc", "uri=true", "mode=ro&uri=true", "timeout=x", "timeout=-1",
    "uri=x", "timeout=nan", "cache=shared", "detect_types=x", "detect_types=1", "isolation_level=x",
    "x=1", "check_same_thread=x", "check_same_thread=false", "cached_statements=x",
    "nolock=1&uri=true", "immutable=1&uri=true", "vfs=x&uri=true", "factory=x", "autocommit=x",
    "password_from=PGPASSWORD",
]
_ASKED = ["#t", "#shop.orders", "", "#", "# ", "#SELECT 1 AS a, 2 AS y", "#select", "#DROP TABLE t",
          "#t#t", "#t; DROP TABLE t", "#a\nb", "#SELECT * FROM nowhere", "#t.t.t", '#"t"',
          "#\x1b[31m"]
_TYPES = [
    "DATE", "DATETIME", "TIME", "TIMESTAMP", "DECIMAL(10,2)", "NUMERIC", "BOOLEAN", "BLOB", "REAL",
    "UUID", "INTEGER", "TEXT", "VARCHAR(3)", "JSON", "", "GEOMETRY", "INTERVAL", "BIGINT", "FLOAT",
    "CHAR", "MONEY",
]
_CELLS = [
    None, 1, 0, -1, 2.5, 20240101, "2024-01-01", "2024-13-45", "2024-01-01 10:00:00", "10:00", "x",
    "", b"\xff", b"a", 2**62, 1e308, float("inf"), "{}", "[1]", "{", "a\nb", "12.50", "true",
    "0" * 40, "nan",
]
_FROM_FILE = [
    *["t", "v", "SELECT * FROM t", "SELECT a, y FROM t ORDER BY random()"] * 4, "T", "main.t",
    "nowhere", "sqlite_master", "SELECT a, a, y FROM t", "SELECT *, 1 FROM t",
    "SELECT count(*) FROM t", "VALUES (1)", "WITH x AS (SELECT * FROM t) SELECT * FROM x",
    "WITH x AS (SELECT 1) DELETE FROM t", "SELECT ?", "/*", "SELECT * FROM t; DROP TABLE t",
    "SELECT :a", "SELECT '%'", "SELECT a AS '', y FROM t", "SELECT", "SELECT load_extension('x')",
    "SELECT zeroblob(9) AS a, y FROM t", "SELECT * FROM t LIMIT 0",
    "SELECT * FROM pragma_table_info('t')", "-- x\nSELECT * FROM t", "SELECT a AS 'a\nb', y FROM t",
    "PRAGMA user_version = 5", "ATTACH 'made.db' AS m",
]
# fmt: on


def draw(draws: Draws, place: Path) -> Case:
    """Draw an address, and where it is given."""
    address, said = _sqlite(draws, place) if often(draws, 0.55) else (_elsewhere(draws), "")
    target = pick(draws, ["y"] * 6 + ["a", "prize"])
    door = pick(draws, ["select"] * 4 + ["validate", "bytes_in"])
    contract = chaffinch.load_contract(ground().run("lightgbm"))

    def do() -> None:
        os.environ.update(_ENVIRONMENT)
        try:
            if door == "select":
                chaffinch.select(address, target, model=cheap("linear"), store=place / "store")
            else:
                getattr(contract, door)(address)
        except Exception as error:
            if any(secret in str(error) for secret in _SECRETS):
                raise Broken(f"a secret is told: {error}") from error
            raise

    return Case(f"{door}({shown(address)!r}, {target!r}); {said}", do)


def _elsewhere(draws: Draws) -> str:
    scheme = pick(draws, _SCHEMES)
    host = pick(draws, _BUCKETS if "s3" in scheme.lower() else _HOSTS)
    query = pick(draws, _QUERIES)
    marks = pick(draws, ["://"] * 20 + [":/", ":", ":///", "//"])
    begin = f"{scheme}{marks}{pick(draws, _USERS)}{host}{pick(draws, _PATHS)}"
    return f"{begin}{'?' if query else ''}{query}{pick(draws, _ASKED)}"


def _sqlite(draws: Draws, place: Path) -> tuple[str, str]:
    path = place / "in" / pick(draws, ["d.db"] * 6 + ["a b.db", "a?b.db", "é.sqlite", "a%20b.db"])
    columns = {"a": ("REAL", draws.normal(size=20).tolist()), "y": ("INTEGER", [0, 1])}
    for name in some(draws, ["a", "b", "y", "ü", "a b", *NAMES[:6]], 2):
        columns[name] = (pick(draws, _TYPES), some(draws, _CELLS) or [1.5, 2.5])
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in columns}
    rows = [
        [pick(draws, pool) for _, pool in columns.values()]
        for _ in range(pick(draws, [60] * 8 + [5, 0]))
    ]
    with closing(sqlite3.connect(path)) as database, database:
        typed = ", ".join(f"{quoted[name]} {kind}" for name, (kind, _) in columns.items())
        database.execute(f"CREATE TABLE t ({typed})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608
        database.execute("CREATE VIEW v AS SELECT * FROM t")
    said = ", ".join(f"{n!r} {kind} of {shown(pool, 80)}" for n, (kind, pool) in columns.items())
    if often(draws, 0.1):
        data, how = damaged(draws, path.read_bytes())
        path.write_bytes(data)
        said = f"{how}; {said}"
    others = [f"file:{path}", str(path.parent), f"{path}x", ":memory:", "", "file::memory:", "a.db"]
    text = pick(draws, others) if often(draws, 0.1) else str(path)
    begin = pick(draws, ["sqlite:///"] * 20 + ["sqlite:////", "sqlite://", "sqlite+pysqlite:///"])
    query = pick(draws, _OF_SQLITE)
    return f"{begin}{text}{'?' if query else ''}{query}#{pick(draws, _FROM_FILE)}", said
