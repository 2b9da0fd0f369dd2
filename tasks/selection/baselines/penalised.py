"""Lasso and elastic net: the order in which features enter as the penalty falls.

Tibshirani, "Regression shrinkage and selection via the lasso", Journal of the Royal Statistical
Society B 58 (1996); Zou and Hastie, "Regularization and variable selection via the elastic net",
the same, 67 (2005). A linear model of standardised columns is fitted under a penalty of strength a,

    a (r sum |b| + (1 - r) / 2 sum b**2),  r = 1 for the lasso and 1/2 for the elastic net,

together with the weighted mean of half the squared error of a standardised target, or of the
log loss:
scikit-learn's `alpha` in `enet_path`, and 1 / (C n) in its multinomial LogisticRegression by SAGA.
At the greatest strength every coefficient is 0; the steps below it are geometric and each fit
starts from the solution before.

For classes, the columns with a coefficient at a step are guessed by the strong rule of Tibshirani
et al., the same, 74 (2012), and corrected where the gradient shows an error, because SAGA's time is
proportional to the columns at every step.
"""

from __future__ import annotations

import warnings
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.baselines.columns import columns_of, standardised
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.selection.models.scikit_learn.versions import use_l1_ratio

_STEPS, _LAST = 40, 0.02  # how many strengths, and the least as a share of the greatest
_LASSO, _ELASTIC_NET = 1.0, 0.5
_ROUNDING = 1e-8  # a coefficient below this share of the largest of all is none
_TIE = 1e-6  # the most that the size of a coefficient adds to a strength, as a share of it
_TOLERANCE, _PASSES = 1e-3, 50  # of SAGA at each step; of squared error scikit-learn's own
_DOUBT = 1.01  # how far a gradient may be beyond the penalty before SAGA runs again


