"""Every kind of source, and every format of files, gives the same dataset for the same rows."""

import functools
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import quote

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json
import pytest
import sqlalchemy as sa
from deltalake import write_deltalake
from sklearn.datasets import dump_svmlight_file

import chaffinch
from chaffinch import InputError
from chaffinch.storage import sources
from chaffinch.storage.sources import Source, source_of
from chaffinch.storage.sources.data_set_name import name_of_data_set
from chaffinch.storage.sources.formats import file_name
from chaffinch.storage.sources.source import Format, OpenTable
from chaffinch.tasks.comparing.plan import labels_of
from tests.delta_tables import delete_by_vector, rename_columns
from tests.iceberg_catalog import iceberg_catalog, shop
from tests.object_storage import GoogleStorage, ObjectStorage
from tests.sources import ingest, read_source

N_ROWS = 60
FRAME = pd.DataFrame(
    {
        "code": ["00500", "10001", None] * 20,
        "whole": range(N_ROWS),
        "real": np.arange(N_ROWS) / 4 + 0.5,
        "yes": [True, False] * 30,
        "größe (m²)": np.arange(N_ROWS) * 1e3 + 0.25,
    }
)
TYPES = dict(zip(FRAME.columns, ["category", "int64", "float64", "bool", "float64"], strict=True))


def csv(path: Path) -> None:
    FRAME.to_csv(path, index=False)


def tsv(path: Path) -> None:
    FRAME.to_csv(path, index=False, sep="\t")


def write_arff(rows: pd.DataFrame, path: Path) -> None:
    """Write numbers and nominal attributes, whose values are in quotes from the third row on."""
    codes = ",".join(f"'{code}'" for code in rows["code"].dropna().unique())
    kinds = [f"{{{codes}}}", "numeric", "real", "{True, False}", "REAL"]
    head = [f"@attribute '{name}' {kind}" for name, kind in zip(rows, kinds, strict=True)]
    values = [["?" if pd.isna(v) else str(v) for v in row] for row in rows.itertuples(index=False)]
    for row in values[2:]:
        row[3] = f"'{row[3]}'"
    lines = ["% comment", "@RELATION orders", *head, "@DATA", *map(",".join, values)]
    path.write_text("\n".join(lines))


TEXT = {".csv": csv, ".tsv": tsv, ".txt": tsv, ".csv.gz": csv, ".tsv.gz": tsv, ".txt.gz": tsv}
# of the other formats: rows, some or all, to one file
BY_ROWS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".parquet": pd.DataFrame.to_parquet,
    ".feather": pd.DataFrame.to_feather,
    ".orc": lambda rows, path: rows.reset_index(drop=True).to_orc(path),
    ".arff": write_arff,
}
FILES: dict[str, Callable[[Path], None]] = {
    **TEXT,
    ".pq": FRAME.to_parquet,
    ".arrow": lambda path: FRAME.to_feather(path, compression="uncompressed"),
    **{ending: partial(write, FRAME) for ending, write in BY_ROWS.items()},
}
WITHOUT_HEADER = tuple(
    ending for known in file_name.FORMATS if not known.has_header for ending in known.endings
)


def file(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        FILES[ending](folder / f"x{ending}")
        return folder / f"x{ending}"

    return write


def european(folder: Path) -> Path:
    """Write what Excel writes in much of Europe, below a line of comment."""
    path = folder / "x.csv"
    lines = FRAME.to_csv(index=False, sep=";", decimal=",", na_rep="ohne").splitlines()
    path.write_text("\n".join(["% Auszug; 1,5", *lines]), encoding="cp1252")
    options = "comment=%25&decimal=,&thousands=.&na=ohne|leer&encoding=cp1252"
    return Path(f"{path}#{options}")


def parts(folder: Path) -> Path:
    (folder / "parts").mkdir()
    FRAME[30:].to_parquet(folder / "parts" / "b.parquet")
    FRAME[:30].to_parquet(folder / "parts" / "a.parquet")
    return folder / "parts"


WHOLE = FRAME["real"] % 1 == 0  # a file of these rows alone looks like whole numbers


def several(ending: str) -> Callable[[Path], list[Path]]:
    """Write the rows to two files beside a third, in folders of their own."""

    def write(folder: Path) -> list[Path]:
        paths = []
        for name, rows in (("2026-1", FRAME[WHOLE]), ("2026-2", FRAME[~WHOLE]), ("old", FRAME)):
            path = folder / "tables" / name / f"x{ending}"
            path.parent.mkdir(parents=True)
            if ending in TEXT:
                rows.to_csv(path)  # the index, without a name, is left out
            else:
                BY_ROWS[ending](rows, path)
            paths.append(path)
        for name in ("2026-1/_temporary/2026-2/x", "2026-2/_x"):  # no pattern stands for these
            hidden = folder / "tables" / f"{name}{ending}"
            hidden.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths[0], hidden)
        return paths[:2]

    return write


