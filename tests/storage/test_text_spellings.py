"""Numbers and dates in other spellings are never categories without notice."""

import ast
import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import CATEGORY, OTHER, TIMESTAMP, type_columns
from chaffinch.storage.sources import source_of
from tests.sources import ingest

PLAIN = [str(i) for i in range(3, 23)]


def typed(texts: list[Any], **roles: Any) -> pa.Array:
    table = pa.table({"x": pa.array(texts, pa.string())})
    return type_columns(table, has_others=True, **roles)["x"].combine_chunks()


def refused(texts: list[Any], **roles: Any) -> str:
    with pytest.raises(InputError) as caught:
        typed(texts, **roles)
    return str(caught.value)


SPELLINGS = {
    **dict.fromkeys(["1'200", "1 200", "1_200", "1\N{NO-BREAK SPACE}200"], 1200.0),
    **dict.fromkeys(["1\N{THIN SPACE}200", "1\N{NARROW NO-BREAK SPACE}200"], 1200.0),
    **dict.fromkeys(["1\N{RIGHT SINGLE QUOTATION MARK}200", "1,200.0"], 1200.0),
    **dict.fromkeys(["12,45,336", "1.245.336", "1,245,336"], 1245336.0),
    **dict.fromkeys(["-2,406E+03", "-2.406,0"], -2406.0),
    **dict.fromkeys(["6,29E+02", "629,0"], 629.0),
    **dict.fromkeys(["\N{MINUS SIGN}4", "4-", "(4)", "\N{EN DASH}4"], -4.0),
    **dict.fromkeys(["($638.15)", "$ -638.15", "(638,15 €)"], -638.15),
    **dict.fromkeys(["CHF 3'036.20", "$3,036.20", "3.036,20 kr"], 3036.2),
    **dict.fromkeys(["1,013.5 kg", "1.013,5 kg", "1\N{NO-BREAK SPACE}013,5 kg"], 1013.5),
    **dict.fromkeys(["$2100", "2100 €", "USD 2100", "$2,100", "R$ 2100", "£2100"], 2100.0),
    **dict.fromkeys(["12.-", "12.- "], 12.0),
    **dict.fromkeys(["21%", "21 %", "21\N{NO-BREAK SPACE}%", "210‰"], 0.21),
    **dict.fromkeys(["13,214.5 %", "13'214,5%", "13 214,5 %"], 132.145),
    **dict.fromkeys(["12\N{NO-BREAK SPACE}", "\N{ZERO WIDTH NO-BREAK SPACE}12", "12 kg"], 12.0),
    **dict.fromkeys(["\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}", "12km"], 12.0),
}


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        *((text, 1) for text in SPELLINGS),
        *((text, n) for text in ("1'200", "21%") for n in (6, 200)),
    ],
)
def test_numbers_in_another_spelling_are_refused_with_the_value(text: str, n_rows: int) -> None:
    message = refused([*PLAIN, *[text] * n_rows])
    shown = re.search("in its numbers, such as (.*) in row 21", message)
    assert shown is not None
    assert ast.literal_eval(shown[1]) == text
    assert not re.search(r"\\[xu]", message)  # what cannot be seen is named
    assert message.endswith("or name the column as categorical")
    assert typed([*PLAIN, text], categorical=["x"]).type == CATEGORY


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_remedy_loses_nothing(text: str) -> None:
    ((_, converted),) = offered(refused([*PLAIN, text]), [text, "3"])
    assert converted == [SPELLINGS[text], 3]


def offered(message: str, texts: list[str]) -> list[tuple[str, list[float]]]:
    """Return the options that a message offers, with what the code in pandas makes of texts."""
    ways = re.findall(r"as (column\.\S.*?) does in pandas(?:, or add (#\S+) to the path)?", message)
    given = {"column": pd.Series(texts)}
    return [(option, eval(code, given).tolist()) for code, option in ways]  # noqa: S307


