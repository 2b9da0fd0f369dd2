"""Lasso and elastic net against scikit-learn's exact paths and answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, enet_path, lars_path

from chaffinch.tasks.selection.baselines.penalised import elastic_net, lasso
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models.scikit_learn.versions import use_l1_ratio

N = 300
RATIO = 50 ** (1 / 39)  # of one strength to the next of forty
ROUNDING = 1e-5  # ties are told apart by at most a millionth
BOTH = pytest.mark.parametrize(("method", "l1_ratio"), [(lasso, 1.0), (elastic_net, 0.5)])


def synthetic(n_classes=0, seed=0):
    """Eight numbers that go together, the first three of which predict the target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, 8)) + 0.7 * random.normal(size=(N, 1))
    y = X[:, 0] - 0.6 * X[:, 1] + 0.3 * X[:, 2] + random.normal(size=N)
    if n_classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    return Rows(np.asfortranarray(X), y), numbers(8, n_classes)


def numbers(n, n_classes=0):
    return Schema(tuple(f"x{j}" for j in range(n)), (0,) * n, n_classes)


def standard(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def test_a_feature_enters_the_lasso_where_the_exact_path_lets_it_in() -> None:
    rows, schema = synthetic()
    knots, _, coefficients = lars_path(standard(rows.X), standard(rows.y), method="lasso")
    first = np.argmax(coefficients != 0, axis=1) - 1  # from that knot on it grows
    for score, knot in zip(lasso(rows, schema, 0), knots[first], strict=True):
        if score:
            assert score * (1 - ROUNDING) <= knot <= score * RATIO * (1 + ROUNDING)
        else:
            assert knot < knots[0] / 50 * (1 + ROUNDING)


@BOTH
def test_the_strength_is_scikit_learns_alpha(method, l1_ratio) -> None:
    rows, schema = synthetic()
    X, y = np.asfortranarray(standard(rows.X)), standard(rows.y)
    strengths = np.abs(X.T @ y).max() / N / l1_ratio * RATIO ** -np.arange(40.0)
    _, path, _ = enet_path(X, y, l1_ratio=l1_ratio, alphas=strengths, tol=1e-12)
    path[np.abs(path) < 1e-9] = 0
    expected = np.where(path.any(axis=1), strengths[np.argmax(path != 0, axis=1)], 0)
    np.testing.assert_allclose(method(rows, schema, 0), expected, rtol=2e-6)


@BOTH
def test_of_those_that_enter_at_one_step_the_larger_coefficient_has_the_higher_score(
    method, l1_ratio
) -> None:
    random = np.random.default_rng(0)
    X, _ = np.linalg.qr(standard(random.normal(size=(N, 3))))  # so that nothing goes together
    rows = Rows(X, X @ [1.000, 1.001, 0.01])
    scores = method(rows, numbers(3), 0)
    assert scores[1] > scores[0] > scores[2]
    assert scores[0] == pytest.approx(scores[1], rel=2e-6)


@BOTH
@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_classes_a_feature_enters_where_a_fit_from_scratch_needs_it(
    method, l1_ratio, n_classes
) -> None:
    """Exact fits, each by itself; ours may be a step late or early at the very border."""
    rows, schema = synthetic(n_classes)
    X = standard(rows.X)
    residual = np.eye(n_classes)[rows.y] - np.bincount(rows.y) / N
    strengths = np.abs(X.T @ residual).max() / N / l1_ratio * RATIO ** -np.arange(40.0)
    scores = method(rows, schema, 0)
    for step in (1, 8, 16, 24, 32):
        exact = LogisticRegression(
            solver="saga", l1_ratio=l1_ratio, C=1 / (N * strengths[step]), tol=1e-9, max_iter=20_000
        )
        use_l1_ratio(exact)
        entered = np.abs(exact.fit(X, rows.y).coef_).max(axis=0) > 1e-6
        assert (scores[entered] >= strengths[step + 1]).all()
        assert (scores[~entered] < strengths[step - 1] * (1 - ROUNDING)).all()
    assert scores.max() == pytest.approx(strengths[1], rel=2e-6)


@BOTH
@pytest.mark.parametrize("n_classes", [0, 2])
def test_a_weight_of_two_is_the_row_twice(method, l1_ratio, n_classes) -> None:
    rows, schema = synthetic(n_classes)
    times = np.random.default_rng(1).integers(1, 4, N)
    repeated = method(rows.take(np.repeat(np.arange(N), times)), schema, 0)
    weighted = method(Rows(rows.X, rows.y, 7.0 * times), schema, 0)
    if n_classes:  # SAGA draws other rows, so that a feature may be early or late
        enters = (weighted > 0) & (repeated > 0)
        assert enters.sum() >= 6
        assert np.abs(np.log(weighted[enters] / repeated[enters])).max() < 2.5 * np.log(RATIO)
        assert weighted.max() == pytest.approx(repeated.max(), rel=1e-5)
        assert method(rows, schema, 0).max() != pytest.approx(weighted.max(), rel=1e-3)
        return
    np.testing.assert_allclose(weighted, repeated, rtol=2e-6)
    assert not np.allclose(method(rows, schema, 0), repeated, rtol=1e-3)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_one_of_equal_columns_enters_a_lasso_and_all_of_them_an_elastic_net(n_classes) -> None:
    rows, schema = synthetic(n_classes)
    twice = Rows(np.column_stack([rows.X[:, 0], rows.X]), rows.y)
    alone, copied = lasso(rows, schema, 0), lasso(twice, numbers(9, n_classes), 0)
    assert copied[0] == 0
    np.testing.assert_array_equal(copied[1:], alone)
    netted = elastic_net(twice, numbers(9, n_classes), 0)
    assert netted[0] == netted[1] > 0


@BOTH
def test_a_category_has_the_score_of_its_best_value(method, l1_ratio) -> None:
    random = np.random.default_rng(0)
    colour, x = random.integers(0, 3, N).astype(float), random.normal(size=N)
    rows = Rows(np.column_stack([colour, x]), 2.0 * (colour == 1) + x + random.normal(size=N))
    one_hot = np.column_stack([colour == code for code in range(3)] + [x]).astype(float)
    got = method(rows, Schema(("colour", "x"), (3, 0)), 0)
    of_columns = method(Rows(one_hot, rows.y), numbers(4), 0)
    assert got == pytest.approx([of_columns[:3].max(), of_columns[3]], rel=1e-9)


@BOTH
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_more_features_than_rows_and_a_target_they_tell_entirely(
    method, l1_ratio, n_classes
) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 60))
    y = X[:, 7] if not n_classes else np.digitize(X[:, 7], [-0.4, 0.4][: n_classes - 1])
    scores = method(Rows(X, y), numbers(60, n_classes), 0)
    assert np.isfinite(scores).all()
    assert int(np.argmax(scores)) == 7


@BOTH
def test_a_target_or_features_that_never_vary_have_no_scores(method, l1_ratio) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert method(Rows(X, np.full(20, 3.0)), numbers(2), 0).tolist() == [0.0, 0.0]
    assert method(Rows(X, np.ones(20, dtype=np.int64)), numbers(2, 2), 0).tolist() == [0.0, 0.0]
    flat = Rows(np.column_stack([np.ones(20), np.full(20, np.nan)]), X[:, 0])
    assert method(flat, numbers(2), 0).tolist() == [0.0, 0.0]
