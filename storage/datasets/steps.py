"""From a source to the parts of a dataset, in steps that this process or workers do.

A step is a function of what its items have in common and of an item: some columns, some rows or a
part. What it makes is kept in a folder, where the next step finds it, whichever process made it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from chaffinch.errors import InputError
from chaffinch.storage.column_names import check_columns, check_known
from chaffinch.storage.datasets.column_types import (
    CATEGORY,
    category_of,
    check_roles,
    decoded,
    is_text,
    typed_columns,
)
from chaffinch.storage.datasets.content_hash import (
    column_types,
    hash_columns,
    hash_rows,
    row_order,
    shuffled,
)
from chaffinch.storage.datasets.date_parts import made_names, with_parts
from chaffinch.storage.files import one_line_errors, sha256_of_written
from chaffinch.storage.memory import release_memory
from chaffinch.storage.sources.source import Source
from chaffinch.storage.spilled import SpilledColumns

logger = logging.getLogger(__name__)

ROWS_PER_PART, MOST_PARTS = 2**20, 256
ROWS_PER_GROUP = 131_072
COLUMNS_OF_A_SHARE = 4
_MOST_NUMBERED = 10_000
_MOST_TEXT_LABELS = 50  # with more the target is a quantity, not classes
_MOST_WHOLE_LABELS = 20  # up to here integers are classes
_HASH, _IN_SOURCE, _ORDER = "hash", "row in the source", "order"

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
OnDone = Callable[[int, int], None]
OnColumn = Callable[[int], None]  # called after each column with how many the table has
OpenWorkers = Callable[[int], AbstractContextManager["Workers"]]  # for so many rows


class Workers(Protocol):
    """Processes that do steps."""

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return ``[function(shared, item) for item in items]``."""
        ...

    def on_each(self, function: Callable[[Shared], Result], shared: Shared) -> list[Result]:
        """Return ``function(shared)`` of each process."""
        ...


def ignored(done: int, total: int) -> None:
    """Ignore progress; the default of `on_done`."""


def no_column(n_columns: int) -> None:
    """Ignore progress; the default of `on_column`."""


@dataclass(frozen=True)
class Reading:
    """How the columns of a source are read and typed; see `chaffinch.storage.datasets.dataset`.

    They are read in `n_shares`, each of neighbouring columns. Columns of a share beyond
    `most_bytes` are kept in files of `folder`: all of them where another process does the next
    step.
    """

    source: Source
    folder: Path
    categorical: Collection[str] = ()
    numeric: Collection[str] = ()
    ordered: Collection[str] = ()
    drop: Collection[str] = ()
    labels: str | None = None
    optional: Collection[str] = ()
    rows_with: str | None = None
    whole_dates: Collection[str] | None = None
    n_shares: int = 1
    most_bytes: int | None = None


@dataclass(frozen=True)
class TypedColumns:
    """Typed columns of a share, in the source's order of rows.

    `rows` has the sum of their hashes for each row and, where `n_left_out` rows of the source are
    left out, which row of it each is. `zoned` are the columns whose times had a zone.
    """

    columns: SpilledColumns
    rows: SpilledColumns
    n_left_out: int
    zoned: frozenset[str]

    def in_source(self, order: pa.Array) -> pa.Array:
        """Return which rows of the source those of some numbers are."""
        return self.rows[_IN_SOURCE].take(order) if self.n_left_out else order


def type_share(
    reading: Reading, share: int, on_column: OnColumn = no_column
) -> TypedColumns | InputError:
    """Read and type the columns of a share, and hash its rows.

    An InputError is returned, so that of several shares the first in the table can be raised.
    """
    try:
        return _typed_share(reading, share, on_column)
    except InputError as error:
        return error


