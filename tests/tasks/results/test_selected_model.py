"""The retrained model and `transform`, as met by a table of tomorrow: other kinds, other columns.

A row's prediction depends on its values alone, whatever the table that holds them.
"""

import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.tasks.selection.models import MODELS, kind_of
from tests.synthetic import good_table

pytestmark = pytest.mark.usefixtures("undrawn")
LINEAR = ModelSettings(name="linear", tuning="none")
KEPT = ("age", "colour", "income")


def select(model="linear", data=None, target="churned", **options):
    data = good_table() if data is None else data
    options.setdefault("keep", KEPT)
    return chaffinch.select(
        data, target, model=ModelSettings(name=model, tuning="none"), method="flbmo",
        n_features=3, **options,
    )  # fmt: skip


OF_CLASSES = [
    name for name, kind in MODELS.items() if kind.of_method is None and kind.suits("classification")
]


@pytest.fixture(scope="module", params=OF_CLASSES)
def result(request):
    return select(request.param)


@pytest.fixture(scope="module")
def of_a_line():
    return select()


@pytest.fixture(scope="module")
def table():
    return good_table(seed=1)


def probabilities(result, table):
    return result.model.predict_proba(table)


def test_probabilities_and_labels_agree(result, table):
    p = probabilities(result, table)
    assert p.shape == (240, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    labels = result.model.predict(table)
    assert result.model.classes == ("no", "yes")
    np.testing.assert_array_equal(labels, np.where(p[:, 1] > p[:, 0], "yes", "no"))
    assert (labels == table["churned"]).mean() > 0.75


def test_the_kind_of_table_and_its_other_columns_do_not_matter(result, table, tmp_path):
    expected = probabilities(result, table)
    turned = table[["income", "churned", "colour", "age"]].assign(later=np.inf, note="new")
    bare = table[list(KEPT)]
    table.to_csv(tmp_path / "table.csv", index=False)
    for given in (
        pl.from_pandas(table), pa.Table.from_pandas(table), turned, bare, pl.from_pandas(turned),
        bare.astype({"colour": "category"}), tmp_path / "table.csv",
    ):  # fmt: skip
        np.testing.assert_array_equal(probabilities(result, given), expected)


def test_the_order_and_the_index_of_rows_are_kept(result, table):
    order = np.random.default_rng(0).permutation(len(table))
    turned = table.iloc[order].set_index(pd.Index(order, name="number"))
    np.testing.assert_allclose(
        probabilities(result, turned), probabilities(result, table)[order], atol=1e-7
    )


def test_what_is_missing_or_new_is_predicted_all_the_same(result, table):
    gaps = table.assign(age=np.nan)
    unseen = table.assign(colour="violet")
    nothing = table.assign(colour=None)
    for given in (gaps, nothing, table[:1]):
        p = probabilities(result, given)
        assert p.shape == (len(given), 2)
        assert np.isfinite(p).all()
    with pytest.warns(UserWarning, match="values of 'colour' were never seen in training"):
        p = probabilities(result, unseen)
    np.testing.assert_array_equal(p, probabilities(result, nothing))


def test_a_network_reads_no_number_beyond_those_that_it_can_compute_with(result, table):
    far = table.assign(income=table["income"].mask(table.index == 2, -1e300))
    if kind_of(result.model.fitted.name).overflows:
        with pytest.raises(InputError) as refusal:
            result.model.predict(far)
        assert str(refusal.value) == (
            "column 'income' must lie within -1e+30..1e+30, which models can compute with, but is "
            "-1e+300 in row 3: rescale it, or leave it empty"
        )
        far = table.assign(income=-1e30)
    assert np.isfinite(probabilities(result, far)).all()


LEARNT = "; the model learnt from {} in '{}', so correct the value or leave it empty"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"colour": [["red"]] * 240}, "column 'colour' is of type list<item: string>, which is no "
         "feature" + LEARNT.format("text", "colour")),
        *(({"age": age}, f"column 'age' {found}" + LEARNT.format("numbers", "age"))
          for age, found in (
              ("old", "must hold numbers but row 1 holds 'old'"),
              (["1"] * 239 + ["o; ld"], "must hold numbers but row 240 holds 'o; ld'"),
              (np.datetime64("2024-01-01"), "must hold numbers but holds dates"),
              ([0.5] * 7 + [np.inf] * 233, "must hold finite numbers but row 8 is infinite"),
              ([[1]] * 240, "is of type list<item: int64>, which is no feature"))),
    ],
)  # fmt: skip
def test_something_else_where_numbers_or_text_were_or_no_such_column(result, table, columns, said):
    with pytest.raises(InputError) as refusal:
        result.model.predict(table.assign(**columns))
    assert str(refusal.value) == said
    message = "the table lacks 'colour', a feature that the model reads; give a table with it"
    with pytest.raises(InputError, match=message):
        result.model.predict(table.drop(columns="colour"))


