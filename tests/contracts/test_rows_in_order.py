"""A table and its target are in one order of rows: a series in another is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import chaffinch
from chaffinch.errors import InputError

RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(300, 4)), columns=list("abcd"))
Y = (2 * X["b"] - X["d"]).rename("y")
MODEL = LinearRegression().fit(X, Y)
DOORS = {
    "differentiable": lambda X, y: chaffinch.differentiable_selection(X, y, n_features=2, steps=5),
    "residual variance": lambda X, y: chaffinch.residual_variance(X, y, np.full(4, 0.5)),
    "probabilistic": lambda X, y: chaffinch.probabilistic_selection(
        X, y, n_features=2, hidden_layer_sizes=(3,), most_sweeps=1
    ),
    "quality": lambda X, y: chaffinch.qualities.binned_mutual_information(X, y),
    "masked loss": lambda X, y: chaffinch.masked_loss(MODEL, X, y, loss="squared_error"),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_same_labels_in_another_order_are_refused(door: str) -> None:
    of_door: Any = DOORS[door]
    shuffled = Y.sample(frac=1, random_state=0)
    error = ValueError if door == "residual variance" else InputError  # which is mathematics alone
    with pytest.raises(error, match=r"^y has the row labels of X in .*; give y.loc\[X.index\]$"):
        of_door(X, shuffled)
    of_door(X, shuffled.loc[X.index])
    with pytest.raises(error, match=r"^y has other row labels than X.*y.reset_index\(drop=True"):
        of_door(X, Y.set_axis(range(1000, 1300)))
    of_door(X, Y.to_numpy())


def test_select_and_the_selector_refuse_them_too() -> None:
    shuffled = Y.sample(frac=1, random_state=0)
    with pytest.raises(InputError, match=r"give target.loc\[X.index\]$"):
        chaffinch.select(X, shuffled, model="linear")
    selector = chaffinch.FeatureSelector("correlation", n_features=1, model="linear")
    with pytest.raises(InputError, match=r"give y.loc\[X.index\]$"):
        selector.fit(X, shuffled)
    for role in ("sample_weight", "groups", "time"):
        with pytest.raises(InputError, match=rf"give {role}.loc\[X.index\]$"):
            selector.fit(X, Y, **{role: pd.Series(range(1, 301)).iloc[::-1]})
    repeated = X.set_axis([0] * 300)
    with pytest.raises(InputError, match="target has other row labels than X"):
        chaffinch.select(repeated, Y, model="linear")


def test_weights_in_another_order_are_refused() -> None:
    weights = pd.Series(np.arange(1.0, 301.0)).iloc[::-1]
    with pytest.raises(InputError, match=r"give sample_weight.loc\[X.index\]$"):
        chaffinch.masked_loss(MODEL, X, Y, loss="squared_error", sample_weight=weights)
