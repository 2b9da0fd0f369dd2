"""One huge cell: what masking its column leaves of the row is as right as in any other row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss as masked_loss_of_rows
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.workers.distributed_masked_loss import spread_masked_loss
from tests.selection.masked_loss.own_losses import by_predictions, check
from tests.selection.one_worker import OneWorker

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),  # in scikit-learn's own logistic
]

D = 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1300, D))
Y = X @ np.array([1, 2, 3, 0.5, 0.1]) + 0.3 * RNG.normal(size=1300)
CLASSES = (Y > 0).astype(np.int64)
SCHEMA = Schema(tuple("abcde"), (0,) * D)
FEW = {"max_iter": 30, "random_state": 0}
CASES = {
    "least squares": (LinearRegression(), "squared_error"),
    "line": (LinearRegression(), "absolute_error"),
    "logistic": (LogisticRegression(), "log_loss"),
    "relu": (MLPRegressor(hidden_layer_sizes=(8,), **FEW), "squared_error"),
    "tanh": (MLPRegressor(hidden_layer_sizes=(6, 4), activation="tanh", **FEW), "absolute_error"),
    "classes": (MLPClassifier(hidden_layer_sizes=(8,), **FEW), "log_loss"),
}


def table(huge: float) -> np.ndarray:
    """Put three huge cells in: two of one column, and one of another in a row beside the first."""
    given = X.copy()
    given[0, 0], given[1, 2], given[700, 0] = huge, -huge, huge / 7
    return given


@pytest.mark.parametrize("huge", [1e9, 1e15, 1e20])
@pytest.mark.parametrize("kind", CASES)
def test_a_huge_cell_spoils_no_other_loss(kind: str, huge: float) -> None:
    estimator, loss = CASES[kind]
    y = CLASSES if loss == "log_loss" else Y
    model = estimator.fit(X, y)
    engine = masked_loss(model, table(huge), y, loss=loss)
    assert type(engine).__name__ in ("LinearMaskedLoss", "NetworkMaskedLoss")
    predict = model.predict_proba if loss == "log_loss" else model.predict
    check(engine, by_predictions(predict, table(huge), y, loss), (0, 4, 2))


def test_the_numbers_are_the_same_on_whatever_workers(monkeypatch) -> None:
    monkeypatch.setattr(
        "chaffinch.tasks.workers.distributed_masked_loss._reason_to_stay", lambda *_: ""
    )
    model = fit("mlp", Rows(X, Y), SCHEMA, {"max_iter": 3}, seed=0)
    given = model, Rows(table(1e15), Y), resolve_loss("squared_error", SCHEMA), np.zeros(D)
    alone, spread = masked_loss_of_rows(*given), spread_masked_loss(*given, OneWorker())
    assert type(spread).__name__ == "PartedLoss"
    for feature in (0, 4, 2):
        assert spread.without_each().tolist() == alone.without_each().tolist()
        alone.remove(feature)
        spread.remove(feature)
        assert spread.loss == alone.loss


def test_equal_columns_of_equal_coefficients_tie() -> None:
    for seed, n in enumerate((40, 513, 1301)):
        rng = np.random.default_rng(seed)
        half = rng.normal(size=(n, 9))
        order = rng.permutation(18)
        y = half @ rng.normal(size=9) + rng.normal(size=n)
        line = LinearRegression().fit(np.hstack((half, half))[:, order], y)
        line.coef_ = np.tile(rng.normal(size=9), 2)[order]
        engine = masked_loss(line, np.hstack((half, half))[:, order], y, loss="squared_error")
        for _ in range(17):
            losses = engine.without_each()
            for column in range(9):
                twins = [j for j in np.flatnonzero(order % 9 == column) if engine.mask[j]]
                assert len({losses[j] for j in twins}) <= 1
            engine.remove(int(np.argmin(losses)))
