"""Near copies among columns, against pandas and by their laws."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.near_copies import near_copies


def groups_of(X, n_categories=None):
    d = np.shape(X)[1]
    schema = Schema(tuple(map(str, range(d))), tuple(n_categories or [0] * d))
    found = near_copies(Rows(np.asarray(X, dtype=float), np.zeros(len(X))), schema)
    return [group.tolist() for group in found]


def spearman(a, b):
    ranks = [pd.Series(x).rank(na_option="bottom") for x in (a, b)]
    return abs(np.corrcoef(*ranks)[0, 1])


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_copies_are_found_on_any_monotone_scale_and_with_little_noise(random):
    z, other = random.normal(size=(2, 300))
    X = np.column_stack([z, other, np.exp(z), -z, z + 0.01 * other, other**3, z + other])
    assert groups_of(X) == [[0, 2, 3, 4], [1, 5]]


@given(st.integers(0, 10_000))
def test_two_columns_are_alike_as_pandas_ranks_them(seed):
    random = np.random.default_rng(seed)
    a = random.integers(0, random.integers(2, 60), 50).astype(float)
    b = a + random.integers(-1, 2, 50) * (random.random(50) < random.random() / 4)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert groups_of(np.column_stack([a, b])) == []
        return
    expected = [[0, 1]] if spearman(a, b) > 0.98 else []
    assert groups_of(np.column_stack([a, b])) == expected


def test_missing_cells_are_a_part_of_what_is_copied(random):
    z, other = random.normal(size=(2, 400))
    missing = random.random(400) < 0.9
    gaps, other_gaps = np.where(missing, np.nan, z), np.where(missing, np.nan, other)
    assert groups_of(np.column_stack([z, gaps])) == []
    # ranked last, so many missing cells alone would make unlike values alike
    assert spearman(gaps, other_gaps) > 0.98
    assert groups_of(np.column_stack([gaps, other_gaps, 2 * gaps])) == [[0, 2]]
    flag = np.where(missing, np.nan, 1.0)
    assert groups_of(np.column_stack([flag, 3 * flag, gaps])) == [[0, 1]]


def test_categories_are_copies_if_they_part_the_rows_alike(random):
    a = random.integers(0, 5, 200).astype(float)
    renamed = (3 * a + 2) % 5
    coarser = np.minimum(a, 3)
    gone = np.where(a == 2, np.nan, a)
    X = np.column_stack([a, renamed, coarser, gone, a])
    assert groups_of(X, [5] * 5) == [[0, 1, 3, 4]]
    assert groups_of(X, [5, 5, 5, 5, 0]) == [[0, 1, 3]]  # a number is no category


def test_columns_that_do_not_vary_are_no_copies():
    assert groups_of(np.ones((9, 3)), [0, 0, 2]) == []
    assert groups_of(np.full((9, 2), np.nan), [0, 2]) == []


def test_in_a_group_every_two_are_alike(random):
    """A chain of lags: each is like the next, the first is not like the last."""
    walk = np.cumsum(random.normal(size=500))
    lags = np.column_stack([walk[lag : lag + 400] for lag in range(60)])
    lags = np.column_stack([lags, lags[:, 7], lags[:, 7]])
    assert spearman(lags[:, 0], lags[:, 1]) > 0.98 > spearman(lags[:, 0], lags[:, 59])
    groups = groups_of(lags)
    for group in groups:
        assert all(spearman(lags[:, i], lags[:, j]) > 0.98 for i in group for j in group)
    assert any({7, 60, 61} <= set(group) for group in groups)


def mixed(random, n_rows, n_columns):
    base = random.normal(size=(n_rows, 4))
    noise = random.choice([0.0, 0.05, 0.15, 0.3], n_columns)
    X = base[:, random.integers(0, 4, n_columns)]
    X = X + noise * random.normal(size=X.shape)
    X[random.random(X.shape) < 0.002] = np.nan
    n_categories = random.choice([0, 0, 0, 3], n_columns).tolist()
    for j in np.flatnonzero(n_categories):
        X[:, j] = (np.nan_to_num(X[:, j]) // 0.5 + 9) % 3
    return X, n_categories


@given(st.integers(0, 10_000))
def test_the_order_of_rows_and_columns_changes_no_group(seed):
    random = np.random.default_rng(seed)
    X, n_categories = mixed(random, 120, 30)
    rows, columns = random.permutation(120), random.permutation(30)
    shuffled = groups_of(X[rows][:, columns], [n_categories[j] for j in columns])
    assert sorted(sorted(columns[group].tolist()) for group in shuffled) == groups_of(
        X, n_categories
    )


def test_blocks_of_columns_change_no_group(random, monkeypatch):
    X, n_categories = mixed(random, 200, 90)
    expected = groups_of(X, n_categories)
    assert expected
    monkeypatch.setattr("chaffinch.tasks.selection.near_copies._BLOCK", 7)
    assert groups_of(X, n_categories) == expected
