"""A damaged XGBoost model is a ValueError: XGBoost itself would end the process."""

import struct

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit, load
from chaffinch.tasks.selection.models.xgboost.ubjson import DAMAGED, check_ubjson
from tests.flows.cli.programs import python

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


FLIPPED = """
import sys
from pathlib import Path
import numpy as np
from chaffinch.tasks.selection.models import load
from chaffinch.tasks.selection.models.xgboost.ubjson import DAMAGED
from chaffinch.tasks.selection.core import Schema

whole = Path(sys.argv[1]).read_bytes()
schema = Schema(("a", "b", "c"), (0, 0, 20), int(sys.argv[2]))
random = np.random.default_rng(0)
X = np.column_stack([random.normal(size=(200, 2)), random.integers(0, 20, 200)])
said = 0
for at in random.integers(0, len(whole), 1000):
    flipped = whole[:at] + bytes([random.integers(256)]) + whole[at + 1 :]
    try:
        load("xgboost", {"model.ubj": flipped}, schema).predict(X)
    except ValueError as error:
        assert str(error) == DAMAGED or "features but the schema" in str(error)
        said += 1
print(said)
"""


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["regression", "dart", "three classes"])
def test_a_flipped_byte_never_ends_the_process(kind, tmp_path):
    n_classes, parameters = KINDS[kind]
    (tmp_path / "model.ubj").write_bytes(model(n_classes, **parameters).to_files()["model.ubj"])
    done = python(FLIPPED, tmp_path / "model.ubj", n_classes)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def changed(data, key, place, value):
    """Put a number in the place of one in the first array of that name."""
    at = data.index(key.encode() + b"[$") + len(key) + 2
    form = {"l": ">i", "L": ">q", "U": ">B"}[chr(data[at])]
    (size,) = struct.unpack_from(">q", data, at + 3)
    start = at + 11 + place % size * struct.calcsize(form)
    return data[:start] + struct.pack(form, value) + data[start + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        ("left_children", 0, 2**30),
        ("left_children", 0, 0),
        ("left_children", 0, -2),
        ("left_children", 0, 3),
        ("right_children", 0, -1),
        ("right_children", -1, 1),
        ("parents", 1, 2),
        ("split_indices", 0, 3),
        ("split_indices", 0, -1),
        ("split_type", 0, 2),
        ("categories_nodes", 0, 500),
        ("categories_segments", 0, 2**40),
        ("categories_sizes", 0, 2**40),
        ("categories", 0, 20),
        ("categories", 0, -1),
    ],
)
def test_numbers_out_of_range_are_found(key, place, value):
    trained = model()
    data = trained.to_files()["model.ubj"]
    check_ubjson(data, trained.schema)
    with pytest.raises(ValueError, match="is no XGBoost model of these classes"):
        check_ubjson(changed(data, key, place, value), trained.schema)


TEXTS = {
    "nothing": lambda whole: b"",
    "something else": lambda whole: b"<html>not found</html>",
    "JSON": lambda whole: b'{"learner": {}}',
    "cut short": lambda whole: whole[:-1],
    "more": lambda whole: whole + b"}",
    "deeply nested": lambda whole: b"[#L\0\0\0\0\0\0\0\1" * 100_000,
    "a tree of other features": lambda whole: whole.replace(
        b"num_featureSL\0\0\0\0\0\0\0\0013", b"num_featureSL\0\0\0\0\0\0\0\0019", 1),
    "no array of the nodes": lambda whole: whole.replace(b"left_children", b"_eft_children", 1),
    "another loss": lambda whole: whole.replace(b"reg:squarederror", b"reg:squaredwhale"),
    "a name it needs": lambda whole: whole.replace(b"feature_segments", b"_eature_segments"),
}  # fmt: skip


@pytest.mark.parametrize("damage", TEXTS)
def test_what_is_no_whole_model_is_refused(damage):
    trained = model()
    data = TEXTS[damage](trained.to_files()["model.ubj"])
    with pytest.raises(ValueError, match="or is damaged") as refusal:
        load("xgboost", {"model.ubj": data}, trained.schema)
    assert str(refusal.value) == DAMAGED


def test_a_model_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="is no XGBoost model of these classes"):
        load("xgboost", model(3).to_files(), Schema(("a", "b", "c"), (0, 0, 20), 2))
