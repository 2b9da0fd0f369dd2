"""A table in memory that was written to a store is the same table, in a file that has no name."""

import dask.dataframe
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from chaffinch.errors import InputError
from chaffinch.storage.datasets.written_table import write_table
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.data_set_name import name_of_table
from tests.sources import ingest

ROWS = {
    "colour": ["red", "blue", None, "red"] * 20,
    "zip": ["00500", "10001", "00500", None] * 20,
    "sold": [1.5, None, 3.0, 4.25] * 20,
    "n": list(range(80)),
    "day": pd.date_range("2024-01-01", periods=80).to_list(),
}
TABLES = {
    "pandas": lambda: pd.DataFrame(ROWS).astype({"colour": "category"}),
    "pandas-index": lambda: pd.DataFrame(ROWS).set_index("zip"),
    "polars": lambda: pl.DataFrame(ROWS).cast({"colour": pl.Categorical, "n": pl.Int128}),
    "polars-lazy": lambda: pl.LazyFrame(ROWS),
    "arrow": lambda: pa.concat_tables(  # with other categories in each part
        [
            pa.table({"c": pa.array(["a", "b"] * 20).dictionary_encode(), "n": range(40)}),
            pa.table({"c": pa.array(["d", "b"] * 20).dictionary_encode(), "n": range(40, 80)}),
        ]
    ),
    "batches": lambda: pa.table(ROWS).to_reader(max_chunksize=30),
    "dask": lambda: dask.dataframe.from_pandas(pd.DataFrame(ROWS), npartitions=2),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("categorical", [(), ("n",)], ids=["types", "n-is-a-category"])
def test_a_written_table_is_the_dataset_that_it_is_in_memory(kind, categorical, tmp_path):
    written = write_table(source_of(TABLES[kind]()), tmp_path / "tables")
    datasets = [
        ingest(data, tmp_path / "datasets", categorical=categorical)
        for data in (written, TABLES[kind]())
    ]
    assert datasets[0].hash == datasets[1].hash
    assert list(tmp_path.joinpath("tables").iterdir()) == [written]


def test_a_table_is_one_file_however_often_it_is_written_and_a_damaged_file_is_mended(tmp_path):
    source = source_of(pd.DataFrame(ROWS))
    written = write_table(source, tmp_path)
    content = written.read_bytes()
    written.write_bytes(content[:100])
    assert write_table(source, tmp_path) == written
    assert written.read_bytes() == content
    assert write_table(source_of(pd.DataFrame(ROWS).head(60)), tmp_path) != written


def test_a_written_table_has_no_name_of_a_data_set(tmp_path):
    written = write_table(source_of(pd.DataFrame(ROWS)), tmp_path)
    with pytest.raises(InputError, match="has no name that a data set could have; give one"):
        name_of_table(written.name, "--name orders")
    assert name_of_table("Table-2024.arrow", "--name orders") == "Table-2024"
