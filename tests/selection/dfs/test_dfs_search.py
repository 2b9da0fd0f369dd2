"""The descent against Adam by torch, and what is chosen on tables whose answer is known."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise

import numba
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from threadpoolctl import threadpool_limits

from chaffinch import differentiable_path, differentiable_selection
from chaffinch.tasks.selection.dfs.batches import Draws
from chaffinch.tasks.selection.dfs.descent import Descent
from chaffinch.tasks.selection.dfs.estimate import chain_weights, dense_z
from chaffinch.tasks.selection.dfs.learning import learn
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.residual_variance import read_table
from tests.flows.cli.programs import python
from tests.selection.dfs.synthetic import outputs_in

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
INFORMATIVE = [3, 17, 25]


def synthetic(n_rows=1500, n_features=120, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    X[:, 9] = 1.5
    return X, X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


@pytest.mark.parametrize("penalty", [0.0, 3.0, 4000.0])
@FORMS
def test_a_step_is_one_of_torchs_adam_on_rows_in_an_order_of_their_own(penalty, form) -> None:
    """The highest penalty is clipped; a constant column is out from the start, and stays there.

    A step is the mean over batches of 100 rows and more, as the table has no 1,000 rows.
    """
    X, y = synthetic(205, 60)
    table, outputs = read_table(X), outputs_in(y)
    rows = np.random.default_rng(5)
    v = torch.zeros(60, dtype=torch.float64)
    v[9] = -30
    v.requires_grad_()
    adam = torch.optim.Adam([v], lr=0.1)
    data = Observations(as_form(X, form), y)
    learned = learn(data, None)
    off = 1 / (X[:, 0].std() * table.inverse[0]) / learned.top  # a descent's value is less exact
    table = replace(table, inverse=table.inverse * off, rest=table.rest * off)
    descent = Descent(data, learned, Draws(205, 100, 5), 4)
    for _ in range(9):
        order = rows.permutation(205)
        s = torch.sigmoid(2 * v)
        kept = s.detach().numpy()
        estimates = [
            dense_z(table, batch, kept, outputs[batch], chain_weights(4, 102))
            for batch in (order[:102], order[102:204])
        ]
        z, slope = (sum(parts) / 2 for parts in zip(*estimates, strict=True))
        adam.zero_grad()
        s.backward(torch.from_numpy(penalty / 60 - slope))
        torch.nn.utils.clip_grad_norm_([v], 1.0)
        step = descent.step(penalty=penalty)
        assert step.loss == pytest.approx(1 - z + penalty / 60 * kept.sum(), rel=1e-9)
        assert step.kept == pytest.approx(kept.sum(), rel=1e-9)
        adam.step()
        np.testing.assert_allclose(descent.v, v.detach().numpy(), rtol=1e-6, atol=1e-9)


@FORMS
@pytest.mark.parametrize("order", [1, 4, 8])
def test_what_makes_the_target_is_chosen(form, order) -> None:
    X, y = synthetic()
    found = differentiable_selection(as_form(X, form), y, n_features=3, order=order)
    assert found.features.tolist() == INFORMATIVE
    assert found.scores.argsort()[-3:].tolist() != [117, 118, 119]
    assert found.scores[9] == -30  # constant
    assert found.kept[9] < 1e-20
    assert len(found.losses) == len(found.sums) == len(found.penalties) < 1000
    assert found.losses[-1] < found.losses[0]
    np.testing.assert_allclose(found.kept, 1 / (1 + np.exp(-2 * found.scores)), rtol=1e-12)


@FORMS
def test_classes_are_chosen_for_whatever_they_are_called(form) -> None:
    X, y = synthetic()
    two, three = np.where(y > 0, "yes", "no"), np.digitize(y, [-2, 2])
    X[:, 50] += (three == 1) * 2.0
    for target, expected in ((two, INFORMATIVE), (three, [3, 17, 25, 50])):
        found = differentiable_selection(as_form(X, form), target, n_features=len(expected))
        assert found.features.tolist() == expected
    as_numbers = differentiable_selection(as_form(X, form), (two == "yes") * 7.0 - 3, n_features=3)
    by_name = differentiable_selection(as_form(X, form), two, n_features=3)
    np.testing.assert_allclose(as_numbers.scores, by_name.scores, rtol=1e-6)


def test_dense_and_sparse_and_float32_go_the_same_way() -> None:
    X, y = synthetic()
    dense = differentiable_selection(X, y, n_features=10)
    sparse = differentiable_selection(scipy.sparse.csc_array(X), y, n_features=10)
    np.testing.assert_allclose(sparse.scores, dense.scores, rtol=1e-6, atol=1e-9)
    for form in ("dense", "sparse"):
        single = differentiable_selection(as_form(X.astype(np.float32), form), y, n_features=10)
        assert set(single.features) >= set(INFORMATIVE)
        np.testing.assert_allclose(single.losses[:100], dense.losses[:100], atol=0.02)


@pytest.mark.parametrize("n_features", [5, 20, 60])
def test_the_penalty_rises_until_the_number_asked_for_is_left(n_features) -> None:
    random = np.random.default_rng(0)
    X = scipy.sparse.random_array((1500, 2000), density=0.02, rng=random, format="csr")
    y = X[:, :100] @ random.normal(size=100) + 0.3 * random.normal(size=1500)
    found = differentiable_selection(X, y, n_features=n_features)
    assert 0 <= n_features - found.n_left <= max(1, 0.1 * n_features)
    assert found.n_left == int((found.kept > 0.5).sum())
    penalties = np.unique(found.penalties)
    assert np.all(np.diff(found.penalties) >= 0)
    np.testing.assert_allclose(penalties[1:] / penalties[:-1], np.sqrt(2), rtol=1e-12)
    assert set(np.unique(found.penalties, return_counts=True)[1][:-1]) == {15}
    assert len(found.features) == n_features
    assert np.all(np.diff(found.features) > 0)


def test_a_penalty_keeps_fewer_the_larger_it_is_and_a_path_goes_on_from_the_last() -> None:
    X, y = synthetic()
    penalties = [0.1, 0.5, 4.0, 1000.0]
    path = differentiable_path(X, y, penalties=iter(penalties), steps=30)
    sizes = [len(found.features) for found in path]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0
    assert sizes[0] > 3
    first = differentiable_selection(X, y, penalty=0.1, steps=30)
    assert (first.scores == path[0].scores).all()
    for before, after in pairwise(path):
        assert after.sums[0] == pytest.approx(before.kept.sum(), rel=1e-9)
    for found, penalty in zip(path, penalties, strict=True):
        np.testing.assert_allclose(found.penalties, penalty)


@FORMS
def test_the_unit_of_the_target_and_of_columns_does_not_matter(form) -> None:
    X, y = synthetic()
    one = differentiable_selection(as_form(X, form), y, n_features=8)
    other = differentiable_selection(as_form(X * 2.0**9, form), 1e200 * y + 1e199, n_features=8)
    np.testing.assert_allclose(other.scores, one.scores, rtol=1e-4, atol=1e-6)


def test_rows_sorted_by_their_target_are_no_worse_than_any_others() -> None:
    X, y = synthetic()
    order = np.argsort(y)
    for seed in range(3):
        found = differentiable_selection(X[order], y[order], n_features=3, seed=seed)
        assert found.features.tolist() == INFORMATIVE


def test_large_tables_are_read_in_batches_of_a_thousand_rows_at_least() -> None:
    steps = Draws(2900, 1000, 0).steps()
    batches = [rows for (rows,) in (next(steps) for _ in range(5))]
    assert [len(batch) for batch in batches] == [1450] * 5
    for first, second in ((0, 1), (2, 3)):
        both = np.r_[batches[first], batches[second]]
        assert sorted(both) == list(range(2900))
    assert (batches[0] != batches[2]).any()


@pytest.mark.parametrize(("batch_rows", "order"), [(8, 1), (100, 4)])
def test_small_batches_have_a_thousand_rows_together_in_a_step(batch_rows, order) -> None:
    batches = next(Draws(2900, batch_rows, 0).steps())
    rows = np.concatenate(batches)
    assert {len(batch) for batch in batches} == {batch_rows + (batch_rows == 100) * 3}
    assert 1440 < len(rows) == len(set(rows)) <= 1450
    X, y = synthetic()
    found = differentiable_selection(X, y, n_features=3, batch_rows=batch_rows, order=order)
    assert found.features.tolist() == INFORMATIVE


def grouped(seed, n_rows=3000):
    """15 groups of 20 columns that go together, of which eight make the target, ever less."""
    random = np.random.default_rng(seed)
    factors = random.normal(size=(n_rows, 15))
    X = np.repeat(factors, 20, axis=1) * np.sqrt(0.7)
    X += np.sqrt(0.3) * random.normal(size=X.shape)
    return X, factors[:, :8] @ np.arange(1, 9) ** -0.5 + random.normal(size=n_rows)


def residual(X, y, features):
    """Return the mean square that least squares on some columns leave."""
    design = np.column_stack([np.ones(len(y)), X[:, features]])
    return float(np.mean((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2))


def test_a_number_of_features_leaves_no_more_than_the_fixed_penalty_that_keeps_as_many() -> None:
    """On columns that go together a penalty that followed the batches left a third more."""
    X, y = grouped(0)
    ours = residual(X, y, differentiable_selection(X, y, n_features=20).features)
    fixed = differentiable_selection(X, y, penalty=3.37)
    assert abs(len(fixed.features) - 20) <= 3
    assert ours <= residual(X, y, fixed.scores.argsort()[-20:])
    assert ours < 1.8


def test_more_steps_leave_no_more() -> None:
    """A descent for a number ends by itself; at a fixed penalty they lead to the same columns."""
    X, y = grouped(0)
    found = differentiable_selection(X, y, n_features=20)
    assert 15 <= found.n_left <= 20
    more = differentiable_selection(X, y, n_features=20, steps=5000)
    assert len(more.losses) == len(found.losses) < 1000
    assert (more.scores == found.scores).all()
    left = []
    for steps in (100, 300, 1000):
        at_a_penalty = differentiable_selection(X, y, penalty=3, steps=steps)
        left.append(residual(X, y, at_a_penalty.scores.argsort()[-20:]))
    assert np.all(np.diff(left) < 0.05)


SCRIPT = """
import hashlib, numpy as np, scipy.sparse, chaffinch
random = np.random.default_rng(0)
X = random.normal(size=(1200, 300)) * (random.random((1200, 300)) < 0.3)
for table in (X, scipy.sparse.csr_array(X), X.astype(np.float32)):
    found = chaffinch.differentiable_selection(table, X[:, 0] + X[:, 5], n_features=9, steps=15)
    say(hashlib.sha256(found.scores.tobytes()).hexdigest())
