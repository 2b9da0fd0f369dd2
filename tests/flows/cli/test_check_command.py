"""`chaffinch check`: what a run would find, with nothing trained and nothing stored."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from chaffinch import InputError
from chaffinch.errors import StrictError
from chaffinch.flows.cli.commands import cli


@pytest.fixture
def check(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(300, 3)), columns=["a", "b", "price"])
    table["customer"] = [f"c{row}" for row in range(300)]
    table["leak"] = 2 * table["price"] + 1
    table.loc[::3, "a"] = np.nan
    table.to_csv(tmp_path / "orders.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def run(*options):
        invoked = CliRunner().invoke(cli, ["check", "orders.csv", *options])
        if invoked.exception is not None:
            raise invoked.exception
        assert [path.name for path in tmp_path.iterdir()] == ["orders.csv"]  # no store
        return invoked.output

    return run


def test_rows_parts_missing_values_and_warnings_are_printed(check):
    lines = check("--target", "price").splitlines()
    assert lines[0] == "300 rows; 3 of 5 columns are features."
    assert lines[1].startswith("Task: regression: ")
    assert lines[2] == "Rows: 300 train; folds of these rows judge."
    assert re.fullmatch(r"Memory: about 0\.\d+ GB of [\d.]+ GB that are free\.", lines[3])
    assert re.match(r"Time: about \d+ s of fits of lightgbm; masked losses", lines[4])
    assert lines[5] == "Missing values: 'a' 33.3%."
    assert any(line.startswith("Warning: ") and "'leak'" in line for line in lines)
    assert any(line.startswith("Warning: left out: 'customer'") for line in lines)


def test_the_settings_count(check):
    found = json.loads(check("--target", "price", "--method", "gbmo", "--drop", "leak", "--json"))
    assert found["features"] == ["a", "b"]
    assert 0 < found["memory"]["needed"] < found["memory"]["free"]
    assert 0 < found["seconds_of_fits"] < 100
    assert [*found["rows_by_part"].values()] == [135, 90, 30, 45]
    assert found["left_out"] == {"customer": "identifier: every value is different"}
    assert [column["name"] for column in found["columns"]] == ["a", "b", "price", "customer"]


def test_too_few_units_for_a_verdict_are_told_before_the_run(check):
    options = ("--target", "price", "--drop", "leak,customer")
    few = check(*options, "--method", "gbmo", "--shares", "60,20,15,5").splitlines()[-1]
    assert few.startswith("Warning: At least 20 rows, groups or blocks of time are needed to comp")
    assert not any("At least" in line for line in check(*options).splitlines())


def test_time_is_none_where_the_number_of_fits_is_not_known(check):
    options = ("--target", "price", "--drop", "leak", "--json")
    assert json.loads(check(*options, "--method", "afs_bm"))["seconds_of_fits"] is None


def test_warnings_are_refused_by_strict_and_bad_input_always(check):
    invoked = CliRunner().invoke(
        cli, ["check", "orders.csv", "--target", "price", "--strict", "--json"]
    )
    assert isinstance(invoked.exception, StrictError)
    assert str(invoked.exception).startswith("strict refuses 2 warnings: ")
    assert json.loads(invoked.stdout)["features"] == ["a", "b", "leak"]
    with pytest.raises(InputError, match="did you mean 'price'"):
        check("--target", "prise")
