"""A table that cannot be used is refused in one line that names the column and the remedy."""

import json
import re
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.errors import InputError
from chaffinch.methods import Flbmo, Gbmo, Pefs
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings
from tests.tasks.data.synthetic_table import N, described, numbers, refused, table_with, text

PARTS = "(5 to train on, for the folds, and 1 in each other part)"


@pytest.mark.parametrize("role", ["keep", "categorical", "numeric"])
def test_a_named_column_that_does_not_exist(role):
    refused(
        f"{role} column 'height' is no column of the table; did you mean 'weight'?",
        table_with(weight=numbers(3)),
        **{role: ("height",)},
    )


@pytest.mark.parametrize("role", ["weight", "group", "time"])
def test_a_role_for_a_column_that_does_not_exist(role):
    refused(f"{role} column 'zzz' is no column of the table; it has", table_with(), **{role: "zzz"})


def test_a_target_that_does_not_exist():
    refused("target 'y' is no column of the table; it has 'a' and 'b'", table_with(y=None))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pa.array([1.5, None, 2.5] * 20),
         "target 'y' is missing in 20 of 60 rows, first in row 2: fill or remove these rows"),
        (pa.array(range(N), pa.timestamp("us")), "target 'y' holds timestamps"),
        (text(["yes"] * N), "target 'y' has the same value in every row"),
        (pa.array([2.5] * N), "target 'y' has the same value in every row"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_learned(target, message):
    refused(message, table_with(y=target))


def test_a_class_with_too_few_rows():
    rare = text(["a"] * 30 + ["b"] * 23 + ["c"] * 7)
    refused(
        "class 'c' has 7 rows but needs 8 (5 to train on, for the folds, and 1 in each other "
        "part); give more rows of it, or merge or drop rare classes, or use fewer folds",
        table_with(y=rare),
    )
    assert described(table_with(y=rare), folds=4).classes == ("a", "b", "c")


def test_numbers_taken_for_classes_are_told_of_the_other_task():
    refused(
        "class '7' has 1 row but needs 8 (5 to train on, for the folds, and 1 in each other "
        "part); give more rows of it, or merge or drop rare classes; if 'y' is a quantity, set "
        "task to regression",
        table_with(y=[1, 2] * 29 + [1, 7]),
    )


@pytest.mark.parametrize(
    ("target", "task", "message"),
    [
        (np.arange(N) / 1.0, "classification",
         "target 'y' has 60 different values, but classes must be at most 50 whole numbers"),
        (np.repeat([0.5, 1.0], N // 2), "classification",
         "target 'y' has 2 different values, not all whole numbers, but classes must be at most"),
        (text(["a", "b"] * (N // 2)), "regression",
         "target 'y' holds text but the task is regression; set task to classification"),
    ],
)  # fmt: skip
def test_a_target_that_does_not_fit_the_task(target, task, message):
    refused(message, table_with(y=target), task=task)


def test_too_few_rows():
    refused(
        f"the table has 7 rows but needs 8 {PARTS}; give more rows, or use fewer folds",
        table_with().slice(0, 7),
    )


def test_no_feature():
    refused("the table has no feature", table_with(a=None, b=None))
    refused(
        "the table has no feature: every column is dropped or has another role; drop fewer, or "
        "give more",
        table_with(),
        drop=("a", "b"),
    )
    refused(
        "the table has no feature: left out: 'a' (constant), 'b' (every value is missing); "
        "give columns of numbers or text that vary",
        table_with(a=np.ones(N), b=pa.nulls(N, pa.float64())),
    )


def test_a_timestamp_is_left_out_with_a_warning_unless_it_is_named():
    when = pa.array(range(N), pa.timestamp("us"))
    (warning,) = described(table_with(when=when)).warnings
    assert warning == (
        "left out: 'when' (timestamps: to use one, name it as the time column or as categorical)"
    )
    for named in ({"drop": ("when",)}, {"time": "when"}):
        assert described(table_with(when=when), **named).features == ("a", "b")
        assert described(table_with(when=when), **named).warnings == ()
    refused(
        "keep column 'when' is no use as a feature (timestamps: to use one, name it as the time "
        "column or as categorical); take it off the keep list",
        table_with(when=when),
        keep=("when",),
    )
    refused(
        "the table has no feature: left out: 'a' and 'b' (timestamps: to use one, name it as "
        "the time column or as categorical); give columns of numbers or text that vary",
        table_with(a=when, b=when),
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (text(["a", "b"] * (N // 2)), "weight column 'w' must hold numbers above 0 but holds text"),
        (pa.array([True, False] * (N // 2)), "must hold numbers above 0 but holds true and false"),
        (pa.array([1.0, None] * (N // 2)), "weight column 'w' is missing in 30 of 60 rows, first "
         "in row 2"),
        (np.array([1.0, 2.0, 0.0] * 20), "weight column 'w' must be above 0 but is 0 in row 3"),
        (np.array([1, -2, 1] * 20), "weight column 'w' must be above 0 but is -2 in row 2"),
    ],
)  # fmt: skip
def test_weights_that_cannot_weigh(weight, message):
    refused(message, table_with(w=weight), weight="w")


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ({"group": "g"}, text(["a", None, "b"] * 20),
         "group column 'g' is missing in 20 of 60 rows, first in row 2"),
        ({"group": "g"}, text(["a", "b", "c"] * 20),
         "group column 'g' has 3 different values but needs 8"),
        ({"time": "g"}, pa.array([1, None, 2] * 20), "time column 'g' is missing in 20 of 60"),
        ({"time": "g"}, text(["a", "b", "c"] * 20), "time column 'g' holds text"),
        ({"time": "g"}, pa.array([True, False] * 30), "time column 'g' holds true and false"),
        ({"time": "g"}, pa.array([1, 2, 3] * 20),
         "time column 'g' has 3 different values but needs 9 (6 to train on"),
    ],
)  # fmt: skip
def test_groups_and_times_that_cannot_part_rows(options, column, message):
    refused(message, table_with(g=column), **options)


@pytest.mark.parametrize(
    ("method", "keep", "message"),
    [
        (Gbmo(n_features=3), (), "n_features must be in 1..2 but is 3"),
        (Flbmo(n_features=(0.5, 1, 40)), (), "n_features must be in 1..2 but is 40"),
        (Gbmo(n_features=1), ("a", "b"),
         "n_features must be in 2..2 but is 1 (2 are on the keep list)"),
    ],
)  # fmt: skip
def test_more_or_fewer_features_than_there_can_be(method, keep, message):
    refused(message, table_with(), method=method, keep=keep)


def test_where_fewer_features_are_left_than_asked_for_it_says_which_were_left_out():
    refused(
        "n_features must be in 1..2 but is 3; left out: 'c' (constant)",
        table_with(c=pa.array([1.0] * N)),
        method=Pefs(n_features=3),
    )


def test_another_task_is_a_remedy_only_where_it_helps():
    classes, groups = pa.array([0, 1] * (N // 2)), text(["a", "b", "c"] * (N // 3))
    with pytest.raises(InputError, match=r"; give rows of more groups, or name a finer one$"):
        described(table_with(y=classes, g=groups), method=Pefs(), group="g")


@pytest.mark.parametrize("method", [Gbmo(n_features=2), Gbmo(), Flbmo(), Flbmo(n_features=(1, 2))])
def test_numbers_of_features_in_range(method):
    assert described(table_with(), method=method).features == ("a", "b")


def test_many_timestamps_are_one_warning_with_the_first_and_the_count():
    when = pa.array(range(N), pa.timestamp("us"))
    (warning,) = described(table_with(**{f"when_{i}": when for i in range(12)})).warnings
    assert "'when_0', 'when_1', 'when_10', 'when_11', 'when_2' and 7 more (timestamps: " in warning


WITHIN = "must lie within -1e+30..1e+30, which models can compute with, but is"
TELLS = "must vary by at least 1e-30, which models can tell from nothing, but varies by"
OR = ", or leave empty what stands for a missing value"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": numbers(3) * 1e300}, f"target 'y' {WITHIN} 3.323e+300 in row 10: rescale it"),
        ({"y": numbers(3) * 1e-300}, f"target 'y' {TELLS} 6.15116e-300: rescale it"),
        ({"a": np.where(np.arange(N) == 6, 1e31, numbers(1))},
         f"column 'a' {WITHIN} 1e+31 in row 7: rescale it{OR}"),
        ({"a": pa.array([None, -1e300, 2.0] * 20)},
         f"column 'a' {WITHIN} -1e+300 in row 2: rescale it{OR}"),
        ({"a": numbers(1) * 1e-310}, f"column 'a' {TELLS} "),
    ],
)  # fmt: skip
def test_numbers_that_models_cannot_compute_with(columns, message):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        refused(message, table_with(**columns))


@pytest.mark.parametrize("weight", [1e-31, 1e300])
def test_weights_that_models_cannot_compute_with(weight):
    refused(
        "weight column 'w' must lie within 1e-30..1e+30, which models can compute with, but is "
        f"{weight:g} in row 4: rescale it",
        table_with(w=np.where(np.arange(N) == 3, weight, 1.0)),
        weight="w",
    )


def test_extreme_numbers_in_other_columns_do_not_matter():
    extreme = numbers(3) * 1e307
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        description = described(
            table_with(gone=extreme, g=np.repeat(extreme[:20], 3)), drop=("gone",), group="g"
        )
    json.dumps(asdict(description), allow_nan=False)


def test_padded_numbers_in_roles_that_need_numbers():
    padded = text([f"{i:03}" for i in range(1, N + 1)])
    refused("weight column 'w' must hold numbers above 0 but holds text; name another, or name "
            "'w' as numeric", table_with(w=padded), weight="w")  # fmt: skip
    refused("time column 'w' holds text, which has no order in time; give timestamps or numbers, "
            "or name 'w' as numeric", table_with(w=padded), time="w")  # fmt: skip


def test_a_kept_column_without_use():
    refused(
        "keep column 'a' is no use as a feature (constant); take it off the keep list",
        table_with(a=np.ones(N)),
        keep=("a",),
    )


def test_a_type_that_ingestion_never_makes():
    refused("column 'a' has type list<item: int64>", table_with(a=pa.array([[1]] * N)))


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"zzz": 1.0}, "baseline names 'zzz', which is no feature of the table"),
        ({"a": "red"}, "baseline of 'a' must be a finite number but is 'red'"),
        ({"a": 1e300}, "baseline of 'a' must lie within -1e+30..1e+30 but is 1e+300"),
        (
            {"colour": "pink"},
            "baseline of 'colour' must be one of its categories 'red' or 'blue' but is 'pink'",
        ),
    ],
)
def test_a_baseline_of_ones_own_must_fit_its_feature(baseline, message):
    table = table_with(colour=text(["red", "blue"] * (N // 2)))
    with pytest.raises(InputError, match=re.escape(message)):
        describe_table(table, SelectionSettings(target="y", baseline=baseline))


def test_texts_that_are_as_many_as_rows_are_no_classes() -> None:
    texts = pa.array([f"{n / 7:.3f} EUR" for n in range(300)]).dictionary_encode()
    prices = pa.table({"a": np.arange(300.0), "y": texts})
    refused("target 'y' has 300 different texts in 300 rows, too many to be classes: give", prices)


def test_fewer_folds_are_no_remedy_where_nothing_is_folded() -> None:
    model = ModelSettings(name="linear", tuning="none")
    settings = SelectionSettings(target="y", method="gbmo", model=model)
    with pytest.raises(InputError) as refusal:
        describe_table(pa.table({"a": [1.0, 2.0, 3.0], "y": [1.5, 2.5, 0.5]}), settings)
    assert str(refusal.value) == (
        "the table has 3 rows but needs 4, 1 in each part; give more rows"
    )
