"""The masked loss of any model: by definition, that of a table with baseline in its columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.vocabulary import Rows, Schema

SCHEMA = Schema(("a", "b", "c", "d", "noise"), (0, 0, 3, 0, 0))
LOSS = Loss("squared_error", "regression")


def _rows(n: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 2] = rng.integers(0, 3, n)
    X[rng.random((n, 5)) < 0.1] = np.nan
    y = 2 * np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + (X[:, 2] == 1)
    return Rows(X, y, rng.uniform(0.5, 2, n))


TRAIN, ROWS = _rows(300), _rows(120, seed=1)
BASELINE = np.array([0.1, -0.2, 1.0, 0.3, 0.0])


@pytest.fixture(scope="module", params=["lightgbm", "xgboost", "mlp", "linear"])
def evaluator(request) -> MaskEvaluator:
    parameters = {"max_iter": 20} if request.param == "mlp" else {}
    model = fit(request.param, TRAIN, SCHEMA, parameters, seed=0)
    return MaskEvaluator(model, ROWS, LOSS, BASELINE)


def _by_definition(evaluator: MaskEvaluator, mask: np.ndarray) -> float:
    X = np.where(mask, evaluator.rows.X, evaluator.baseline)
    prediction = evaluator.model.predict(np.asfortranarray(X))
    return evaluator.loss(evaluator.rows.y, prediction, evaluator.rows.weight)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_mask_has_the_loss_of_the_table_it_stands_for(evaluator, data) -> None:
    flags = st.lists(st.booleans(), min_size=5, max_size=5)
    masks = np.array(data.draw(st.lists(flags, min_size=1, max_size=6)))
    expected = [_by_definition(evaluator, mask) for mask in masks]
    assert BlackBox(evaluator)(masks).tolist() == expected


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(5)))
def test_removals_one_by_one_are_the_same_as_masks(evaluator, order) -> None:
    engine, mask = BlackBox(evaluator), np.ones(5, dtype=bool)
    for feature in order:
        losses = engine.without_each()
        for j in range(5):
            without = mask.copy()
            without[j] = False
            assert losses[j] == (_by_definition(evaluator, without) if mask[j] else np.inf)
        engine.remove(feature)
        mask[feature] = False
        assert (engine.mask == mask).all()
        assert engine.loss == _by_definition(evaluator, mask)


def test_the_mask_given_out_is_a_copy(evaluator) -> None:
    engine = BlackBox(evaluator)
    engine.mask[0] = False
    assert engine.mask.all()


def test_the_rows_are_never_changed(evaluator) -> None:
    before = evaluator.rows.X.copy()
    BlackBox(evaluator).without_each()
    np.testing.assert_array_equal(evaluator.rows.X, before)


def test_features_the_model_does_not_use_cost_no_prediction() -> None:
    rows = Rows(TRAIN.X[:, [0, 4]].copy(), TRAIN.y)
    rows.X[:, 1] = 7.0  # constant: no tree can split on it
    model = fit("lightgbm", rows, Schema(("a", "constant"), (0, 0)), {}, seed=0)
    asked: list[int] = []

    def counting(masks):
        asked.append(len(masks))
        return evaluator(masks)

    evaluator = MaskEvaluator(model, rows, LOSS, np.zeros(2))
    engine = BlackBox(evaluator, counting)
    losses = engine.without_each()
    assert losses[1] == engine.loss
    assert sum(asked) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: BlackBox(e).remove(5), "feature must be in 0..4 but is 5"),
        (lambda e: BlackBox(e).remove(-1), "feature must be in 0..4 but is -1"),
        (lambda e: BlackBox(e)(np.ones((2, 4), bool)), r"masks must have shape \(m, 5\)"),
        (lambda e: MaskEvaluator(e.model, e.rows, e.loss, np.zeros(3)), "baseline must have one"),
        (
            lambda e: MaskEvaluator(e.model, e.rows, e.loss, np.full(5, np.nan)),
            "baseline must be finite",
        ),
        (
            lambda e: MaskEvaluator(e.model, Rows(np.empty((0, 5)), np.empty(0)), e.loss, BASELINE),
            "at least 1 row",
        ),
    ],
)
def test_limits_are_named(evaluator, call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(evaluator)


def test_a_feature_is_masked_once(evaluator) -> None:
    engine = BlackBox(evaluator)
    engine.remove(1)
    with pytest.raises(ValueError, match="feature 1 is masked already"):
        engine.remove(1)