def test_a_category_written_in_another_way_is_warned_of_where_it_was_asked(table, of_a_line):
    model = of_a_line.model
    shouted = table.assign(colour=table["colour"].str.upper())
    first = shouted["colour"][0]
    for ask in (model.predict, model.predict_proba):
        with pytest.warns(UserWarning, match="'colour'") as warned:
            ask(shouted)
        (warning,) = warned
        assert str(warning.message) == (
            f"240 of 240 values of 'colour' were never seen in training, such as {first!r} where "
            "'blue', 'green' and 'red' are known, and count as missing; write them as in training"
        )
        assert warning.filename == __file__


@pytest.mark.parametrize(
    ("n_rows", "n_new", "n_missing", "is_warned_of"),
    [(100, 91, 0, True), (100, 90, 0, False), (10, 10, 0, True), (9, 9, 0, False),
     (100, 10, 90, True), (100, 9, 91, False), (100, 0, 100, False)],
)  # fmt: skip
def test_some_new_categories_are_no_reason_to_warn(
    of_a_line, n_rows, n_new, n_missing, is_warned_of
):
    colours = [None] * n_missing + ["violet"] * n_new + ["red"] * (n_rows - n_new - n_missing)
    table = good_table(n_rows).assign(colour=colours)
    model = of_a_line.model
    if is_warned_of:
        with pytest.warns(UserWarning, match=f"{n_new} of {n_rows - n_missing} values of 'colour'"):
            model.predict(table)
    else:
        model.predict(table)


def typed_targets():
    """Targets of two or three classes, of each type a target may have."""
    yes = good_table()["churned"] == "yes"
    third = yes & (good_table()["income"] < 0)
    large = 2**60
    return {
        "integer": (yes.astype(int) + third, "integer", np.int64, {0, 1, 2}),
        "negative": (yes * 2 - 1, "integer", np.int64, {-1, 1}),
        # float64 would merge the two
        "large": (large + yes.astype(int), "text", np.str_, {str(large), str(large + 1)}),
        "small": (yes.astype("int8"), "integer", np.int64, {0, 1}),
        "number": (yes + 1.0, "number", np.float64, {1.0, 2.0}),
        "boolean": (yes, "boolean", np.bool_, {False, True}),
        "text": (yes.map({False: "no", True: "yes"}), "text", np.str_, {"no", "yes"}),
        "digits": (yes.map({False: "0", True: "1"}), "text", np.str_, {"0", "1"}),
        "signed": (yes.map({False: "-1", True: "1"}), "text", np.str_, {"-1", "1"}),
        "nearly text": (yes.map({False: "1", True: "x1"}), "text", np.str_, {"1", "x1"}),
    }


@pytest.mark.parametrize("name", typed_targets())
def test_predictions_have_the_type_of_the_target(name, tmp_path):
    target, kind, scalar, values = typed_targets()[name]
    table = good_table().assign(churned=target)
    result = select(data=table, store=tmp_path)
    assert result.contract["target"]["type"] == kind
    assert all(isinstance(label, str) for label in result.contract["target"]["classes"])
    for model in (result.model, chaffinch.load_run(result.run, store=tmp_path).model):
        prediction = model.predict(table)
        assert prediction.dtype.type is scalar
        assert set(model.classes) == set(prediction.tolist()) == values
        assert (prediction.astype(str) == table["churned"].astype(str)).mean() > 0.75
        best = model.predict_proba(table).argmax(axis=1)
        assert prediction.tolist() == [model.classes[place] for place in best]


def test_numbers_said_to_be_categories_are_predicted_as_text():
    code = good_table()["churned"].map({"no": "01", "yes": "1"})
    result = select(data=good_table().assign(churned=code), columns={"categorical": ["churned"]})
    assert result.contract["target"]["type"] == "text"
    assert set(result.model.predict(good_table()).tolist()) == {"01", "1"}


def test_a_regression_predicts_numbers_even_of_whole_ones():
    table = good_table().dropna()
    table = table.assign(churned=(10 * table["income"]).round().astype(int))
    result = select("lightgbm", data=table)
    assert result.contract["target"] == {
        "name": "churned", "task": "regression", "type": "integer", "classes": [],
    }  # fmt: skip
    predicted = result.model.predict(table)
    assert (predicted.dtype, predicted.shape) == (np.float64, (len(table),))
    assert np.corrcoef(predicted, table["churned"])[0, 1] > 0.95
    with pytest.raises(InputError, match="a regression model has no probabilities; call predict"):
        result.model.predict_proba(table)


