"""A table that cannot be used is refused in one line that names the column and the remedy.

What `tests/contracts/test_bad_input.py` asks at every door is not asked here again.
"""

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
RARE = text(["a"] * 30 + ["b"] * 23 + ["c"] * 7)
WHEN = pa.array(range(N), pa.timestamp("us"))
A_USE = (
    "timestamps: to use one, give columns={'dates': 'parts'} (--dates parts), or name it as the "
    "time column or as categorical"
)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        *(({"weight": numbers(3)}, {role: ("height",)},
           f"{role} column 'height' is no column of the table; did you mean 'weight'?")
          for role in ("categorical", "numeric")),
        # targets that cannot be learnt
        ({"y": WHEN}, {}, "target 'y' holds timestamps"),
        ({"y": RARE}, {},
         f"class 'c' has 7 rows but needs 8 {PARTS}; give more rows of it, or merge or drop rare "
         "classes, or use fewer folds"),
        ({"y": [1, 2] * 29 + [1, 7]}, {},
         f"class '7' has 1 row but needs 8 {PARTS}; give more rows of it, or merge or drop rare "
         "classes; if 'y' is a quantity, set task to regression"),
        # no feature, and one without use
        ({"a": np.ones(N), "b": pa.nulls(N, pa.float64())}, {},
         "the table has no feature: left out: 'a' (constant), 'b' (every value is missing); give "
         "columns of numbers or text that vary"),
        ({"a": pa.array([[1]] * N)}, {}, "column 'a' has type list<item: int64>"),
        # roles
        ({"w": pa.array([True, False] * (N // 2))}, {"weight": "w"},
         "must hold numbers above 0 but holds true and false"),
        *(({"w": np.where(np.arange(N) == 3, weight, 1.0)}, {"weight": "w"},
           "weight column 'w' must lie within 1e-30..1e+30, which models can compute with, but is "
           f"{weight:g} in row 4: rescale it") for weight in (1e-31, 1e300)),
        ({"g": text(["a", None, "b"] * 20)}, {"group": "g"},
         "group column 'g' is missing in 20 of 60 rows, first in row 2"),
        ({"g": pa.array([1, None, 2] * 20)}, {"time": "g"}, "time column 'g' is missing in 20 of"),
        ({"g": pa.array([True, False] * 30)}, {"time": "g"}, "time column 'g' holds true and fal"),
        ({"g": pa.array([1, 2, 3] * 20)}, {"time": "g"},
         "time column 'g' has 3 different values but needs 9 (6 to train on"),
        *(({"w": text([f"{i:03}" for i in range(1, N + 1)])}, {role: "w"}, said)
          for role, said in (
              ("weight", "weight column 'w' must hold numbers above 0 but holds text; name "
                         "another, or name 'w' as numeric"),
              ("time", "time column 'w' holds text, which has no order in time; give timestamps "
                       "or numbers, or name 'w' as numeric"))),
        ({"c": pa.array([1.0] * N)}, {"method": Pefs(n_features=3)},
         "n_features must be in 1..2 but is 3; left out: 'c' (constant)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(columns, options, message):
    refused(message, table_with(**columns), **options)


def test_a_class_with_too_few_rows_for_five_folds_has_enough_for_four():
    assert described(table_with(y=RARE), folds=4).classes == ("a", "b", "c")


def test_too_few_rows_or_too_many_classes():
    refused(
        f"the table has 7 rows but needs 8 {PARTS}; give more rows, or use fewer folds",
        table_with().slice(0, 7),
    )
    texts = pa.array([f"{n / 7:.3f} EUR" for n in range(300)]).dictionary_encode()
    prices = pa.table({"a": np.arange(300.0), "y": texts})
    refused("target 'y' has 300 different texts in 300 rows, too many to be classes: give", prices)


def test_timestamps_are_left_out_with_one_warning_unless_they_are_named():
    (warning,) = described(table_with(when=WHEN)).warnings
    assert warning == f"left out: 'when' ({A_USE})"
    for named in ({"drop": ("when",)}, {"time": "when"}):
        assert described(table_with(when=WHEN), **named).features == ("a", "b")
        assert described(table_with(when=WHEN), **named).warnings == ()
    (warning,) = described(table_with(**{f"when_{i}": WHEN for i in range(12)})).warnings
    assert "'when_0', 'when_1', 'when_10', 'when_11', 'when_2' and 7 more (timestamps: " in warning


def test_another_task_is_a_remedy_only_where_it_helps():
    classes, groups = pa.array([0, 1] * (N // 2)), text(["a", "b", "c"] * (N // 3))
    with pytest.raises(InputError, match=r"; give rows of more groups, or name a finer one$"):
        described(table_with(y=classes, g=groups), method=Pefs(), group="g")


@pytest.mark.parametrize("method", [Gbmo(n_features=2), Gbmo(), Flbmo(), Flbmo(n_features=(1, 2))])
def test_numbers_of_features_in_range(method):
    assert described(table_with(), method=method).features == ("a", "b")


WITHIN = "must lie within -1e+30..1e+30, which models can compute with, but is"
TELLS = "must vary by at least 1e-30, which models can tell from nothing, but varies by"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": numbers(3) * 1e300}, f"target 'y' {WITHIN} 3.323e+300 in row 10: rescale it"),
        ({"a": numbers(1) * 1e-310}, f"column 'a' {TELLS} "),
    ],
)  # fmt: skip
def test_numbers_that_models_cannot_compute_with(columns, message):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        refused(message, table_with(**columns))


def test_extreme_numbers_in_other_columns_do_not_matter():
    extreme = numbers(3) * 1e307
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        description = described(
            table_with(gone=extreme, g=np.repeat(extreme[:20], 3)), drop=("gone",), group="g"
        )
    json.dumps(asdict(description), allow_nan=False)


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"zzz": 1.0}, "baseline names 'zzz', which is no feature of the table"),
        ({"a": "red"}, "baseline of 'a' must be a finite number but is 'red'"),
        ({"a": 1e300}, "baseline of 'a' must lie within -1e+30..1e+30 but is 1e+300"),
        ({"colour": "pink"},
         "baseline of 'colour' must be one of its categories 'red' or 'blue' but is 'pink'"),
    ],
)  # fmt: skip
def test_a_baseline_of_ones_own_must_fit_its_feature(baseline, message):
    table = table_with(colour=text(["red", "blue"] * (N // 2)))
    with pytest.raises(InputError, match=re.escape(message)):
        describe_table(table, SelectionSettings(target="y", baseline=baseline))


def test_fewer_folds_are_no_remedy_where_nothing_is_folded() -> None:
    model = ModelSettings(name="linear", tuning="none")
    settings = SelectionSettings(target="y", method="gbmo", model=model)
    with pytest.raises(InputError) as refusal:
        describe_table(pa.table({"a": [1.0, 2.0, 3.0], "y": [1.5, 2.5, 0.5]}), settings)
    assert str(refusal.value) == (
        "the table has 3 rows but needs 4, 1 in each part; give more rows"
    )
