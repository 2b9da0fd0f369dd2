"""A damaged LightGBM model is a ValueError: LightGBM itself would end the process."""

import functools

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit, load
from chaffinch.tasks.selection.models.lightgbm.text import check_text
from tests.flows.cli.programs import python

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


@functools.cache
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


DAMAGED = """
import sys
from pathlib import Path
import numpy as np
from chaffinch.tasks.selection.models import load
from chaffinch.tasks.selection.core import Schema

random = np.random.default_rng(0)
damages = {
    "cut short": lambda at: whole[:at],
    "a byte lost": lambda at: whole[: at % trees] + whole[at % trees + 1 :],
    "a byte more": lambda at: whole[: at % trees] + b"1" + whole[at % trees :],
    "zero bytes": lambda at: whole[:at] + bytes(len(whole[at : at + 64])) + whole[at + 64 :],
    "another byte": lambda at: (
        whole[: at % trees] + bytes([random.integers(32, 127)]) + whole[at % trees + 1 :]
    ),
    "Windows lines": lambda at: whole.replace(b"\\n", b"\\r\\n"),
    "nothing": lambda at: b"",
    "something else": lambda at: b"<html>not found</html>",
}
for path, n_categories, n_classes in zip(*[iter(sys.argv[1:])] * 3):
    whole = Path(path).read_bytes()
    trees = whole.index(b"end of trees")
    schema = Schema(("a", "b", "c"), (0, 0, int(n_categories)), int(n_classes))
    for name, damage in damages.items():
        said = 0
        for at in random.integers(10, len(whole) - 200, 16):
            content = damage(int(at))
            try:
                load("lightgbm", {"model.txt": content}, schema).predict(np.zeros((2, 3)))
            except ValueError as error:
                said += 1
                if "\\n" in str(error):
                    sys.exit(f"{name}: {error}")
        print(name, said, sep=": ", flush=True)
"""


def test_damage_is_a_value_error_and_never_the_end_of_the_process(tmp_path):
    arguments = []
    for kind in ("two classes", "three classes", "linear trees"):
        n_classes, parameters = KINDS[kind]
        trained = model(n_classes, **parameters)
        path = tmp_path / f"{kind}.txt"
        path.write_bytes(trained.to_files()["model.txt"])
        arguments += [str(path), str(trained.schema.n_categories[2]), str(n_classes)]
    done = python(DAMAGED, *arguments)
    assert done.returncode == 0, done.stderr
    refused = [line.split(": ") for line in done.stdout.splitlines()]
    assert len(refused) == 3 * 8
    for name, times in refused:
        is_seldom = name in ("a byte lost", "a byte more", "another byte")
        assert int(times) >= 8 if is_seldom else int(times) == 16


def changed(text, key, value):
    """Put a value in the place of the first in a line of the first tree, and mend its size."""
    start = text.index(f"\n{key}=", text.index("Tree=0")) + len(key) + 2
    end = min(text.index(" ", start), text.index("\n", start))
    bad = text[:start] + value + text[end:]
    size, *_ = text.split("tree_sizes=")[1].split()
    return bad.replace(f"tree_sizes={size} ", f"tree_sizes={int(size) + len(bad) - len(text)} ")


@pytest.mark.parametrize(
    ("key", "same", "bad"),
    [
        ("split_feature", "2", "3"),
        ("left_child", "-1", "0"),
        ("right_child", "-2", "999"),
        ("decision_type", "9", "x"),
        ("num_leaves", "{n_leaves}", "1"),
        ("num_cat", "1", "0"),
        ("cat_boundaries", "0", "1"),
        ("threshold", "0", "1"),
        ("leaf_value", "1e-300", "1e-999"),
        ("shrinkage", "0.5", "-"),
    ],
)
def test_numbers_out_of_range_are_found(key, same, bad):
    text = model(0).to_files()["model.txt"].decode()
    n_leaves = text.split("num_leaves=")[1].split()[0]
    check_text(changed(text, key, same.format(n_leaves=n_leaves)))
    with pytest.raises(ValueError, match=r"is damaged \(tree 0\); give it as it was written"):
        check_text(changed(text, key, bad))


@pytest.mark.parametrize("bad", ["[boosting gbdt]", "boosting", "[boosting: gb\rdt]", "[: gbdt]"])
def test_parameters_without_a_name_or_a_value_are_found(bad):
    text = model(0).to_files()["model.txt"].decode()
    assert "[boosting: gbdt]" in text
    with pytest.raises(ValueError, match="is damaged \\(its parameters\\)"):
        check_text(text.replace("[boosting: gbdt]", bad))


@pytest.mark.parametrize("bad", ["x", "1x", "1,x", "1 2"])
def test_a_word_where_a_parameter_has_a_number_is_found(bad):
    text = model(0).to_files()["model.txt"].decode()
    assert "[path_smooth: 0]" in text
    with pytest.raises(ValueError, match="is damaged \\(its parameters\\)"):
        check_text(text.replace("[path_smooth: 0]", f"[path_smooth: {bad}]"))
