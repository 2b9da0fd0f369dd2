"""Options behind the path of delimited text say how its numbers, dates and words are written."""

import gzip
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from chaffinch import InputError
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.sources import source_of

READ = {
    "decimal commas": ("a;b\n1,5;2\n-,25;3\n", "decimal=,", {"a": [1.5, -0.25], "b": [2, 3]}),
    "marks of thousands": (
        "a;b\n1.234,5;1.000\n2,5;20\n",
        "decimal=,&thousands=.",
        {"a": [1234.5, 2.5], "b": [1000, 20]},
    ),
    "blanks as marks": ("a;b\n1 234;1e3\n2;5\n", "thousands=%20", {"a": [1234, 2], "b": [1e3, 5]}),
    "groups of two": (
        "a;b\n12,45,336;1,200\n1;2\n",
        "thousands=,",
        {"a": [1245336, 1], "b": [1200, 2]},
    ),
    "no groups before an exponent": (
        "a;b\n1,234E+03;0,406\n1;2\n",
        "thousands=,",
        {"a": ["1,234E+03", "1"], "b": ["0,406", "2"]},
    ),
    "no groups of three": (
        "a;b\n1.23.4;01.02.2024\n1;2\n",
        "decimal=,&thousands=.",
        {"a": ["1.23.4", "1"], "b": ["01.02.2024", "2"]},
    ),
    "leading zeros": ("a;b\n00,5;007\n1;008\n", "decimal=,", {"a": [0.5, 1], "b": ["007", "008"]}),
    "dates": (
        "a,b\n31.01.2024,2024-01-31\n01.02.2024,2024-02-01\n",
        "date_format=%d.%m.%Y",
        {
            "a": [datetime(2024, 1, 31), datetime(2024, 2, 1)],
            "b": [date(2024, 1, 31), date(2024, 2, 1)],
        },
    ),
    "dates beside ISO dates": (
        "a,b\n31.01.2024,1\n2024-02-01,2\n31.02.2024,3\n",
        "date_format=%d.%m.%Y",
        {"a": ["2024-01-31", "2024-02-01", "31.02.2024"], "b": [1, 2, 3]},
    ),
    "dates that pandas wrote as numbers": (
        "a,b\n20240131.0,1\n20240201.0,2\n,3\n",
        "date_format=%Y%m%d",
        {"a": [datetime(2024, 1, 31), datetime(2024, 2, 1), None], "b": [1, 2, 3]},
    ),
    "times with an offset": (
        "a,b\n31.01.2024 10:30+0200,31.01.2024 10:30\n01.02.2024 00:00-05:30,-\n",
        "date_format=%d.%m.%Y %H:%M%z",
        {
            "a": [
                datetime(2024, 1, 31, 8, 30, tzinfo=UTC),
                datetime(2024, 2, 1, 5, 30, tzinfo=UTC),
            ],
            "b": ["31.01.2024 10:30", "-"],
        },
    ),
    "months by name": (
        "a,b\n31-JAN-24,1\n01-feb-24,2\n",
        "date_format=%d-%b-%y",
        {"a": [datetime(2024, 1, 31), datetime(2024, 2, 1)], "b": [1, 2]},
    ),
    "a number for missing": ("a,b\n1,x\n-9.0,y\n", "na=-9", {"a": [1, None], "b": ["x", "y"]}),
    "words for missing": ("a,b\n1,x\n-,?\n", "na=-|?", {"a": [1, None], "b": ["x", None]}),
    "a delimiter": ("a:b\n1:2,5\n", "delimiter=:&decimal=,", {"a": [1], "b": [2.5]}),
    "tabs below commas": ("a,x\tb\n1\t2\n", "delimiter=tab", {"a,x": [1], "b": [2]}),
    "a comma in quotes": ('m;"a, ""x"" b";y\n1;2;3\n', "", {"m": [1], 'a, "x" b': [2], "y": [3]}),
    "a semicolon in quotes": ('"a;b",y\n1,2\n', "", {"a;b": [1], "y": [2]}),
    "a comma in quotes over two lines": ('m;"a,\nb"\n1;2\n', "", {"m": [1], "a,\nb": [2]}),
    "comments": ("# x, y\n\n# z\na,b\n1,2\n", "comment=%23", {"a": [1], "b": [2]}),
    "a mark of Excel": ("sep=;\na,x;b\n1;2\n", "", {"a,x": [1], "b": [2]}),
    "a mark and an option": ("sep=;\na,b\n1,2\n", "delimiter=,", {"a": [1], "b": [2]}),
    "text of Windows": ("é,b\nü,2\n".encode("cp1252"), "encoding=cp1252", {"é": ["ü"], "b": [2]}),
    "UTF-16": ("é,b\nü,2\n".encode("utf-16"), "encoding=utf-16", {"é": ["ü"], "b": [2]}),
}


