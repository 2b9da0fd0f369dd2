"""What is known of rows that come in lots: the figures of all of them together."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from chaffinch.tasks.selection.dfs.learning import learn
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.outputs import merged_outputs, outputs_of
from chaffinch.tasks.selection.dfs.scaling import merged, moments_of
from chaffinch.tasks.selection.dfs.search import Aim, Rules, select_by_descent
from tests.selection.dfs.synthetic import FORMS, as_form, outputs_in, synthetic

SIZES = (1000, 1400, 700, 1001, 300, 1750)


@FORMS
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_moments_of_lots_are_those_of_all_rows(form, kind) -> None:
    X, y = synthetic(sum(SIZES))
    X = as_form(X.astype(kind), form)
    found = None
    for last, size in zip(np.cumsum(SIZES), SIZES, strict=True):
        part = slice(last - size, last)
        found = learn(Observations(X[part], y[part]), None, found)
    whole = learn(Observations(X, y), None)
    ours, theirs = found.columns, whole.columns
    assert ours.form == theirs.form == f"{form} {kind}"
    assert ours.n_rows == theirs.n_rows == sum(SIZES)
    off = (ours.mean - theirs.mean) + (ours.rest - theirs.rest)
    assert np.abs(off / np.sqrt(np.abs(theirs.variance) + 1e-9)).max() < 1e-12
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-12, atol=1e-15)
    assert (ours.varies == theirs.varies).all()
    assert not ours.varies[9]
    assert ours.varies[11]
    if form == "sparse":
        assert (ours.stored == theirs.stored).all()
    assert found.outputs.variance == pytest.approx(whole.outputs.variance, rel=1e-12)
    assert found.outputs.mean == pytest.approx(whole.outputs.mean, abs=1e-12)


@FORMS
def test_the_singular_value_is_near_and_rather_high(form) -> None:
    X, y = synthetic(sum(SIZES))
    found = learn(Observations(as_form(X, form), y), None)
    sd = X.std(axis=0)
    standardised = (X - X.mean(axis=0)) / np.where(sd > 1e-12, sd, np.inf)
    exact = np.linalg.norm(standardised / np.sqrt(len(X)), 2)
    assert 0.997 * exact < found.top < 1.01 * exact


@FORMS
def test_far_from_zero_no_digits_are_lost_between_lots(form) -> None:
    random = np.random.default_rng(0)
    X = np.round(random.normal(size=(4000, 5)) * 64) / 64
    parts = [moments_of(as_form(part, form)) for part in np.split(X + 2.0**26, 8)]
    whole = reduce(merged, parts)
    exact = X.mean(axis=0)
    np.testing.assert_allclose((whole.mean - 2.0**26) + whole.rest, exact, rtol=0, atol=1e-13)
    np.testing.assert_allclose(whole.variance, X.var(axis=0), rtol=1e-12)


def test_targets_of_lots_are_in_units_of_all_rows() -> None:
    random = np.random.default_rng(0)
    y = np.concatenate([np.zeros(1000), random.normal(size=3000), 1e150 * random.random(1000)])
    labels = np.array(["a", "b", "c"])
    classes = labels[random.integers(0, 3, 5000)]
    for target, known in ((y, None), (classes, labels), (classes[classes != "c"], labels[:2])):
        parts = [outputs_of(part, known) for part in np.array_split(target, 5)]
        found = reduce(merged_outputs, parts)
        expected = outputs_in(target)
        np.testing.assert_allclose(found.of(target), expected, rtol=1e-9, atol=1e-12)
    same = [outputs_of(np.full(9, value), None) for value in (2.0, 2.0, 3.0)]
    assert not merged_outputs(*same[:2]).varies
    assert merged_outputs(*same[1:]).varies


@FORMS
def test_rows_that_no_estimate_can_be_made_of_are_refused(form) -> None:
    for change, said in (
        (lambda X, y: (X * np.where(np.arange(60) == 7, np.nan, 1), y), "finite but column 7 is"),
        (lambda X, y: (X * 0 + 2, y), "must have a column that varies but all 60 are constant"),
        (lambda X, y: (X, y * 0 + 2), "y must vary but is the same in every row"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.inf, y)), "y must be finite"),
    ):
        X, y = change(*synthetic(2000))
        with pytest.raises(ValueError, match=said):
            select_by_descent(as_form(X, form), y, Aim(penalty=1.0), Rules())
