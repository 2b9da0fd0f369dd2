"""Every column becomes one of five types, or is refused by name, row and value."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import CATEGORY, TIMESTAMP, type_columns


def typed(values: Any, kind: pa.DataType | None = None, **roles: Any) -> pa.Array:
    table = values if isinstance(values, pa.Table) else pa.table({"x": pa.array(values, kind)})
    return type_columns(table, **roles)["x"].combine_chunks()


def refused(values: Any, kind: pa.DataType | None = None, **roles: Any) -> str:
    with pytest.raises(InputError) as caught:
        typed(values, kind, **roles)
    return str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    ],
)
def test_all_integers_become_int64(kind: pa.DataType) -> None:
    assert typed([1, None, 3], kind).equals(pa.array([1, None, 3], pa.int64()))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, None, 2.0], pa.float32()),
        pa.array([1.5, None, 2.0], pa.float64()),
        pa.array(np.array([1.5, np.nan, 2.0], np.float16)),
        pa.array([Decimal("1.50"), None, Decimal("2")]),
    ],
)
def test_floats_and_decimals_become_float64_and_nan_is_missing(values: pa.Array) -> None:
    assert typed(values).equals(pa.array([1.5, None, 2.0], pa.float64()))


@given(st.lists(st.decimals(-(10**9), 10**9, places=3), min_size=1))
def test_a_decimal_becomes_the_nearest_float_as_its_text_does(values: list[Decimal]) -> None:
    found = typed(pa.array([*values, Decimal("0.001")], pa.decimal128(18, 3)))
    assert found.to_pylist() == [*map(float, values), 0.001]


def test_negative_zero_is_zero() -> None:
    assert np.signbit(typed([-0.0, 1.0]).to_numpy()).tolist() == [False, False]


def test_bool_stays() -> None:
    assert typed([True, None, False]).equals(pa.array([True, None, False]))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["red", None, "blue", "red"], pa.string()),
        pa.array(["red", None, "blue", "red"], pa.large_string()),
        pa.array(["red", "", "blue", "red"], pa.string_view()),
        pa.array(["red", None, "blue", "red"]).dictionary_encode(),
        pa.chunked_array([["red", None], ["blue", "red"]]).dictionary_encode(),
        pa.array(pd.Categorical(["red", None, "blue", "red"], ["red", "never", "blue"])),
        pl.Series(["red", None, "blue", "red"], dtype=pl.Categorical).to_arrow(),
        pl.Series(["red", None, "blue", "red"], dtype=pl.Enum(["red", "never", "blue"])).to_arrow(),
    ],
)
def test_text_becomes_sorted_categories_and_empty_text_is_missing(values: Any) -> None:
    column = typed(pa.table({"x": values}))
    assert column.type == CATEGORY
    assert column.dictionary.to_pylist() == ["blue", "red"]
    assert column.indices.to_pylist() == [1, None, 0, 1]


@given(st.lists(st.sampled_from(["b", "a", "é", "Z", None, "10", "9"]), min_size=1), st.randoms())
def test_codes_do_not_depend_on_the_order_of_rows(values: list[str | None], random: Any) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    roles = {"categorical": ["x"]}
    one = typed(values, pa.string(), **roles)
    other = typed([values[i] for i in order], pa.string(), **roles)
    assert one.type == other.type
    assert other.equals(one.take(pa.array(order)))


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([10, 9, None, 9], ["9", "10"]),
        ([10.0, 9.0, None, 9.0], ["9", "10"]),
        (["10", "9", None, "9"], ["9", "10"]),
        ([2.5, -1.0, 1e300], ["-1", "2.5", "1e+300"]),
        ([True, False], ["false", "true"]),
        ([2**62 + 1, 2**62], [str(2**62), str(2**62 + 1)]),
        ([datetime.date(2024, 2, 1)], ["2024-02-01"]),
        (
            [datetime.datetime(2024, 2, 1, 8), datetime.datetime(2024, 2, 1)],
            ["2024-02-01", "2024-02-01 08:00:00"],
        ),
    ],
)
def test_named_categorical_numbers_become_texts_sorted_by_value(
    values: list[Any], categories: list[str]
) -> None:
    column = typed(values, categorical=["x"])
    assert column.type == CATEGORY
    assert column.dictionary.to_pylist() == categories
    missing = [v is None for v in values]
    assert column.is_null().to_pylist() == missing


def test_a_dictionary_of_numbers_is_categorical_unless_named_numeric() -> None:
    numbers = pa.array([3, 1, None]).dictionary_encode()
    assert typed(numbers).dictionary.to_pylist() == ["1", "3"]
    assert typed(numbers, numeric=["x"]).equals(pa.array([3, 1, None], pa.int64()))
    texts = pa.array(["3", "1", None]).dictionary_encode()
    assert typed(texts).type == CATEGORY
    assert typed(texts, numeric=["x"]).equals(pa.array([3, 1, None], pa.int64()))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", " 2 ", None, ""], pa.array([1, 2, None, None], pa.int64())),
        (["1.5", "-2", ".5", "1.", "1e3"], pa.array([1.5, -2.0, 0.5, 1.0, 1000.0])),
        (["+1", "2"], pa.array([1, 2], pa.int64())),
        (["1.5", str(2**70)], pa.array([1.5, 2.0**70])),
    ],
)
def test_a_text_column_of_numbers_alone_is_numeric(texts: Any, expected: pa.Array) -> None:
    assert typed(texts, pa.string()).equals(expected)
    assert typed(texts, pa.string(), numeric=["x"]).equals(expected)


@pytest.mark.parametrize(
    "texts",
    [
        ["00500", "10001", None],
        ["01", "1"],
        [" 007", "12 ", ""],
        ["-007", "8"],
        ["+05"],
        ["00", str(2**70)],
    ],
)
def test_whole_numbers_with_leading_zeros_are_categories_unless_named_numeric(
    texts: list[str | None],
) -> None:
    held = [text for text in texts if text]
    for column in (typed(texts, pa.string()), typed(texts, pa.string(), categorical=["x"])):
        assert column.type == CATEGORY
        assert sorted(column.dictionary.to_pylist()) == sorted(held)
        assert column.is_null().to_pylist() == [not text for text in texts]
    numbers = typed(texts, pa.string(), numeric=["x"])
    assert numbers.drop_null().to_pylist() == [int(text) for text in held]


@pytest.mark.parametrize("texts", [["-5", "10"], ["00.5", "1.5"], ["-0", "10"], ["05", "1.5"]])
def test_other_numbers_are_numbers_however_many_zeros_they_lead_with(texts: list[str]) -> None:
    assert typed(texts).to_pylist() == [float(text) for text in texts]


@pytest.mark.parametrize("numbers", [[1.0, 2.0, None], [1.5, 2.0], [1e-7, -2.0, 1e22], [0.0, 3.0]])
def test_numbers_as_programs_write_them_are_the_categories_that_the_numbers_are(
    numbers: list[float | None],
) -> None:
    texts = [None if x is None else repr(x) for x in numbers]
    one, other = (typed(values, categorical=["x"]) for values in (numbers, texts))
    assert one.equals(other)


@pytest.mark.parametrize(
    "texts", [["250.0", "250.00"], ["+1", "-1"], ["1.50", "2.0"], ["x", "2.0"], ["TRUE", "maybe"]]
)
def test_what_no_program_writes_stays_as_it_is(texts: list[str]) -> None:
    column = typed(texts, categorical=["x"])
    assert sorted(column.dictionary.to_pylist()) == sorted(texts)


@pytest.mark.parametrize(
    "texts", [["True", "False", None], ["TRUE", "FALSE", ""], ["true", "false"]]
)
def test_true_and_false_as_text_are_the_categories_that_bool_is_and_numbers_if_named(
    texts: list[str | None],
) -> None:
    truth = [None if not text else text.lower() == "true" for text in texts]
    assert typed(texts, categorical=["x"]).equals(typed(truth, categorical=["x"]))
    assert typed(texts, numeric=["x"]).equals(typed(truth))


@pytest.mark.parametrize(
    ("texts", "categories"),
    [
        (["1.0", "1", None, "2", "1.0"], ["1", "2"]),
        (["TRUE", "true", None, "False", "True"], ["false", "true"]),
        (["2024-01-31 00:00:00", "2024-01-31", None, "2024-02-01"], ["2024-01-31", "2024-02-01"]),
        (["2024-01-31T08:00Z", "2024-01-31T09:00+01:00", None], ["2024-01-31 08:00:00"]),
    ],
)
def test_two_texts_of_one_value_are_one_category(
    texts: list[str | None], categories: list[str]
) -> None:
    column = typed(texts, categorical=["x"])
    assert column.dictionary.to_pylist() == categories
    assert column[0] == column[1]
    assert column.is_null().to_pylist() == [text is None for text in texts]


@pytest.mark.parametrize("decimals", [["1.00", "2.00"], ["1.10", "2.00"], ["1.0", "2.5"], ["3"]])
def test_decimals_are_the_categories_that_their_text_is(decimals: list[str]) -> None:
    one, other = (
        typed(values, categorical=["x"]) for values in (decimals, [*map(Decimal, decimals)])
    )
    assert one.equals(other)


def test_blanks_are_missing() -> None:
    assert typed([" ", "1", "\t", "2"]).equals(pa.array([None, 1, None, 2], pa.int64()))
    column = typed(["red", " ", "blue", "  "])
    assert column.dictionary.to_pylist() == ["blue", "red"]
    assert column.indices.to_pylist() == [1, None, 0, None]


def test_text_named_numeric_is_refused_at_its_first_slip() -> None:
    assert refused(["1", None, "n/a", "x"], numeric=["x"]) == (
        "column 'x' must hold numbers but row 3 holds 'n/a'; if it stands for a missing value, "
        "leave it empty, as na_values=['n/a'] of pandas.read_csv or NULLIF(\"x\", 'n/a') of SQL "
        "does; else correct it, or leave it out of numeric"
    )


def test_numbers_with_few_slips_are_refused_and_with_more_are_categories() -> None:
    assert refused(["1", "x", *map(str, range(18))]) == (
        "column 'x' must hold numbers but row 2 holds 'x'; "
        "correct it, or name the column as categorical"
    )
    slips = ["x", *["1", "2"] * 10, None]
    assert refused(slips).endswith("name the column as categorical")  # 95 % of 21
    assert typed(slips, categorical=["x"]).type == CATEGORY
    assert typed(["x", "x", *["1", "2"] * 10]).type == CATEGORY  # less of 22
    assert typed(["x", *["1"] * 9]).type == CATEGORY  # fewer than 10 numbers


@pytest.mark.parametrize(
    "text", ["inf", "nan ", "0x10", "1_000", "1,5", "\N{ARABIC-INDIC DIGIT ONE}", "1e", "e5", "-"]
)
def test_what_python_or_a_spreadsheet_calls_a_number_is_no_number_here(text: str) -> None:
    assert f"row 1 holds {text!r}" in refused([text, "1"], numeric=["x"])


NEW_YEAR = datetime.datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([NEW_YEAR, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array([NEW_YEAR.replace(tzinfo=datetime.UTC), None], pa.timestamp("ns", "Asia/Tokyo")),
    ],
)
def test_timestamps_become_microseconds_in_utc(values: pa.Array) -> None:
    assert typed(values).equals(pa.array([NEW_YEAR, None], TIMESTAMP))


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_become_timestamps_at_midnight(kind: pa.DataType) -> None:
    midnight = datetime.datetime(2024, 1, 1)
    assert typed([midnight.date()], kind).equals(pa.array([midnight], TIMESTAMP))


def test_nanoseconds_are_cut() -> None:
    assert typed([1999], pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize(
    "kind", [pa.null(), pa.string(), pa.int8(), pa.bool_(), pa.date32(), pa.list_(pa.int8())]
)
@pytest.mark.parametrize("roles", [{}, {"categorical": ["x"]}, {"numeric": ["x"]}])
def test_a_column_without_values_is_float64(kind: pa.DataType, roles: Any) -> None:
    assert typed([None, None], kind, **roles).equals(pa.nulls(2, pa.float64()))


@pytest.mark.parametrize("values", [[float("nan")] * 2, ["", ""], ["", None]])
@pytest.mark.parametrize("roles", [{}, {"categorical": ["x"]}, {"numeric": ["x"]}])
def test_nan_and_empty_text_are_no_values(values: Any, roles: Any) -> None:
    assert typed(values, **roles).equals(pa.nulls(2, pa.float64()))


@pytest.mark.parametrize("values", [[1.0, None, float("inf")], ["1", None, "-1e999"]])
def test_infinity_is_refused_with_its_row(values: Any) -> None:
    assert refused(values) == (
        "column 'x' must hold finite numbers but row 3 is infinite; correct it, or leave it empty "
        "where it is a feature"
    )


def test_what_does_not_fit_is_refused() -> None:
    assert "beyond the years" in refused([2**62], pa.timestamp("s"))
    assert "holds dates; leave it out of numeric" in refused([NEW_YEAR], numeric=["x"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1]], pa.list_(pa.int64())),
        ([{"a": 1}], pa.struct({"a": pa.int64()})),
        ([b"x"], pa.binary()),
        ([datetime.timedelta(1)], pa.duration("s")),
        ([datetime.time(1)], pa.time64("us")),
    ],
)
def test_types_no_model_takes_are_refused(values: Any, kind: pa.DataType) -> None:
    assert refused(values, kind) == (f"column 'x' is of type {kind}, which is no feature; drop it")


@pytest.mark.parametrize("role", ["categorical", "numeric"])
def test_named_columns_must_exist(role: str) -> None:
    table = pa.table({"colour": ["red"], "size": [1]})
    with pytest.raises(InputError, match="there is no column 'color'; nearest: colour"):
        type_columns(table, **{role: ["color"]})
    with pytest.raises(InputError, match=r"no column 'zzz'; there are 'colour' and 'size'$"):
        type_columns(table, **{role: ["zzz"]})
    wide = pa.table({f"column {i}": [1] for i in range(500)})
    with pytest.raises(InputError, match=r"'column 4' and 495 more$"):
        type_columns(wide, **{role: ["zzz"]})


def test_no_column_is_both() -> None:
    assert refused([1], categorical=["x"], numeric=["x"]) == (
        "column 'x' is named categorical and numeric; name it once"
    )


def test_the_source_is_left_as_it_was() -> None:
    values = np.array([-0.0, np.nan, 1.0])
    typed(pa.array(values))
    assert np.signbit(values[0])
    assert np.isnan(values[1])
