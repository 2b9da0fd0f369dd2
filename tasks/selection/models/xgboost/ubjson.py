"""XGBoost's binary JSON, checked before XGBoost reads it, which trusts lengths, nodes and features.

What is checked: the file is whole, every tree is a tree, with as many values of each kind as it
has nodes, and its numbers of features, categories and classes are in range. A number that became
another number may pass, and then the model only predicts something else.
"""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from typing import Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.models.base import (
    check_width,
)

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
    """Raise InputError unless XGBoost may read a model's file.

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
    array = np.asarray(values)
    return bool(((array >= low) & (array < high)).all())


def _check(holds: object, what: str) -> None:
    if not holds:
        raise InputError(what)