"""


def test_one_seed_gives_the_same_bits_for_any_number_of_threads() -> None:
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    threads = dict.fromkeys(names, "3")
    said = python(f"say = print\n{SCRIPT}", env=os.environ | threads, check=True).stdout
    of_three = said.split()
    of_one: list[str] = []
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            exec(SCRIPT, {"say": of_one.append})  # noqa: S102
    finally:
        numba.set_num_threads(before)
    assert of_one == of_three
    assert len(of_one) == 3
    X, y = synthetic()
    one, other = (differentiable_selection(X, y, n_features=9, seed=seed) for seed in (0, 1))
    assert (one.scores != other.scores).any()


def test_tables_are_not_changed() -> None:
    X, y = synthetic()
    for form in ("dense", "sparse"):
        table = as_form(X.copy(), form)
        differentiable_selection(table, y, n_features=3, steps=2)
        as_dense = table.toarray() if form == "sparse" else table
        assert (as_dense == X).all()


BAD = {
    "neither": ({}, "one of n_features and penalty must be given but they are None and None; say"),
    "both": ({"n_features": 3, "penalty": 1}, "must be given but they are 3 and 1; leave out"),
    "none": ({"n_features": 0}, r"n_features must be in 1\.\.120 but is 0"),
    "too many": ({"n_features": 121}, r"n_features must be in 1\.\.120 but is 121"),
    "half": ({"n_features": 2.5}, r"must be a whole number in 1\.\.120 but is 2\.5"),
    "penalty": ({"penalty": -1}, "penalty must be a finite number, at least 0, but is -1"),
    "no penalty": ({"penalty": float("nan")}, "penalty must be a finite number"),
    "steps": ({"n_features": 3, "steps": 0}, "steps must be at least 1 but is 0"),
    "small batches": (
        {"n_features": 3, "batch_rows": 4},
        r"5\.\.1500 but is 4: order 4 looks at 5 rows",
    ),
    "large batches": ({"n_features": 3, "batch_rows": 1501}, r"in 5\.\.1500 but is 1501"),
    "decay": ({"n_features": 3, "decay": 0.5}, "decay must be left out .* but is 0.5"),
    "seed": ({"n_features": 3, "seed": -1}, "seed must be at least 0 but is -1"),
    "task": ({"n_features": 3, "task": "ranking"}, "task must be classification or regression"),
}


GAP = "y must have a value in every row but has none in row {}; leave out the rows without a target"


@pytest.mark.parametrize("name", BAD)
def test_a_setting_that_cannot_be_is_refused(name) -> None:
    options, said = BAD[name]
    with pytest.raises(ValueError, match=said):
        differentiable_selection(*synthetic(), **options)


@pytest.mark.parametrize(
    ("target", "task", "said"),
    [
        (np.full(1500, "a"), "regression", "y must hold numbers for a regression but holds text"),
        (np.full(1500, "a"), None, "y must vary but is the same in every row"),
        (np.full(1500, 3.5), None, "y must vary but is the same in every row"),
        (np.arange(1400.0), None, r"y must have shape \(1500,\), as X has rows, but has \(1400,\)"),
        (np.linspace(0, 1, 1500), "classification", "y must hold classes but has too many values"),
        (np.array([f"a{n}" for n in range(1500)]), None, "y holds text of more than 1,000"),
        (np.array(["a", None] * 750), None, GAP.format(2)),
        (["a", "b", 1] * 500, None, "y must hold labels of one type but holds 'a' and 1; make"),
        (pd.array([0.5, 2.5, None] * 500, dtype="Float64"), None, GAP.format(3)),
        (dict(enumerate(np.arange(1500.0))), None, r"but has a dict; give one for each row"),
        (np.ma.masked_equal(np.arange(1500.0), 7), None, "y must have no masked .* has 1; "),
    ],
)
def test_a_target_that_cannot_be_is_refused(target, task, said) -> None:
    with pytest.raises(ValueError, match=said):
        differentiable_selection(synthetic()[0], target, n_features=3, task=task)


def test_a_path_and_rows_of_several_lengths_are_no_table() -> None:
    with pytest.raises(ValueError, match=r"X cannot be read .*strings.*; give an array"):
        differentiable_selection("clicks.parquet", [1, 2], n_features=1)
    with pytest.raises(ValueError, match=r"X cannot be read .*inhomogeneous.*; give an array"):
        differentiable_selection([[1, 2], [3]], [1, 2], n_features=1)


def test_masked_values_of_a_table_are_not_taken_for_values() -> None:
    X, y = synthetic()
    said = "X must have no masked values, .*, but has 2; leave .* by X.filled"
    for descend in (
        lambda table: differentiable_selection(table, y, n_features=3),
        lambda table: differentiable_path(table, y, penalties=[0.1, 1]),
    ):
        with pytest.raises(ValueError, match=said):
            descend(np.ma.array(X, mask=np.arange(X.size).reshape(X.shape) < 2))
        with pytest.raises(ValueError, match=said):
            descend(np.ma.array(X.astype(object), mask=np.arange(X.size).reshape(X.shape) < 2))
    found = differentiable_selection(np.ma.array(X, mask=False), np.ma.array(y), n_features=3)
    assert found.features.tolist() == INFORMATIVE


@FORMS
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_of_columns_that_vary_alone_can_be_chosen(form, kind) -> None:
    X, y = synthetic()
    y, X = y * 1.0, X.astype(kind)
    X[:, np.setdiff1d(np.arange(120), [*INFORMATIVE, 50, 60])] = 3.3
    said = "n_features must be at most 5, as only 5 of 120 columns vary, but is 6; ask for at most"
    with pytest.raises(ValueError, match=said):
        differentiable_selection(as_form(X, form), y, n_features=6)
    found = differentiable_selection(as_form(X, form), y, n_features=5)
    assert found.features.tolist() == [3, 17, 25, 50, 60]
    assert (
        differentiable_selection(as_form(X, form), y, n_features=3).features.tolist() == INFORMATIVE
    )
    for penalty in (0.0, 0.3):
        found = differentiable_selection(as_form(X, form), y, penalty=penalty, steps=100)
        assert set(found.features) <= {3, 17, 25, 50, 60}
        assert (np.delete(found.kept, [3, 17, 25, 50, 60]) < 1e-20).all()
        assert found.sums[0] == pytest.approx(2.5)


@pytest.mark.parametrize("n_features", [18, 19])
@pytest.mark.parametrize("order", [4, 6])
def test_what_tells_most_is_never_left_out_however_many_may_stay(n_features, order) -> None:
    """It rests at its summit; were noise paid for staying, that would overtake it."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = random.normal(size=(2000, 20))
        y = 2 * X[:, 19] + X[:, 18] + 0.6 * X[:, 17] + random.normal(size=2000)
        found = differentiable_selection(X, y, n_features=n_features, order=order)
        assert {17, 18, 19} <= set(found.features)
        assert (found.penalties >= 0).all()