@ranking(
    "lasso",
    score="the strength of the penalty at which a lasso first makes use of the feature, as the "
    "penalty falls",
    weights=True,
)
def lasso(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by the strength of the lasso's penalty at which a feature enters.

    The largest of 40 strengths, from the smallest without any feature down to a fiftieth of it, at
    which the feature has a coefficient; plus at most a millionth of itself, larger for larger final
    coefficients, which separates those of a step. 0 for a feature that never enters. A category
    has the score of its best column. Among equal columns only that of the feature furthest right
    enters. `seed` is that of SAGA's row order, for classes.
    """
    return _entries(rows, schema, seed, _LASSO)


@ranking(
    "elastic_net",
    score="the same for an elastic net, half of whose penalty is the lasso's",
    weights=True,
)
def elastic_net(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score as `lasso`; equal columns get the score of the fitted column."""
    return _entries(rows, schema, seed, _ELASTIC_NET)


def _entries(rows: Rows, schema: Schema, seed: int, l1_ratio: float) -> Floats:
    from sklearn.exceptions import ConvergenceWarning

    scores = np.zeros(len(schema.features))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    target = _target(rows, schema)
    columns, feature = _columns(rows, schema)
    if target is None or not len(columns):
        return scores
    share = weight / weight.sum()
    pull = _pull(columns, share[:, np.newaxis] * (target - share @ target))
    order = np.lexsort((-np.arange(len(pull)), -pull))  # so that no column's place matters
    twin = _first_equal_columns(columns, order)
    fitted = order[twin[order] == order]
    greatest = pull.max() / l1_ratio
    strengths = greatest * np.geomspace(1, _LAST, _STEPS)
    # A fit that has not converged lacks last digits, which hardly affect the order of entry.
    quiet = warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
    with single_thread(), quiet:
        X = np.asfortranarray(columns[fitted].T)
        del columns
        if schema.n_classes:
            path = _path_of_classes(X, target, share, strengths, l1_ratio, seed)
        else:
            path = _path_of_numbers(X, target[:, 0], share, strengths, l1_ratio)
    of_column = np.zeros(len(pull))
    of_column[fitted] = _strength_at_entry(path, strengths)
    if l1_ratio < 1:
        of_column = of_column[twin]
    np.maximum.at(scores, feature, of_column)
    return scores


def _target(rows: Rows, schema: Schema) -> Floats | None:
    """Return a column for each class that occurs, or the standardised target; None if constant."""
    if not schema.n_classes:
        target = standardised(np.asarray(rows.y, dtype=np.float64), rows.weight)
        return None if target is None else target[:, np.newaxis]
    labels = np.unique(rows.y)
    return (rows.y[:, np.newaxis] == labels).astype(np.float64) if len(labels) > 1 else None


def _columns(rows: Rows, schema: Schema) -> tuple[Floats, NDArray[np.int64]]:
    """Return all columns that vary, shape (p, n), and the feature of each."""
    varying = [
        (column, feature)
        for feature in range(len(schema.features))
        for column in columns_of(rows, schema, feature)
    ]
    columns = np.array([column for column, _ in varying])
    return columns, np.array([feature for _, feature in varying], dtype=np.int64)


def _pull(columns: Floats, residual: Floats) -> Floats:
    """Return how strongly residuals (n, k) pull at each column's coefficients, shape (p,)."""
    return np.array([np.abs(np.einsum("i,ik->k", column, residual)).max() for column in columns])


def _first_equal_columns(columns: Floats, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each column the first of `order` that is equal to it, shape (p,)."""
    twin = np.empty(len(columns), dtype=np.int64)
    first: dict[bytes, int] = {}
    for column in order:
        twin[column] = first.setdefault(blake2b(columns[column].tobytes()).digest(), int(column))
    return twin


def _path_of_numbers(
    X: Floats, target: Floats, share: Floats, strengths: Floats, l1_ratio: float
) -> Floats:
    from sklearn.linear_model import enet_path

    root = np.sqrt(len(X) * share)
    X *= root[:, np.newaxis]
    _, coefficients, _ = enet_path(X, root * target, l1_ratio=l1_ratio, alphas=strengths)
    return np.asarray(np.abs(coefficients))


def _path_of_classes(
    X: Floats, target: Floats, share: Floats, strengths: Floats, l1_ratio: float, seed: int
) -> Floats:
    """Return the greatest absolute coefficient of any class at each strength, shape (p, steps)."""
    from sklearn.linear_model import LogisticRegression

    labels, largest = np.argmax(target, axis=1), float(share.max())
    model = LogisticRegression(
        solver="saga", l1_ratio=l1_ratio, tol=_TOLERANCE, max_iter=_PASSES, warm_start=True,
        random_state=seed,
    )  # fmt: skip
    use_l1_ratio(model)
    size = share @ target
    log_odds = np.log(size[1:] / size[0]) if len(size) == 2 else np.log(size) - np.log(size).mean()
    model.intercept_ = log_odds
    coefficients = np.zeros((len(log_odds), X.shape[1]))
    path = np.zeros((X.shape[1], len(strengths)))
    gradient = _gradient(X, share[:, np.newaxis] * (target - size))
    for step in range(1, len(strengths)):
        strength, before = strengths[step], strengths[step - 1]
        tried = coefficients.any(axis=0) | (gradient >= l1_ratio * (2 * strength - before))
        wrong = tried
        while wrong.any():
            model.coef_ = coefficients[:, tried]
            # weights of at most 1, by which SAGA reckons the length of its steps
            model.set_params(C=largest / strength)
            some = np.ascontiguousarray(X[:, tried])
            model.fit(some, labels, sample_weight=share / largest)
            coefficients[:, tried] = model.coef_
            left = target - model.predict_proba(some)
            gradient = _gradient(X, share[:, np.newaxis] * left)
            wrong = ~tried & (gradient > _DOUBT * l1_ratio * strength)
            tried |= wrong
        path[:, step] = np.abs(coefficients).max(axis=0)
    return path


def _gradient(X: Floats, residual: Floats) -> Floats:
    return np.asarray(np.abs(X.T @ residual).max(axis=1))


def _strength_at_entry(path: Floats, strengths: Floats) -> Floats:
    """Return the score of each column from its absolute coefficients, both as in `lasso`."""
    has_entered = path > _ROUNDING * path.max()
    at_end = path[:, -1] / max(path[:, -1].max(), np.finfo(np.float64).tiny)
    first = strengths[np.argmax(has_entered, axis=1)]
    return np.where(has_entered.any(axis=1), first * (1 + _TIE * at_end), 0.0)
