"""XGBoost: gradient-boosted trees over histograms, categories and missing values natively.

Parameters go by XGBoost's own names. XGBoost computes in float32: features are rounded to it
before they are compared, and probabilities are scaled to sum to 1 in float64 afterwards.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self
from uuid import uuid4

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.mapped import ASIDE, check_space, folder_of
from chaffinch.tasks.selection.models.base import (
    FLAG,
    FROM_TARGET,
    JSON,
    ONE_THREAD,
    QUIET,
    SEEDED,
    Parameters,
    check_matrix,
    check_parameters,
    check_width,
    choice,
    combinations,
    native_file,
    real,
    whole,
)

# XGBoost's binary JSON, checked before XGBoost reads it, which trusts lengths, nodes and features.
#
# What is checked here: the file is whole, every tree is one, with as many values of each kind as it
# has nodes, and its numbers of features, categories and classes are in range. A number that became
# another number may pass, and then the model only predicts something else.

DAMAGED = (
    "the model's file is no XGBoost model of these classes or is damaged; give it as it was written"
)
_TYPES = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_DEEPEST = 12
_FLOAT = r"-?(?:\d+(?:\.\d+)?(?:E-?\d+)?)"
_BASE_SCORE = re.compile(rf"{_FLOAT}|\[{_FLOAT}(?:,{_FLOAT})*\]")
_PER_NODE = (
    "base_weights", "default_left", "left_children", "loss_changes", "parents", "right_children",
    "split_conditions", "split_indices", "split_type", "sum_hessian",
)  # fmt: skip
_OF_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_OBJECTIVES = {0: "reg:squarederror", 2: "binary:logistic"}


def check_ubjson(data: bytes, schema: Schema) -> None:
    """Raise InputError unless a model's file can be given to XGBoost.

    Parameters
    ----------
    data : bytes
        What ``Booster.save_raw("ubj")`` gave.
    schema : Schema
        The features and classes that the model was trained on.

    Raises
    ------
    InputError
        If it is cut short or damaged, or is a model of other features or classes.
    """
    try:
        model, end = _value(data, 0, 0)
        _check(end == len(data), "its end")
        n_features = int(model["learner"]["learner_model_param"]["num_feature"])
        if n_features == len(schema.features):
            _check_learner(model["learner"], schema)
    except (LookupError, OverflowError, TypeError, ValueError, struct.error) as error:
        raise InputError(DAMAGED) from error
    check_width(n_features, schema)


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a byte, and where it ends."""
    _check(depth <= _DEEPEST, "its depth")
    marker, at = chr(data[at]), at + 1
    if marker == "{":
        members: dict[str, Any] = {}
        while data[at] != ord("}"):
            key, at = _text(data, at)
            _check(key not in members, "a member twice")
            members[key], at = _value(data, at, depth + 1)
        return members, at + 1
    if marker == "[" and data[at] == ord("$"):
        dtype = np.dtype(_TYPES[chr(data[at + 1])])
        _check(data[at + 2] == ord("#"), "an array")
        size, at = _size(data, at + 3)
        _check(size * dtype.itemsize <= len(data) - at, "an array")
        return np.frombuffer(data, dtype, size, at), at + size * dtype.itemsize
    if marker == "[":
        _check(data[at] == ord("#"), "an array")
        size, at = _size(data, at + 1)
        items: list[Any] = []
        for _ in range(size):
            item, at = _value(data, at, depth + 1)
            items.append(item)
        return items, at
    if marker == "S":
        return _text(data, at)
    dtype = np.dtype(_TYPES[marker])
    return np.frombuffer(data, dtype, 1, at)[0].item(), at + dtype.itemsize


def _size(data: bytes, at: int) -> tuple[int, int]:
    _check(data[at] == ord("L"), "a length")
    (size,) = struct.unpack_from(">q", data, at + 1)
    _check(0 <= size <= len(data) - at, "a length")
    return size, at + 9


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _size(data, at)
    _check(size <= len(data) - at, "a text")
    return data[at : at + size].decode(), at + size