def _typed_share(reading: Reading, share: int, on_column: OnColumn) -> TypedColumns:
    most, labels = reading.most_bytes, reading.labels
    columns, of_rows = (SpilledColumns(reading.folder, most) for _ in range(2))
    n_left_out, zoned = 0, set[str]()
    with reading.source.scan(reading.categorical, drop=reading.drop, aside=reading.folder) as raw:
        if reading.rows_with is not None and reading.rows_with in raw:
            n_left_out, rows_kept = raw.keep_rows_with(reading.rows_with)
            if n_left_out:
                of_rows[_IN_SOURCE] = rows_kept
        lacking = set(reading.optional).difference(raw)
        named = (reading.categorical, reading.numeric, reading.drop)
        categorical, numeric, drop = (sorted(set(names) - lacking) for names in named)
        made = set() if reading.whole_dates is None else {*made_names(raw)}.difference(raw)
        _remove([name for name in drop if name not in made], raw)
        names, n_columns = list(raw), len(raw)
        check_roles(categorical, numeric, names)
        first, stop = (number * n_columns // reading.n_shares for number in (share, share + 1))
        for name in [*names[:first], *names[stop:]]:
            del raw[name]
        if labels is not None and labels in raw and labels not in categorical:
            if _are_text_labels(raw[labels]):
                categorical = [*categorical, labels]
            elif _are_whole_labels(raw[labels]):
                raw[labels] = decoded(raw[labels])

        typed = typed_columns(
            raw,
            categorical=categorical,
            numeric=numeric,
            ordered=reading.ordered,
            has_others=True,
            zoned=zoned,
        )
        if reading.whole_dates is not None:
            typed = with_parts(typed, reading.whole_dates, names, drop)
        done = partial(on_column, n_columns)
        of_rows[_HASH] = pa.array(hash_rows(_each_noted(columns.kept(typed), done)))
    release_memory()
    return TypedColumns(columns, of_rows, n_left_out, frozenset(zoned))


def _each_noted(
    columns: Iterable[tuple[str, pa.Array]], done: Callable[[], None]
) -> Iterator[tuple[str, pa.Array]]:
    for column in columns:
        yield column
        done()


def add_hashes(shares: Sequence[TypedColumns], rows: tuple[int, int]) -> SpilledColumns:
    """Return the sum of the hashes of all shares for some rows, from one number to another."""
    start, stop = rows
    total: Any = 0
    for share in shares:
        total = total + share.rows.slice(start, stop - start)[_HASH].to_numpy()
    added = shares[0].rows.empty()
    added[_HASH] = pa.array(total)
    return added


@dataclass(frozen=True)
class Placing:
    """The order that rows are put in, how many of them a part has, and where columns are kept."""

    order: SpilledColumns
    rows_per_part: int
    folder: Path
    most_bytes: int | None


@dataclass(frozen=True)
class PlacedColumns:
    """Columns in the dataset's order, by parts; with several parts the hash of each in each."""

    parts: list[SpilledColumns]
    hashes: list[list[str]]


def place(
    placing: Placing, columns: SpilledColumns, on_column: OnColumn = no_column
) -> PlacedColumns:
    """Put columns into the order of the rows, and remove them."""
    new = partial(SpilledColumns, placing.folder, placing.most_bytes)
    done = partial(on_column, len(columns))
    in_order = _each_noted(shuffled(columns, placing.order[_ORDER]), done)
    placed = split_columns(in_order, new, placing.rows_per_part)
    release_memory()
    return placed


def split_columns(
    columns: Iterable[tuple[str, pa.Array]],
    new: Callable[[], SpilledColumns],
    n_rows: int,
) -> PlacedColumns:
    """Split columns into parts of so many rows."""
    parts: list[SpilledColumns] = []
    hashes: list[list[str]] = []
    for name, column in columns:
        starts = range(0, len(column), n_rows)
        parts = parts or [new() for _ in starts]
        if len(starts) == 1:
            parts[0][name] = column
        else:
            hashes.append([])
            for part, start in zip(parts, starts, strict=True):
                some = column.slice(start, n_rows)
                if some.type == CATEGORY:
                    some = category_of(some.indices, some.dictionary)
                part[name] = some
                types = column_types(pa.schema([(name, some.type)]))
                hashes[-1].append(hash_columns(types, len(some), [(name, some)]))
    return PlacedColumns(parts, hashes)


def rows_per_part(n_rows: int) -> int:
    """Return how many rows the parts of so many have, but for the last."""
    return ROWS_PER_PART * max(1, -(-n_rows // (MOST_PARTS * ROWS_PER_PART)))


def hash_of(types: dict[str, str], n_rows: int, placed: Sequence[PlacedColumns]) -> str:
    """Return the hash of a dataset: of one part over its columns, of several over their hashes."""
    if len(placed[0].parts) == 1:
        columns = (column for share in placed for column in share.parts[0].items())
        return hash_columns(types, n_rows, columns)
    digest = hashlib.sha256(f"{VERSION_OF_PARTS} {n_rows}\n".encode())
    for share in placed:
        for hashes in share.hashes:
            digest.update("".join(f"{sha256}\n" for sha256 in hashes).encode())
    return digest.hexdigest()


VERSION_OF_PARTS = 2  # of the hash and of ``dataset.json`` of a dataset of several parts


def write_part(folder: Path, columns: Sequence[SpilledColumns]) -> tuple[Path, str]:
    """Write the columns of a part to a file of a folder; return it and its SHA-256."""
    path = folder / f"part-{uuid4().hex}.parquet"
    with one_line_errors(path):
        _write_parquet(columns, path)
    release_memory()
    return path, sha256_of_written(path)


def _write_parquet(columns: Sequence[SpilledColumns], path: Path) -> None:
    fields = [(field, some) for some in columns for field in some.schema]
    with pa.parquet.ParquetWriter(
        path,
        pa.schema([field for field, _ in fields]),
        compression="zstd",
        use_dictionary=[field.name for field, some in fields if _repeats(field, some)],
        write_page_checksum=True,
    ) as writer:
        for rows in zip(*(some.slices(ROWS_PER_GROUP) for some in columns), strict=True):
            arrays = [array for some in rows for array in some.columns]
            table = pa.table(arrays, schema=writer.schema)
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
            del rows, arrays, table  # before the next are read


def _repeats(field: pa.Field, columns: SpilledColumns) -> bool:
    """Whether values repeat often enough for dictionary encoding to be faster and smaller."""
    if field.type == CATEGORY:
        return len(columns[field.name].dictionary) <= _MOST_NUMBERED
    return bool(field.type != pa.float64())


def seen_by(needed: tuple[Path, Source | None, Mapping[str, int]]) -> tuple[bool, str]:
    """Return whether this process sees a folder, and why it cannot read a source, or ''.

    The source must have columns of these sizes, which it has where it was seen.
    """
    folder, source, sizes = needed
    if source is None:
        return folder.is_dir(), "it is not in Parquet files"
    try:
        reason = "" if source.column_bytes() == sizes else f"{source.label} is another table there"
    except InputError as error:
        reason = str(error)
    return folder.is_dir(), reason


class Steps:
    """The steps of an ingestion, done by workers where there are any.

    `on_done` is called with how much of them is done, and of how much.
    """

    def __init__(
        self, reading: Reading, workers: Workers | None = None, on_done: OnDone = ignored
    ) -> None:
        self._reading, self._workers, self._on_done = reading, workers, on_done
        self._n_done = count(1)  # columns

    def typed(self) -> list[TypedColumns]:
        """Return the shares of the table's columns, in its order."""
        n_shares = self._reading.n_shares
        if self._workers is None or n_shares == 1:
            results = [type_share(self._reading, 0, self._on_column)]
        else:
            on_done = self._in_third(0)
            results = self._workers.map(type_share, self._reading, range(n_shares), on_done)
        for result in results:
            if isinstance(result, InputError):
                raise result
        return [share for share in results if isinstance(share, TypedColumns) and share.columns]

    def order(self, typed: Sequence[TypedColumns]) -> pa.Array:
        """Return the order of the rows, shape (n,)."""
        added = [typed[0].rows]
        if self._workers is not None and len(typed) > 1:
            n_rows = typed[0].columns.n_rows
            step = rows_per_part(n_rows)
            ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
            added = self._workers.map(add_hashes, typed, ranges)
        return row_order(np.concatenate([rows.pop(_HASH).to_numpy() for rows in added]))

    def placed(self, typed: Sequence[TypedColumns], order: pa.Array) -> list[PlacedColumns]:
        """Put the columns of the shares into an order, and remove them."""
        folder, most = self._reading.folder, self._reading.most_bytes
        n_rows = rows_per_part(len(order))
        kept = SpilledColumns(folder, most)
        kept[_ORDER] = order
        if len(order) > n_rows:
            most = 0
        placing = Placing(kept, n_rows, folder, most)
        if self._workers is None:
            return [place(placing, share.columns, self._on_column) for share in typed]
        few = [some for share in typed for some in share.columns.split(COLUMNS_OF_A_SHARE)]
        return self._workers.map(place, placing, few, self._in_third(1))

    def written(self, placed: Sequence[PlacedColumns]) -> list[tuple[Path, str]]:
        """Write the parts; return the file of each and its SHA-256."""
        folder = self._reading.folder
        parts = [[*part] for part in zip(*(share.parts for share in placed), strict=True)]
        if self._workers is None:
            return [write_part(folder, part) for part in parts]
        return self._workers.map(write_part, folder, parts, self._in_third(2))

    def _on_column(self, n_columns: int) -> None:
        total = (2 if self._workers is None else 3) * n_columns
        self._on_done(min(next(self._n_done), total), total)

    def _in_third(self, third: int) -> OnDone:
        return lambda done, total: self._on_done(third * total + done, 3 * total)


@contextmanager
def steps_of(
    reading: Reading, open_workers: OpenWorkers | None, on_done: OnDone
) -> Iterator[Steps]:
    """Give the steps of an ingestion; of a table of several parts, workers do what they see."""
    if open_workers is None:
        yield Steps(reading, None, on_done)
        return
    with ExitStack() as opened:
        source = reading.source
        apart = opened.enter_context(source.read_apart(reading.drop, reading.folder))
        reading = replace(reading, source=apart or source)
        shape = reading.source.shape()
        if shape is None or shape[0] <= ROWS_PER_PART:
            logger.debug("%s is read in this process, as it is not known to be large", source)
            yield Steps(reading, None, on_done)
            return
        workers = opened.enter_context(open_workers(shape[0]))
        sizes = {} if apart is None else apart.column_bytes()
        seen = workers.on_each(seen_by, (reading.folder, apart, sizes))
        if not all(is_seen for is_seen, _ in seen):
            logger.info(
                "this process reads %s alone, as not all workers see %s",
                source.label,
                reading.folder.parent,
            )
            yield Steps(reading, None, on_done)
            return
        reading = replace(reading, most_bytes=0)
        if reasons := [reason for _, reason in seen if reason]:
            words = (source.label, reasons[0])
            logger.info("this process reads %s and workers sort it, since %s", *words)
        else:
            reading = replace(reading, n_shares=-(-shape[1] // COLUMNS_OF_A_SHARE))
        yield Steps(reading, workers, on_done)


def _remove(names: Collection[str], columns: MutableMapping[str, pa.ChunkedArray]) -> None:
    check_known(names, columns)
    for name in names:
        if name in columns:
            del columns[name]  # unread: what is dropped may be damaged
    check_columns(list(columns), "the table after dropping")


def _are_text_labels(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds few distinct texts, all of them whole numbers."""
    if not is_text(column.type):
        return False
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    known = column.cast(pa.large_string()).unique().drop_null()
    is_whole = pc.match_substring_regex(known, r"^-?\d+$")
    return len(known) <= _MOST_TEXT_LABELS and bool(pc.all(is_whole).as_py())


def _are_whole_labels(column: pa.ChunkedArray) -> bool:
    """Return whether a column declares few categories, all of them whole numbers."""
    if not (pa.types.is_dictionary(column.type) and pa.types.is_integer(column.type.value_type)):
        return False
    return len(decoded(column).unique().drop_null()) <= _MOST_WHOLE_LABELS