@given(
    numbers=st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=9, unique=True),
    n_decimals=st.integers(0, 4),
    decimal=st.sampled_from(".,"),
    thousands=st.sampled_from(["", *",. '_", "\N{NO-BREAK SPACE}"]),
    form=st.sampled_from(["{}", "{} kg", "{} %", "{} €", "CHF {}"]),
)
def test_one_of_the_ways_offered_makes_the_numbers_that_were_written(
    numbers: list[int], n_decimals: int, decimal: str, thousands: str, form: str
) -> None:
    assume(decimal != thousands)
    plain = [f"{number / 10**n_decimals:,.{n_decimals}f}" for number in numbers]
    marks = str.maketrans({",": thousands, ".": decimal})
    texts = [form.format(text.translate(marks)) for text in plain]
    power = "e-2" if "%" in form else ""
    written = [float(f"{text.replace(',', '')}{power}") for text in plain]
    try:
        column = typed(texts)
    except InputError as error:
        ways = offered(str(error), texts)
        assert any(made == written for _, made in ways)
        assert len(ways) <= 2
    else:  # as decimals, which nothing but their number shows that they are none
        as_points = thousands == "." and not n_decimals
        assert form == "{}"
        assert column.to_pylist() == written or as_points


MARKS = {
    "an exponent": (["-2,406E+03", "1,628E+02"], {"#decimal=,": [-2406, 162.8]}),
    "fewer decimals": (["6,29E+02", "-6,61E+02"], {"#decimal=,": [629, -661]}),
    "US": (["6,016.29", "628.65"], {"#thousands=,": [6016.29, 628.65]}),
    "a whole one and decimals": (["6,016", "628.5"], {"#thousands=,": [6016, 628.5]}),
    "US or decimals": (
        ["3,406", "-1,628"],
        {"#thousands=,": [3406, -1628], "#decimal=,": [3.406, -1.628]},
    ),
    "US and below 1000": (["3,300", "728"], {"#thousands=,": [3300, 728]}),
    "decimals below 1": (["0,406", "12,345"], {"#decimal=,": [0.406, 12.345]}),
    "decimals alone": (["24,06", "7,5", "3"], {"#decimal=,": [24.06, 7.5, 3]}),
    "German": (["1.234,56", "628,65"], {"#decimal=,&thousands=.": [1234.56, 628.65]}),
    "points alone": (["1.234.567", "628.651"], {"#decimal=,&thousands=.": [1234567, 628651]}),
    "perhaps points": (["2.560", "806"], {"#decimal=,&thousands=.": [2560, 806]}),
    "blanks": (["1 234,56", "628,65"], {"#decimal=,&thousands=%20": [1234.56, 628.65]}),
    "no-break spaces": (
        ["628,65", "1\N{NO-BREAK SPACE}234,56"],
        {"#decimal=,&thousands=%C2%A0": [628.65, 1234.56]},
    ),
    "Swiss": (["1'234.50", "3"], {"#thousands=%27": [1234.5, 3]}),
    "Indian": (["12,45,336", "1,200"], {"#thousands=,": [1245336, 1200]}),
    "none of all": (["1.234,56", "1 234"], {}),
}


@pytest.mark.parametrize(("texts", "expected"), MARKS.values(), ids=MARKS.keys())
@pytest.mark.parametrize("given", ["", "#decimal=,", "#decimal=,&thousands=_", "#thousands=,"])
def test_the_options_offered_are_those_that_read_every_value(
    tmp_path: Path, texts: list[str], expected: dict[str, list[float]], given: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["x;y", *(f"{text};1" for text in texts)]))
    for option, values in expected.items():
        assert source_of(f"{path}{option}").read()["x"].to_pylist() == values
    assert dict(offered(refused(texts), texts)) == expected
    try:
        read = ingest(f"{path}{given}", tmp_path / "store").read().column("x").to_pylist()
    except InputError as error:  # in other marks than the given ones
        said = str(error)
        assert all(re.search(rf"{re.escape(option)}(?:,| )", said) for option in expected)
    else:
        assert sorted(read) in map(sorted, expected.values()) or texts == ["3,300", "728"]


