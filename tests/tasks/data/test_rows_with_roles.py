"""Your own parts and the embargo, as columns and settings name them."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.synthetic import good_table
from tests.tasks.snapshots import check_sentence

LINEAR = ModelSettings(name="linear", tuning="none")
pytestmark = pytest.mark.usefixtures("undrawn")
NUMBERS = np.arange(200)
HOURS = pd.date_range("2026-01-01", periods=200, freq="h")


def select(table, **options):
    return chaffinch.select(table, "churned", model=LINEAR, **options)


def with_parts(*words):
    """Return a table with a column of parts: 120 rows of the first, 40 of each other."""
    table = good_table(200)
    sizes = [200 - 40 * (len(words) - 1), *[40] * (len(words) - 1)]
    return table.assign(part=np.repeat(words, sizes))


def test_the_rows_of_the_test_are_those_that_the_column_names():
    table = with_parts("train", "validation", "test")
    result = select(table, columns={"split": "part"})
    assert result.contract["dataset"]["rows_by_part"]["test"] == 40
    table = with_parts("Train", " VALIDATION", "test")
    result = select(table, method="gbmo", columns={"split": "part"})
    assert result.contract["dataset"]["rows_by_part"]["test"] == 40
    assert "part" not in result.candidates
    # other answers of the test rows change the verdict's loss, and no feature
    changed = table.copy()
    changed.loc[160:, "churned"] = np.roll(changed.loc[160:, "churned"].to_numpy(), 7)
    other = select(changed, method="gbmo", columns={"split": "part"})
    assert other.features == result.features
    assert other.losses["test"] != result.losses["test"]
    assert other.losses["mask_validation"] == result.losses["mask_validation"]


@pytest.mark.parametrize(
    "words",
    [
        ("train", "dev", "test"),
        ("train", "validation"),
        ("validation", "test"),
    ],
)
def test_other_words_are_refused(words):
    with pytest.raises(InputError) as refusal:
        select(with_parts(*words), columns={"split": "part"})
    check_sentence("refusals/parts by a column", words, refusal.value)


@pytest.mark.parametrize(
    "options",
    [
        {"settings": {"shares": (60, 20, 10, 10)}},
        {"method": chaffinch.methods.Auto(validation="folds")},
        {"columns": {"split": "part", "embargo": 3}},
        {"keep": ["part"]},
    ],
)
def test_what_does_not_go_with_a_split_is_named(options):
    with pytest.raises(InputError) as refusal:
        select(with_parts("train", "test"), **{"columns": {"split": "part"}, **options})
    check_sentence("refusals/beside a split", options, refusal.value)


@pytest.mark.parametrize(
    ("at", "embargo"),
    [
        *((HOURS, text) for text in ("12 hours", "12h", "0.5 days")),
        (HOURS, datetime.timedelta(hours=12)),
        *((NUMBERS, number) for number in (12, 12.0, "12")),
    ],
)
def test_an_embargo_is_a_length_of_time_or_a_number_in_the_unit_of_the_times(at, embargo):
    result = select(
        good_table(200).assign(at=at), time="at", columns={"embargo": embargo}, method="gbmo"
    )
    rows = result.contract["dataset"]["rows_by_part"]
    assert sum(rows.values()) == 200 - 3 * 11  # twelve hours apart, eleven rows lie in between


@pytest.mark.parametrize(
    ("at", "embargo"),
    [
        (HOURS, "12"),
        (HOURS, "soon"),
        *((NUMBERS, wrong) for wrong in ("7 days", -1, "nan")),
    ],
)
def test_another_embargo_is_refused_in_one_line(at, embargo):
    with pytest.raises(InputError) as refusal:
        select(good_table(200).assign(at=at), time="at", columns={"embargo": embargo})
    check_sentence("refusals/embargo", embargo, refusal.value)


@pytest.mark.parametrize("is_stored", [False, True])
def test_parts_have_the_index_of_the_table(tmp_path, is_stored):
    table = with_parts("train", "validation", "test").sample(frac=1, random_state=3)
    table.to_csv(tmp_path / "table.csv", index=False)
    store = tmp_path / "store" if is_stored else None
    result = select(table, method="gbmo", columns={"split": "part"}, store=store)
    of_each = {"train": ["train"], "test": ["test"]}
    of_each["validation"] = ["mask_validation", "model_validation"]
    for data in (table, tmp_path / "table.csv", pl.from_pandas(table)):
        parts = result.parts(data)
        assert parts.index.equals(table.index if data is table else pd.RangeIndex(len(table)))
        for word, names in of_each.items():
            assert {*parts[(table["part"] == word).to_numpy()]} == {*names}
        assert parts.value_counts().to_dict() == result.contract["dataset"]["rows_by_part"]


def test_rows_under_an_embargo_have_no_part_nor_has_another_table():
    table = good_table(200).assign(at=NUMBERS)
    result = select(table, time="at", columns={"embargo": 12})
    missing = result.parts(table).isna().to_numpy().nonzero()[0]
    assert missing.tolist() == [*range(159, 170)]
    with pytest.raises(
        InputError, match="does not have the rows, columns and types of columns of the run"
    ):
        result.parts(table.iloc[1:])
