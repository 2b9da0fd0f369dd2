"""What a table is described as: its task, features and figures."""

import json
import re
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.storage.datasets import dataset
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.sources import source_of
from chaffinch.tasks.data.column_profile import profile_column
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.sources import ingest
from tests.synthetic import good_table
from tests.tasks.data.synthetic_table import N, described, numbers, table_with, text


@pytest.mark.parametrize(
    ("target", "task", "classes", "reason"),
    [
        (text(["b", "a"] * (N // 2)), "classification", ("b", "a"), "the target is text"),
        (pa.array([True, False] * (N // 2)), "classification", ("false", "true"),
         "the target is true or false"),
        (pa.array([10, 9, -1] * 20), "classification", ("-1", "9", "10"),
         "the target has only 3 different whole numbers"),
        (pa.array([10.0, 9.0] * 30), "classification", ("9", "10"),
         "the target has only 2 different whole numbers"),
        (pa.array([0.5, 1.0] * 30), "regression", (), "the target has numbers that are not whole"),
        (pa.array(np.arange(N) % 21), "regression", (),
         "the target has 21 different numbers, more than 20"),
    ],
)  # fmt: skip
def test_the_task_is_read_off_the_target(target, task, classes, reason):
    description = described(table_with(y=target))

    assert (description.task, description.classes) == (task, classes)
    assert description.task_reason == reason
    # three whole numbers may be classes, or count something
    assert any("taken for classes" in note for note in description.notes) == (len(classes) == 3)


def test_the_settings_have_the_last_word_on_the_task():
    assert described(table_with(y=[1, 2] * 30), task="regression").classes == ()
    assert described(table_with(y=[1, 2, 3] * 20), task="classification").notes == ()
    many = np.arange(400) % 40
    table = pa.table({"a": numbers(1, 400), "y": many})
    assert len(described(table, task="classification").classes) == 40


def test_features_are_what_is_left_sorted_by_name():
    description = described(
        table_with(
            code=text([f"#{i}" for i in range(N)]),
            kept_code=text([f"#{i}" for i in range(N)]),
            same=np.ones(N),
            empty=pa.nulls(N, pa.float64()),
            flag=pa.array([1.0, None] * (N // 2)),
            colour=text(["red", "blue", None, "red"] * 15),
            dropped=numbers(5),
            w=np.ones(N),
            g=text([f"g{i % 20}" for i in range(N)]),
        ),
        keep=("kept_code",),
        drop=("dropped",),
        weight="w",
        group="g",
    )

    assert description.features == ("a", "b", "colour", "flag", "kept_code")
    assert description.n_categories == (0, 0, 2, 0, N)
    assert description.categories["colour"] == ("red", "blue")
    assert description.excluded == {
        "code": "identifier: every value is different",
        "same": "constant",
        "empty": "every value is missing",
    }
    assert description.schema == Schema(description.features, (0, 0, 2, 0, N), 2)
    roles = {row["name"]: row["role"] for row in description.profile}
    assert [roles[n] for n in ("y", "a", "same", "dropped", "w", "g")] == [
        "target", "feature", "excluded", "drop", "weight", "group",
    ]  # fmt: skip


def test_numbers_and_some_other_texts_are_no_identifier_though_all_values_differ():
    measure = text([f"<{i}" if i % 10 == 0 else f"{i / 8}" for i in range(N)])
    why = described(table_with(measure=measure)).excluded["measure"]
    assert why.startswith("numbers but for text such as '<0': unless it is an identifier, leave")
    named = described(table_with(measure=measure), categorical=("measure",)).excluded
    assert named == {"measure": "identifier: every value is different"}


@pytest.mark.parametrize(
    "wrong",
    [
        *("0000-00-00", "2024-02-30", "2024-13-01", "-", "?", "x" * 300),
        *("31.02.2024", "20240230", "0", "2024-01-31 24:00:00", "2024-01-31T23:59:60Z"),
    ],
)
def test_what_is_no_date_at_all_is_named_with_the_option_that_leaves_it_empty(wrong, tmp_path):
    days = [f"1980-{i % 12 + 1:02}-{i % 28 + 1:02}" if i else wrong for i in range(N)]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["born", *days]))
    born = type_columns(source_of(path).read(), has_others=True)["born"]
    why = described(table_with(born=born), dates="parts").excluded["born"]
    option = re.search(r"add (#na=\S+) to", why)
    if wrong.startswith("x"):  # no word that is known to stand for a missing value
        assert wrong not in why
        return
    assert repr(wrong) in why
    read = type_columns(source_of(f"{path}{option[1]}").read())["born"]
    assert read.type == pa.timestamp("us")
    assert read.null_count == 1


def test_a_date_of_another_form_has_its_format_as_remedy(tmp_path):
    days = [f"1980-{i % 12 + 1:02}-{i % 28 + 1:02}" if i else "31.12.1980" for i in range(N)]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["born", *days]))
    born = type_columns(source_of(path).read(), has_others=True)["born"]
    why = described(table_with(born=born), dates="parts").excluded["born"]
    (option,) = re.findall(r"add (#date_format=\S+) to", why)
    assert type_columns(source_of(f"{path}{option}").read())["born"].null_count == 0


def test_times_of_which_some_lack_a_zone_are_left_out_with_a_remedy_that_keeps_the_time():
    times = [f"1980-01-31 10:{i % 60:02}{'Z' if i % 2 else ''}" for i in range(N)]
    seen = type_columns(pa.table({"seen": times}), has_others=True)["seen"]
    why = described(table_with(seen=seen), dates="parts").excluded["seen"]
    assert "write all with a zone, as in 2023-01-31 08:00+01:00, or all without" in why


def test_categories_that_do_not_occur_are_not_counted():
    colour = pa.DictionaryArray.from_arrays(
        pa.array([0, 2] * (N // 2), pa.int32()), pa.array(["blue", "green", "red"])
    )
    assert described(table_with(colour=colour)).categories == {"colour": ("blue", "red")}


def test_the_profile_in_figures():
    description = described(
        table_with(
            x=pa.array([1.0, 2.0, 3.0, None] * 15),
            flag=pa.array([True, True, False, None] * 15),
            colour=text(["red", "blue", None, "red"] * 15),
            when=pa.array([1, 2, 3] * 20, pa.timestamp("us")),
        ),
        drop=("when",),
    )
    rows = {row["name"]: row for row in description.profile}

    nothing = dict.fromkeys(("minimum", "mean", "maximum", "standard_deviation", "most_frequent"))
    nothing["counts"] = None
    x = {"minimum": 1.0, "mean": 2.0, "maximum": 3.0}
    x["counts"] = (15, *[0] * 5, 15, *[0] * 4, 15)
    x["standard_deviation"] = pytest.approx(np.sqrt(2 / 3))
    common = {"role": "feature", "rows": N}
    assert rows["x"] == nothing | common | x | {
        "name": "x", "type": "float64", "missing": 15, "distinct": 3,
    }  # fmt: skip
    assert rows["flag"] == nothing | common | {
        "name": "flag", "type": "bool", "missing": 15, "distinct": 2, "most_frequent": "true",
        "counts": (30, 15),
    }  # fmt: skip
    assert rows["colour"] == nothing | common | {
        "name": "colour", "type": "category", "missing": 15, "distinct": 2, "most_frequent": "red",
        "counts": (30, 15),
    }  # fmt: skip
    assert rows["when"] == nothing | common | {
        "name": "when", "role": "drop", "type": "timestamp", "missing": 0, "distinct": 3,
    }  # fmt: skip


@given(
    st.lists(st.floats(-1e9, 1e9) | st.integers(0, 9).map(float), min_size=1, max_size=300),
)
def test_counts_are_those_of_a_histogram(values):
    kind = profile_column("x", "feature", "float64", pa.array(values), np.array(values), ())
    assert sum(kind.counts) == len(values)
    if min(values) == max(values):
        assert kind.counts == (len(values),)
        return
    low, high = min(values), max(values)
    width = (high - low) / 12
    for i in range(12):  # but for values on the border of two intervals
        inside = sum(low + (i + 1e-9) * width < v < low + (i + 1 - 1e-9) * width for v in values)
        border = sum(low + (i - 1e-9) * width <= v <= low + (i + 1 + 1e-9) * width for v in values)
        assert inside <= kind.counts[i] <= border


def test_more_categories_than_bars_are_counted_together():
    rows = [code for code in range(15) for _ in range(code + 1)]
    names = tuple(f"c{code:02}" for code in range(15))
    column = pa.array([names[code] for code in rows])
    kind = profile_column("x", "feature", "category", column, np.array(rows, float), names)
    assert kind.counts == (15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 10)
    assert kind.most_frequent == "c14"


def test_the_description_is_plain_json_whatever_the_numbers():
    huge, tiny = np.tanh(numbers(3)) * 1.7e308, numbers(4) * 5e-324
    description = described(table_with(huge=huge, tiny=tiny), drop=("huge", "tiny"))
    json.dumps(asdict(description), allow_nan=False)

    rows = {row["name"]: row for row in description.profile}
    assert rows["huge"]["standard_deviation"] is None
    assert [sum(rows[name]["counts"]) for name in ("huge", "tiny")] == [N, N]


def test_large_identifiers_are_counted_exactly():
    row = described(table_with(number=[2**62 + i for i in range(N)])).profile[-1]
    assert row["distinct"] == N


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(seed):
    table = table_with(
        flag=pa.array([1.0, None] * (N // 2)),
        copy=pa.array(numbers(1)),
        colour=text(["red", "blue", "green"] * 20),
    )
    order = np.random.default_rng(seed).permutation(N)
    one, other = described(table), described(table.take(order))

    assert one.features == other.features
    assert one.warnings == other.warnings
    for row, same in zip(one.profile, other.profile, strict=True):
        assert row == {k: pytest.approx(v) if k == "mean" else v for k, v in same.items()} | {
            "standard_deviation": pytest.approx(same["standard_deviation"])
        }


def test_a_dataset_is_described_column_by_column_as_the_whole_table_is(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "_CELLS_AT_A_TIME", 2 * len(good_table()))
    stored = ingest(good_table(), tmp_path)
    asked = SelectionSettings(target="churned")
    assert dataset.LazyTable(stored).schema == stored.read().schema
    by_column = describe_table(dataset.LazyTable(stored), asked)
    assert by_column == describe_table(stored.read(), asked)


@pytest.mark.parametrize(
    ("value", "loss", "warned"),
    [(1e6, None, True), (3.0, None, False), (1e6, "absolute_error", False)],
)
def test_one_value_of_the_target_that_decides_the_squared_error_is_warned_of(value, loss, warned):
    y = np.random.default_rng(0).normal(size=N)
    y[7] = value
    table = table_with(y=pa.array(y))
    warnings = describe_table(table, SelectionSettings(target="y", loss=loss)).warnings
    assert (
        any("one value of target 'y', 1e+06, makes up 100.0%" in one for one in warnings) == warned
    )


FEW = numbers(5).tolist()


@pytest.mark.parametrize(
    ("values", "sentinel"),
    [
        ([-999.0] * 4 + FEW[4:], -999),
        ([9999.0] * 4 + FEW[4:], 9999),
        ([-9.0] * 4 + [1000 * abs(value) for value in FEW[4:]], -9),
        ([999.0] * 2 + FEW[2:], None),  # too few
        ([998.0] * 4 + FEW[4:], None),  # no such number
        ([99.0] * 4 + [30.0 + i % 60 for i in range(N - 4)], None),  # others lead up to it
        ([-9.0] * 4 + [i % 20 - 8.0 for i in range(N - 4)], None),
        ([0.0, 99.0] * (N // 2), None),  # two codes
    ],
)
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_number_that_seems_to_stand_for_a_missing_value_is_warned_of(name, values, sentinel):
    table = table_with(**{name: values})
    found = [one for one in described(table, task="auto").warnings if "#na=" in one]
    assert len(found) == (sentinel is not None)
    for warning in found:
        assert warning.startswith(f"column {name!r} is {sentinel} in 4 rows")
        assert warning.endswith(f"#na={sentinel}")
