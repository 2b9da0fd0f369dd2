"""A table is refused in one line that names the column and the remedy, or described in full."""

import json
import re
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.storage.errors import InputError
from chaffinch.tasks.checking import describe_table
from chaffinch.tasks.column_settings import ColumnSettings
from chaffinch.tasks.leakage import PerfectPredictors
from chaffinch.tasks.mask_settings import Flbmo, Gbmo
from chaffinch.tasks.pefs_settings import Pefs
from chaffinch.tasks.selection.vocabulary import Schema
from chaffinch.tasks.settings import (
    ModelSettings,
    SelectionSettings,
)

N = 60


def text(values):
    return pa.array(values, pa.string()).dictionary_encode()


def numbers(seed, n=N):
    return np.random.default_rng(seed).normal(size=n)


def table_with(**columns):
    """Two features of noise and a target of two classes, changed and added to as named."""
    base = {"a": numbers(1), "b": numbers(2), "y": text(["no", "yes"] * (N // 2))}
    return pa.table({name: c for name, c in (base | columns).items() if c is not None})


def described(table, *, task="auto", method=None, folds=5, **columns):
    chosen = SelectionSettings(
        target="y",
        task=task,
        method=method or Gbmo(),
        model=ModelSettings(folds=folds),
        columns=ColumnSettings(**columns),
    )
    return describe_table(table, chosen)


def refused(message, table, **options):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        described(table, **options)
    assert "\n" not in str(error.value)


# What is refused


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
        "part): give more rows of it, or merge or drop rare classes, or use fewer folds",
        table_with(y=rare),
    )
    assert described(table_with(y=rare), folds=4).classes == ("a", "b", "c")


def test_numbers_taken_for_classes_are_told_of_the_other_task():
    refused(
        "class '7' has 1 row but needs 8 (5 to train on, for the folds, and 1 in each other "
        "part): give more rows of it, or merge or drop rare classes, or use fewer folds; if 'y' is "
        "a quantity, set task to regression",
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
         "target 'y' holds text but the task is regression: set task to classification"),
    ],
)  # fmt: skip
def test_a_target_that_does_not_fit_the_task(target, task, message):
    refused(message, table_with(y=target), task=task)


def test_too_few_rows():
    refused(
        "the table has 7 rows but the parts and the folds need 8: give more rows",
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
        "the table has no feature: left out are 'a' (constant), 'b' (every value is missing); "
        "give columns that vary",
        table_with(a=np.ones(N), b=pa.nulls(N, pa.float64())),
    )


def test_a_timestamp_is_no_feature():
    when = pa.array(range(N), pa.timestamp("us"))
    refused(
        "column 'when' holds timestamps and cannot be a feature: name it as the time column, or "
        "drop it",
        table_with(when=when),
    )
    assert described(table_with(when=when), drop=("when",)).features == ("a", "b")
    assert described(table_with(when=when), time="when").features == ("a", "b")


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
        "n_features must be in 1..2 but is 3; left out are 'c' (constant)",
        table_with(c=pa.array([1.0] * N)),
        method=Pefs(n_features=3),
    )


