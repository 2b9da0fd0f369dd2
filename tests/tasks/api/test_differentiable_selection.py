"""`chaffinch.differentiable_selection`: named columns, states in files, tables in pieces."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import chaffinch
from chaffinch import InputError

INFORMATIVE = [3, 17, 25]


def synthetic(n_rows=4000, n_features=60, seed=0):
    """Rows sorted by their target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    y = X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)
    order = np.argsort(y)
    return X[order], y[order]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_chosen_features_of_a_table_are_named(kind):
    X, y = synthetic(600, 30)
    table = kind({f"x{j}": X[:, j] for j in range(30)})
    found = chaffinch.differentiable_selection(table, y, n_features=3)
    assert list(found.names) == [f"x{j}" for j in found.features]
    assert chaffinch.differentiable_selection(X, y, n_features=3).names is None


def test_a_descent_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path) -> None:
    X, y = synthetic()
    rows, path = scipy.sparse.csr_array(X), tmp_path / "state.safetensors"
    whole = chaffinch.differentiable_selection(rows, y, n_features=3, steps=20)
    first = chaffinch.differentiable_selection(rows, y, n_features=3, steps=7)
    chaffinch.save_state(first.state, path)
    second = chaffinch.differentiable_selection(rows, y, n_features=3, steps=13, start=path)
    assert second.scores.tobytes() == whole.scores.tobytes()
    assert [*first.losses, *second.losses] == whole.losses.tolist()
    newer, of_newer = synthetic(seed=1)
    later = chaffinch.differentiable_selection(
        scipy.sparse.csr_array(newer), of_newer, n_features=3, start=str(path)
    )
    assert later.features.tolist() == INFORMATIVE
    assert later.state.learned.columns.n_rows == 8_000


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_pieces_of_a_table_one_after_the_other_choose_what_the_whole_table_does(form) -> None:
    X, y = synthetic(10_000, 40)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = scipy.sparse.csr_array(X[order]) if form == "sparse" else X[order], y[order]
    state = None
    for first in range(0, 10_000, 1_000):
        piece = slice(first, first + 1_000)
        found = chaffinch.differentiable_selection(X[piece], y[piece], n_features=3, start=state)
        state = found.state
    whole = chaffinch.differentiable_selection(X, y, n_features=3)
    assert found.features.tolist() == whole.features.tolist() == INFORMATIVE
    assert state.learned.columns.n_rows == 10_000
    np.testing.assert_allclose(
        state.learned.columns.mean, whole.state.learned.columns.mean, rtol=1e-9, atol=1e-12
    )


def test_what_cannot_be_is_an_error_of_the_user_in_one_line(tmp_path) -> None:
    X, y = synthetic(1200)
    found = chaffinch.differentiable_selection(X, y, n_features=3, steps=1)
    for options, said in (
        ({"start": tmp_path / "none"},
         "start .*none cannot be read: No such .*; name a file that .*save_state wrote$"),
        ({"start": tmp_path}, "is a folder; name a file that chaffinch.save_state wrote$"),
        ({"start": found}, "start must be the state of a descent but is .* as in result.state"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said) as refusal:
            chaffinch.differentiable_selection(X, y, n_features=3, **options)
        assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=r"state must be the state of a .* as in result.state"):
        chaffinch.save_state(found, tmp_path / "state")
    (tmp_path / "state").write_bytes(b"x")
    with pytest.raises(InputError, match="is a folder; name a file in it"):
        chaffinch.save_state(found.state, tmp_path)
    with pytest.raises(InputError, match=f"start {tmp_path}/state: the state cannot be read"):
        chaffinch.differentiable_selection(X, y, n_features=3, start=tmp_path / "state")
