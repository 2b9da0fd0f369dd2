"""Tables and queries in databases, read through SQLAlchemy in batches.

PostgreSQL sends rows on demand (a cursor on the server), so that at most one batch is held in
addition to the Arrow table. Nothing is written: only a SELECT is sent, the transaction is
read-only in PostgreSQL and SQLite, and it is never committed.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError, UnreachableError, short_repr
from chaffinch.storage.column_names import check_columns, nearest_or_all
from chaffinch.storage.extras import require
from chaffinch.storage.sources.addresses import credentials, secret_message, without
from chaffinch.storage.sources.database import DatabaseSource
from chaffinch.storage.sources.source import OpenTable
from chaffinch.storage.spilled import SpilledRows

if TYPE_CHECKING:  # loading SQLAlchemy takes long
    import sqlalchemy as sa

_DRIVERS = {"postgresql": "postgresql+psycopg"}  # SQLAlchemy's default is another
_SHOWN = 40
_UNREACHABLE = re.compile(  # in what drivers say of a server that may be reached later
    "refused|timed? ?out|could not translate|failed to resolve|name or service|no route|"
    "starting up|shutting down|closed the connection",
    re.IGNORECASE,
)
_PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a name
PASSWORD_NAMES = "CHAFFINCH_PASSWORD_NAMES"  # noqa: S105 - the name of a list of names
_CELLS = 200_000  # of a batch: some megabytes, as Python holds them
_PASSWORDS = {"postgresql": "PGPASSWORD"}
_EXTRAS = {"postgresql": "chaffinch[postgres]"}
_LIBPQ = ("postgresql+psycopg", "postgresql+psycopg2")
_WITH_TLS = ("require", "verify-ca", "verify-full")
_STREAMED = {"stream_results": True, "no_parameters": True}  # or a % in a query would be doubled
# what drivers give -> Arrow; a class before those that it is derived from
_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    Decimal: pa.float64(),
    str: pa.string(),
    UUID: pa.string(),
    datetime: pa.timestamp("us"),
    date: pa.date32(),
    time: pa.time64("us"),
    timedelta: pa.duration("us"),
    object: pa.binary(),  # which is refused by name, unless it is dropped
}
_IN_TEXT = {int, float, str}
_WHOLE = pa.decimal256(76, 0)  # of any digits that a database has


@dataclass(frozen=True)
class SqlSource(DatabaseSource):
    """A table in a database, or the result of a query.

    ``?password_from=NAME`` in the URL names the variable that holds the password. The name must
    contain PASSWORD or be listed by the operator in CHAFFINCH_PASSWORD_NAMES; otherwise an address
    could send any variable to any host.
    """

    text: str  # URL of SQLAlchemy, #, and the query
    url: sa.URL
    query: str  # a table, as in shop.orders, or a SELECT
    password_from: str | None

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if not scheme:
            return None
        require("sqlalchemy", "a database")
        import sqlalchemy as sa

        before, _, query = data.partition("#")
        try:
            url = sa.make_url(before)
            dialect = url.get_dialect()
        except sa.exc.NoSuchModuleError:
            return None
        except (sa.exc.ArgumentError, ValueError):
            # without its cause, which repeats what may be half of a password
            raise InputError(
                "the address of a database cannot be read; write it as "
                "postgresql://host:5432/database#table, and @ in a name as %40"
            ) from None
        if url.password is not None:
            raise InputError(secret_message("the address of a source"))
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
        if dialect.is_async:
            raise InputError(
                f"{url.drivername} is a driver for asynchronous programs; write "
                f"{url.get_backend_name()}:// alone, or name another"
            )
        named = url.query.get(_PASSWORD_FROM)
        password_from = named if isinstance(named, str) else None
        source = cls(
            data, url.difference_update_query([_PASSWORD_FROM]), query.strip(), password_from
        )
        source.check_query()
        _check_file(source)
        _check_password_name(password_from)
        return source

    def __str__(self) -> str:
        return str(self.url.set(drivername=self.backend, query={}))

    @property
    def backend(self) -> str:
        """The kind of database, such as ``postgresql``."""
        return self.url.get_backend_name()

    @property
    def database(self) -> str:
        return self.url.database or ""

    @property
    def file(self) -> Path | None:
        return Path(self.database) if self.backend == "sqlite" else None

    @property
    def address(self) -> str:
        if self.file is None:
            return self.text
        url = self.url.set(database=str(self.file.absolute()))
        return f"{url.render_as_string()}#{self.query}"

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        """Read all rows with the types that the driver gives.

        Exact decimals become float64. SQLite has a type for each value alone: columns have what is
        stored, but 0 and 1 in a column of a table that is declared BOOLEAN are false and true.
        """
        with self.reading(), _opened(self) as connection:
            table = _read(self, connection, categorical, drop, aside)
        yield OpenTable.of(table)

    def columns(self) -> list[str]:
        """Return the names of the columns; fetches at most the first row, and only of a query."""
        with self.reading(), _opened(self) as connection:
            if not self.is_query:
                return list(_table(self, connection).columns.keys())
            with closing(_execute(self, connection)) as result:
                return _names(self, result)

    def shape(self) -> tuple[int, int] | None:
        """Return what the database counts; None for a query, which would be run twice."""
        if self.is_query:
            return None
        import sqlalchemy as sa

        with self.reading(), _opened(self) as connection:
            table = _table(self, connection)
            counted = connection.execute(sa.select(sa.func.count()).select_from(table))
            return counted.scalar_one(), len(table.columns)


def _check_password_name(name: str | None) -> None:
    listed = [variable.strip() for variable in os.environ.get(PASSWORD_NAMES, "").split(",")]
    if name is not None and "PASSWORD" not in name.upper() and name not in listed:
        raise InputError(
            f"password_from names {name[:_SHOWN]!r}, which does not contain PASSWORD; rename the "
            f"variable, or list it in {PASSWORD_NAMES} where chaffinch runs"
        )


def _check_file(source: SqlSource) -> None:
    if source.file is not None and str(source.file) in (".", ":memory:"):
        raise InputError("sqlite must name a file, as in sqlite:///shop.db#orders, but names none")
    if source.file is not None and "uri" in source.url.query:
        raise InputError(
            "sqlite must name a file by its path, as in sqlite:///shop.db#orders; leave out uri "
            "and write the path without file:"
        )


@contextmanager
def _opened(source: SqlSource) -> Iterator[sa.Connection]:
    """Connect, and raise errors inside as InputError without the password."""
    import sqlalchemy as sa

    password = _password(source)
    try:
        with _connected(source, password) as connection:
            yield connection
    except InputError:
        raise
    except sa.exc.SQLAlchemyError as error:
        raise InputError(without(_explain(source, error), [password])) from error
    except (TypeError, ValueError) as error:  # such as a number of more digits than Arrow holds
        raise InputError(
            f"{source.label} cannot be read from {source} ({error}); CAST such values to text, or "
            "to a type of fewer digits, in a SELECT"
        ) from error


def _password(source: SqlSource) -> str | None:
    """Return the password; None if there is none, or the driver finds it itself."""
    variable = source.password_from or _PASSWORDS.get(source.backend)
    if variable is None:
        return None
    (password,) = credentials(variable)
    if password is None and source.password_from:
        raise InputError(
            f"the password of {source} is to be in {variable} but there is no such variable; set "
            "it in the environment"
        )
    return password


@contextmanager
def _connected(source: SqlSource, password: str | None) -> Iterator[sa.Connection]:
    """Connect, to read only."""
    import sqlalchemy as sa

    url = _never_in_clear(source.url)
    if password is not None:
        url = url.set(password=password)
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        connection = engine.connect()
    except ImportError as error:
        what = _EXTRAS.get(source.backend, "it, or name another as in mysql+pymysql://")
        raise InputError(f"{source} needs a driver ({error}); install {what}") from error
    except sa.exc.SQLAlchemyError as error:
        message = without(_first_line(error), [password])
        remedy = (
            "check host, database and user, and the password in "
            f"{source.password_from or _PASSWORDS.get(source.backend, 'password_from')}"
        )
        if "cleartext password" in message:
            remedy = "add ?sslmode=require, or ?require_auth=password to send it in clear"
        kind = UnreachableError if _UNREACHABLE.search(message) else InputError
        raise kind(f"cannot connect to {source} ({message}); {remedy}") from error
    except (TypeError, ValueError) as error:
        message = without(str(error), [password])
        raise InputError(
            f"{source} cannot be opened with the options in its address ({message}); correct what "
            "follows the ?"
        ) from error
    with connection:
        if source.backend == "postgresql":
            connection.execution_options(postgresql_readonly=True)
        if source.backend == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = ON")
        yield connection


def _never_in_clear(url: sa.URL) -> sa.URL:
    """Return a URL by which libpq refuses to send the password in clear without TLS.

    An address or the environment that sets ``require_auth`` decides itself.
    """
    mode = url.query.get("sslmode", os.environ.get("PGSSLMODE"))
    is_set = "require_auth" in url.query or bool(os.environ.get("PGREQUIREAUTH"))
    if url.drivername not in _LIBPQ or is_set or mode in _WITH_TLS:
        return url
    return url.update_query_dict({"require_auth": "!password"})


def _execute(
    source: SqlSource,
    connection: sa.Connection,
    columns: Iterable[sa.Column[Any]] = (),
    drop: Container[str] = (),
) -> sa.CursorResult[Any]:
    """Send the query, or ask for all columns of the table."""
    import sqlalchemy as sa

    if source.is_query:
        return connection.exec_driver_sql(source.query, execution_options=_STREAMED)
    selected: list[sa.ColumnElement[Any]] = []
    for column in columns:
        if column.name in drop:
            selected.append(sa.null().label(column.name))
        elif source.backend == "sqlite":  # a declared type would change what is stored
            selected.append(sa.type_coerce(column, sa.types.NullType()).label(column.name))
        else:
            selected.append(column)
    return connection.execute(sa.select(*selected), execution_options=_STREAMED)


def _names(source: SqlSource, result: sa.CursorResult[Any]) -> list[str]:
    names = list(result.keys())
    check_columns(names, source.label)
    return names


def _read(
    source: SqlSource,
    connection: sa.Connection,
    categorical: Collection[str],
    drop: Container[str],
    aside: Path | None,
) -> pa.Table:
    import sqlalchemy as sa

    columns = [] if source.is_query else [*_table(source, connection).columns]
    result = _execute(source, connection, columns, drop)
    names = _names(source, result)
    result = result.yield_per(max(1, _CELLS // len(names)))
    is_sqlite = source.backend == "sqlite"  # where each value has its own type
    as_text = categorical if is_sqlite else ()
    batches = SpilledRows(aside, join=partial(_of_one_schema, as_text=as_text))
    batches.append(pa.table([pa.nulls(0)] * len(names), names))
    for rows in result.partitions():
        named = zip(names, zip(*rows, strict=True), strict=True)
        batches.append(
            pa.table(
                [
                    pa.nulls(len(rows)) if name in drop else _array(name, values, name in as_text)
                    for name, values in named
                ],
                names,
            )
        )
    table = batches.table()
    flags = [c.name for c in columns if is_sqlite and isinstance(c.type, sa.Boolean)]
    return _with_booleans(table, flags)


def _with_booleans(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Return a table with columns as booleans where they hold no whole numbers but 0 and 1."""
    for name in names:
        column = table[name]
        if pa.types.is_integer(column.type) and {*pc.min_max(column).as_py().values()} <= {0, 1}:
            table = _cast(table, name, pa.bool_())
    return table