def pattern(ending: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        several(ending)(folder)
        return f"{folder}/tables/2026-*/x{ending}"

    return write


def partitions(folder: Path) -> Path:
    """Write partitions as Spark does; their values follow the last column of a file."""
    *others, last = FRAME.columns
    for value, rows in FRAME.groupby(last):
        path = folder / "partitioned" / f"{quote(last)}={value}"
        path.mkdir(parents=True)
        rows[others].to_parquet(path / "part-0.parquet")
    (folder / "partitioned" / "_SUCCESS").touch()
    return folder / "partitioned"


def sqlite(folder: Path) -> str:
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    FRAME.to_sql("orders", engine, index=False)
    engine.dispose()
    return f"sqlite:///{folder}/shop.db"


def on_disk(write: Callable[[Path], Path]) -> Callable[[Path, Any], Any]:
    return lambda folder, request: str(write(folder))


def at_once(write: Callable[[Path], Any]) -> Callable[[Path, Any], Any]:
    return lambda folder, request: write(folder)


def stored(fixture: str, write: Callable[[Path], Path]) -> Callable[[Path, Any], Any]:
    def put(folder: Path, request: Any) -> str:
        path = write(folder)
        storage: ObjectStorage | GoogleStorage = request.getfixturevalue(fixture)
        return storage.put(path, f"alike/{path.name}")

    return put


in_s3, in_gcs = partial(stored, "s3"), partial(stored, "gcs")


def several_stored(fixture: str, ending: str, *names: str) -> Callable[[Path, Any], Any]:
    def put(folder: Path, request: Any) -> list[str]:
        several(ending)(folder)
        storage: ObjectStorage | GoogleStorage = request.getfixturevalue(fixture)
        place = storage.put(folder / "tables", f"{ending}/{len(names)}/tables")
        return [f"{place}/{name}" for name in names]

    return put


def delta(folder: Path) -> Path:
    """Write a table whose first version has other rows, in files that stay in the folder."""
    path = folder / "orders.delta"
    write_deltalake(path, FRAME[:5])
    write_deltalake(path, FRAME[:30], mode="overwrite")
    write_deltalake(path, FRAME[30:], mode="append")
    return path


def delta_of_spark(folder: Path) -> Path:
    """Write a table with deleted rows in its file, and a column that has another name there."""
    path = folder / "spark.delta"
    rows = FRAME.rename(columns={"whole": "integer"})
    options = {"configuration": {"delta.enableDeletionVectors": "true"}}
    write_deltalake(path, pd.concat([rows[:9], rows], ignore_index=True), **options)
    rename_columns(path, {"integer": "whole"})
    delete_by_vector(path, range(9))
    return path


def iceberg(folder: Path, request: Any) -> str:
    """Write a table whose rows come in two files, and of which others were deleted."""
    patch = request.getfixturevalue("monkeypatch")
    address = iceberg_catalog(folder, patch)
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    orders = shop().create_table("web.orders", table.schema)
    orders.append(table[30:].set_column(1, "whole", pa.array(range(100, 130))))
    orders.append(table[30:])
    orders.append(table[:30])
    orders.delete("whole >= 100")
    return f"{address}/web.orders"


def duck(folder: Path) -> str:
    with duckdb.connect(folder / "shop.duckdb") as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE TABLE orders AS SELECT * FROM frame")
    return f"duckdb:///{folder}/shop.duckdb"


SEVERAL = (".csv", *BY_ROWS)
KINDS: dict[str, Callable[[Path, Any], Any]] = {
    **{ending: on_disk(file(ending)) for ending in FILES},
    "european": on_disk(european),
    "path": at_once(file(".parquet")),
    "folder": on_disk(parts),
    **{f"pattern of {ending}": on_disk(pattern(ending)) for ending in SEVERAL},
    **{f"list of {ending}": at_once(several(ending)) for ending in SEVERAL},
    "list of patterns of .csv": at_once(lambda folder: [pattern(".csv")(folder)]),
    "s3 pattern of .csv": several_stored("s3", ".csv", "2026-*/*.csv"),
    "s3 list of .parquet": several_stored("s3", ".parquet", "2026-1/x.parquet", "**/2026-2/*"),
    "gs list of .feather": several_stored("gcs", ".feather", "2026-1/x.feather", "*-2/x.feather"),
    "partitions": on_disk(partitions),
    "table": lambda folder, request: f"{sqlite(folder)}#orders",
    "query": lambda folder, request: "#".join((sqlite(folder), "SELECT * FROM orders")),
    "adbc": lambda folder, request: f"adbc:{sqlite(folder)}#orders",
    "adbc query": lambda folder, request: "#".join(
        (f"adbc:{sqlite(folder)}", "SELECT * FROM orders")
    ),
    "delta": on_disk(delta),
    "delta of Spark": on_disk(delta_of_spark),
    "iceberg": iceberg,
    "duckdb table": lambda folder, request: f"{duck(folder)}#orders",
    "duckdb query": lambda folder, request: "#".join((duck(folder), "SELECT * FROM orders")),
    "pandas": lambda folder, request: FRAME,
    "polars": lambda folder, request: pl.from_pandas(FRAME),
    "polars, lazy": lambda folder, request: pl.from_pandas(FRAME).lazy(),
    "arrow": lambda folder, request: pa.Table.from_pandas(FRAME),
    "arrow, data set": lambda folder, request: ds.dataset(pa.Table.from_pandas(FRAME)),
    "dask": lambda folder, request: dd.from_pandas(FRAME, npartitions=2),
    "duckdb relation": lambda folder, request: duckdb.connect().from_arrow(
        pa.Table.from_pandas(FRAME)
    ),
    **{f"s3 {ending}": in_s3(file(ending)) for ending in FILES},
    "s3 folder": in_s3(parts),
    "s3 partitions": in_s3(partitions),
    **{f"gs {ending}": in_gcs(file(ending)) for ending in (".csv", ".parquet")},  # as those of s3
    "gs folder": in_gcs(parts),
    "s3 delta": in_s3(delta),
    "s3 delta of Spark": in_s3(delta_of_spark),
}
pytestmark = pytest.mark.xdist_group("objects")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_are_one_dataset_from_every_kind_of_source(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # SQLite stores no booleans, nor does ARFF
    without_truth = ["yes"] * (kind in ("query", "adbc", "adbc query") or ".arff" in kind)
    source = check_alike(KINDS[kind](tmp_path, request), tmp_path, without_truth)
    form = kind.removeprefix("s3 ").removeprefix("gs ")
    assert source.has_types() == (form not in {*TEXT, "european"} and ".csv" not in form)
    with_header = {
        *FILES,
        "european",
        "path",
        "folder",
        "partitions",
        "delta",
        "iceberg",
        "adbc",
        "adbc query",
        "duckdb table",
        "duckdb query",
        "duckdb relation",
        "arrow, data set",
        "polars, lazy",
    }
    is_known = form in with_header or " of " in form
    assert source.has_header() == (is_known and not form.endswith(WITHOUT_HEADER))
    n_columns = len(FRAME.columns)
    without = ("query", "lazy", "data set", "dask", "of Spark", "adbc")
    if not any(word in kind for word in without):
        assert source.shape() == (N_ROWS, n_columns)


def test_a_reader_of_batches_is_checked_without_a_row(tmp_path: Path) -> None:
    table, drawn = pa.Table.from_pandas(FRAME), []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(7):
            drawn.append(len(batch))
            yield batch

    source = source_of(pa.RecordBatchReader.from_batches(table.schema, batches()))
    source.check()
    assert (source.columns(), drawn) == (table.column_names, [])
    assert ingest(source, tmp_path).n_rows == sum(drawn) == N_ROWS


def test_a_reader_of_batches_is_read_once(tmp_path: Path) -> None:
    source = source_of(pa.Table.from_pandas(FRAME).to_reader(7))
    assert source.columns() == list(FRAME.columns)
    hashes = {ingest(data, tmp_path, categorical=["code"]).hash for data in (source, FRAME)}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    "stream",
    [pa.Table.from_pandas(FRAME).to_reader, pl.from_pandas(FRAME).lazy],
    ids=["reader", "polars, lazy"],
)
def test_a_stream_that_was_read_is_still_the_same_table(
    stream: Callable[[], Any], tmp_path: Path
) -> None:
    source = source_of(stream())
    assert source.read().num_rows == N_ROWS
    source.check()
    assert source.columns() == [*FRAME.columns]
    assert ingest(source, tmp_path, categorical=["code"]).hash == dataset_of(*FRAME.columns)[0]


def test_a_lazy_table_is_not_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pl.from_pandas(FRAME).with_columns(code=pl.col("code").cast(pl.Categorical))
    expected = ingest(rows, tmp_path)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("all rows were computed at once")

    monkeypatch.setattr(pl.LazyFrame, "collect", refuse)
    source = source_of(rows.lazy())
    source.check()
    assert ingest(source, tmp_path) == expected


SPARSE = pd.DataFrame(
    {
        "1": np.resize([0, 7, 0, -2], N_ROWS),
        "2": np.zeros(N_ROWS, int),  # no row names it
        "3": np.resize([0.5, 0, 0], N_ROWS),
        "4": np.resize([1, 0, 2], N_ROWS) * (np.arange(N_ROWS) < 30),  # the first file alone
        "qid": np.arange(N_ROWS) // 4,
        "target": np.resize([1, -1], N_ROWS),
    }
)
SVMLIGHT = (".svm", ".svmlight", ".libsvm")


def sparse(ending: str, path: Path, rows: pd.DataFrame, *, zero_based: bool) -> Path:
    X, target, groups = map(np.array, (rows[["1", "2", "3", "4"]], rows["target"], rows["qid"]))
    path = path.with_suffix(ending)
    dump_svmlight_file(X, target, str(path), query_id=groups, zero_based=zero_based, comment="c")
    return path


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("ending", SVMLIGHT)
def test_svmlight_is_a_table_of_numbers(
    ending: str, zero_based: bool, tmp_path: Path, s3: ObjectStorage
) -> None:
    whole = sparse(ending, tmp_path / "whole", SPARSE, zero_based=zero_based)
    first = sparse(ending, tmp_path / "a", SPARSE[:30], zero_based=zero_based)
    last = sparse(ending, tmp_path / "b", SPARSE[30:], zero_based=zero_based)
    counted = {name: str(int(name) - zero_based) for name in "1234"}
    expected = ingest(SPARSE.rename(columns=counted), tmp_path / "store").hash
    for data in (whole, [first, last], s3.put(whole, f"sparse/x{ending}")):
        assert ingest(data, tmp_path / "store").hash == expected
    assert source_of(whole).shape() == SPARSE.shape


def test_every_ending_of_a_file_is_held() -> None:
    assert {*FILES, *SVMLIGHT} == {
        ending for known in file_name.FORMATS for ending in known.endings
    }


@functools.cache
def dataset_of(*names: str) -> tuple[str, int]:
    """Return the hash and the number of rows of the columns in memory."""
    with TemporaryDirectory() as folder:
        dataset = ingest(FRAME[[*names]], Path(folder), categorical=["code"])
        return dataset.hash, dataset.n_rows


def check_alike(data: Any, tmp_path: Path, drop: Collection[str] = ()) -> Source:
    source = source_of(data)
    assert source_of(source) is source
    source.check()
    assert source.columns() == list(FRAME.columns)
    sizes = source.column_bytes()
    assert list(sizes) == list(FRAME.columns)
    assert min(sizes.values()) > 0
    assert source.read().equals(read_source(data))
    assert source.fingerprint() == source_of(data).fingerprint()
    if source.address is None:
        assert source.name in ("DataFrame", "Table", "tables")
    else:
        assert read_source(source.address).equals(source.read())
        assert source_of(source.address).name == source.name

    dataset = ingest(source, tmp_path / "store", categorical=["code"], drop=drop)
    expected = FRAME.drop(columns=list(drop))
    assert dataset.columns == {name: TYPES[name] for name in expected.columns}
    assert (dataset.hash, dataset.n_rows) == dataset_of(*expected.columns)
    assert dataset.n_rows == N_ROWS
    return source


@pytest.mark.parametrize(
    "kind", [".csv", ".parquet", "folder", "table", "delta", "duckdb table", "duckdb query"]
)
def test_a_missing_source_is_one_line(kind: str, tmp_path: Path) -> None:
    data = str(KINDS[kind](tmp_path, None))
    for ask in (Source.check, Source.columns, Source.column_bytes, Source.read):
        with pytest.raises(InputError, match=r"^there is no ") as caught:
            getattr(source_of(data.replace(str(tmp_path), f"{tmp_path}/no")), ask.__name__)()
        assert "\n" not in str(caught.value)


@dataclass(frozen=True)
class Counted(Source):
    """``counted://n``: the numbers below n, and their halves."""

    n: int

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        return cls(int(data.removeprefix("counted://"))) if scheme == "counted" else None

    @property
    def name(self) -> str:
        return f"counted-{self.n}"

    def load(self, categorical: Collection[str], drop: Collection[str]) -> pa.Table:
        return pa.table({"whole": range(self.n), "half": np.arange(self.n) / 2})


def test_a_further_kind_of_source_is_one_class_in_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="nothing is read from counted: addresses"):
        source_of("counted://120")
    monkeypatch.setattr(sources, "KINDS", [Counted, *sources.KINDS])
    source = source_of("counted://120")
    assert source == Counted(120)
    assert source.columns() == ["whole", "half"]
    assert list(source.column_bytes()) == ["whole", "half"]
    assert name_of_data_set(source_of(source), None, "--name orders") == "counted-120"
    table = source.read()
    assert ingest("counted://120", tmp_path).hash == ingest(table, tmp_path).hash
    with pytest.raises(InputError, match="counted-0 has columns but no rows"):
        read_source("counted://0")

    model = chaffinch.ModelSettings(name="linear", tuning="none")
    result = chaffinch.select("counted://120", "half", model=model)
    assert result.features == ["whole"]
    assert result.run.startswith("counted_120-")
    assert len(result.model.predict("counted://120")) == 120
    assert result.contract.bytes_in("counted://120").all == table.nbytes


