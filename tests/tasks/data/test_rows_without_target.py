"""Rows without a target: refused, or left out and counted."""

import ast
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import chaffinch
from chaffinch import InputError
from tests.refusals import chaffinch_here
from tests.synthetic import good_table

LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")
LACKING = np.arange(300) % 10 == 3
OPTIONS = {"method": "correlation", "n_features": 2, "model": LINEAR}


def with_gaps(target: str = "churned") -> pd.DataFrame:
    """Every tenth row lacks its target, and has values that no other row has."""
    table = good_table(300)
    table[target] = table[target].ffill().bfill().where(~LACKING)
    table.loc[LACKING, "colour"] = "rare"
    table.loc[LACKING, "noise_1"] = 1e6
    return table


def test_they_are_refused_with_a_remedy_that_can_be_followed(tmp_path) -> None:
    said = "'churned' is missing in 30 of 300 rows, first in row 4: fill or remove these rows, or "
    with pytest.raises(InputError, match=said) as refusal:
        chaffinch.select(with_gaps(), "churned", **OPTIONS)
    argument, option = re.search(r"give columns=({.*}) \((--\S+)\)$", str(refusal.value)).groups()
    chaffinch.select(with_gaps(), "churned", columns=ast.literal_eval(argument), **OPTIONS)
    asked = ("check", csv(with_gaps(), tmp_path / "table"), "--target", "churned")
    assert [chaffinch_here(*asked, *more).returncode for more in ((), (option,))] == [2, 0]


@pytest.mark.parametrize(
    ("target", "door"),
    [
        ("churned", "pandas"), ("churned", "polars"), ("churned", "csv"), ("churned", "parquet"),
        ("noise_2", "pandas"),
    ],
)  # fmt: skip
def test_without_them_the_result_is_that_of_the_other_rows(tmp_path, target, door) -> None:
    polars = lambda table, _: pl.from_pandas(table)  # noqa: E731
    put = {"pandas": lambda t, _: t, "polars": polars, "csv": csv, "parquet": parquet}[door]
    table = with_gaps(target)
    everything, rest = put(table, tmp_path / "all"), put(table[~LACKING], tmp_path / "rest")
    asked = {**OPTIONS, "store": tmp_path / "store"}
    others = chaffinch.select(rest, target, **asked)
    for _ in range(2):  # the second time the dataset is there
        found = chaffinch.select(
            everything, target, columns={"drop_rows_without_target": True}, **asked
        )
        assert found.contract.dataset.hash == others.contract.dataset.hash
        assert found.contract["features"] == others.contract["features"]
        assert found.notes[0] == f"30 rows have no target '{target}' and are left out"
    assert others.notes == ()
    parts = found.parts(everything)
    assert parts.isna().tolist() == LACKING.tolist()
    assert parts[~LACKING].tolist() == others.parts(rest).tolist()


def csv(table: pd.DataFrame, path) -> str:
    table.to_csv(f"{path}.csv", index=False)
    return f"{path}.csv"


def parquet(table: pd.DataFrame, path) -> str:
    table.to_parquet(f"{path}.parquet")
    return f"{path}.parquet"


def test_a_target_without_any_value_and_a_table_without_gaps() -> None:
    table = good_table(300)
    asked = {**OPTIONS, "columns": {"drop_rows_without_target": True}}
    assert chaffinch.select(table, "churned", **asked).notes == ()
    with pytest.raises(InputError, match="column 'churned' of the table has no value in any row"):
        chaffinch.select(table.assign(churned=None), "churned", **asked)
