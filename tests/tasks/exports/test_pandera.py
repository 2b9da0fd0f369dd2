"""The schema passes the table that features were selected from, and fails what drifted from it."""

import warnings

import pandas as pd
import pandera.pandas as pandera
import polars
import pyarrow as pa
import pytest
from pandera.errors import SchemaErrors

import chaffinch
from chaffinch import InputError
from chaffinch.exports import to_pandera
from tests.synthetic import good_table
from tests.tasks.exports.conftest import orders
from tests.tasks.synthetic_runs import LINEAR

pytestmark = pytest.mark.usefixtures("undrawn")

ARROW_TEXT = pd.ArrowDtype(pa.string())
DRIFTED = {
    "a column is missing": ("age", lambda table: table.drop(columns="age")),
    "text instead of numbers": ("age", lambda table: table.assign(age=table["age"].map(str))),
    "dates instead of numbers": (
        "age",
        lambda table: table.assign(age=table["age"].astype("datetime64[s]")),
    ),
    "a number beyond 1e30": ("age", lambda table: table.assign(age=1e31)),
    "a new category": ("colour", lambda table: table.replace({"colour": {"red": "violet"}})),
    "numbers instead of text": ("colour", lambda table: table.assign(colour=1.5)),
    "another way to write a code": (
        "code",
        lambda table: table.replace({"code": {"00500": "500"}}),
    ),
    "a new number of a category": ("size", lambda table: table.assign(size=4)),
    "numbers instead of booleans": ("member", lambda table: table.assign(member=2.5)),
}


def test_the_table_passes(exported):
    schema = to_pandera(exported)
    assert list(schema.columns) == exported.contract.columns
    table = orders()
    assert schema.validate(table, lazy=True).equals(table)
    schema.validate(table[exported.contract.columns].iloc[:2], lazy=True)


@pytest.mark.parametrize("drift", DRIFTED)
def test_what_drifted_fails(drift, exported):
    column, change = DRIFTED[drift]
    with pytest.raises(SchemaErrors, match=rf"column\W+{column}\b") as caught:
        to_pandera(exported).validate(change(orders()), lazy=True)
    assert len(caught.value.schema_errors) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.assign(age=table["age"].fillna(0).round().astype(int)),
        lambda table: table.assign(age=None),
        lambda table: table.assign(size=table["size"].astype("string")),
        lambda table: table.assign(size=table["size"].astype(float)),
        lambda table: table.assign(size=table["size"].astype("int64[pyarrow]").astype(object)),
        lambda table: table.assign(code=table["code"].astype(ARROW_TEXT)),
        lambda table: table.assign(colour=table["colour"].astype("category")),
        lambda table: table.assign(member=table["member"].astype(int)),
        lambda table: table.drop(columns="noise_1"),
    ],
)
def test_what_the_contract_takes_passes_too(change, exported):
    table = change(orders())
    with warnings.catch_warnings(action="ignore"):  # of a column without values
        exported.contract.validate(table)
    to_pandera(exported).validate(table, lazy=True)


def test_the_text_and_dates_that_were_selected_from_pass(tmp_path):
    table = good_table(300).assign(
        version=[("1.0", "2.0", "3.0")[i % 3] for i in range(300)],
        yes=[("TRUE", "FALSE")[i % 2] for i in range(300)],
        day=[("2024-01-01", "2024-01-02")[i % 2] for i in range(300)],
        at=[("2024-01-01 08:00:00", "2024-01-02 09:30:00")[i // 2 % 2] for i in range(300)],
    )
    table["time"] = pd.to_datetime(table["at"])
    table["date"] = table["time"].dt.date
    texts = ["version", "yes", "day", "at", "time", "date"]
    table.to_csv(tmp_path / "x.csv", index=False)
    for data in (table, tmp_path / "x.csv"):
        result = chaffinch.select(
            data, "churned", model=LINEAR, method="anova_f", n_features=len(texts), keep=texts,
            columns={"categorical": texts}, store=tmp_path / "store",
        )  # fmt: skip
        to_pandera(result).validate(table, lazy=True)
        to_pandera(result).to_yaml(tmp_path / "x.yaml")
        pandera.DataFrameSchema.from_yaml(tmp_path / "x.yaml").validate(table, lazy=True)
        new = table.assign(version="4.0", day="2024-01-03", yes="maybe")
        with pytest.raises(SchemaErrors) as caught:
            to_pandera(result).validate(new, lazy=True)
        assert len(caught.value.schema_errors) == 3


def test_columns_that_features_are_made_of_must_exist(of_days):
    schema = to_pandera(of_days)
    assert list(schema.columns) == of_days.contract.columns == ["y", "day"]
    assert all(not column.checks for column in schema.columns.values())


def test_a_table_of_polars(exported):
    schema = to_pandera(exported, library="polars")
    table = polars.from_pandas(orders()).with_columns(polars.col("size").cast(polars.String))
    schema.validate(table, lazy=True)
    with pytest.raises(pandera.errors.SchemaErrors, match="colour"):
        schema.validate(table.with_columns(colour=polars.lit("violet")), lazy=True)
    with pytest.raises(pandera.errors.SchemaErrors, match="age"):
        schema.validate(table.with_columns(age=polars.lit("1.5")), lazy=True)
    with pytest.raises(InputError, match="library must be pandas or polars but is 'dask'"):
        to_pandera(exported, library="dask")


def test_a_schema_survives_a_file(exported, tmp_path):
    schema = to_pandera(exported)
    schema.to_yaml(tmp_path / "orders.yaml")
    assert pandera.DataFrameSchema.from_yaml(tmp_path / "orders.yaml") == schema


def test_a_run_may_be_given_by_its_name_its_folder_or_its_contract(exported):
    store, schema = exported.folder.parent.parent, to_pandera(exported)
    chaffinch.promote(exported, name="shop", store=store)
    for given in (exported.run, "shop", exported.folder, exported.folder / "selection.json"):
        assert to_pandera(given, store=store) == schema
