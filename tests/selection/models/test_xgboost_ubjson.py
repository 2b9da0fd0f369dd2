"""XGBoost's binary JSON: written and read back, and refused where it is something else."""

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit, load

KINDS = {
    "regression": (0, {}),
    "two classes": (2, {}),
    "three classes": (3, {}),
    "dart": (2, {"booster": "dart", "rate_drop": 0.3}),
    "forest": (0, {"num_parallel_tree": 3, "subsample": 0.5}),
    "one category against the others": (3, {"max_cat_to_onehot": 100}),
    "by leaves": (0, {"grow_policy": "lossguide", "max_leaves": 7, "max_depth": 0}),
    "nothing learnt": (0, {"gamma": 1e9}),
}


def model(n_classes=0, **parameters):
    """Train on two numbers, one of them with gaps, and a category."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    X[:, 2] = random.integers(0, 20, 400)
    X[random.random(400) < 0.1, 1] = np.nan
    signal = X[:, 0] + X[:, 2] % 3
    y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / max(n_classes, 1)))
    schema = Schema(("a", "b", "c"), (0, 0, 20), n_classes)
    rows = Rows(X, y if n_classes else signal)
    return fit("xgboost", rows, schema, {"n_estimators": 5, **parameters}, seed=0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_xgboost_writes_is_whole(kind):
    n_classes, parameters = KINDS[kind]
    trained = model(n_classes, **parameters)
    back = load("xgboost", trained.to_files(), trained.schema)
    X = np.array([[0.5, np.nan, 2], [-1, 3, 0], [1e300, -1e300, np.nan]])
    np.testing.assert_array_equal(back.predict(X), trained.predict(X))


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b'{"learner": {}}'])
def test_what_is_no_model_is_refused(content):
    with pytest.raises(ValueError, match="is no XGBoost model or is damaged"):
        load("xgboost", {"model.ubj": content}, model().schema)