def test_what_the_model_was_given_is_not_changed(result, table):
    before = table.copy()
    result.model.predict(table)
    result.transform(table)
    pd.testing.assert_frame_equal(table, before)


def test_categories_that_are_numbers():
    code = {"red": 7, "green": 1, "blue": 30}
    table = good_table().assign(colour=lambda rows: rows["colour"].map(code))
    result = select(data=table, columns={"categorical": ["colour"]})
    expected = probabilities(result, table)
    for kind in ("float64", "str", "int8"):
        np.testing.assert_array_equal(
            probabilities(result, table.astype({"colour": kind})), expected
        )
    with pytest.warns(UserWarning, match="such as '8' where '1', '7' and '30' are known"):
        unseen = probabilities(result, table.assign(colour=8))
    np.testing.assert_array_equal(unseen, probabilities(result, table.assign(colour=np.nan)))


@pytest.mark.parametrize("labels", [range(7), [("a", 1), ("a", ("b", 2)), 3.5, "c", "d", "e", "y"]])
def test_columns_named_by_numbers_or_tuples(labels):
    named = good_table().set_axis(pd.Index(labels, dtype=object), axis=1)
    result = chaffinch.select(named, named.columns[-1], model=LINEAR, method="anova_f")
    assert set(result.features) <= {*labels}
    assert list(result.transform(named).columns) == result.features
    assert len(result.model.predict(named)) == 240


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_transform_keeps_kind_and_rows(convert, table, of_a_line):
    result = of_a_line
    given = convert(table)
    kept = result.transform(given)
    assert type(kept) is type(given)
    assert list(getattr(kept, "column_names", kept.columns)) == result.features == list(KEPT)
    pd.testing.assert_frame_equal(
        kept if convert is pd.DataFrame else kept.to_pandas(), table[list(KEPT)], check_dtype=False
    )


def test_transform_keeps_a_lazy_table_lazy(table, of_a_line):
    kept = of_a_line.transform(pl.from_pandas(table).lazy())
    assert isinstance(kept, pl.LazyFrame)
    assert kept.collect().equals(pl.from_pandas(table[list(KEPT)]))
    by_dask = of_a_line.transform(dask.dataframe.from_pandas(table, npartitions=2))
    pd.testing.assert_frame_equal(by_dask.compute(), table[list(KEPT)], check_dtype=False)


@pytest.mark.parametrize(
    "convert",
    [pa.Table.to_reader, pyarrow.dataset.dataset, duckdb.connect().from_arrow],
    ids=["reader", "data set", "relation"],
)
def test_transform_reads_what_is_no_table_in_memory_as_arrow(convert, table, of_a_line):
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    kept = of_a_line.transform(convert(arrow))
    assert isinstance(kept, pa.Table)
    assert kept.to_pydict() == arrow.select(list(KEPT)).to_pydict()


@pytest.mark.parametrize(
    ("lazy", "remedy"),
    [
        (lambda table: pl.from_pandas(table).lazy(), "LazyFrame; give its .collect()"),
        (lambda table: dask.dataframe.from_pandas(table), "DataFrame; give its .compute()"),
    ],
    ids=["polars", "dask"],
)
def test_parts_of_dates_of_a_lazy_table_are_refused(lazy, remedy):
    days = pd.date_range("2024-01-01", periods=120)
    table = pd.DataFrame({"day": days, "y": days.day_of_week + np.arange(120) % 2})
    result = chaffinch.select(
        table, "y", model=LINEAR, method="anova_f", n_features=1, columns={"dates": "parts"}
    )
    with pytest.raises(InputError) as refused:
        result.transform(lazy(table))
    assert str(refused.value).endswith(remedy)


@pytest.mark.parametrize(
    "as_read",
    [
        lambda day: day.astype(str).astype("category"),
        lambda day: day.dt.date.astype("category"),
        lambda day: day.astype("category"),
    ],
    ids=["text", "dates", "times"],
)
def test_parts_of_dates_are_made_of_categories_as_of_a_folder_of_partitions(as_read):
    days = pd.Series(pd.date_range("2024-01-01", periods=120))
    table = pd.DataFrame({"day": days, "y": days.dt.day_of_week + np.arange(120) % 2})
    result = chaffinch.select(
        table, "y", model=LINEAR, method="anova_f", n_features=1, columns={"dates": "parts"}
    )
    newer = table.assign(day=as_read(days))
    result.contract.validate(newer)
    np.testing.assert_array_equal(result.model.predict(newer), result.model.predict(table))