def test_another_task_is_a_remedy_only_where_it_helps():
    classes, groups = pa.array([0, 1] * (N // 2)), pa.array(["a", "b", "c"] * (N // 3))
    with pytest.raises(InputError, match=r"name a finer one, or use fewer folds$"):
        described(table_with(y=classes, g=groups), method=Pefs(), group="g")


@pytest.mark.parametrize("method", [Gbmo(n_features=2), Gbmo(), Flbmo(), Flbmo(n_features=(1, 2))])
def test_numbers_of_features_in_range(method):
    assert described(table_with(), method=method).features == ("a", "b")


def test_timestamps_are_all_named_at_once():
    when = pa.array(range(N), pa.timestamp("us"))
    table = table_with(**{f"when_{i}": when for i in range(7)})
    refused(
        "columns 'when_0', 'when_1', 'when_2', 'when_3', 'when_4' and 'when_5' hold timestamps and "
        "cannot be features: name one as the time column, or drop them",
        table,
        drop=("when_6",),
    )


WITHIN = "must lie within -1e+30..1e+30, which models can compute with, but is"
TELLS = "must vary by at least 1e-30, which models can tell from nothing, but varies by"
OR = ", drop it, or leave empty what stands for a missing value"


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
    refused("weight column 'w' must hold numbers above 0 but holds text: name another, or name "
            "'w' as numeric", table_with(w=padded), weight="w")  # fmt: skip
    refused("time column 'w' holds text, which has no order in time; give timestamps or numbers, "
            "or name 'w' as numeric", table_with(w=padded), time="w")  # fmt: skip


def test_a_kept_column_without_use():
    refused(
        "keep column 'a' is no use as a feature (constant): take it off the keep list",
        table_with(a=np.ones(N)),
        keep=("a",),
    )


def test_a_type_that_ingestion_never_makes():
    refused("column 'a' has type list<item: int64>", table_with(a=pa.array([[1]] * N)))


# What is described


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


def test_the_settings_have_the_last_word_on_the_task():
    assert described(table_with(y=[1, 2] * 30), task="regression").classes == ()
    many = np.arange(400) % 40
    table = pa.table({"a": numbers(1, 400), "y": many})
    assert len(described(table, task="classification").classes) == 40


def test_features_are_what_is_left_in_the_tables_order():
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

    assert description.features == ("a", "b", "kept_code", "flag", "colour")
    assert description.n_categories == (0, 0, N, 0, 2)
    assert description.categories["colour"] == ("red", "blue")
    assert description.excluded == {
        "code": "identifier: every value is different",
        "same": "constant",
        "empty": "every value is missing",
    }
    assert description.schema == Schema(description.features, (0, 0, N, 0, 2), 2)
    roles = {row["name"]: row["role"] for row in description.profile}
    assert [roles[n] for n in ("y", "a", "same", "dropped", "w", "g")] == [
        "target", "feature", "excluded", "drop", "weight", "group",
    ]  # fmt: skip


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
    x = {"minimum": 1.0, "mean": 2.0, "maximum": 3.0}
    x["standard_deviation"] = pytest.approx(np.sqrt(2 / 3))
    common = {"role": "feature", "rows": N}
    assert rows["x"] == nothing | common | x | {
        "name": "x", "type": "float64", "missing": 15, "distinct": 3,
    }  # fmt: skip
    assert rows["flag"] == nothing | common | {
        "name": "flag", "type": "bool", "missing": 15, "distinct": 2, "most_frequent": "true",
    }  # fmt: skip
    assert rows["colour"] == nothing | common | {
        "name": "colour", "type": "category", "missing": 15, "distinct": 2, "most_frequent": "red",
    }  # fmt: skip
    assert rows["when"] == nothing | common | {
        "name": "when", "role": "drop", "type": "timestamp", "missing": 0, "distinct": 3,
    }  # fmt: skip


def test_the_description_is_plain_json_whatever_the_numbers():
    huge, tiny = np.tanh(numbers(3)) * 1.7e308, numbers(4) * 5e-324
    description = described(table_with(huge=huge, tiny=tiny), drop=("huge", "tiny"))
    json.dumps(asdict(description), allow_nan=False)

    profile = next(row for row in description.profile if row["name"] == "huge")
    assert profile["standard_deviation"] is None


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


# What is worth a second look


def warned(words, table, **options):
    return [w for w in described(table, **options).warnings if words in w]


def test_noise_alone_raises_no_warning():
    assert described(table_with()).warnings == ()


def test_rows_that_occur_twice():
    table = table_with()
    twice = pa.concat_tables([table, table.slice(0, 7), table.slice(3, 2)])

    (sentence,) = warned("equal an earlier row", twice)
    assert sentence.startswith("9 of 69 rows")


def test_rows_that_differ_in_the_target_alone_are_not_the_same():
    a = np.repeat(numbers(1)[: N // 2], 2)
    assert not warned("equal an earlier row", table_with(a=a, b=a**3))


def test_rows_with_two_values_exchanged_are_not_the_same():
    a, b, y = numbers(1)[:30], numbers(2)[:30], ["no", "yes"] * 15
    table = pa.table({"a": np.concatenate([a, b]), "b": np.concatenate([b, a]), "y": text(y + y)})
    assert not warned("equal an earlier row", table)


def test_columns_that_are_equal():
    whole = np.arange(N) % 7
    table = table_with(whole=whole, same=whole.astype(np.float64), other=-whole)

    assert warned("equal in every row", table) == [
        "features 'whole' and 'same' are equal in every row"
    ]


def test_iris_petals_set_setosa_apart():
    from sklearn.datasets import load_iris

    iris = load_iris()
    columns = dict(zip(iris.feature_names, iris.data.T, strict=True))
    description = described(pa.table(columns | {"y": text(iris.target_names[iris.target])}))

    assert description.classes == ("setosa", "versicolor", "virginica")
    told, duplicates = description.warnings
    assert "'petal length (cm)' and 'petal width (cm)'; make sure" in told
    assert duplicates.startswith("1 of 150 rows")


def test_columns_of_equal_codes_but_other_categories_differ():
    table = table_with(one=text(["a", "b", "b"] * 20), other=text(["c", "d", "d"] * 20))
    assert not warned("equal in every row", table)


def test_identifiers_among_the_numbers():
    random = np.random.default_rng(0)
    table = table_with(
        line=random.permutation(N) + 100,
        customer_id=random.permutation(10 * N)[:N],
        amount=random.permutation(10 * N)[:N],
        paid=random.integers(0, 10, N),
    )
    (sentence,) = warned("like an identifier", table)
    assert sentence.startswith("2 features look like an identifier: 'line' and 'customer_id'")


def test_much_missing():
    table = table_with(half=pa.array([1.0, None] * 30), more=pa.array([None, 1.0, None] * 20))
    assert warned("missing in more than half", table) == [
        "1 feature is missing in more than half of the rows: 'more'"
    ]


def test_rare_classes():
    table = pa.table({"a": numbers(1, 2000), "y": text(["often"] * 1990 + ["rare"] * 10)})
    assert warned("less than 1 %", table) == ["1 class has less than 1 % of the rows: 'rare'"]


def test_codes_that_nobody_named_as_categorical():
    codes = text([["00500", "10001", "99999"][i % 3] for i in range(N)])
    table = table_with(zip=codes, colour=text(["red", "0", "10"] * 20))
    assert warned("leading zeros", table) == [
        "1 feature is taken as categories for the leading zeros of the whole numbers: 'zip'; name "
        "as numeric what is a quantity, and as categorical what is not"
    ]
    assert not warned("leading zeros", table, categorical=("zip",))


@pytest.mark.parametrize("other", ["x", "1.5", "-3"])
def test_a_category_for_what_else_it_holds_is_not_one_for_its_leading_zeros(other):
    assert not warned("leading zeros", table_with(k=text(["01", "1", "02", other] * 15)))
    assert warned("leading zeros", table_with(k=text(["01", "1", "02", None] * 15)))


def test_categories_that_name_the_rows_but_for_a_few_that_occur_twice():
    names = [f"n{i}" for i in range(N - 3)] + ["n0", "n1", "n2"]
    assert warned("nearly every row", table_with(name=text(names))) == [
        "1 feature has another category in nearly every row: 'name'; drop what only names the rows"
    ]
    assert not warned("nearly every row", table_with(name=text(["a", "b"] * (N // 2))))


def test_columns_that_are_no_use_are_told_with_the_reason():
    table = table_with(name=text([f"n{i}" for i in range(N)]), same=text(["a"] * N))
    assert warned("left out", table) == [
        "left out are 'name' (identifier: every value is different), 'same' (constant)"
    ]


def test_categories_that_differ_in_blanks_alone():
    table = table_with(colour=text(["red", " red", "blue"] * 20), size=text(["a b", "ab"] * 30))
    assert warned("blanks", table) == [
        "there are categories that differ only in the blanks around them: in 'colour'; take the "
        "blanks away if they are the same"
    ]
    (sentence,) = warned("blanks", table_with(y=text(["yes", "no", "yes "] * 20)))
    assert ": in 'y'; take" in sentence


@pytest.mark.parametrize(
    "y", [numbers(3) * 1e-4, numbers(3) * 1e-20, numbers(3) * 1e19, numbers(3) + 1e7]
)
def test_a_target_that_models_of_32_bits_learn_badly(y):
    (sentence,) = warned("32 bits", table_with(y=y))
    assert sentence.startswith("target 'y' has the standard deviation ")
    for scale in (1e-2, 1.0, 1e6, 1e17):
        standardised = (y - y.mean()) / y.std()
        assert not warned("32 bits", table_with(y=standardised * scale))


def test_features_that_models_of_32_bits_see_badly():
    table = table_with(
        small=numbers(3) * 1e-8,
        offset=numbers(4) + 1e6,
        year=2000 + np.arange(N) % 30,
        share=numbers(5) * 1e-3,
        large=numbers(6) * 1e20,
        number=10**15 + np.arange(N) % 50,
    )
    assert warned("32 bits", table) == [
        "3 features vary too little, or too little for such large numbers, for models that compute "
        "in 32 bits: 'small', 'offset' and 'number'; subtract the mean and divide by the standard "
        "deviation"
    ]


def test_long_lists_are_cut_short():
    pairs = {f"{name}{i}": numbers(100 + i) for i in range(8) for name in "pq"}
    gaps = {f"gap{i}": pa.array([None, None, float(i)] * 19 + [1.0] * 3) for i in range(8)}
    description = described(table_with(**pairs, **gaps))

    equal = [w for w in description.warnings if "equal in every row" in w]
    assert len(equal) == 6
    assert equal[-1] == "3 more sets of features are equal in every row"
    (missing,) = (w for w in description.warnings if "missing" in w)
    assert missing.endswith("'gap0', 'gap1', 'gap2', 'gap3', 'gap4' and 3 more")


def test_features_that_alone_tell_the_class():
    yes = np.arange(N) % 2
    table = table_with(
        leak=yes + numbers(3) * 1e-3,
        reason=text([["paid", "owes"][i] for i in yes]),
        cancelled=pa.array(numbers(4), mask=yes == 0),
        nearly=np.where(np.arange(N) == 5, 0.0, yes),
    )
    (sentence,) = warned("tell the target", table)
    assert sentence.startswith("3 features tell the target, or one of its classes")
    assert "'leak', 'reason' and 'cancelled'" in sentence


def rank_auc(values, is_class):
    wins = np.subtract.outer(values[is_class], values[~is_class])
    return ((wins > 0) + 0.5 * (wins == 0)).mean()


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.integers(0, 8), min_size=6, max_size=14),
    n_classes=st.integers(2, 4),
    by_value=st.booleans(),
)
def test_telling_a_class_is_an_auc_of_one_against_the_rest(values, n_classes, by_value):
    values = np.array(sorted(values) if by_value else values, dtype=np.float64)
    y = np.sort(np.arange(len(values)) % n_classes)
    aucs = [rank_auc(values, y == c) for c in range(n_classes)]

    expected = any(auc in (0, 1) for auc in aucs)
    assert PerfectPredictors(y).tells(values, 0) == expected


@settings(max_examples=200, deadline=None)
@given(codes=st.lists(st.integers(-1, 3), min_size=20, max_size=30), pure=st.booleans())
def test_categories_tell_when_each_occurs_with_one_class(codes, pure):
    codes = np.array(codes)
    y = np.where(codes > 0, 1, 0) if pure else np.arange(len(codes)) % 2
    y[:2] = [0, 1]
    values = np.where(codes < 0, np.nan, codes)

    expected = all(len(set(y[codes == code])) == 1 for code in set(codes))
    assert PerfectPredictors(y).tells(values, 4) == expected


def test_a_class_told_in_the_sample_is_looked_for_in_all_rows():
    y = np.repeat([0, 1], 20_000)
    values = y.astype(np.float64)
    assert PerfectPredictors(y).tells(values, 0)
    values[1] = 1.0
    assert not PerfectPredictors(y).tells(values, 0)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_features_that_alone_tell_a_number(noise):
    random = np.random.default_rng(0)
    level = random.integers(0, 4, 400)
    y = level * 1e6 + random.normal(size=400)
    close = y + random.normal(size=400) * noise * y.std()
    far = np.abs(np.corrcoef(close, y)[0, 1]) < 0.999
    predictors = PerfectPredictors(y)

    assert predictors.tells(-close, 0) != far
    assert predictors.tells(level.astype(np.float64), 4)
    assert not predictors.tells(random.integers(0, 4, 400).astype(np.float64), 4)
    assert not predictors.tells(np.where(np.arange(400) < 9, y, np.nan), 0)
    assert predictors.tells(np.where(np.arange(400) < 99, y, np.nan), 0)


def test_categories_of_a_row_or_two_each_tell_nothing():
    y = np.arange(60) % 2
    assert not PerfectPredictors(y).tells(np.arange(60.0) // 2 * 2 + y, 60)


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
    settings = SelectionSettings(target="y", model=ModelSettings(name="linear", tuning="none"))
    with pytest.raises(InputError) as refusal:
        describe_table(pa.table({"a": [1.0, 2.0, 3.0], "y": [1.5, 2.5, 0.5]}), settings)
    assert str(refusal.value) == "the table has 3 rows but the parts need 4: give more rows"