@pytest.mark.parametrize("forms", [("{} kg", "{} g"), ("{} USD", "{} EUR")])
def test_where_one_expression_does_not_make_numbers_of_all_none_is_given(
    forms: tuple[str, str],
) -> None:
    message = refused([form.format(i) for i in range(1, 9) for form in forms])
    assert "pandas" not in message
    assert "in one unit" in message


def test_brackets_and_a_currency_are_taken_off_together() -> None:
    texts = ["$6,016.29", "-$19,497.11", "($5.00)"]
    ((_, converted),) = offered(refused(texts), texts)
    assert converted == [6016.29, -19497.11, -5]


THOUSANDS = ["2.559", "806", "12.560", "-1.200", "0", "999.999"]


def test_points_that_mark_thousands_are_refused_and_decimal_points_are_not(tmp_path: Path) -> None:
    assert "points as marks of thousands, such as '2.559' in row 1" in refused(THOUSANDS)
    path = tmp_path / "x.csv"
    path.write_text("x,y\n" + "".join(f"{text},1\n" for text in THOUSANDS))
    with pytest.raises(InputError, match="points as marks of thousands"):
        ingest(path, tmp_path / "store")
    assert typed(THOUSANDS, numeric=["x"]).to_pylist() == [float(text) for text in THOUSANDS]
    for decimals in (["2.559", "806", "12.56"], ["2.559", "0.806", "12.560"], ["2.500", "806.000"]):
        assert typed(decimals).to_pylist() == [float(text) for text in decimals]


@pytest.mark.parametrize("text", ["$2100", "21%", "1'200", "6,29E+02"])
def test_a_column_named_numeric_has_the_same_remedy(text: str) -> None:
    message = refused([*PLAIN, text], numeric=["x"])
    assert f"row 21 holds {text!r}; write them as plain numbers, as column.str" in message
    assert message.endswith(", or leave it out of numeric")


@pytest.mark.parametrize("word", ["?", "N/A", "-", "unknown", "n.a.", "#VALUE!", r"\N"])
@pytest.mark.parametrize("share", [0.04, 0.11, 0.6])
@pytest.mark.parametrize("n_different", [3, 300])
def test_a_word_for_missing_values_is_refused_at_any_share(
    word: str, share: float, n_different: int
) -> None:
    texts = [str(i % n_different) for i in range(1000)]
    texts[: round(1000 * share)] = [word] * round(1000 * share)
    option = ", or add #na=unknown to the path of delimited text" if word == "unknown" else ""
    assert refused(texts) == (
        f"column 'x' must hold numbers but row 1 holds {word!r}; if it stands for a missing value, "
        f"leave it empty, as na_values=[{word!r}] of pandas.read_csv or NULLIF(\"x\", '{word}') of "
        f"SQL does{option}; else correct it, or name the column as categorical"
    )


@pytest.mark.parametrize("share", [0.04, 0.11, 0.6])
def test_so_is_any_other_text_among_many_different_numbers(share: float) -> None:
    texts = [str(i % 300) for i in range(1000)]
    texts[: round(1000 * share)] = ["absent"] * round(1000 * share)
    assert "row 1 holds 'absent'; correct it, or name the column as categorical" in refused(texts)