def test_numbers_that_polars_holds_as_categories_are_read_as_those_of_pandas():
    table = good_table().assign(age=np.arange(240) % 9)
    result = select(data=table, keep=["age"])
    texts = pl.col("age").cast(pl.String).cast(pl.Categorical)
    newer = pl.from_pandas(table).with_columns(texts)
    result.contract.validate(newer)
    expected = result.model.predict_proba(newer.to_pandas())
    np.testing.assert_array_equal(result.model.predict_proba(newer), expected)


def test_transform_takes_a_kept_feature_from_a_named_index():
    indexed = good_table().set_index("age")
    result = select(data=indexed)
    assert "age" in result.features
    pd.testing.assert_frame_equal(
        result.transform(indexed), indexed.reset_index()[result.features], check_like=True
    )


def test_two_equal_index_levels_of_one_name_are_one_feature():
    levels = [good_table()["age"]] * 2
    indexed = good_table().drop(columns="age").set_index(pd.MultiIndex.from_arrays(levels))
    indexed.index.names = ["age", "age"]
    result = select(data=indexed)
    assert "age" in result.features
    pd.testing.assert_series_equal(
        result.transform(indexed)["age"], good_table()["age"], check_index=False
    )


def test_transform_of_what_does_not_fit(table, of_a_line):
    result = of_a_line
    with pytest.raises(InputError, match="the table lacks the kept feature 'age' and 1 more; give"):
        result.transform(table[["income"]])
    with pytest.raises(InputError, match="the table lacks 'age'"):
        result.transform(table.to_numpy())
    with pytest.raises(InputError, match="must be a pandas, polars or Arrow one but is a list"):
        result.transform([[1.0]])


def test_no_rows_have_no_predictions():
    table = good_table()
    model = select("lightgbm").model
    assert model.predict(table.head(0)).shape == (0,)
    assert model.predict_proba(table.head(0)).shape == (0, 2)
    assert model.predict_proba(pa.Table.from_pandas(table).slice(0, 0)).shape == (0, 2)


def test_masked_losses_of_a_regression_are_those_of_its_predictions():
    table = good_table()[["age", "income", "noise_1", "noise_2"]].dropna()
    result = chaffinch.select(table, "income", method="gbmo", model=LINEAR)
    X, y = table[result.features], table["income"]
    losses = chaffinch.masked_loss(result.model, X, y, loss="squared_error")
    assert losses.loss == pytest.approx(((result.model.predict(X) - y) ** 2).mean())


@pytest.mark.parametrize("as_csv", [False, True])
def test_points_that_may_mark_thousands_are_refused_unless_they_were_named_numeric(
    tmp_path, as_csv
):
    ages = np.random.default_rng(0).integers(1, 3000, 240)
    table = good_table().assign(age=ages)
    of_whole = select(data=table)
    pointed = table.assign(age=table["age"].map("{:,}".format).str.replace(",", "."))
    newer = pointed.drop(columns="churned")
    if as_csv:
        newer.to_csv(tmp_path / "newer.csv", index=False)
        newer = tmp_path / "newer.csv"
    for use in (of_whole.contract.validate, of_whole.model.predict):
        with pytest.raises(InputError, match="'age' seems to be written with points as marks"):
            use(newer)
    decimals = select(data=pointed, columns={"numeric": ["age"]})
    assert len(decimals.model.predict(newer)) == 240


def test_a_category_that_delimited_text_reads_as_missing_is_told_of(tmp_path):
    table = good_table().assign(colour=lambda made: made["colour"].replace("red", "NA"))
    result = select(data=table)
    newer = table.drop(columns="churned")
    result.model.predict(newer)
    with pytest.warns(UserWarning, match="'colour' is missing in 1 of 1 rows and in none 'NA'"):
        result.model.predict(newer[:1].assign(colour=None))
    newer.to_csv(tmp_path / "newer.csv", index=False)
    for use in (result.contract.validate, result.model.predict):
        with pytest.warns(
            UserWarning, match="'colour' is missing in .* and in none 'NA', a category"
        ):
            use(tmp_path / "newer.csv")


def test_a_word_among_booleans_is_named_and_not_one_of_them(tmp_path):
    table = good_table().assign(age=lambda made: made["age"] > 0)
    result = select(data=table)
    newer = table.astype({"age": str})
    newer.loc[100, "age"] = "unknown"
    for use in (result.contract.validate, result.model.predict):
        with pytest.raises(InputError, match="'unknown'"):
            use(newer)
