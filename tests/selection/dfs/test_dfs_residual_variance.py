"""The estimate and its gradient against the paper's equation 1, written out."""

from __future__ import annotations

import functools
from math import comb

import numpy as np
import pytest
import scipy.sparse

from chaffinch.tasks.selection.dfs.estimate import COEFFICIENTS
from chaffinch.tasks.selection.dfs.residual_variance import read_table, residual_variance

ORDERS = pytest.mark.parametrize("order", range(1, 9))
FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
N, D = 45, 140  # neither whole blocks of rows nor whole tiles of columns


def synthetic(n_rows=N, n_features=D, seed=0):
    """A third of the cells full, columns of many scales, one constant and one without zeros."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * random.lognormal(size=n_features)
    X *= random.random(X.shape) < 0.3
    X[:, 3] += 5
    X[:, -1] = 4
    y = 3 * X[:, 0] + random.normal(size=n_rows) + 10
    return X, y, random.random(n_features)


def spread(X):
    """Return the columns centred and divided as the method says, with the true singular value."""
    X = X.astype(np.float64)
    sd = X.std(axis=0)
    varies = X.max(axis=0) > X.min(axis=0)
    standard = np.where(varies, (X - X.mean(axis=0)) / np.where(varies, sd, 1), 0)
    return standard / np.linalg.norm(standard / np.sqrt(len(X)), 2)


def plain(scaled, y, s, order):
    """Return equation 1 and its gradient, by G_d = triud(x_d x_d') one after the other."""
    y = (y - y.mean(axis=0)).reshape(len(y), -1)
    n_rows, n_features = scaled.shape
    each = [np.triu(np.outer(scaled[:, d], scaled[:, d]), 1) for d in range(n_features)]
    A = sum(weight * G for weight, G in zip(s, each, strict=True))
    value, gradient = (y**2).sum() / n_rows, np.zeros(n_features)
    for output in y.T:
        right, left = [output], [output]
        for _ in range(order):
            right.append(A @ right[-1])
            left.append(A.T @ left[-1])
        for i, a in enumerate(COEFFICIENTS[order]):
            share = a / comb(n_rows, i + 2)
            value -= share * output @ right[i + 1]
            for q in range(i + 1):
                gradient -= share * np.array([left[i - q] @ G @ right[q] for G in each])
    return value, gradient


@functools.cache
def defined(order, kind):
    """Return the value and gradient by the definition of the table in numbers of a type."""
    X, y, s = synthetic()
    X = X.astype(kind).astype(np.float64)
    return plain(spread(X) / singular_value(X), y, s, order)


def singular_value(X, moved=0.0):
    """Return our singular value of X + moved over the true one."""
    table = read_table(X + moved)
    ours = (X + moved - table.origin) * table.inverse - table.rest
    return 1 / np.linalg.norm(ours / np.sqrt(len(X)), 2)


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


def differs(one, other):
    return np.abs(one - other).max() / np.abs(other).max()


@ORDERS
@FORMS
def test_the_value_and_the_gradient_are_those_of_the_definition(order, form) -> None:
    X, y, s = synthetic()
    value, gradient = residual_variance(as_form(X, form), y, s, order)
    expected, slope = defined(order, "float64")
    assert abs(value - expected) <= 1e-12 * np.var(y)
    assert differs(gradient, slope) <= 1e-12
    assert gradient[-1] == 0  # constant


@ORDERS
@FORMS
def test_float32_is_as_near_as_its_digits(order, form) -> None:
    X, y, s = synthetic()
    X = X.astype(np.float32)
    value, gradient = residual_variance(as_form(X, form), y, s, order)
    expected, slope = defined(order, "float32")
    assert abs(value - expected) <= 5e-6 * np.var(y)
    assert differs(gradient, slope) <= 5e-6


@FORMS
def test_float32_keeps_its_digits_over_many_rows_far_from_zero(form) -> None:
    X, y, s = synthetic(700, 40)
    X = (X + 1000 * (X.std(axis=0) > 1)).astype(np.float32)
    value, gradient = residual_variance(as_form(X, form), y, s, 6)
    expected, slope = residual_variance(as_form(X.astype(float), form), y, s, 6)
    assert abs(value - expected) <= 5e-6 * np.var(y)
    assert differs(gradient, slope) <= 5e-6


@FORMS
def test_far_from_zero_no_digits_are_lost(form) -> None:
    """Columns that are full, and one with a single zero. The singular value alone is less exact."""
    X, y, s = synthetic(60, 20)
    X = np.round(X * 64) / 64
    X[:, 2] += 2.0**26
    X[5, 2] = 0
    moved = np.where(np.arange(20) == 2, 0, 2.0**26)
    value, gradient = residual_variance(as_form(X + moved, form), y, s, 4)
    expected, slope = plain(spread(X) / singular_value(X, moved), y, s, 4)
    assert abs(value - expected) <= 1e-9 * np.var(y)
    assert differs(gradient, slope) <= 1e-9


@FORMS
@pytest.mark.parametrize("order", [1, 4, 6])
def test_several_outputs_are_the_sum_of_each(order, form) -> None:
    X, y, s = synthetic()
    outputs = np.eye(3)[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    value, gradient = residual_variance(as_form(X, form), outputs, s, order)
    each = [residual_variance(as_form(X, form), column, s, order) for column in outputs.T]
    assert value == pytest.approx(sum(one for one, _ in each), rel=1e-12)
    assert differs(gradient, sum(one for _, one in each)) <= 1e-12


def test_a_model_that_fits_leaves_its_noise() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 10))
    y = X[:, :2] @ [3, 4] + random.normal(size=4000)
    for kept, expected in ((slice(0, 2), 1), (slice(1, 10), 10), (slice(2, 10), 26)):
        s = np.zeros(10)
        s[kept] = 1
        value, _ = residual_variance(X, y, s, 4)
        assert value == pytest.approx(expected, abs=2 * 0.0317 * 26 + 0.3)  # 2 e* of all


