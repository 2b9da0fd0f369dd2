"""Tables and queries in databases, read through SQLAlchemy in batches.

PostgreSQL sends rows as they are asked for (a cursor on the server), so that beside the Arrow
table no more than a batch is held. Nothing is written: only a SELECT is sent, the transaction is
read-only where the database knows that (PostgreSQL, SQLite), and it is never committed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from chaffinch.storage.datasets.column_names import check_columns, nearest, quoted
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources.addresses import SqlAddress, credentials, without

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


def read_sql(address: SqlAddress) -> pa.Table:
    """Return a table, or what a query gives, with the types that the database's driver gives.

    Raises
    ------
    InputError
        If the database does not answer, there is no such table or column, the query cannot be
        answered or writes, or values of one column are of several types.

    Notes
    -----
    Exact decimals become float64. SQLite has a type for each value alone: of a table, dates, times
    and booleans are what it declares them to be; of a query, what is stored.
    """
    with _opened(address) as connection:
        return _read(address, connection)


def columns_in_database(address: SqlAddress) -> list[str]:
    """Return the names of the columns of a table, or of what a query gives.

    No row of a table is fetched, and of a query none but the first.
    """
    with _opened(address) as connection:
        if not address.is_query:
            return list(_table(address, connection).columns.keys())
        with closing(_asked(address, connection)) as result:
            return _names(address, result)


@contextmanager
def _opened(address: SqlAddress) -> Iterator[sa.Connection]:
    """Connect; errors inside are said in one line as well, without the password."""
    password = _password(address)
    try:
        with _connected(address, password) as connection:
            yield connection
    except InputError:
        raise
    except exc.SQLAlchemyError as error:
        raise InputError(without(_in_words(address, error), [password])) from error
    except (TypeError, ValueError) as error:
        # SQLite permits any value in a column that is declared a date
        raise InputError(
            f"{address.what} cannot be read, as a value does not fit the type that its column is "
            f"declared with, such as DATE ({error}); correct it, or ask for the column in a "
            "SELECT, which gives what is stored"
        ) from error


def _password(address: SqlAddress) -> str | None:
    """Return the password; None where there is none, or the driver looks for it itself."""
    variable = address.password_from or _PASSWORDS.get(address.backend)
    if variable is None:
        return None
    (password,) = credentials(variable)
    if password is None and address.password_from:
        raise InputError(
            f"the password of {address} is to be in {variable} but there is no such variable; set "
            "it in the environment"
        )
    return password


@contextmanager
def _connected(address: SqlAddress, password: str | None) -> Iterator[sa.Connection]:
    """Connect, to read only."""
    url = _never_in_clear(address.url)
    if password is not None:
        url = url.set(password=password)
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        connection = engine.connect()
    except ImportError as error:
        what = _EXTRAS.get(address.backend, "it, or name another as in mysql+pymysql://")
        raise InputError(f"{address} needs a driver ({error}); install {what}") from error
    except exc.SQLAlchemyError as error:
        said = without(_first_line(error), [password])
        remedy = (
            "check host, database and user, and the password in "
            f"{address.password_from or _PASSWORDS.get(address.backend, 'password_from')}"
        )
        if "cleartext password" in said:
            remedy = "add ?sslmode=require, or ?require_auth=password to send it in clear"
        raise InputError(f"cannot connect to {address} ({said}); {remedy}") from error
    except (TypeError, ValueError) as error:
        said = without(str(error), [password])
        raise InputError(
            f"{address} cannot be opened with the options in its address ({said}); correct what "
            "follows the ?"
        ) from error
    with connection:
        if address.backend == "postgresql":
            connection.execution_options(postgresql_readonly=True)
        if address.backend == "sqlite":
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


def _asked(address: SqlAddress, connection: sa.Connection) -> sa.CursorResult[Any]:
    if address.is_query:
        return connection.exec_driver_sql(address.asked, execution_options=_STREAMED)
    selected = sa.select(_table(address, connection))
    return connection.execute(selected, execution_options=_STREAMED)


def _names(address: SqlAddress, result: sa.CursorResult[Any]) -> list[str]:
    names = list(result.keys())
    check_columns(names, address.what)
    return names


def _read(address: SqlAddress, connection: sa.Connection) -> pa.Table:
    result = _asked(address, connection)
    names = _names(address, result)
    result = result.yield_per(max(1, _CELLS // len(names)))
    tables = [pa.table([pa.nulls(0)] * len(names), names)]
    for rows in result.partitions():
        columns = zip(names, zip(*rows, strict=True), strict=True)
        tables.append(pa.table([_array(*column) for column in columns], names))
    return _of_one_schema(tables)


def _table(address: SqlAddress, connection: sa.Connection) -> sa.Table:
    """Return what the database says of a table or view."""
    schema, _, name = address.asked.rpartition(".")
    try:
        with warnings.catch_warnings():
            # a type that SQLAlchemy does not know is what its driver makes of it
            warnings.filterwarnings("ignore", "Did not recognize type", exc.SAWarning)
            return sa.Table(
                name,
                sa.MetaData(),
                schema=schema or None,
                autoload_with=connection,
                resolve_fks=False,
            )
    except exc.NoSuchTableError as error:
        inspector = sa.inspect(connection)
        known = [*inspector.get_table_names(schema or None)]
        known += inspector.get_view_names(schema or None)
        there_are = nearest(name, known) or (f"; there are {quoted(known)}" if known else "")
        raise InputError(f"there is no table {address.asked!r} in {address}{there_are}") from error


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    """Return a column of a batch; of nothing but missing values, one without a type."""
    classes = {type(value) for value in values if value is not None}
    kinds = {next(kind for kind in _TYPES if issubclass(known, kind)) for known in classes}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1:
        raise InputError(_several_types(name, sorted(known.__name__ for known in classes)))
    for kind in kinds:
        if kind in (Decimal, UUID):
            change = float if kind is Decimal else str
            values = [None if value is None else change(value) for value in values]
        if kind is object:
            values = [None if value is None else str(value).encode() for value in values]
        if kind is datetime and any(value is not None and value.tzinfo for value in values):
            return pa.array(values, pa.timestamp("us", tz="UTC"))
        return pa.array(values, _TYPES[kind])
    return pa.nulls(len(values))


def _of_one_schema(tables: Sequence[pa.Table]) -> pa.Table:
    """Return all batches as one table; whole numbers are real ones where some are."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        for name in tables[0].column_names:
            kinds = {str(table.schema.field(name).type) for table in tables} - {"null"}
            if len(kinds) > 1 and kinds != {"int64", "double"}:
                raise InputError(_several_types(name, sorted(kinds))) from error
        raise


def _several_types(name: str, kinds: Sequence[str]) -> str:
    return f"column {name!r} holds values of {' and '.join(kinds)}; CAST it to one type in a SELECT"


def _in_words(address: SqlAddress, error: exc.SQLAlchemyError) -> str:
    return (
        f"{address.what} cannot be read from {address} ({_first_line(error)}); mend it, or ask for "
        "what you may read"
    )


def _first_line(error: exc.SQLAlchemyError) -> str:
    said = str(getattr(error, "orig", None) or error).strip()
    return said.splitlines()[0] if said else type(error).__name__
