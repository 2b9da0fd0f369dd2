"""Differentiable selection of frames of pandas: nullable columns count as the numbers they hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from chaffinch import InputError, differentiable_selection, residual_variance

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(300, 6))
X[:, 4] = np.round(3 * X[:, 4])
X[:, 5] = X[:, 5] > 0
Y = 2 * X[:, 0] + X[:, 4] + 2 * X[:, 5] + 0.1 * RANDOM.normal(size=300)
FRAME = pd.DataFrame(X, columns=list("abcdef"))
NULLABLE = {
    "one of floats": {"c": "Float64"},
    "whole and true": {"a": "Float64", "e": "Int32", "f": "boolean"},
    "plain true": {"f": "bool"},
    "all": dict.fromkeys("abcdef", "Float64"),
    "of Arrow": {"a": "double[pyarrow]", "e": "int64[pyarrow]", "f": "bool[pyarrow]"},
    "numbers as categories": {"b": "Float64", "e": "category"},
    "objects": dict.fromkeys("abcdef", object),
}


@pytest.fixture(scope="module")
def plain():
    """Return what is found in the frame of plain numbers."""
    return differentiable_selection(FRAME, Y, n_features=3, steps=20)


@pytest.mark.parametrize("types", NULLABLE.values(), ids=NULLABLE)
def test_columns_without_gaps_are_what_they_hold(types, plain) -> None:
    frame, before = FRAME.astype(types), FRAME.astype(types)
    found = differentiable_selection(frame, Y, n_features=3, steps=20)
    assert found.features.tolist() == [0, 4, 5]
    assert (found.scores == plain.scores).all()
    pd.testing.assert_frame_equal(frame, before)
    kept = np.linspace(0, 1, 6)
    value, gradient = residual_variance(FRAME, Y, kept)
    again, slope = residual_variance(frame, Y, kept)
    assert (again, slope.tolist()) == (value, gradient.tolist())


def test_a_frame_is_of_float32_where_all_of_it_is() -> None:
    narrow = FRAME.astype("float32")
    expected = differentiable_selection(narrow, Y, n_features=3, steps=5)
    wide = differentiable_selection(narrow.astype("float64"), Y, n_features=3, steps=5)
    found = differentiable_selection(narrow.astype({"f": "bool"}), Y, n_features=3, steps=5)
    assert (found.scores == expected.scores).all()
    assert (found.scores != wide.scores).any()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            FRAME["c"].astype("Float64").mask(FRAME.index == 4),
            "X must be finite but column ('c'|2) is not",
        ),
        (
            FRAME["e"].astype("Int64").mask(FRAME.index >= 200),
            "X must be finite but column ('c'|2) is not",
        ),
        (FRAME["c"].astype(object).where(FRAME.index > 0, "x"), "column 'c' of X .* float: 'x'"),
        (FRAME["c"] * 1j, "column 'c' of X .*Complex data not supported"),
        (pd.Series(pd.date_range("2024-01-01", periods=300)), "column 'c' of X must hold real"),
        (
            pd.Series(pd.Categorical.from_codes(np.arange(300) % 2, ["no", "yes"])),
            "column 'c' of X .*'no'",
        ),
    ],
)
def test_the_column_that_has_a_gap_or_holds_no_numbers_is_named(column, said) -> None:
    for call in (
        lambda X: differentiable_selection(X, Y, n_features=3),
        lambda X: residual_variance(X, Y, np.ones(6)),
    ):
        with pytest.raises(InputError, match=f"^{said}") as refusal:
            call(FRAME.assign(c=column))
        assert "\n" not in str(refusal.value)
