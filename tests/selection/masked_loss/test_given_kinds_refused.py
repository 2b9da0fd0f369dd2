"""What looks like numbers but is none to a model is refused in a line that names the remedy."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import torch

from chaffinch import InputError, masked_loss

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0]
WITH_INFINITY = np.where(np.arange(60).reshape(20, 3) == 10, np.inf, X)


def first(table) -> np.ndarray:
    return np.asarray(table)[:, 0]


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("Sparse data was passed for X", {"X": scipy.sparse.csr_array(X)}),
        ("; give an array of numbers, or a pandas frame", {"X": polars.LazyFrame(X)}),
        ("Use tensor.detach().numpy() instead", {"X": torch.tensor(X, requires_grad=True)}),
        (
            "X must hold real numbers but holds datetime64[s]; give an array of numbers",
            {"X": X.astype("datetime64[s]")},
        ),
        (
            "y must hold numbers, true and false, or text but holds datetime64[s]; give floats",
            {"y": np.arange(20).astype("datetime64[s]")},
        ),
        (
            "column 'b' of X must hold numbers, categories or text but is object",
            {"X": pd.DataFrame({"a": Y, "b": [[1]] * 20})},
        ),
        (
            "baseline 'mean' of 'x1' is inf, for the column holds infinite values",
            {"X": WITH_INFINITY, "baseline": "mean"},
        ),
        (
            "the model's prediction cannot be read (Can't call numpy() on Tensor",
            {"model": lambda table: torch.tensor(table[:, 0], requires_grad=True)},
        ),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(message: str, changed) -> None:
    given = {"model": first, "X": X, "y": Y, "loss": "squared_error", **changed}
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        masked_loss(**given)
    assert "\n" not in str(refusal.value)