def toy_bytes(files: Iterable[tuple[str, Path]]) -> dict[str, int]:
    ((_, path),) = files
    table = pa.json.read_json(path)
    return {name: table.column(name).nbytes for name in table.column_names}


TOY = Format(
    name="Toy",
    listed=".toy",
    endings=(".toy",),
    open=lambda files, *_: OpenTable.of(pa.json.read_json(*files.values())),
    columns=lambda file, name: pa.json.read_json(file).column_names,
    n_rows=lambda file, name: pa.json.read_json(file).num_rows,
    column_bytes=toy_bytes,
    has_header=False,
)


@pytest.mark.parametrize("place", [on_disk, in_s3])
def test_a_further_format_of_files_is_one_line_in_the_table(
    place: Any, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.v2.toy"
    FRAME.to_json(path, orient="records", lines=True)
    with pytest.raises(InputError, match=r"orders.v2.toy has no known ending; give a path to"):
        read_source(path)
    monkeypatch.setattr(file_name, "FORMATS", [*file_name.FORMATS, TOY])
    source = check_alike(place(lambda folder: path)(tmp_path, request), tmp_path)
    assert source.has_types()
    assert not source.has_header()
    assert name_of_data_set(source_of(source), None, "--name orders") == "orders.v2"
    assert labels_of([source]) == ["orders.v2"]
