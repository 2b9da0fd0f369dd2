"""Predictions of `chaffinch.probabilistic_selection`: columns and categories go by their names."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import chaffinch
from chaffinch import InputError


def table(n=300):
    """Return rows whose class depends on a category and a number, and not on a third column."""
    random = np.random.default_rng(0)
    colour = random.choice(["blue", "green", "red"], n)
    X = pd.DataFrame({"noise": random.normal(size=n), "colour": colour})
    X["size"] = random.normal(size=n)
    return X, ((colour == "blue") * 2 - (colour == "red") * 2 + X["size"] > 0).to_numpy()


def searched(X, y, **options):
    given = {"n_features": 2, "hidden_layer_sizes": (16,), "most_sweeps": 2, **options}
    if "network" in options:
        del given["hidden_layer_sizes"]
    return chaffinch.probabilistic_selection(X, y, **given)


@pytest.fixture(scope="module")
def one():
    return searched(*table())


@pytest.fixture(scope="module", name="X")
def features():
    return table()[0]


def of_both(one, X):
    """Return predictions under the mask, and on the mean of masks."""
    return np.hstack([one.predict(X), one.predict_averaged(X, 3)])


def test_a_rows_prediction_does_not_depend_on_what_other_rows_are_given(one, X):
    assert one.features == ("colour", "size")
    whole, some = of_both(one, X), (X["colour"] != "blue").to_numpy()
    assert of_both(one, X[some]) == pytest.approx(whole[some], abs=1e-12)
    assert of_both(one, X.iloc[7:8]) == pytest.approx(whole[7:8], abs=1e-12)
    assert of_both(one, X[:0]).shape == (0, 4)


def test_the_order_of_columns_and_of_categories_does_not_matter(one, X):
    whole = of_both(one, X)
    assert (of_both(one, X[["size", "colour", "noise"]]) == whole).all()
    assert (of_both(one, X.set_index("noise", drop=False)) == whole).all()
    for order in (["red", "green", "blue"], ["white", "red", "blue", "green"]):
        again = X.assign(colour=pd.Categorical(X["colour"], order))
        assert (of_both(one, again) == whole).all()


def test_columns_that_are_not_kept_are_not_looked_at_under_the_mask(one, X):
    kept = one.predict(X)
    assert (one.predict(X[["size", "colour"]]) == kept).all()
    for noise in (np.inf, 1e300, "text", 1j):
        assert (one.predict(X.assign(noise=noise)) == kept).all()
    with pytest.raises(InputError, match="the table lacks 'noise', a feature that the model reads"):
        one.predict_averaged(X[["size", "colour"]])


def test_an_unknown_category_counts_as_missing_as_in_the_model_of_a_run(one, X):
    new, missing = X.copy(), X.copy()
    new.loc[::5, "colour"], missing.loc[::5, "colour"] = "white", None
    assert (of_both(one, new) == of_both(one, missing)).all()
    with pytest.warns(UserWarning, match="300 of 300 values of 'colour' were never seen") as told:
        one.predict(X.assign(colour=1))
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="300 of 300 values of 'colour' were never seen") as told:
        one.predict_averaged(X.assign(colour="white"), 1)
    assert told[0].filename == __file__


@pytest.mark.parametrize("categories", [[10, 20, 30], [1.5, 2.0, 3.0], ["01", "02", "1"]])
def test_categories_that_are_numbers_or_look_so_are_known_again(categories):
    X, y = table()
    codes = pd.Categorical(X["colour"]).codes
    X["colour"] = pd.Categorical(np.array(categories)[codes])
    one = searched(X, y)
    whole = one.predict(X)
    assert (one.predict(X.assign(colour=np.array(categories)[codes])) == whole).all()
    some = X["colour"] != categories[0]
    assert one.predict(X[some]) == pytest.approx(whole[some], abs=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X: X.rename(columns={"size": "length"}),
         "the table lacks 'size', a feature that the model reads; give a table with it"),
        (lambda X: X.assign(size=X["size"].astype(str)),
         "column 'size' of X holds text or categories; the model learnt from numbers"),
        (lambda X: X.assign(size=X["size"].astype("category")),
         "column 'size' of X holds text or categories; the model learnt from numbers"),
        (lambda X: X.assign(size=np.inf), "X must be finite but feature 'size' is not; clip it"),
        (lambda X: X.assign(colour=1.0).to_numpy(),
         "X must be a pandas frame, as 'colour' was searched by its categories, but is ndarray"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_was_in_the_search_is_refused_in_one_line(one, X, change, said):
    for predict in (one.predict, one.predict_averaged):
        with pytest.raises(InputError) as refusal:
            predict(change(X))
        assert said in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_all_columns_that_are_missing_are_named_and_no_other(one, X):
    with pytest.raises(InputError) as refusal:
        one.predict(X[["noise"]])
    assert str(refusal.value) == (
        "the table lacks 'colour' and 'size', features that the model reads; give a table with them"
    )
    wide = pd.DataFrame(
        np.random.default_rng(0).normal(size=(60, 14)), columns=list("abcdefghijklmn")
    )
    many = searched(wide, wide["a"] > 0, n_features=13)
    there = many.features[:3]
    with pytest.raises(InputError) as refusal:
        many.predict(wide[[*there]])
    missing = [name for name in many.features if name not in there]
    assert f"lacks {', '.join(map(repr, missing[:5]))} and 5 more, features" in str(refusal.value)
    assert not any(repr(name) in str(refusal.value) for name in there)


def small_network():
    """Return a network with the same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("options", [{}, {"network": small_network(), "most_sweeps": 8}])
