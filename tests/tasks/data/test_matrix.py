"""A typed table becomes numbers: codes, zeros and ones, NaN; and baselines of the training rows."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.tasks.data.arrow import categories_of
from chaffinch.tasks.data.matrix import (
    baseline_values,
    feature_matrix,
    load_roles,
    load_rows,
    roles_of,
)
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.tasks.data.synthetic_table import text

NAN = np.nan


class TableAsDataset:
    """A table in memory that remembers how much was read of it at once."""

    def __init__(self, table):
        self.table, self.widest = table, 0

    def read(self, columns):
        self.widest = max(self.widest, len(columns))
        return self.table.select(columns)


def table_of_all_kinds(n=40):
    random = np.random.default_rng(0)
    return pa.table(
        {
            "number": pa.array(random.normal(size=n), mask=random.random(n) < 0.2),
            "count": pa.array(random.integers(0, 9, n), mask=random.random(n) < 0.2),
            "flag": pa.array(random.random(n) < 0.5, mask=random.random(n) < 0.2),
            "colour": text(random.choice(["blue", "green", "red"], n).tolist()),
            "weight": pa.array(random.random(n) + 0.1),
            "group": text([f"g{i % 12}" for i in range(n)]),
            "y": text([["no", "yes"][i % 2] for i in range(n)]),
        }
    )


def test_every_kind_of_column_as_numbers():
    table = pa.table(
        {
            "number": pa.array([0.5, None, -2.0]),
            "count": pa.array([3, None, 2**40]),
            "flag": pa.array([True, None, False]),
            "colour": text(["red", None, "blue"]),
            "unused": text(["a", "b", "c"]),
        }
    )
    matrix = feature_matrix(
        table, ["colour", "flag", "count", "number"], {"colour": ("blue", "green", "red")}
    )

    expected = [[2, 1, 3, 0.5], [NAN, NAN, NAN, NAN], [0, 0, 2**40, -2]]
    np.testing.assert_array_equal(matrix, expected)
    assert matrix.dtype == np.float64
    assert matrix.flags.f_contiguous


def test_codes_follow_the_categories_given_whatever_the_dictionaries_of_the_chunks():
    chunks = pa.chunked_array([text(["b", "a"]), text(["c", "b", None]), text([])])
    table = pa.table({"letter": chunks})

    codes = feature_matrix(table, ["letter"], {"letter": ("a", "b", "c")})[:, 0]
    np.testing.assert_array_equal(codes, [1, 0, 2, 1, NAN])


@pytest.mark.parametrize(
    "texts",
    [
        ["1.0", "2.0", "+30"],
        ["TRUE", "false"],
        ["2024-01-31 00:00:00", "2024-02-01"],
        ["2024-01-31T08:00:00+01:00", "2024-01-31 08:00Z", "2024-01-31 09:30:00.5-0500"],
    ],
)
@pytest.mark.parametrize("beside", [[], ["never"]])
def test_the_code_of_a_value_does_not_depend_on_the_others_of_its_batch(texts, beside):
    def typed(values):
        return type_columns(pa.table({"c": values}), categorical=["c"])

    known = categories_of(typed(texts + beside).column("c"))
    found = set()
    for value in texts:
        batches = [value], [value, "other"], texts, [*texts, "other"]
        codes = [feature_matrix(typed(b), ["c"], {"c": known})[b.index(value), 0] for b in batches]
        assert codes == codes[:1] * len(batches)
        found.add(codes[0])
    assert found <= set(range(len(known)))
    assert len(found) == len(texts)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))),
    cut=st.integers(0, 20),
)
def test_numbers_survive_to_the_last_bit_in_any_chunks(values, cut):
    chunks = [pa.array(values[:cut], pa.float64()), pa.array(values[cut:], pa.float64())]
    matrix = feature_matrix(pa.table({"x": pa.chunked_array(chunks)}), ["x"], {})

    expected = np.array([NAN if v is None else v for v in values], dtype=np.float64)
    np.testing.assert_array_equal(matrix[:, 0], expected)


@pytest.mark.parametrize(
    ("column", "categories", "message"),
    [
        ({"colours": pa.array([1.0])}, {},
         "feature 'colour' is no column of the table; did you mean 'colours'?"),
        ({"colour": pa.array([1.0])}, {"colour": ("a",)},
         "feature 'colour' holds numbers but was described as categories"),
        ({"colour": text(["a"])}, {}, "feature 'colour' holds text but was described as numbers"),
        ({"colour": pa.array([0], pa.timestamp("us"))}, {}, "feature 'colour' holds timestamps"),
        ({"colour": pa.array([[1]])}, {}, "column 'colour' has type list<"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(column, categories, message):
    with pytest.raises(InputError, match=re.escape(message)):
        feature_matrix(pa.table(column), ["colour"], categories)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([7, 3, 3, 11] * 8), [1, 0, 0, 2] * 8),
        (pa.array([7.0, 3.0, 3.0, -1.0] * 8), [2, 1, 1, 0] * 8),
        (pa.array([True, False, False, True] * 8), [1, 0, 0, 1] * 8),
        (text(["no", "yes", "yes", "no"] * 8), [0, 1, 1, 0] * 8),
        (pa.array([0.5, 1.25, 2.0, 3.0] * 8), [0.5, 1.25, 2.0, 3.0] * 8),
    ],
)
def test_the_target_as_class_indices_or_values(column, expected):
    table = pa.table({"x": np.random.default_rng(0).normal(size=32), "y": column})
    chosen = SelectionSettings(target="y")
    y = roles_of(table, chosen, describe_table(table, chosen)).y

    np.testing.assert_array_equal(y, expected)
    assert y.dtype == (np.float64 if expected[0] == 0.5 else np.int64)


def test_a_class_that_was_never_described_is_refused():
    table = table_of_all_kinds()
    chosen = SelectionSettings(target="y", columns=ColumnSettings(drop=("group",)))
    description = describe_table(table, chosen)
    other = pa.table({"y": text(["no", "maybe"])})
    with pytest.raises(InputError, match="target 'y' is 'maybe' in row 2, which is none of the 2"):
        roles_of(other, chosen, description)
    whole = pa.table({"x": np.arange(32.0), "y": [0, 1] * 16})
    plain = SelectionSettings(target="y")
    binary = describe_table(whole, plain)
    with pytest.raises(InputError, match="target 'y' is 5 in row 1"):
        roles_of(pa.table({"y": [5, 0]}), plain, binary)
    with pytest.raises(InputError, match="target 'y' is None in row 2"):
        roles_of(pa.table({"y": [1, None]}), plain, binary)


def test_rows_are_the_chosen_ones_in_the_order_asked_for():
    table = table_of_all_kinds()
    chosen = SelectionSettings(target="y", columns=ColumnSettings(weight="weight", group="group"))
    description = describe_table(table, chosen)
    index = np.array([30, 2, 17])
    rows = load_rows(TableAsDataset(table), chosen, description, index)
    every = load_rows(TableAsDataset(table), chosen, description)

    assert description.features == ("colour", "count", "flag", "number")
    np.testing.assert_array_equal(rows.X, every.X[index])
    mask = np.array([True, False, False, True])
    masked = load_rows(TableAsDataset(table), chosen, description, index, mask)
    np.testing.assert_array_equal(masked.X, rows.X[:, mask])
    np.testing.assert_array_equal(rows.y, [0, 0, 1])
    np.testing.assert_array_equal(rows.weight, table["weight"].to_numpy()[index])
    whole = feature_matrix(table, description.features, description.categories)
    np.testing.assert_array_equal(every.X, whole)


def test_a_tall_dataset_is_read_few_columns_at_a_time(monkeypatch):
    table = table_of_all_kinds()
    chosen = SelectionSettings(target="y", columns=ColumnSettings(drop=("group", "weight")))
    description = describe_table(table, chosen)
    monkeypatch.setattr("chaffinch.tasks.data.matrix._CELLS_AT_A_TIME", 80)
    dataset = TableAsDataset(table)
    rows = load_rows(dataset, chosen, description, np.arange(3))

    assert dataset.widest == 2
    np.testing.assert_array_equal(
        rows.X, feature_matrix(table, description.features, description.categories)[:3]
    )


def test_roles_are_read_without_the_features():
    table = table_of_all_kinds()
    chosen = SelectionSettings(target="y", columns=ColumnSettings(weight="weight", group="group"))
    description = describe_table(table, chosen)
    roles = load_roles(TableAsDataset(table.select(["y", "weight", "group"])), chosen, description)

    assert roles.times is None
    np.testing.assert_array_equal(roles.weight, table["weight"].to_numpy())
    in_order = sorted(set(table["group"].to_pylist()))
    assert roles.groups.tolist() == [in_order.index(g) for g in table["group"].to_pylist()]


def test_times_stay_exact():
    moments = [2**60 + i for i in range(40)]
    table = pa.table({"x": np.arange(40.0) ** 2, "y": np.arange(40.0) ** 3, "when": moments})
    chosen = SelectionSettings(target="y", columns=ColumnSettings(time="when"))

    assert roles_of(table, chosen, describe_table(table, chosen)).times.tolist() == moments


def test_baselines_by_hand():
    X = np.array([[1.0, 0, NAN, 5], [NAN, 1, NAN, 7], [3.0, 1, NAN, 6], [8.0, 0, NAN, 6]])
    schema = Schema(("a", "colour", "empty", "b"), (0, 2, 0, 0))
    rows = Rows(X, np.zeros(4))

    np.testing.assert_array_equal(baseline_values(rows, schema, "mean"), [4, 0, 0, 6])
    np.testing.assert_array_equal(baseline_values(rows, schema, "median"), [3, 0, 0, 6])
    np.testing.assert_array_equal(baseline_values(rows, schema, "minimum"), [1, 0, 0, 5])
    np.testing.assert_array_equal(baseline_values(rows, schema, "zero"), [0, 0, 0, 0])


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(
        st.tuples(st.integers(-50, 50), st.integers(0, 3), st.integers(1, 4)), min_size=1
    ),
    kind=st.sampled_from(["mean", "median", "minimum", "zero"]),
)
def test_a_weight_of_k_is_a_row_k_times(data, kind):
    numbers, codes, counts = (np.array(column) for column in zip(*data, strict=True))
    X = np.column_stack([numbers, codes]).astype(np.float64)
    schema = Schema(("a", "colour"), (0, 4))
    weighted = baseline_values(Rows(X, numbers, counts.astype(np.float64)), schema, kind)
    repeated = np.repeat(X, counts, axis=0)

    same = {"mean": np.mean, "median": np.median, "minimum": np.min, "zero": lambda _: 0.0}[kind]
    assert weighted[0] == pytest.approx(same(repeated[:, 0]), abs=1e-12)
    assert weighted[1] == np.argmax(np.bincount(repeated[:, 1].astype(int)))


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="baseline must be mean, median, minimum or zero but is"):
        baseline_values(Rows(np.zeros((1, 1)), np.zeros(1)), Schema(("a",), (0,)), "mode")
