"""The masked loss of any model: by definition, that of a table with baseline in its columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.core import FittedModel, Rows, Schema
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss import black_box
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.models import MODELS, LightGBMModel, fit

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


@pytest.fixture(
    scope="module", params=[name for name, kind in MODELS.items() if kind.suits("regression")]
)
def evaluator(request) -> MaskEvaluator:
    parameters = {"mlp": {"max_iter": 20}, "pefs-network": {"steps": 100}}
    model = fit(request.param, TRAIN, SCHEMA, parameters.get(request.param, {}), seed=0)
    return MaskEvaluator(model, ROWS, LOSS, BASELINE)


def _by_definition(evaluator: MaskEvaluator, mask: np.ndarray) -> float:
    X = np.where(mask, evaluator.rows.X, evaluator.baseline)
    prediction = evaluator.model.predict(np.asfortranarray(X))
    return evaluator.loss(evaluator.rows.y, prediction, evaluator.rows.weight)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_mask_has_the_loss_of_the_table_it_stands_for(evaluator, data) -> None:
    flags = st.lists(st.booleans(), min_size=5, max_size=5)
    masks = np.array(data.draw(st.lists(flags, min_size=1, max_size=6)))
    expected = [_by_definition(evaluator, mask) for mask in masks]
    assert BlackBox(evaluator)(masks).tolist() == expected


@settings(max_examples=5, deadline=None)
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


TREES = ["lightgbm", "xgboost", "RandomForest", "ExtraTrees", "HistGradientBoosting"]


def _few_trees(name: str, rows: Rows, schema: Schema) -> FittedModel:
    """Fit a model of ten trees, or of one."""
    rounds = {"HistGradientBoosting": {"max_iter": 10}, "DecisionTree": {}, "ExtraTree": {}}
    parameters = rounds.get(name, {"n_estimators": 10})
    task = "Classifier" if schema.n_classes else "Regressor"
    return fit(name if name.islower() else name + task, rows, schema, parameters, seed=0)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("name", [*TREES, "DecisionTree", "ExtraTree"])
def test_a_row_of_a_tree_model_is_predicted_the_same_in_any_company(name, n_classes) -> None:
    # what lets the black box predict the changed rows alone
    rows = _classes(TRAIN, n_classes)
    schema = Schema(SCHEMA.features, SCHEMA.n_categories, n_classes)
    model = _few_trees(name, rows, schema)
    together, rng = model.predict(TRAIN.X), np.random.default_rng(0)
    for size in (1, 2, 7, 63, 64, 65, 200):
        some = rng.permutation(len(rows))[:size]
        assert model.predict(TRAIN.X[some]).tolist() == together[some].tolist()


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("bytes_at_once", [1 << 24, 8000])
def test_predicting_changed_rows_alone_changes_no_bit(
    name, n_classes, bytes_at_once, monkeypatch
) -> None:
    monkeypatch.setattr(black_box, "_BYTES_AT_ONCE", bytes_at_once)
    schema = Schema(SCHEMA.features, SCHEMA.n_categories, n_classes)
    model = _few_trees(name, _classes(TRAIN, n_classes), schema)
    rows = _classes(ROWS, n_classes)
    rows.X[20:, 0] = BASELINE[0]  # few rows change with this feature, many with others
    rows.X[:, 3] = BASELINE[3]  # and none with this one
    evaluator = MaskEvaluator(model, rows, resolve_loss(None, schema), BASELINE)
    masks = np.random.default_rng(0).random((12, 5)) < 0.7
    masks[:5] = ~np.eye(5, dtype=bool)
    expected = [_by_definition(evaluator, mask) for mask in masks]
    assert evaluator(list(masks)).tolist() == expected


def test_trees_predict_only_the_rows_that_a_mask_changes() -> None:
    asked: list[int] = []

    class Counted(LightGBMModel):
        def predict(self, X):
            asked.append(len(X))
            return super().predict(X)

    rows = Rows(np.where(np.arange(300)[:, np.newaxis] < 10, TRAIN.X, BASELINE), TRAIN.y)
    model = fit("lightgbm", TRAIN, SCHEMA, {}, seed=0)
    evaluator = MaskEvaluator(Counted(SCHEMA, model.booster), rows, LOSS, BASELINE)
    evaluator(list(~np.eye(5, dtype=bool)))
    assert asked[0] == 300
    assert sum(asked[1:]) <= 5 * 10
    assert len(asked) == 2


def _classes(rows: Rows, n_classes: int) -> Rows:
    """Return copies of rows, their target cut into classes where there are any."""
    cuts = np.quantile(rows.y, np.arange(1, n_classes) / n_classes) if n_classes else None
    y = rows.y.copy() if cuts is None else np.digitize(rows.y, cuts)
    return Rows(rows.X.copy(), y, rows.weight)


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
