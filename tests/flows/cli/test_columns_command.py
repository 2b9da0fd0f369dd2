"""`chaffinch columns`: what an ETL job reads, in the words of what it reads with."""

import json
import sqlite3

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.flows.cli.commands import DIALECTS, as_select, columns

ODD = ["plain", 'in "quotes"', "a, b", "x`y]", "100 %s", "Größe"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that keeps columns with odd names."""
    store = tmp_path_factory.mktemp("store")
    table = pd.DataFrame({name: range(i, i + 60) for i, name in enumerate(ODD)})
    table["y"] = table.sum(axis=1)
    table.to_csv(store / "odd.csv", index=False)
    table.to_parquet(store / "odd.parquet")
    model = ModelSettings(name="linear", tuning="none")
    return chaffinch.select(table, "y", model=model, keep=ODD[:4], n_features=4, store=store)


def said(run, *options):
    """Return what the command prints, on standard output and on standard error."""
    store = str(run.folder.parents[1])
    ended = CliRunner().invoke(
        columns, [run.run, "--store", store, *options], catch_exceptions=False
    )
    assert ended.exit_code == 0
    return ended.stdout, ended.stderr


def test_as_parquet_it_is_what_readers_take(run):
    listed, nothing = said(run, "--as", "parquet")
    store = run.folder.parents[1]
    assert pq.read_table(store / "odd.parquet", columns=json.loads(listed)).column_names == ODD[:4]
    assert nothing == ""


def test_as_json_it_has_the_types_and_what_is_saved(run):
    source = run.folder.parents[1] / "odd.csv"
    found, told = said(run, "--source", str(source))
    read = run.contract.bytes_in(source)
    assert json.loads(found) == {
        "columns": ODD[:4],
        "features": dict.fromkeys(ODD[:4], "number"),
        "bytes": {"kept": read.kept, "all": read.all},
    }
    assert told == (
        f"4 columns are {read.kept:,} of {read.all:,} bytes: {read.share_saved:.0%} belong to "
        "other columns\n"
    )


def test_as_sql_it_is_a_select_that_a_database_answers(run):
    with sqlite3.connect(":memory:") as database:
        table = pd.read_csv(run.folder.parents[1] / "odd.csv")
        table.to_sql("the rows", database, index=False)
        asked, _ = said(run, "--as", "sql", "--table", "main.the rows", "--dialect", "sqlite")
        pd.testing.assert_frame_equal(pd.read_sql(asked, database), table[ODD[:4]])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_name_is_quoted_as_its_dialect_does(dialect):
    opening, closing = {"mysql": "``", "mssql": "[]"}.get(dialect, '""')
    quoted = [f"{opening}{name.replace(closing, 2 * closing)}{closing}" for name in ODD]
    assert as_select(ODD, None, dialect) == ", ".join(quoted)
    assert as_select(ODD, "t", dialect) == f"SELECT {', '.join(quoted)}\nFROM {opening}t{closing}"


@pytest.mark.parametrize("table", ["", " ", "a..b", ".", "a.", ".b"])
def test_a_table_without_a_name_is_refused(run, table):
    with pytest.raises(InputError, match=rf"--table must be a name, .* but is '{table}'; name"):
        said(run, "--as", "sql", "--table", table)


@pytest.mark.parametrize("option", ["--table", "--dialect"])
def test_what_is_for_sql_is_for_sql_alone(run, option):
    with pytest.raises(InputError, match=f"{option} is for --as sql but this is --as json"):
        said(run, option, "sqlite")


@pytest.mark.parametrize(
    ("dialect", "levels"),
    [
        ("postgresql", '"a"."b c"."d"'),
        ("mysql", "`a`.`b c`.`d`"),
        ("mssql", "[a].[b c].[d]"),
        ("oracle", '"a"."b c"."d"'),
    ],
)
def test_each_level_of_a_table_is_quoted(dialect, levels) -> None:
    assert as_select(["x"], "a.b c.d", dialect).partition("FROM ")[2] == levels
