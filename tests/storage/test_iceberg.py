"""Of an Iceberg table the newest snapshot is read, from a catalog of pyiceberg's settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from chaffinch.errors import InputError
from tests.iceberg_catalog import iceberg_catalog, shop
from tests.sources import ingest, read_source, source_fingerprint, source_name

FRAME = pd.DataFrame({"n": range(60), "x": [i / 4 for i in range(60)]})


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = iceberg_catalog(tmp_path, monkeypatch)
    table = pa.Table.from_pandas(FRAME)
    shop().create_table("web.orders", table.schema).append(table)
    return f"{address}/web.orders"


def renamed(table: Any) -> None:
    with table.update_schema() as schema:
        schema.rename_column("n", "number")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda table: table.append(pa.Table.from_pandas(FRAME[:1])),
    "fewer rows": lambda table: table.delete("n < 5"),
    "another name": renamed,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_new_version_is_read_again(change: str, orders: str, tmp_path: Path) -> None:
    before, first = source_fingerprint(orders), ingest(orders, tmp_path)
    assert source_fingerprint(orders) == before
    CHANGES[change](shop().load_table("web.orders"))
    assert source_fingerprint(orders) != before
    assert ingest(orders, tmp_path).hash != first.hash


def test_rows_of_many_files_always_have_one_order(orders: str) -> None:
    table = shop().load_table("web.orders")
    for _ in range(6):
        table.append(pa.Table.from_pandas(FRAME))
    first = read_source(orders)
    assert len(first) == 7 * 60
    assert source_name(orders) == "orders"
    assert all(read_source(orders).equals(first) for _ in range(5))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("iceberg://shop/web.order", r"^there is no table 'web.order' in the catalog 'shop'; name"),
        ("iceberg://shop/nowhere.x", r"^there is no table 'nowhere.x' in the catalog 'shop'; name"),
        ("iceberg://other/web.orders", r"^iceberg://other/web.orders cannot be read \(URI missing"),
        ("iceberg://shop", r"^an Iceberg table is named by its catalog, namespace and name, as in"),
        ("iceberg://shop/orders", r"^an Iceberg table is named by its catalog, namespace and nam"),
        ("iceberg://u:p@shop/web.orders", r"holds a password or another secret"),
    ],
)
def test_what_cannot_be_read_is_one_line(address: str, message: str, orders: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_source(address)
    assert "\n" not in str(caught.value)


def test_a_catalog_that_fails_and_a_file_that_is_gone_are_one_line(
    orders: str, tmp_path: Path
) -> None:
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(InputError, match=r"^iceberg://shop/web.orders cannot be read") as caught:
        read_source(orders)
    (tmp_path / "catalog.db").write_text("no database, " * 1000)
    with pytest.raises(InputError, match=r"^iceberg://shop/web.orders cannot be read") as other:
        read_source(orders)
    assert "\n" not in f"{caught.value}{other.value}"
