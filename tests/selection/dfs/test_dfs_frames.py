"""Differentiable selection of frames of pandas: nullable columns count as the numbers they hold."""

from __future__ import annotations

import re

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
    found = differentiable_selection(narrow.astype({"b": "Float32"}), Y, n_features=3, steps=5)
    assert (found.scores == expected.scores).all()
    assert (found.scores != wide.scores).any()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            FRAME["c"].astype("Float64").mask(FRAME.index == 4),
            "X must have a value in every row but has none in row 5 of column 'c'; fill what is "
            "missing, as with the mean, or leave the row out",
        ),
        (
            FRAME["e"].astype("Int64").mask(FRAME.index >= 200),
            "X must have a value in every row but has none in row 201 of column 'c'; fill",
        ),
        (FRAME["c"].astype(str), "X must hold real numbers but column 'c' holds str; give numbers"),
        (FRAME["c"].astype(object), "X must hold real numbers but column 'c' holds object; give"),
        (FRAME["c"] * 1j, "X must hold real numbers but column 'c' holds complex128; give numbers"),
        (
            pd.Series(pd.date_range("2024-01-01", periods=300)),
            "X must hold real numbers but column 'c' holds datetime64",
        ),
        (
            pd.Series(pd.Categorical.from_codes(np.arange(300) % 2, ["no", "yes"])),
            "X must hold real numbers but column 'c' holds category; give numbers",
        ),
    ],
)
def test_a_gap_is_told_by_row_and_column_and_what_is_no_number_by_its_column(column, said) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        differentiable_selection(FRAME.assign(c=column), Y, n_features=3)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        residual_variance(FRAME.assign(c=column), Y, np.ones(6))
