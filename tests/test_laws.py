"""What holds of every method, whatever the model and the table."""

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ModelSettings
from tests.made_up import good_table

METHODS = ["gbmo", "flbmo"]
MODELS = ["lightgbm", "xgboost", "mlp", "linear"]
INFORMATIVE = {"age", "colour", "income"}
SEEDS = range(5)


def select(table, method, model, *, seed=0, n_features=3):
    settings = ModelSettings(name=model, tuning="none")
    return chaffinch.select(
        table, "churned", method=method, model=settings, n_features=n_features, seed=seed
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_informative_features_are_found_and_no_constant_among_them(method, model):
    results = [
        select(good_table(400, seed).assign(same=1.5), method, model, seed=seed) for seed in SEEDS
    ]
    kept = [set(result.features) for result in results]
    assert all(0 < len(features) <= 3 for features in kept)
    assert not any("same" in features for features in kept)
    assert sum(len(features & INFORMATIVE) for features in kept) >= 0.9 * sum(map(len, kept))
    assert sum(features >= {"colour"} for features in kept) >= 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_the_order_of_rows_does_not_matter(method, model):
    table = good_table()
    turned = table.sample(frac=1, random_state=3)
    assert select(turned, method, model).contract == select(table, method, model).contract


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", ["lightgbm", "linear"])
def test_the_order_of_columns_does_not_matter(method, model):
    table = good_table(400)
    turned = table[table.columns[::-1]]
    one, other = (select(t, method, model) for t in (table, turned))
    assert set(one.features) == set(other.features)
    assert one.path["feature"].tolist() == other.path["feature"].tolist()
    np.testing.assert_allclose(one.path["loss"], other.path["loss"], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_of_a_feature_is_not_needed_beside_it(method):
    """The lowest index wins a tie, so the copy further left goes first."""
    table = good_table(400)
    table.insert(0, "income_again", table["income"])
    result = select(table, method, "lightgbm")
    assert not {"income", "income_again"} <= set(result.features)


@pytest.mark.parametrize("method", METHODS)
def test_a_table_of_one_feature_keeps_it(method):
    table = good_table()[["colour", "churned"]]
    assert select(table, method, "lightgbm", n_features=1).features == ["colour"]


def test_noise_alone_is_not_called_a_gain():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(400, 8)), columns=list("abcdefgh"))
    table["churned"] = random.permutation(["yes", "no"] * 200)
    low, high = select(table, "gbmo", "linear", n_features=4).comparison["interval"]
    assert low < 0.05
    assert high > -0.05