@pytest.mark.parametrize(
    "texts",
    [
        [f"A{i}" for i in range(40)],
        [f"{i}-{i + 10}" for i in range(40)],
        ["1st", "2nd", "3rd", "4th"] * 10,
        [f"1.{i}.3" for i in range(40)],
        [f"{i:02}:30" for i in range(24)],
        [f"SW{i} 1AA" for i in range(40)],
        [f"{10_000 + i}-6789" for i in range(40)],
        [f"555 123 {i}" for i in range(100, 140)],
        [f"10.0.{i}.1" for i in range(40)],
        [" 36 months", " 60 months"] * 20,
        ["1", "2", "3", "4", "5+"] * 20,
        ["2", "3", "4", "5more"] * 20,
        ["<5", "5-10", ">10"] * 20,
        ["XS", "S", "M", "42", "44"] * 20,
        [f"{i}{'ABN'[i % 3]}" for i in range(40)],
        [*PLAIN, *[f"{i}B" for i in range(3, 23)]],
    ],
    ids=lambda texts: texts[0],
)
def test_genuine_categories_stay_categories(texts: list[str]) -> None:
    assert typed(texts).type == CATEGORY


@pytest.mark.parametrize("unit", [" kg", "m", "cm", " %", "W", "N", "kW"])
@pytest.mark.parametrize("first", ["3", "1,013", "1.013,5", "1 013", "1'013"])
def test_a_unit_behind_every_number_is_no_category(first: str, unit: str) -> None:
    numbers = [first, *PLAIN]
    assert f"{first}{unit}" in refused([f"{number}{unit}" for number in numbers])


@pytest.mark.parametrize("unit", [" kg", "cm", " doors", " %", "k"])
def test_nor_is_one_behind_a_few_numbers(unit: str) -> None:
    assert "such as '2" in refused([f"{number}{unit}" for number in (2, 4, 6, 2)])


@pytest.mark.parametrize("texts", [["3G", "4G", "5G"], ["1WD", "2WD", "4WD"], ["1B", "2B", "3B"]])
def test_a_few_numbers_with_what_may_be_no_unit_are_names(texts: list[str]) -> None:
    assert typed(texts * 20).type == CATEGORY
    assert typed([texts[0], None]).type == CATEGORY


@pytest.mark.parametrize("units", [(" kg", " g"), ("k", "M"), (" h", " min"), ("MB", "GB")])
def test_nor_are_numbers_of_several_units(units: tuple[str, str]) -> None:
    texts = [f"{number}{units[i % 2]}" for i, number in enumerate(PLAIN)]
    assert f"such as '3{units[0]}' in row 1" in refused(texts)


def test_fewer_than_ten_of_several_units_or_three_of_one_are_categories() -> None:
    of_two = [*(f"{number} kg" for number in range(1, 9)), "800 g"]
    assert typed(of_two).type == CATEGORY
    assert "such as '1 kg' in row 1" in refused([*of_two, "900 g"])
    assert typed(["2 kg", "4 kg"]).type == CATEGORY


@pytest.mark.parametrize("text", ["- 38.1 %", "3.0k", "2 M", "+-4"])
def test_where_one_step_would_lose_something_none_is_proposed(text: str) -> None:
    assert "write them as plain numbers, or name" in refused([*PLAIN, text])


def test_a_letter_behind_a_few_of_many_numbers_is_not_taken_for_a_unit() -> None:
    assert refused([*PLAIN, "4B"]) == (
        "column 'x' must hold numbers but row 21 holds '4B'; correct it, or name the column as "
        "categorical"
    )


ISO = ["2023-01-31", "2023-02-01 10:30", "2023-02-01 10:30:01.5", None]