def test_the_singular_value_is_slightly_high() -> None:
    for seed in range(2):
        for shape in ((40, 200), (300, 20), (100, 100)):
            X, _, _ = synthetic(*shape, seed=seed)
            assert 1 - 1e-9 <= singular_value(X) < 1.01


def test_unsorted_indices_and_entries_that_come_twice_mean_what_scipy_means() -> None:
    X, y, s = synthetic()
    whole = scipy.sparse.coo_array(X)
    random = np.random.default_rng(1)
    order = random.permutation(2 * whole.nnz) % whole.nnz  # every entry in two halves
    halves = scipy.sparse.coo_array(
        (whole.data[order] / 2, (whole.coords[0][order], whole.coords[1][order])), X.shape
    )
    untidy = scipy.sparse.csr_array(X)
    for row in range(N):
        part = slice(untidy.indptr[row], untidy.indptr[row + 1])
        untidy.indices[part], untidy.data[part] = (
            untidy.indices[part][::-1],
            untidy.data[part][::-1],
        )
    untidy.has_sorted_indices = untidy.has_canonical_format = False
    before = untidy.indices.copy()
    value, gradient = residual_variance(X, y, s)
    for given in (halves, untidy, scipy.sparse.csc_matrix(X), scipy.sparse.lil_array(X)):
        got, slope = residual_variance(given, y, s)
        assert got == pytest.approx(value, rel=1e-12)
        assert differs(slope, gradient) <= 1e-12
    assert (untidy.indices == before).all()


def test_equal_columns_have_equal_slopes_wherever_they_stand() -> None:
    X, y, s = synthetic(n_features=300)
    X[:, 299] = X[:, 130] = X[:, 0]
    s[299] = s[130] = s[0]
    for form in ("dense", "sparse"):
        _, gradient = residual_variance(as_form(X, form), y, s)
        assert gradient[0] == gradient[130] == gradient[299] != 0


@FORMS
def test_a_spread_that_float32_cannot_divide_by_is_none_as_for_float64_one_without_squares(
    form,
) -> None:
    X, y, s = synthetic()
    for kind, tiny in ((np.float32, 1e-41), (np.float64, 1e-170)):
        with_tiny, without = X.astype(kind), X.astype(kind)
        with_tiny[:, 5] *= kind(tiny)
        without[:, 5] = 0
        value, gradient = residual_variance(as_form(with_tiny, form), y, s)
        expected, slope = residual_variance(as_form(without, form), y, s)
        assert value == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6 * np.abs(slope).max())
        assert gradient[5] == 0
        with pytest.raises(ValueError, match=f"all 140 .* by less than {kind().dtype}"):
            residual_variance(
                as_form(X.astype(kind) * kind(tiny) * (np.arange(D) < D - 1), form), y, s
            )


