"""A model predicts the same from a table of tomorrow, whichever door that comes by."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.sources import ingest

CODES = ["00500", "01234", "10001", "99999"]


def coded(values, seed=0, n=240):
    """A number and a category, of which both matter."""
    random = np.random.default_rng(seed)
    code = random.integers(0, len(values), n)
    x = random.normal(size=n).round(6)
    noisy = x + 2 * (code % 2) + random.normal(size=n)
    labels = np.where(noisy > np.median(noisy), "yes", "no")
    return pd.DataFrame({"x": x, "code": np.array(values)[code], "y": labels})


def select(data, **options):
    model = ModelSettings(name="linear", tuning="none")
    return chaffinch.select(data, "y", method="gbmo", model=model, keep=["code", "x"], **options)


def written(table, path):
    table.to_csv(path, index=False)
    return path


def as_code(table, kind):
    return table.assign(code=table["code"].astype(kind))


@pytest.mark.parametrize("categorical", [["code"], []])
def test_codes_with_leading_zeros(categorical, tmp_path):
    table, new = coded(CODES), coded(CODES, seed=1)
    result = select(written(table, tmp_path / "x.csv"), columns={"categorical": categorical})
    code = next(f for f in result.contract["features"] if f["name"] == "code")
    assert code["categories"] == CODES
    expected = result.model.predict_proba(new)
    assert len(np.unique(result.model.predict_proba(new.assign(x=0)), axis=0)) == len(CODES)

    whole, real = as_code(new, int), as_code(new, float)
    gap = new.assign(code=real["code"].where(new.index > 0))
    whole.to_parquet(tmp_path / "whole.parquet")
    real.to_parquet(tmp_path / "real.parquet")
    for given in (
        written(new, tmp_path / "text.csv"), written(whole, tmp_path / "whole.csv"),
        written(real, tmp_path / "real.csv"), tmp_path / "whole.parquet",
        tmp_path / "real.parquet", whole, real, as_code(whole, str), as_code(real, str),
        pl.from_pandas(whole), as_code(new, "category"), as_code(whole, "category"),
    ):  # fmt: skip
        np.testing.assert_array_equal(result.model.predict_proba(given), expected)
    for given in (gap, written(gap, tmp_path / "gap.csv")):
        np.testing.assert_array_equal(result.model.predict_proba(given)[1:], expected[1:])


def test_a_code_that_means_none_or_two_of_those_known_is_unknown(tmp_path):
    result = select(coded(["1", "01", "2"]))
    new = coded(["1", "2"], seed=1)
    expected = result.model.predict_proba(new.assign(code=None))
    for unknown in ("001", "3", "x"):  # 001 means 1, which is two of them
        with pytest.warns(UserWarning, match="never seen in training"):
            unseen = result.model.predict_proba(new.assign(code=unknown))
        np.testing.assert_array_equal(unseen, expected)


@pytest.mark.parametrize(
    "numbers",
    [
        lambda codes: pa.array(codes, pa.int64()),
        lambda codes: pa.array(codes, pa.int64()).dictionary_encode(),
        lambda codes: pa.array(codes, pa.decimal128(10, 0)),
        lambda codes: pa.array(codes, pa.float64()),
    ],
    ids=["whole", "categories", "decimals", "floats"],
)
def test_numbers_that_cannot_tell_two_codes_apart_are_refused(numbers):
    result = select(coded(["1", "01", "2"]))
    new = pa.Table.from_pandas(coded([1, 2], seed=1))
    codes = numbers(new["code"].to_pylist())
    new = new.set_column(new.column_names.index("code"), "code", codes)
    for check in (result.contract.validate, result.model.predict_proba):
        with pytest.raises(InputError, match="cannot tell '01' and '1' apart as in training"):
            check(new)


def test_floats_that_may_be_rounded_ids_are_refused():
    """As pandas reads whole numbers beyond 2^53 beside missing ones."""
    result = select(coded([2**60, 2**60 + 1, 2**60 + 2]))
    new = coded([2**60, 2**60 + 1], seed=1)
    result.contract.validate(new)
    for check in (result.contract.validate, result.model.predict_proba):
        with pytest.raises(
            InputError, match="as a float, which may be rounded, and has categories"
        ):
            check(new.assign(code=new["code"].astype(float)))


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([True, False], {"columns": {"categorical": ["code"]}}),
        (["True", "False"], {}),
        ([3, 12, 700], {"columns": {"categorical": ["code"]}}),
        (["2024-01-05", "2024-02-05", "2023-07-01"], {"columns": {"categorical": ["code"]}}),
    ],
)
def test_what_was_learnt_from_memory_is_known_again_in_files(values, options, tmp_path):
    table, new = coded(values), coded(values, seed=1)
    result = select(table, **options)
    expected = result.model.predict_proba(new)
    blind = result.model.predict_proba(new.assign(code=None))
    assert not np.array_equal(blind, expected)
    for given in (written(new, tmp_path / "new.csv"), as_code(new, str)):
        np.testing.assert_array_equal(result.model.predict_proba(given), expected)
    back = select(written(table, tmp_path / "x.csv"), columns={"categorical": ["code"]})
    expected = back.model.predict_proba(new)
    assert not np.array_equal(back.model.predict_proba(new.assign(code=None)), expected)
    for given in (written(new, tmp_path / "new.csv"), as_code(new, str)):
        np.testing.assert_array_equal(back.model.predict_proba(given), expected)


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["2024-01-05", "2024-02-05"], ["2024-01-05", "2024-02-05"]),
        (["2024-01-05 08:00:00", "2024-02-05 00:00:00"], ["2024-01-05 08:00:00", "2024-02-05"]),
        (["05.01.2024", "05.02.2024"], ["05.01.2024", "05.02.2024"]),
        (["1.1", "1.10"], ["1.1", "1.10"]),
        (["1.0", "2.0"], ["1", "2"]),
        (["TRUE", "FALSE"], ["false", "true"]),
        ([3, 12], ["3", "12"]),
        ([3.0, 12.0], ["3", "12"]),
        ([True, False], ["false", "true"]),
        (pd.to_datetime(["2024-01-05", "2024-02-05"]), ["2024-01-05", "2024-02-05"]),
        (
            pd.to_datetime(["2024-01-05 08:00:30", "2024-02-05 00:00:00"]),
            ["2024-01-05 08:00:30", "2024-02-05"],
        ),
    ],
)
def test_the_same_rows_are_the_same_categories_by_every_door(values, categories, tmp_path):
    table = coded(values)
    table.to_parquet(tmp_path / "x.parquet")
    doors = (written(table, tmp_path / "x.csv"), tmp_path / "x.parquet", table, pl.DataFrame(table))
    hashes = set()
    for data in doors:
        dataset = ingest(data, tmp_path / "store", categorical=["code"])
        hashes.add(dataset.hash)
    read = dataset.read().column("code").unify_dictionaries()
    assert len(hashes) == 1
    assert read.chunk(0).dictionary.to_pylist() == categories


@pytest.mark.parametrize("door", ["csv", "parquet", "memory"])
def test_labels_with_leading_zeros_are_other_labels_than_without(door, tmp_path: Path):
    table = coded(["a", "b"])
    table["y"] = np.resize(["01", "1", "02"], len(table))
    written(table, tmp_path / "x.csv")
    table.to_parquet(tmp_path / "x.parquet")
    data = table if door == "memory" else tmp_path / f"x.{door}"
    result = select(data)
    assert result.model.classes == ("01", "1", "02")
    assert set(result.model.predict(table)) <= {"01", "1", "02"}


def test_labels_0_and_1_stay_numbers_and_a_padded_quantity_is_one_if_it_is_named_so(tmp_path):
    table = coded(["a", "b"])
    zero_one = table.assign(y=(table["y"] == "yes").astype(int))
    path = written(zero_one, tmp_path / "x.csv")
    assert select(path).contract["dataset"] == select(zero_one).contract["dataset"]

    padded = table.assign(y=[f"{i:03}" for i in range(240)])
    path = written(padded, tmp_path / "y.csv")
    with pytest.raises(chaffinch.InputError, match="is a quantity, name it as numeric and set"):
        select(path)
    regression = {"settings": {"task": "regression"}}
    with pytest.raises(chaffinch.InputError, match=r"of numbers, or name 'y' as numeric$"):
        select(path, **regression)
    assert (
        select(path, settings={"task": "regression"}, columns={"numeric": ["y"]}).contract[
            "target"
        ]["task"]
        == "regression"
    )