@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_dates_in_iso_form_are_timestamps_by_every_door(zone: str, tmp_path: Path) -> None:
    texts = [f"2023-01-{day:02} 10:30:00{zone}" for day in range(1, 29)]
    frame = pd.DataFrame({"at": texts, "x": range(28)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    times = frame.assign(at=pd.to_datetime(frame["at"]))
    doors = (frame, pl.from_pandas(frame), times, tmp_path / "x.csv", tmp_path / "x.parquet")
    hashes = {ingest(data, tmp_path / "store").hash for data in doors}
    assert len(hashes) == 1
    assert typed(ISO).type == TIMESTAMP
    assert typed(ISO, categorical=["x"]).type == CATEGORY


@pytest.mark.parametrize(
    "text",
    [
        *("31/01/2023", "01/31/2023", "1/2/23", "31.01.2023", "31-01-2023", "2023/01/31"),
        *("31-01-23", "31.01.23", "31.1.23"),
        *("2023.01.31", "2023-1-3", "31 Jan 2023", "31-JAN-23", "Jan 31, 2023"),
        *("31/01/2023 10:30", "01/31/2023 10:30:00 PM", "Tue, 31 January 2023"),
        *("20230131T103000Z", "20230131T1030", "31/Jan/2023:10:30:00 +0100"),
        *("Tue Jan 31 10:30:00 2023", "Tue Jan 31 10:30:00 CET 2023"),
        "Tue Jan 31 10:30:00 2023 +0100",
    ],
)
def test_dates_in_another_form_are_left_out_with_their_value(text: str) -> None:
    column = typed([text, None, text])
    assert column.type == OTHER
    reason, missing = column.to_pylist()[:2]
    assert reason.startswith(f"date in text written as {re.sub('[0-9]', '0', text)!r}")
    assert missing is None
    assert typed([text, None], categorical=["x"]).type == CATEGORY


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["01/13/2023", "02/03/2023"], "%m/%d/%Y"),
        (["31.1.2023", "1.12.2023"], "%d.%m.%Y"),
        (["31.01.99 10:30:05", "01.02.99 00:00:00"], "%d.%m.%y %H:%M:%S"),
        (["01/02/2023", "03/04/2023"], "%d/%m/%Y or %m/%d/%Y"),
        (["2023/01/31"], "%Y/%m/%d"),
        (["31.01.2023 10:30 +0100", "01.02.2023 10:30 -0500"], "%d.%m.%Y %H:%M %z"),
        (["31.01.2023 10:30:00Z"], "%d.%m.%Y %H:%M:%S%z"),
        (["31.01.2023", "2023-02-01"], "%d.%m.%Y"),
    ],
)
def test_dates_in_another_form_name_the_formats_that_read_all(
    texts: list[str], formats: str, tmp_path: Path
) -> None:
    (reason,) = set(typed(texts).to_pylist())
    assert reason.endswith(f", in the format {formats}")
    path = tmp_path / "dates.csv"
    path.write_text("\n".join(["day", *texts]))
    for form in formats.split(" or "):
        raw = source_of(f"{path}#date_format={form}").read()
        assert type_columns(raw)["day"].type == TIMESTAMP