def test_numbers_beyond_those_of_the_search_are_refused_as_there(options):
    X, y = table()
    one = searched(X, y, **options)
    assert one.features == ("colour", "size")
    for far in (1e45, -1e45, 1.1e30):
        for predict in (one.predict, one.predict_averaged):
            with pytest.raises(InputError) as refusal:
                predict(X.assign(size=X["size"].mask(X.index == 6, far)))
            assert str(refusal.value) == (
                "feature 'size' of X must lie within -1e+30..1e+30, which models can compute with, "
                f"but is {far:g} in row 7: rescale it, or leave it empty"
            )
    assert np.isfinite(one.predict(X.assign(size=1e30))).all()
    assert np.isfinite(one.predict(X.assign(noise=1e45))).all()


def test_true_and_false_are_read_in_whatever_type_they_come():
    X, y = table()
    X["size"] = X["size"] > 0
    one = searched(X, y)
    assert one.features == ("colour", "size")
    whole = one.predict(X)
    for dtype in (object, "boolean", float):
        assert (one.predict(X.astype({"size": dtype})) == whole).all()
    gaps = X.assign(size=X["size"].astype(object).mask(X.index % 7 == 0))
    assert (one.predict(gaps) == one.predict(gaps.astype({"size": "boolean"}))).all()


@pytest.mark.parametrize("network", [None, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))])
def test_an_array_is_read_by_position(network):
    X, y = table()
    numbers = X.assign(colour=(X["colour"] == "blue") * 1.0 - (X["colour"] == "red"))
    options = {} if network is None else {"network": network}
    one = searched(numbers.to_numpy(), y, **options)
    whole = one.predict(numbers.to_numpy())
    assert (one.predict(numbers) == whole).all()
    infinite = numbers.to_numpy().copy()
    infinite[3, ~one.mask] = np.inf
    assert (one.predict(infinite) == whole).all()
    infinite[3, one.mask] = np.inf
    with pytest.raises(InputError, match=r"X must be finite but feature 'x\d' is not; clip it"):
        one.predict(infinite)
    with pytest.raises(InputError, match="X must have 3 features but has 2"):
        one.predict(infinite[:, :2])
    with pytest.raises(InputError, match="column 'x1' of X holds text or categories"):
        one.predict(X)