@FORMS
def test_a_column_that_float32_cannot_divide_by_spoils_no_other(form) -> None:
    X, y = synthetic()
    X = X.astype(np.float32)
    X[:, 0] *= np.float32(1e-40)
    found = differentiable_selection(as_form(X, form), y, n_features=3)
    assert found.features.tolist() == INFORMATIVE
    assert found.scores[0] == -30
    assert np.isfinite(found.losses).all()


def test_scores_that_are_no_numbers_are_refused_with_the_step() -> None:
    X, y = synthetic()
    said = "step 1 gave a loss of .* with a penalty of 1e.42, after which scores would not be fini"
    with pytest.raises(ValueError, match=said) as refusal:
        differentiable_selection(X.astype(np.float32), y, penalty=1e42)
    assert "\n" not in str(refusal.value)


def test_too_few_rows_and_paths_that_go_down_are_refused() -> None:
    X, y = synthetic()
    with pytest.raises(ValueError, match=r"order 4 needs at least 5 rows, .* there are 4; give"):
        differentiable_selection(X[:4], y[:4], n_features=3)
    with pytest.raises(ValueError, match="penalties must ascend but 1 comes after 2"):
        differentiable_path(X, y, penalties=[2, 1])
    with pytest.raises(ValueError, match=r"penalties must be several numbers but are 1\.0; give"):
        differentiable_path(X, y, penalties=1.0)
    with pytest.raises(ValueError, match="penalties must hold at least one"):
        differentiable_path(X, y, penalties=[])
    with pytest.raises(ValueError, match=r"X must have rows and features, \(N, D\)"):
        differentiable_selection(y, y, n_features=1)
