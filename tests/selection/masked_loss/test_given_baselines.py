"""What a baseline may be: a word, values in order, or values by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from chaffinch import InputError, masked_loss

NAMES = list("abcd")
X = np.random.default_rng(0).normal(size=(50, 4))
FRAME = pd.DataFrame(X, columns=NAMES)
Y = X @ np.array([1.0, 2, 3, 4])


def row_of_the_baseline(given, baseline, **how) -> list[float]:
    """Return what the model is given in a row of which every feature is masked."""
    seen = []

    def predict(table):
        seen.append(np.asarray(table)[0].tolist())
        return np.asarray(table) @ np.array([1.0, 2, 3, 4])

    engine = masked_loss(predict, given, Y, loss="squared_error", baseline=baseline, **how)
    engine([np.zeros(4, dtype=bool)])
    return seen[-1]


def test_a_series_is_taken_by_its_names() -> None:
    backwards = pd.Series([4.0, 3, 2, 1], index=NAMES[::-1])
    assert row_of_the_baseline(FRAME, backwards) == [1, 2, 3, 4]
    of_an_array = pd.Series([4.0, 3, 2, 1], index=["x3", "x2", "x1", "x0"])
    assert row_of_the_baseline(X, of_an_array) == [1, 2, 3, 4]
    assert row_of_the_baseline(FRAME, FRAME.median()) == pytest.approx(np.median(X, axis=0))


def test_a_series_of_some_features_leaves_the_others_their_mean_as_a_mapping_does() -> None:
    expected = [*X[:, :2].mean(axis=0), 7, X[:, 3].mean()]
    for some in (pd.Series({"c": 7.0}), {"c": 7.0}):
        assert row_of_the_baseline(FRAME, some) == pytest.approx(expected)


def test_a_series_that_is_numbered_only_is_taken_in_order() -> None:
    for given in (X, FRAME):
        assert row_of_the_baseline(given, pd.Series([1.0, 2, 3, 4])) == [1, 2, 3, 4]
    # numbers that are names are names
    numbered = FRAME.set_axis([3, 2, 1, 0], axis=1)
    assert row_of_the_baseline(numbered, pd.Series([1.0, 2, 3, 4])) == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (pd.Series([1.0, 2, 3, 4], index=list("abcx")), "baseline names 'x', which is no feature"),
        (pd.Series([1.0, 2, 3, 4], index=[3, 2, 1, 0]), "baseline names 3, which is no feature"),
        (pd.Series([1.0, 2, 3]), r"one value for each of the 4 features but has shape \(3,\)"),
        (pd.Series([1.0, 2, 3, 4, 5], index=list("abcda")), "baseline must .* but names 'a' twice"),
        (pd.Series({"b": np.nan}), "baseline of 'b' must be a finite number but is nan"),
    ],
)
def test_a_series_that_fits_neither_names_nor_order_is_refused(baseline, message: str) -> None:
    with pytest.raises(InputError, match=message):
        row_of_the_baseline(FRAME, baseline)


def test_means_and_medians_count_the_weights() -> None:
    weight = np.where(np.arange(50) < 40, 1e-6, 1.0)
    mean = row_of_the_baseline(X, "mean", sample_weight=weight)
    assert mean == pytest.approx(np.average(X, axis=0, weights=weight))
    median = row_of_the_baseline(X, "median", sample_weight=weight)
    assert all(X[40:, j].min() <= median[j] <= X[40:, j].max() for j in range(4))