def _table(source: SqlSource, connection: sa.Connection) -> sa.Table:
    """Return a table or view as the database describes it."""
    import sqlalchemy as sa

    schema, _, name = source.query.rpartition(".")
    try:
        with warnings.catch_warnings():
            # a type that SQLAlchemy does not know is what its driver makes of it
            warnings.filterwarnings("ignore", "Did not recognize type", sa.exc.SAWarning)
            return sa.Table(
                name,
                sa.MetaData(),
                schema=schema or None,
                autoload_with=connection,
                resolve_fks=False,
            )
    except sa.exc.NoSuchTableError as error:
        inspector = sa.inspect(connection)
        known = [*inspector.get_table_names(schema or None)]
        known += inspector.get_view_names(schema or None)
        there_are = nearest_or_all(name, known)
        raise InputError(f"there is no table {source.query!r} in {source}{there_are}") from error


def _array(name: str, values: Sequence[Any], as_text: bool = False) -> pa.Array:
    """Return a column of a batch; without a type if all values are missing.

    With `as_text` numbers beside text become text.
    """
    classes = {type(value) for value in values if value is not None}
    kinds = {next(kind for kind in _TYPES if issubclass(known, kind)) for known in classes}
    if kinds == {int, float}:
        kinds, values = {float}, [None if value is None else float(value) for value in values]
    if as_text and str in kinds and kinds <= _IN_TEXT:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if len(kinds) > 1:
        examples = {type(value).__name__: short_repr(value) for value in values[::-1]}
        raise _several_types(
            name, [f"{known.__name__}, such as {examples[known.__name__]}," for known in classes]
        )
    for kind in kinds:
        if kind is int and any(v is not None and not -(2**63) <= v < 2**63 for v in values):
            return pa.array(values, _WHOLE)
        if kind is Decimal and all(v is None or _is_whole(v) for v in values):
            return pa.array([None if v is None else int(v) for v in values], _WHOLE)
        if kind in (Decimal, UUID):
            change = float if kind is Decimal else str
            values = [None if value is None else change(value) for value in values]
        if kind is object:
            values = [None if value is None else str(value).encode() for value in values]
        if kind is datetime and any(value is not None and value.tzinfo for value in values):
            return pa.array(values, pa.timestamp("us", tz="UTC"))
        return pa.array(values, _TYPES[kind])
    return pa.nulls(len(values))