@pytest.mark.parametrize(("text", "options", "expected"), READ.values(), ids=READ.keys())
def test_text_is_read_as_its_options_say(
    tmp_path: Path, text: str | bytes, options: str, expected: dict[str, list]
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = source_of(f"{path}#{options}" if options else path)
    table = source.read()
    assert table.to_pydict() == expected
    assert source.columns() == list(source.column_bytes()) == list(expected)
    assert source.shape() == table.shape
    assert source_of(source.address).read().equals(table)
    assert source.name == "x.csv"


def test_a_type_that_only_a_later_row_rules_out_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b\n" + "1.500;1\n" * 300_000 + "1,5;1\n")
    column = source_of(f"{path}#decimal=,&thousands=.").read().column("a")
    assert column.type == pa.float64()
    assert column.to_pylist()[0] == 1500
    assert column.to_pylist()[-1] == 1.5


def test_other_options_are_other_content_and_a_mark_in_a_name_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1.500;2\n")
    plain, marked = source_of(path), source_of(f"{path}#decimal=,")
    assert plain.fingerprint() != marked.fingerprint()
    assert source_of(f"{path}#decimal=,").fingerprint() == marked.fingerprint()
    odd = path.rename(tmp_path / "x.csv#decimal=,")
    with pytest.raises(InputError, match="has no known ending"):
        source_of(odd).read()
    address = "s3://bucket/x.csv#decimal=,"
    assert source_of(address).address == str(source_of(address)) == address


REFUSED = {
    "unknown": ("x.csv#decmal=,", r"^x.csv has no option 'decmal'; nearest: decimal; options are"),
    "without a value": ("x.csv#decimal", r"^option decimal of x.csv needs one value"),
    "twice": ("x.csv#na=a&na=b", r"^option na of x.csv needs one value"),
    "two marks": ("x.csv#decimal=,,", r"^decimal of x.csv must be a single mark but is ',,'"),
    "a digit": ("x.csv#thousands=1", r"^thousands of x.csv must be a single mark but is '1'"),
    "equal marks": ("x.csv#thousands=.", r"^decimal and thousands of x.csv must differ"),
    **{
        f"a date_format {form}": (
            f"x.csv#date_format={form}",
            rf"^date_format of x.csv is '{re.escape(form)}', by which no dates are read; give",
        )
        for form in ("dd.mm.yyyy", "%d.%m", "%d.%m.%Y %Z", "%d.%m.%Y %H:%M:%S.%f", "%z %d.%m.%Y")
    },
    "no codec": ("x.csv#encoding=latin-99", r"^encoding 'latin-99' of x.csv is unknown; give"),
    "no codec of text": ("x.csv#encoding=hex", r"^encoding 'hex' of x.csv is unknown; give"),
    "another codec": ("x.csv#encoding=utf-16", r"^the header of x.csv is not text in utf-16"),
    "another format": ("x.parquet#decimal=,", r"^x.parquet takes no options; leave out #decimal"),
}


@pytest.mark.parametrize(("name", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_options_that_say_nothing_are_refused_in_one_line(
    tmp_path: Path, name: str, message: str
) -> None:
    for file in ("x.csv", "x.parquet"):
        (tmp_path / file).write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=message) as caught:
        source_of(f"{tmp_path}/{name}").read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "values", "value", "row"),
    [
        ("decimal=,&thousands=.", ["4.364", "806", "12.50"], "12.50", 3),
        ("decimal=,", ["28.455", "28455"], "28.455", 1),
        ("decimal=,", ["2,5", "6,75", "1 234,5"], "1 234,5", 3),
        ("decimal=,&thousands=.", ["1.234,5", "6,75", "1 200"], "1 200", 3),
        ("thousands=%20", ["1 234", "6", "1,5"], "1,5", 3),
    ],
)
def test_a_number_in_other_marks_is_refused_but_in_a_category_or_a_column_to_drop(
    tmp_path: Path, options: str, values: list[str], value: str, row: int
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["k;b", *(f"{value};1" for value in values)]))
    source = source_of(f"{path}#{options}")
    said = (
        f"^column 'k' of x.csv holds '{value}' in row {row}, which is no number in the marks of #"
    )
    with pytest.raises(InputError, match=said):
        source.read()
    assert source.read(["k"]).column("k").to_pylist() == values
    assert source.read(drop=["k"]).column("b").to_pylist() == [1] * len(values)


def test_words_among_numbers_leave_the_numbers_in_the_usual_marks(tmp_path: Path) -> None:
    """So that a word is refused as a word, and no number for its marks."""
    path = tmp_path / "x.csv"
    path.write_text("k;size\n1.623,42;1,5\n2,5;XL\nSumme;L\n")
    table = source_of(f"{path}#decimal=,&thousands=.").read()
    assert table.to_pydict() == {"k": ["1623.42", "2.5", "Summe"], "size": ["1,5", "XL", "L"]}