@FORMS
def test_the_order_of_rows_does_not_change_the_first_order_by_more_than_is_said(form) -> None:
    """It is a sum over pairs of rows, so that the singular value alone can differ."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 200)) * (random.random((1500, 200)) < 0.3)
    y, s = X[:, :5].sum(axis=1) + random.normal(size=1500), random.random(200)
    found = []
    for _ in range(4):
        order = random.permutation(1500)
        found.append(residual_variance(as_form(X[order], form), y[order], s, 1)[0])
    np.testing.assert_allclose(found, found[0], rtol=1e-5)


BAD = {
    "text as target": (
        lambda X, y, s: (X, np.where(y > 10, "a", "b"), s),
        "y must hold numbers but holds text; of two classes give one column of 0 and 1",
    ),
    "rows": (lambda X, y, s: (X, y[1:], s), r"y must have shape \(45,\) .* but has \(44,\)"),
    "masked s": (
        lambda X, y, s: (X, y, np.ma.masked_less(s, s.min() + 1e-9)),
        "s must have no masked values, .*, but has 1; leave .* by s.filled",
    ),
    "masked y": (
        lambda X, y, s: (X, np.ma.masked_less(y, y.min() + 1e-9), s),
        "y must have no masked values, .*, but has 1; leave .* by y.filled",
    ),
    "missing in y": (
        lambda X, y, s: (X, np.where(np.arange(N) == 3, None, y), s),
        "y must have a value in every row but has none in row 4; leave out the rows without",
    ),
    "gaps in y": (lambda X, y, s: (X, y * np.nan, s), "y must have .* none in row 1; "),
    "sparse targets": (
        lambda X, y, s: (X, scipy.sparse.csr_array(np.ones((N, 2))), s),
        r"Sparse data was passed for y.*'.toarray\(\)'",
    ),
    "s": (lambda X, y, s: (X, y, s[1:]), r"s must have shape \(140,\), as X has columns"),
    "s as text": (lambda X, y, s: (X, y, ["a"] * len(s)), r"s cannot be read .*; give a number"),
    "s out of range": (lambda X, y, s: (X, y, s * 3), r"s must be in 0\.\.1 but holds"),
    "s is no number": (lambda X, y, s: (X, y, s * np.nan), r"s must be in 0\.\.1 but holds nan"),
    "constant": (lambda X, y, s: (X * 0 + 2, y, s), "must have a column that varies but all 140"),
    "text": (lambda X, y, s: (X.astype(str), y, s), "X cannot be read .*strings.*; give an array"),
    "complex": (lambda X, y, s: (X * 1j, y, s), "X cannot be read .Complex data not supported"),
    "gaps": (
        lambda X, y, s: (np.where(np.arange(D) == 9, np.nan, X), y, s),
        "X must be finite but column 9 is not; fill what is missing",
    ),
    "huge": (
        lambda X, y, s: (np.where(np.arange(D) == 9, 1e200 * X, X), y, s),
        "X must hold numbers whose squares are finite but column 9 has larger ones; divide it",
    ),
    "huge target": (lambda X, y, s: (X, y * 1e200, s), "y must hold numbers whose squares"),
    "masked": (
        lambda X, y, s: (np.ma.masked_less(X, X.min() + 1e-9), y, s),
        "X must have no masked values, .*, but has 1; leave .* by X.filled",
    ),
    "one dimension": (lambda X, y, s: (X[0], y, s), r"X must have rows and features, \(N, D\)"),
    "no rows": (lambda X, y, s: (X[:0], y[:0], s), r"\(N, D\), but has shape \(0, 140\)"),
}


@pytest.mark.parametrize("name", BAD)
@FORMS
def test_what_cannot_be_is_refused_in_one_line(name, form) -> None:
    change, said = BAD[name]
    X, y, s = change(*synthetic())
    if form == "sparse":
        if X.dtype.kind == "U" or X.ndim != 2 or np.ma.is_masked(X):
            return
        X = scipy.sparse.csr_array(X)
    with pytest.raises(ValueError, match=said) as refusal:
        residual_variance(X, y, s)
    assert "\n" not in str(refusal.value)
