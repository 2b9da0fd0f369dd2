"""The columns of a source are known before a row of it is read."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.errors import InputError
from tests.sources import column_names, read_source, source_address


def test_a_header_is_all_that_is_read_of_text(tmp_path: Path) -> None:
    text = 'a,"b\nc"\n1,2\n' + "no row, of, these columns\n" * 100_000
    (tmp_path / "x.csv").write_text(text)
    packed = gzip.compress(np.random.default_rng(0).bytes(100_000), 0)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a;d\n" + packed)[:50_000])
    assert column_names(tmp_path / "x.csv") == ["a", "b\nc"]
    assert column_names(tmp_path / "x.csv.gz") == ["a", "d"]


def test_a_footer_is_all_that_is_read_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(pa.table({"a": np.arange(1000), "b": np.arange(1000)}), path)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(b"\0" * (len(whole) - footer) + whole[-footer:])
    assert column_names(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"", "x.csv is empty"),
        ("x.csv", b"a,a\n", "names column 'a' twice"),
        ("x.csv", b"a,\xff\n", "the header of x.csv is not UTF-8"),
        ("x.csv.gz", gzip.compress(b"a,b\n", mtime=0)[:12], "x.csv.gz is damaged"),
        ("x.csv.gz", b"a,b\n", "x.csv.gz is damaged"),
        ("x.parquet", b"a,b\n", "x.parquet is no readable Parquet file"),
        ("x.xls", b"", "x.xls has no known ending"),
    ],
)
def test_what_has_none_is_one_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as refusal:
        column_names(tmp_path / name)
    assert "\n" not in str(refusal.value)


def test_a_source_is_named_source_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_address("orders.csv") == str(tmp_path / "orders.csv")
    assert source_address("s3://tables/orders.csv") == "s3://tables/orders.csv"
    query = "SELECT a FROM t WHERE b > '#'"
    assert source_address(f"sqlite:///shop.db#{query}") == f"sqlite:///{tmp_path}/shop.db#{query}"


@pytest.mark.parametrize("source", ["", "  "])
def test_empty_text_is_no_source(source: str) -> None:
    with pytest.raises(InputError, match="a source must be named but is empty text; give a path"):
        read_source(source)
