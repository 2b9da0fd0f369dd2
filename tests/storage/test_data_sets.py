"""What a data set is called, by one rule at every door."""

from pathlib import Path

import pandas as pd
import pytest

from chaffinch.errors import InputError
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.data_set_name import name_of_data_set, name_of_table

QUERY = "sqlite:///files/shop.db#SELECT a FROM orders"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("orders.csv", "orders"),
        ("orders.CSV.gz", "orders"),
        ("orders.v2.csv", "orders.v2"),
        ("2026.01 orders (new).parquet", "2026.01_orders_new"),
        ("folder.of.parts", "folder.of.parts"),
        ("Bestellungen für Köln.tsv", "Bestellungen_f_r_K_ln"),
        ("orders.csv.csv", "orders"),
        ("a" * 130, "a" * 115),
    ],
)
def test_it_is_the_tables_name_without_its_endings(label, name):
    assert name_of_table(label, "--as orders") == name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/srv/orders.v2.parquet", "orders.v2"),
        (Path("folder/orders.parquet/"), "orders"),
        ("parts/2026", "2026"),
        ("s3://bucket/daily/orders.v2.csv.gz", "orders.v2"),
        ("s3://bucket/orders.parquet/", "orders"),
        ("s3://orders", "orders"),
        ("postgresql://h/shop#web.orders", "orders"),
    ],
)
def test_of_a_path_or_an_address_it_is_the_last_level(source, name):
    assert name_of_data_set(source_of(source), None, "--name orders") == name
    assert name_of_data_set(source_of(source), "given", "--name orders") == "given"


def test_queries_of_one_database_are_told_apart():
    first, second = (
        name_of_data_set(source_of(q), None, "--name orders") for q in (QUERY, f"{QUERY} b")
    )
    assert first.startswith("shop-")
    assert first != second


@pytest.mark.parametrize("label", ["DataFrame", "Table", "日本.csv"])
def test_what_has_no_name_in_ascii_needs_one(label):
    with pytest.raises(InputError, match="has no name that a data set could have; give one, as in"):
        name_of_table(label, "--as orders")


def test_a_table_in_memory_needs_a_name_and_a_name_must_be_one():
    with pytest.raises(InputError, match=r"the table, DataFrame, has .*, as in --name orders"):
        name_of_data_set(source_of(pd.DataFrame()), None, "--name orders")
    for name in ("", "a/b", "ä", ".hidden", "a" * 116):
        with pytest.raises(InputError, match="a name must be 1"):
            name_of_data_set(source_of("orders.csv"), name, "--name orders")