@pytest.mark.parametrize("large", [2**63 - 1, -(2**63), 10**20])
def test_a_large_whole_number_among_small_ones_is_refused_with_its_row(large: int) -> None:
    values = [*map(str, range(99)), str(large)]
    with pytest.raises(InputError, match=f"but row 100 holds {large}, which is beyond 2.53"):
        typed(values)
    assert typed(values, numeric=["x"]).type in (pa.float64(), pa.int64())
    assert typed(values, categorical=["x"]).type == CATEGORY
    assert typed([*values, str(10**12)]).type == CATEGORY  # these are of all sizes
    assert typed([*values, *[str(large - large // 3)] * 9]).type == CATEGORY


@pytest.mark.parametrize("zones", [("Z", ""), ("", "+02:00"), ("+02:00", "")])
def test_times_of_which_some_lack_a_zone_are_left_out_as_such(zones: tuple[str, str]) -> None:
    texts = [f"2023-01-31 10:30:00{zone}" for zone in zones]
    for some in (texts, [*texts, "2023-01-31"]):
        (kind,) = set(typed(some).to_pylist())
        assert kind == "date in text with a zone in some rows and without one in others"
    assert typed([text[: len("2023-01-31 10:30:00")] for text in texts]).type == TIMESTAMP


@pytest.mark.parametrize("year", ["0000", "10000"])
def test_years_that_python_does_not_have_are_no_timestamps(year: str) -> None:
    assert typed([f"{year}-01-01", "2024-01-01", "2024-01-02"]).type != TIMESTAMP
    days = pa.array([f"{year[-4:]}-01-01"]).cast(pa.date32())
    if len(year) > 4:
        days = pa.array([pa.scalar(2932897, pa.int32())]).cast(pa.date32())
    column = type_columns(pa.table({"x": days}), has_others=True)["x"]
    assert column.to_pylist() == ["timestamp beyond the years 1 to 9999"]


@pytest.mark.parametrize(
    "wrong", ["2024-02-30", "31.01.2024", "-", "0000-00-00", "2024-01-01T25:00"]
)
def test_the_one_text_among_iso_dates_that_is_none_is_named(wrong: str) -> None:
    days = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 20)]
    kinds = typed([*days[:5], wrong, *days[5:]]).to_pylist()
    assert kinds[5] == f"date in text but for {wrong!r}"
    assert set(kinds[:5]) == {"date in text written as '0000-00-00'"}


@pytest.mark.parametrize("others", [["0000-00-00"], ["2024-13-45", "2024-14-45"], ["-1", "0"]])
def test_so_are_several_that_are_no_words(others: list[str]) -> None:
    days = DAYS[: len(others) + 1]
    kinds = typed([*days, *others]).to_pylist()
    assert kinds[len(days) :] == [f"date in text but for {other!r}" for other in others]
    assert typed([*days, *others], categorical=["x"]).type == CATEGORY


DAYS = ["2024-01-03", "2024-01-04", "2024-02-01", "2024-02-02"]


@pytest.mark.parametrize(
    "wrong",
    [
        *("2024-02-30", "2024-13-45", "2024-01-1O", "20240105", "31.01.2024", "24-1-05"),
        *("2024-01-31 24:00:00", "2024-01-31T23:59:60", "0000-01-01", "0", "-", "n/a"),
    ],
)
def test_so_is_the_one_among_few_where_it_looks_like_a_date(wrong: str) -> None:
    kinds = typed([*DAYS, wrong]).to_pylist()
    assert kinds == [
        *["date in text written as '0000-00-00'"] * 4,
        f"date in text but for {wrong!r}",
    ]
    assert typed([*DAYS, wrong], categorical=["x"]).type == CATEGORY


@pytest.mark.parametrize(
    "texts",
    [
        [*DAYS, "never"],
        [*DAYS, "v2.1"],
        [*DAYS, "FY2025"],
        [*DAYS, "never", "0"],
    ],
)
def test_categories_beside_a_few_dates_stay_categories(texts: list[str]) -> None:
    assert typed(texts).type == CATEGORY
    # but for a time, which has no categories
    assert typed(texts, ordered=["x"])[-1].as_py() == f"date in text but for {texts[-1]!r}"


@pytest.mark.parametrize("texts", [["1.2.10", "1.18.22"], ["20-00-00", "30-11-22"]])
def test_versions_and_codes_that_resemble_dates_are_categories(texts: list[str]) -> None:
    assert typed(texts).type == CATEGORY


def test_a_word_for_missing_beside_dates_in_another_form_does_not_hide_their_form() -> None:
    (kind,) = set(typed(["31.01.2023", "01.02.2023", "-"]).to_pylist())
    assert kind == "date in text written as '00.00.0000', in the format %d.%m.%Y"


def test_a_column_of_iso_dates_with_some_others_is_one_of_dates() -> None:
    assert typed([*["2023-01-31"] * 3, "31/01/2023"]).type == OTHER


def test_the_column_types_do_not_depend_on_the_order_of_rows() -> None:
    texts = ["01/02/2023", "31/01/2023", None]
    assert typed(texts).drop_null()[0] == typed(texts[::-1]).drop_null()[0]