def _check_learner(learner: dict[str, Any], schema: Schema) -> None:
    n_features, n_classes = len(schema.features), schema.n_classes
    n_outputs = n_classes if n_classes > 2 else 1
    parameters = learner["learner_model_param"]
    _check(parameters["num_feature"] == str(n_features), "num_feature")
    _check(parameters["num_class"] == str(n_classes if n_classes > 2 else 0), "num_class")
    _check(parameters["num_target"] == "1", "num_target")
    base = parameters["base_score"]
    _check(_BASE_SCORE.fullmatch(base) and base.count(",") in (0, n_outputs - 1), "base_score")
    _check(learner["objective"]["name"] == _OBJECTIVES.get(n_classes, "multi:softprob"), "loss")
    if n_classes > 2:
        own = learner["objective"]["softmax_multiclass_param"]
        _check(own["num_class"] == str(n_classes), "num_class")
    _check(len(learner["feature_names"]) in (0, n_features), "feature_names")
    _check(len(learner["feature_types"]) in (0, n_features), "feature_types")
    booster = learner["gradient_booster"]
    weights = None
    if booster["name"] == "dart":
        weights, booster = booster["weight_drop"], booster["gbtree"]
    _check(booster["name"] == "gbtree", "its kind")
    model = booster["model"]
    _check(not any(map(len, model.get("cats", {}).values())), "cats")
    trees, per_round = model["trees"], int(model["gbtree_model_param"]["num_parallel_tree"])
    _check(model["gbtree_model_param"]["num_trees"] == str(len(trees)), "num_trees")
    _check(per_round >= 1 and len(trees) % (per_round * n_outputs) == 0, "num_parallel_tree")
    _check(weights is None or len(weights) == len(trees), "weight_drop")
    _check(len(model["tree_info"]) == len(trees), "tree_info")
    _check(_within(model["tree_info"], 0, n_outputs), "tree_info")
    rounds = [int(first) for first in model["iteration_indptr"]]
    _check(rounds[0] == 0 and rounds[-1] == len(trees), "iteration_indptr")
    _check(all(first < after for first, after in pairwise(rounds)), "iteration_indptr")
    for number, tree in enumerate(trees):
        _check(tree["id"] == number, "id")
        _check_tree(tree, schema)


def _check_tree(tree: dict[str, Any], schema: Schema) -> None:
    parameters, left, right = tree["tree_param"], tree["left_children"], tree["right_children"]
    _check(all(isinstance(tree[key], np.ndarray) for key in _PER_NODE + _OF_CATEGORIES), "a list")
    n = len(left)
    _check(n >= 1 and parameters["num_nodes"] == str(n), "num_nodes")
    _check(parameters["num_feature"] == str(len(schema.features)), "num_feature")
    _check((parameters["num_deleted"], parameters["size_leaf_vector"]) == ("0", "1"), "tree_param")
    _check(all(len(tree[key]) == n for key in _PER_NODE), "its nodes")
    parent = np.flatnonzero(left != -1)
    children = np.concatenate((left[parent], right[parent]))
    _check(bool((right[left == -1] == -1).all()), "its leaves")
    _check(bool((children > np.concatenate((parent, parent))).all()), "its children")
    _check(np.array_equal(np.sort(children), np.arange(1, n)), "its children")
    _check(np.array_equal(tree["parents"][children], np.concatenate((parent, parent))), "parents")
    features, kind = tree["split_indices"], tree["split_type"]
    _check(_within(features, 0, len(schema.features)) and _within(kind, 0, 2), "its splits")
    _check(_within(tree["default_left"], 0, 2), "default_left")
    categories, nodes, first, size = (tree[key] for key in _OF_CATEGORIES)
    _check(np.array_equal(nodes, np.flatnonzero(kind)), "categories_nodes")
    _check(len(nodes) == len(first) == len(size), "categories_segments")
    _check(_within(size, 1, len(categories) + 1), "categories_sizes")
    _check(np.array_equal(first, np.cumsum(size) - size) and sum(size) == len(categories), "sizes")
    known = np.repeat(np.array(schema.n_categories)[features[nodes]], size)
    _check(bool(((categories >= 0) & (categories < known)).all()), "categories")


def _within(values: Any, low: int, high: int) -> bool:
    """Return whether every value is in low..high - 1."""
    found = np.asarray(values)
    return bool(((found >= low) & (found < high)).all())


def _check(holds: object, what: str) -> None:
    if not holds:
        raise InputError(what)


_FILE = "model.ubj"
_DEFAULT_ROUNDS = 100
_DEFAULT_BINS = 256
_PER_BIN, _PER_ROW = 6, 8  # bytes of these files, at most
_BATCH = 2**26  # bytes of rows in files that are read at a time
_KNOWN = {
    "booster": choice("gbtree", "dart"),
    "n_estimators": whole(1),
    "learning_rate": real(0, above_low=True),
    "max_depth": whole(0),
    "max_leaves": whole(0),
    "grow_policy": choice("depthwise", "lossguide"),
    "min_child_weight": real(0),
    "gamma": real(0),
    "max_delta_step": real(0),
    "subsample": real(0, 1, above_low=True),
    "colsample_bytree": real(0, 1, above_low=True),
    "colsample_bylevel": real(0, 1, above_low=True),
    "colsample_bynode": real(0, 1, above_low=True),
    "num_parallel_tree": whole(1),
    "reg_alpha": real(0),
    "reg_lambda": real(0),
    "max_bin": whole(2, 65535),
    "max_cat_to_onehot": whole(1),
    "max_cat_threshold": whole(1),
    "scale_pos_weight": real(0, above_low=True),
    "base_score": real(),
    "sample_type": choice("uniform", "weighted"),
    "normalize_type": choice("tree", "forest"),
    "rate_drop": real(0, 1),
    "skip_drop": real(0, 1),
    "one_drop": FLAG,
}
_REFUSED = {
    **dict.fromkeys(("nthread", "n_jobs"), ONE_THREAD),
    **dict.fromkeys(("seed", "random_state"), SEEDED),
    **dict.fromkeys(
        ("objective", "num_class", "eval_metric", "enable_categorical", "feature_types"),
        FROM_TARGET,
    ),
    **dict.fromkeys(("verbosity", "verbose"), QUIET),
    "tree_method": "is fixed at 'hist', which is the fast one; leave it out",
    "device": "is fixed at 'cpu', so that one seed gives one model; leave it out",
    "eta": "goes by the name 'learning_rate' here",
    "min_split_loss": "goes by the name 'gamma' here",
    "alpha": "goes by the name 'reg_alpha' here",
    "lambda": "goes by the name 'reg_lambda' here",
    "num_boost_round": "goes by the name 'n_estimators' here",
}


