"""LightGBM's text: written and read back, and refused where LightGBM would end the process."""

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit, load
from chaffinch.tasks.selection.models.lightgbm import check_text

KINDS = {
    "regression": (0, {}),
    "two classes": (2, {}),
    "three classes": (3, {}),
    "dart": (0, {"boosting_type": "dart"}),
    "forest": (0, {"boosting_type": "rf", "colsample_bytree": 0.5}),
    "goss": (2, {"boosting_type": "goss"}),
    "linear trees": (0, {"linear_tree": True}),
    "extra trees": (0, {"extra_trees": True}),
    "nothing learnt": (0, {"min_split_gain": 1e9}),
}


def model(n_classes=2, **parameters):
    """Train on two numbers, one of them with gaps, and a category of 70 that takes three words."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    X[:, 2] = random.integers(0, 70, 600)
    X[random.random(600) < 0.1, 1] = np.nan
    signal = X[:, 0] * 1e-20 + (X[:, 2] % 5 == 2) * 5e-20
    if parameters.get("linear_tree"):  # which takes no categories
        X[:, 2] = 0
    y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / max(n_classes, 1)))
    n_categories = (0, 0, 0 if parameters.get("linear_tree") else 70)
    schema = Schema(("a", "b", "c"), n_categories, n_classes)
    rows = Rows(X, y if n_classes else signal)
    settings = {"n_estimators": 5, "min_data_per_group": 10, "min_child_weight": 0.0, **parameters}
    return fit("lightgbm", rows, schema, settings, seed=0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_lightgbm_writes_is_whole(kind):
    n_classes, parameters = KINDS[kind]
    trained = model(n_classes, **parameters)
    back = load("lightgbm", trained.to_files(), trained.schema)
    X = np.array([[0.5, np.nan, 2], [-1, 3, 0], [1e300, -1e300, np.nan]])
    np.testing.assert_array_equal(back.predict(X), trained.predict(X))


def changed(text, key, value):
    """Put a value in the place of the first in a line of the first tree, and mend its size."""
    start = text.index(f"\n{key}=", text.index("Tree=0")) + len(key) + 2
    end = min(text.index(" ", start), text.index("\n", start))
    bad = text[:start] + value + text[end:]
    size, *_ = text.split("tree_sizes=")[1].split()
    return bad.replace(f"tree_sizes={size} ", f"tree_sizes={int(size) + len(bad) - len(text)} ")


@pytest.mark.parametrize("bad", ["1e-999", "x"])
def test_numbers_that_lightgbm_cannot_read_are_found(bad):
    text = model(0).to_files()["model.txt"].decode()
    check_text(changed(text, "leaf_value", "1e-300"))
    with pytest.raises(ValueError, match="is damaged; give it as it was written"):
        check_text(changed(text, "leaf_value", bad))


@pytest.mark.parametrize("content", ["", "<html>not found</html>", "cut short"])
def test_what_is_no_whole_text_is_refused(content):
    text = model(0).to_files()["model.txt"].decode()
    content = text[: text.index("end of trees")] if content == "cut short" else content
    with pytest.raises(ValueError, match="is no LightGBM text"):
        load("lightgbm", {"model.txt": content.encode()}, Schema(("a", "b", "c"), (0, 0, 70)))