def _is_whole(value: Decimal) -> bool:
    return value.is_finite() and value == value.to_integral_value()


def _of_one_schema(tables: Sequence[pa.Table], as_text: Collection[str]) -> pa.Table:
    """Return all batches as a table; integers become floats if any batch has floats.

    Numbers of a column `as_text` become text if any batch has text.
    """
    for name in set(as_text).intersection(tables[0].column_names):
        kinds = {table.schema.field(name).type for table in tables}
        if pa.string() in kinds and kinds <= {pa.null(), pa.int64(), pa.float64(), pa.string()}:
            tables = [_cast(table, name, pa.string()) for table in tables]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        for name in tables[0].column_names:
            kinds = {str(table.schema.field(name).type) for table in tables} - {"null"}
            if kinds == {"int64", "double"}:  # which Arrow does not join beyond 2^53
                tables = [_cast(table, name, pa.float64()) for table in tables]
            elif len(kinds) > 1:
                raise _several_types(name, kinds) from error
        return pa.concat_tables(tables, promote_options="permissive")


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, table.column(place).cast(kind, safe=False))


def _several_types(name: str, kinds: Iterable[str]) -> InputError:
    both = " and ".join(sorted(kinds)).rstrip(",")
    error = InputError(
        f"column {name!r} holds values of {both}; CAST it to one type in a SELECT, after NULLIF "
        "where a text such as '' stands for a missing value"
    )
    error.column = name
    return error


def _explain(source: SqlSource, error: sa.exc.SQLAlchemyError) -> str:
    return (
        f"{source.label} cannot be read from {source} ({_first_line(error)}); correct it, or ask "
        "for what you may read"
    )


def _first_line(error: sa.exc.SQLAlchemyError) -> str:
    message = str(getattr(error, "orig", None) or error).strip()
    return message.splitlines()[0] if message else type(error).__name__