def check(parameters: Parameters) -> None:
    check_parameters("xgboost", parameters, _KNOWN, _REFUSED)


def grid(preset: str) -> list[dict[str, JSON]]:
    # The paper has no XGBoost; its LightGBM grid is translated: trees grow by leaves, and
    # min_child_weight stands for min_child_samples, the same for squared error. `subsample` has an
    # effect here, which it had not in the published LightGBM runs.
    if preset == "paper":
        return combinations(
            grow_policy=("lossguide",),
            max_depth=(0,),
            max_leaves=(7, 15),
            learning_rate=(0.01, 0.025, 0.05),
            n_estimators=(10, 20),
            subsample=(0.6, 0.8),
            colsample_bytree=(0.6, 0.8),
            min_child_weight=(5, 10),
        )
    return combinations(max_depth=(3, 6), learning_rate=(0.05,), n_estimators=(100, 300))


def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int) -> XGBoostModel:
    import xgboost

    settings: dict[str, Any] = {
        **parameters,
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "seed": seed,
        "nthread": 1,
        "verbosity": 0,
    }
    if schema.n_classes:
        settings["objective"] = "binary:logistic" if schema.n_classes == 2 else "multi:softprob"
    if schema.n_classes > 2:
        settings["num_class"] = schema.n_classes
    rounds = settings.pop("n_estimators", _DEFAULT_ROUNDS)
    table = _binned(rows, schema, settings.get("max_bin", _DEFAULT_BINS))
    return XGBoostModel(schema, xgboost.train(settings, table, num_boost_round=rounds))


def _binned(rows: Rows, schema: Schema, max_bin: int) -> Any:
    """Return the bins of rows: in files if the rows are, which leads to the same model."""
    import xgboost

    types = ["c" if n else "q" for n in schema.n_categories]
    given: dict[str, Any] = {"enable_categorical": True, "max_bin": max_bin, "nthread": 1}
    folder = folder_of(rows.X)
    if folder is None:
        return xgboost.QuantileDMatrix(
            rows.X, rows.y, weight=rows.weight, feature_types=types, **given
        )
    check_space(folder, _PER_BIN * rows.X.size + _PER_ROW * len(rows))
    prefix = str(folder / f"{ASIDE}{uuid4().hex}")  # of files that go with the matrix
    size = max(1, _BATCH // (8 * rows.X.shape[1]))

    class Batches(xgboost.DataIter):
        def __init__(self) -> None:
            self.reset()
            super().__init__(cache_prefix=prefix, on_host=False)

        def next(self, input_data: Callable[..., Any]) -> bool:
            batch = rows.take(slice(self.begin, self.begin + size))
            self.begin += size
            if len(batch):
                input_data(data=batch.X, label=batch.y, weight=batch.weight, feature_types=types)
            return len(batch) > 0

        def reset(self) -> None:
            self.begin = 0

    return xgboost.ExtMemQuantileDMatrix(Batches(), **given)


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    schema: Schema
    booster: Any

    @property
    def kind(self) -> str:
        return "xgboost"

    def predict(self, X: Floats) -> Floats:
        """Predict rows; a category code out of its range counts as another category."""
        check_matrix(X, self.schema)
        prediction = np.asarray(self.booster.inplace_predict(X), dtype=np.float64)
        if self.schema.n_classes == 2:
            return np.column_stack((1 - prediction, prediction))
        if not self.schema.n_classes:
            return prediction
        prediction = prediction.reshape(-1, self.schema.n_classes)
        return np.asarray(prediction / prediction.sum(axis=1, keepdims=True))

    @property
    def used_features(self) -> Mask:
        used = np.zeros(len(self.schema.features), dtype=bool)
        for name in self.booster.get_score(importance_type="weight"):
            used[int(name.removeprefix("f"))] = True
        return used

    def to_files(self) -> dict[str, bytes]:
        return {_FILE: bytes(self.booster.save_raw("ubj"))}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], schema: Schema) -> Self:
        import xgboost

        data = native_file(files, _FILE)
        check_ubjson(data, schema)
        try:
            return cls(schema, xgboost.Booster({"nthread": 1}, model_file=bytearray(data)))
        except xgboost.core.XGBoostError as error:
            raise InputError(DAMAGED) from error
