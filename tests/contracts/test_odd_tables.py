"""What is odd about a table is said in a line, and noise alone is not odd."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaffinch.tasks.data.perfect_predictors import PerfectPredictors
from tests.tasks.data.synthetic_table import N, described, numbers, table_with, text


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
        "features 'same' and 'whole' are equal in every row"
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
    assert sentence.startswith("2 features look like an identifier: 'customer_id' and 'line'")


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
        "1 feature is taken as categories, for the whole numbers have leading zeros or are beyond "
        "2^53: 'zip'; name as numeric what is a quantity, and as categorical what is not"
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


@pytest.mark.parametrize("value", [pa.array([7]), pa.array([0.5]), text(["x"])])
@pytest.mark.parametrize("name", ["v", "customer_id"])
def test_of_a_column_with_one_value_that_alone_is_told(value, name):
    column = pa.concat_arrays([value, pa.nulls(N - 1, value.type)])
    assert described(table_with(**{name: column})).warnings == (
        f"1 feature has a value in one row alone: {name!r}; drop what is missing in all the others",
    )


def test_columns_that_are_no_use_are_told_with_the_reason():
    table = table_with(name=text([f"n{i}" for i in range(N)]), same=text(["a"] * N))
    assert warned("left out", table) == [
        "left out: 'name' (identifier: every value is different), 'same' (constant)"
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
        "in 32 bits: 'number', 'offset' and 'small'; subtract the mean and divide by the standard "
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
    (sentence,) = warned("predict the target", table)
    assert sentence.startswith("3 features predict the target, or one of its classes")
    assert "'cancelled', 'leak' and 'reason'" in sentence


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
    assert PerfectPredictors(y).predicts(values, 0) == expected


@settings(max_examples=200, deadline=None)
@given(codes=st.lists(st.integers(-1, 3), min_size=20, max_size=30), pure=st.booleans())
@example(codes=[0, -1, *[0] * 16, 1, -1], pure=True)
def test_categories_tell_when_each_occurs_with_one_class(codes, pure):
    codes = np.array(codes)
    y = np.where(codes > 0, 1, 0) if pure else np.arange(len(codes)) % 2
    y[:2] = [0, 1]
    values = np.where(codes < 0, np.nan, codes)

    def tell(rows):
        return all(len(set(y[rows & (codes == code)])) == 1 for code in set(codes[rows]))

    present = codes >= 0
    expected = tell(np.full(len(codes), True))
    if present.mean() >= 0.9 and len(set(y[present])) == 2:  # few missing values decide nothing
        expected |= tell(present)
    assert PerfectPredictors(y).predicts(values, 4) == expected


def test_a_class_told_in_the_sample_is_looked_for_in_all_rows():
    y = np.repeat([0, 1], 20_000)
    values = y.astype(np.float64)
    assert PerfectPredictors(y).predicts(values, 0)
    values[1] = 1.0
    assert not PerfectPredictors(y).predicts(values, 0)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_features_that_alone_tell_a_number(noise):
    random = np.random.default_rng(0)
    level = random.integers(0, 4, 400)
    y = level * 1e6 + random.normal(size=400)
    close = y + random.normal(size=400) * noise * y.std()
    far = np.abs(np.corrcoef(close, y)[0, 1]) < 0.999
    predictors = PerfectPredictors(y)

    assert predictors.predicts(-close, 0) != far
    assert predictors.predicts(level.astype(np.float64), 4)
    assert not predictors.predicts(random.integers(0, 4, 400).astype(np.float64), 4)
    assert not predictors.predicts(np.where(np.arange(400) < 9, y, np.nan), 0)
    assert predictors.predicts(np.where(np.arange(400) < 99, y, np.nan), 0)


def test_categories_of_a_row_or_two_each_tell_nothing():
    y = np.arange(60) % 2
    assert not PerfectPredictors(y).predicts(np.arange(60.0) // 2 * 2 + y, 60)
