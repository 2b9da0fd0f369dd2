"""The retrained model and `transform`, as met by a table of tomorrow: other kinds, other columns.

A row's prediction depends on its values alone, whatever the table that holds them.
"""

import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.made_up import good_table

MODELS = ["lightgbm", "xgboost", "mlp", "linear"]
KEPT = ("age", "colour", "income")


def select(model="lightgbm", data=None, target="churned", **options):
    data = good_table() if data is None else data
    options.setdefault("keep", KEPT)
    return chaffinch.select(
        data, target, model=ModelSettings(name=model, tuning="none"), method="flbmo",
        n_features=3, **options,
    )  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def result(request):
    return select(request.param)


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
    for given in (gaps, unseen, nothing, table[:1]):
        p = probabilities(result, given)
        assert p.shape == (len(given), 2)
        assert np.isfinite(p).all()
    np.testing.assert_array_equal(probabilities(result, unseen), probabilities(result, nothing))


def test_a_column_that_is_not_there(result, table):
    message = "the table lacks 'colour', a feature that the model reads; give a table with the"
    with pytest.raises(InputError, match=message):
        result.model.predict(table.drop(columns="colour"))


def test_text_where_numbers_were(result, table):
    with pytest.raises(InputError, match="column 'age' must hold numbers but row 1 holds 'old'"):
        result.model.predict(table.assign(age="old"))


def test_what_the_model_was_given_is_not_changed(result, table):
    before = table.copy()
    result.model.predict(table)
    result.transform(table)
    pd.testing.assert_frame_equal(table, before)


def test_a_regression_has_no_probabilities():
    table = good_table().drop(columns="churned").dropna()
    table["price"] = 3 * table["income"] + table["age"]
    result = select(data=table, target="price")
    prediction = result.model.predict(table)
    assert prediction.shape == (len(table),)
    assert np.corrcoef(prediction, table["price"])[0, 1] > 0.95
    with pytest.raises(InputError, match="a regression model has no probabilities; call predict"):
        result.model.predict_proba(table)


def test_categories_that_are_numbers():
    code = {"red": 7, "green": 1, "blue": 30}
    table = good_table().replace({"colour": code}).astype({"colour": int})
    result = select(data=table, categorical=["colour"])
    expected = probabilities(result, table)
    for kind in ("float64", "str", "int8"):
        np.testing.assert_array_equal(
            probabilities(result, table.astype({"colour": kind})), expected
        )
    unseen = probabilities(result, table.assign(colour=8))
    np.testing.assert_array_equal(unseen, probabilities(result, table.assign(colour=np.nan)))


def test_columns_named_by_numbers():
    numbered = good_table().set_axis(range(7), axis=1)
    result = chaffinch.select(numbered, "6", model=ModelSettings(tuning="none"), n_features=3)
    assert set(result.features) <= set("012345")
    assert list(result.transform(numbered).columns) == [int(name) for name in result.features]
    assert len(result.model.predict(numbered)) == 240


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_transform_keeps_kind_and_rows(convert, table):
    result = select()
    given = convert(table)
    kept = result.transform(given)
    assert type(kept) is type(given)
    assert tuple(getattr(kept, "column_names", kept.columns)) == result.features == KEPT
    pd.testing.assert_frame_equal(
        kept if convert is pd.DataFrame else kept.to_pandas(), table[list(KEPT)], check_dtype=False
    )


def test_transform_of_what_does_not_fit(table):
    result = select()
    with pytest.raises(InputError, match="the table lacks the kept feature 'age' and 1 more; give"):
        result.transform(table[["income"]])
    with pytest.raises(InputError, match="must be a pandas, polars or Arrow one but is a ndarray"):
        result.transform(table.to_numpy())


def test_a_hundred_thousand_rows_take_less_than_two_seconds():
    random = np.random.default_rng(0)
    names = [f"x{i}" for i in range(50)]
    large = pd.DataFrame(random.normal(size=(100_000, 50)), columns=names)
    small = large[:500].assign(y=large["x0"] + large["x1"])
    result = chaffinch.select(
        small, "y", model=ModelSettings(tuning="none"), keep=names, method="flbmo", n_features=50
    )
    result.model.predict(large[:10])
    began = time.process_time()
    result.model.predict(large)
    assert time.process_time() - began < 2
