"""What is odd about a table is said in a line, and noise alone is not odd."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaffinch.tasks.data.perfect_predictors import PerfectPredictors
from tests.tasks.data.synthetic_table import N, described, numbers, table_with, text
from tests.tasks.snapshots import check_snapshot


def warned(words, table, **options):
    return [w for w in described(table, **options).warnings if words in w]


def test_noise_alone_raises_no_warning():
    assert described(table_with()).warnings == ()


def occurring_twice():
    table = table_with()
    return pa.concat_tables([table, table.slice(0, 7), table.slice(3, 2)])


def with_values_exchanged():
    a, b, y = numbers(1)[:30], numbers(2)[:30], ["no", "yes"] * 15
    return pa.table({"a": np.concatenate([a, b]), "b": np.concatenate([b, a]), "y": text(y + y)})


def telling_the_class():
    yes = np.arange(N) % 2
    return table_with(
        leak=yes + numbers(3) * 1e-3,
        reason=text([["paid", "owes"][i] for i in yes]),
        cancelled=pa.array(numbers(4), mask=yes == 0),
        nearly=np.where(np.arange(N) == 5, 0.0, yes),
    )


PAIRS = np.repeat(numbers(1)[: N // 2], 2)
WHOLE, RANDOM = np.arange(N) % 7, np.random.default_rng(0)
CODES = text([["00500", "10001", "99999"][i % 3] for i in range(N)])
ODD = {
    "rows that occur twice": occurring_twice(),
    "rows that differ in the target alone": table_with(a=PAIRS, b=PAIRS**3),
    "rows with two values exchanged": with_values_exchanged(),
    "equal columns": table_with(whole=WHOLE, same=WHOLE.astype(np.float64), other=-WHOLE),
    "equal codes of other categories": table_with(
        one=text(["a", "b", "b"] * 20), other=text(["c", "d", "d"] * 20)
    ),
    "identifiers among the numbers": table_with(
        line=RANDOM.permutation(N) + 100,
        customer_id=RANDOM.permutation(10 * N)[:N],
        amount=RANDOM.permutation(10 * N)[:N],
        paid=RANDOM.integers(0, 10, N),
    ),
    "much missing": table_with(
        half=pa.array([1.0, None] * 30), more=pa.array([None, 1.0, None] * 20)
    ),
    "rare classes": pa.table({"a": numbers(1, 2000), "y": text(["often"] * 1990 + ["rare"] * 10)}),
    "codes with leading zeros": table_with(zip=CODES, colour=text(["red", "0", "10"] * 20)),
    "names of rows but for three": table_with(
        name=text([*(f"n{i}" for i in range(N - 3)), "n0", "n1", "n2"])
    ),
    "names of rows, and a constant": table_with(
        name=text([f"n{i}" for i in range(N)]), same=text(["a"] * N)
    ),
    "blanks in categories": table_with(
        colour=text(["red", " red", "blue"] * 20), size=text(["a b", "ab"] * 30)
    ),
    "blanks in classes": table_with(y=text(["yes", "no", "yes "] * 20)),
    "features that 32 bits hold badly": table_with(
        small=numbers(3) * 1e-8,
        offset=numbers(4) + 1e6,
        year=2000 + np.arange(N) % 30,
        share=numbers(5) * 1e-3,
        large=numbers(6) * 1e20,
        number=10**15 + np.arange(N) % 50,
    ),
    "long lists": table_with(
        **{f"{name}{i}": numbers(100 + i) for i in range(8) for name in "pq"},
        **{f"gap{i}": pa.array([None, None, float(i)] * 19 + [1.0] * 3) for i in range(8)},
    ),
    "features that tell the class": telling_the_class(),
}


def test_what_is_odd_is_said_and_nothing_else():
    lines = []
    for name, table in ODD.items():
        lines += [f"# {name}", *described(table).warnings]
    check_snapshot("odd tables", lines)


def test_codes_that_are_named_as_categorical_are_not_odd():
    assert not warned("leading zeros", ODD["codes with leading zeros"], categorical=("zip",))


def test_iris_petals_set_setosa_apart():
    from sklearn.datasets import load_iris

    iris = load_iris()
    columns = dict(zip(iris.feature_names, iris.data.T, strict=True))
    description = described(pa.table(columns | {"y": text(iris.target_names[iris.target])}))

    assert description.classes == ("setosa", "versicolor", "virginica")
    told, duplicates = description.warnings
    assert "'petal length (cm)' and 'petal width (cm)'; make sure" in told
    assert duplicates.startswith("1 of 150 rows")


@pytest.mark.parametrize("other", ["x", "1.5"])
def test_a_category_for_what_else_it_holds_is_not_one_for_its_leading_zeros(other):
    assert not warned("leading zeros", table_with(k=text(["01", "1", "02", other] * 15)))
    for code in (None, "-3", "-03"):
        assert warned("leading zeros", table_with(k=text(["01", "1", "02", code] * 15)))


@pytest.mark.parametrize("value", [pa.array([7]), pa.array([0.5]), text(["x"])])
@pytest.mark.parametrize("name", ["v", "customer_id"])
def test_of_a_column_with_one_value_that_alone_is_told(value, name):
    column = pa.concat_arrays([value, pa.nulls(N - 1, value.type)])
    assert described(table_with(**{name: column})).warnings == (
        f"1 feature has a value in one row alone: {name!r}; drop what is missing in all the others",
    )


@pytest.mark.parametrize(
    "y", [numbers(3) * 1e-4, numbers(3) * 1e-20, numbers(3) * 1e19, numbers(3) + 1e7]
)
def test_a_target_that_models_of_32_bits_learn_badly(y):
    (sentence,) = warned("32 bits", table_with(y=y))
    assert sentence.startswith("target 'y' has the standard deviation ")
    for scale in (1e-2, 1.0, 1e6, 1e17):
        standardised = (y - y.mean()) / y.std()
        assert not warned("32 bits", table_with(y=standardised * scale))


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