@pytest.mark.parametrize("text", ["31.02.2024", "01.02.98", "32.01.2024"])
def test_what_is_no_date_in_the_format_stays_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"day,b\n1.2.2024,1\n{text},2\n")
    column = source_of(f"{path}#date_format=%d.%m.%Y").read().column("day")
    assert column.to_pylist() == ["1.2.2024", text]


def test_a_mark_of_utf_8_contradicts_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("größe,b\n1,2\n", encoding="utf-8-sig")
    with pytest.raises(InputError, match=r"^x.csv begins with the mark of UTF-8; leave out encod"):
        source_of(f"{path}#encoding=cp1252").read()


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
@pytest.mark.parametrize("option", ["", "#encoding=cp1252"])
def test_a_mark_of_utf_16_says_which_encoding_to_give(
    tmp_path: Path, order: str, ending: str, option: str
) -> None:
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"
    rows = f"{mark}größe\tb\n1\tü\n" if ending == "tsv" else f"{mark}größe,b\n1,ü\n"
    written = rows.encode(f"utf-16-{order}")
    path = tmp_path / f"x.{ending}"
    path.write_bytes(gzip.compress(written) if ending.endswith("gz") else written)
    with pytest.raises(InputError, match=rf"^x.{ending} begins with .*x.{ending}#encoding=utf-16$"):
        source_of(f"{path}{option}").read()
    assert source_of(f"{path}#encoding=utf-16").read().to_pydict() == {"größe": [1], "b": ["ü"]}


def test_dates_of_digits_alone_are_no_numbers_if_their_format_is_given(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("day,amount\n20240818,20240818\n20231201,7\n")
    table = type_columns(source_of(f"{path}#date_format=%Y%m%d").read())
    assert table.column("day").to_pylist() == [datetime(2024, 8, 18), datetime(2023, 12, 1)]
    assert table.column("amount").to_pylist() == [20240818, 7]


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        *(("%Y%m%d", text) for text in ("20240230", "0", "00000000", "99999999", "0.0")),
        *(("%d.%m.%Y", text) for text in ("31.02.2024", "00.00.0000", "0")),
        *(("%d.%m.%Y %H:%M%z", text) for text in ("31.02.2024 10:00+0100", "01.02.2024 24:00Z")),
    ],
)
@pytest.mark.parametrize("n_days", [3, 99])
def test_one_value_that_is_none_makes_no_numbers_of_dates(
    tmp_path: Path, form: str, wrong: str, n_days: int
) -> None:
    start = datetime(1900, 1, 1, tzinfo=UTC)
    days = [(start + timedelta(days=i)).strftime(form) for i in range(n_days)]
    path = tmp_path / "x.csv"
    for texts in ([*days, wrong], [wrong, *days]):
        path.write_text("\n".join(["day,b", *(f"{text},1" for text in texts)]))
        raw = source_of(f"{path}#date_format={form}").read()
        kinds = type_columns(raw, has_others=True)["day"].to_pylist()
        assert kinds[texts.index(wrong)] == f"date in text but for {wrong!r}"
        assert len(set(kinds)) == 2
        left_empty = source_of(f"{path}#date_format={form}&na={quote(wrong)}").read()
        column = type_columns(left_empty)["day"]
        assert column.type == pa.timestamp("us")
        assert column.null_count == 1


@pytest.mark.parametrize("n_others", [1, 9, 10, 11])
def test_a_time_column_in_a_given_format_is_no_longer_said_to_be_in_another(
    tmp_path: Path, n_others: int
) -> None:
    texts = [f"{i + 10}.01.2024" for i in range(10)] + [f"day {i}" for i in range(n_others)]
    (tmp_path / "x.csv").write_text("\n".join(["day,b", *(f"{text},1" for text in texts)]))
    raw = source_of(f"{tmp_path / 'x.csv'}#date_format=%d.%m.%Y").read()
    kinds = type_columns(raw, ordered=["day"], has_others=True)["day"].to_pylist()
    # those that are none, where most are dates; else the column is text
    mostly = [f"date in text but for {text!r}" for text in texts[10:]]
    assert kinds[10:] == (mostly if n_others < 10 else texts[10:])


@pytest.mark.parametrize(("mark", "option"), [(";", ";"), ("|", "|"), ("\t", "tab")])
def test_a_comma_that_is_taken_for_the_delimiter_has_a_remedy(
    tmp_path: Path, mark: str, option: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"m,n{mark}y\n1,5{mark}2,5\n")
    with pytest.raises(InputError, match=r"must have 2 fields .* has 3; correct it") as caught:
        source_of(path).read()
    (offered,) = re.findall(r"or add (#delimiter=\S+) to the path$", str(caught.value))
    assert offered == f"#delimiter={option}"
    assert source_of(f"{path}{offered}&decimal=,").read().to_pydict() == {"m,n": [1.5], "y": [2.5]}
