"""XGBoost's trees in normal form, read from its own JSON.

XGBoost rounds features to float32 and goes left if x < threshold, which for numbers of that kind
is x <= the one before the threshold. Of a categorical test the codes in its set go right; all
others, negative ones and those beyond the set included, go left. Its own sums are float32, so that
its predictions differ from a forest's by some 1e-7 of the partial sums; see `check_rounding` for
where that is too much. Its probabilities are float32 too: one close to 1 is 1, or a few steps of
6e-8 below it, and its log loss is that of the rest.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.forest import (
    Forest,
    Link,
    Nodes,
    as_codes,
    assemble,
    category_flags,
    in_single_precision,
)

_LINKS: dict[str, Link] = {
    "reg:squarederror": "identity",
    "reg:absoluteerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:quantileerror": "identity",
    "binary:logistic": "logistic_single",
    "multi:softprob": "softmax",
}


def read_forest(booster: Any) -> Forest:
    """Return the forest of an `xgboost.Booster`; NotCovered if none, or of other objectives."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    objective, trainer = learner["objective"]["name"], learner["gradient_booster"]
    if objective not in _LINKS:
        raise NotCovered(f"its objective is {objective!r}")
    if trainer["name"] not in ("gbtree", "dart"):
        raise NotCovered(f"its booster is {trainer['name']!r}")
    model = trainer["gbtree"]["model"] if trainer["name"] == "dart" else trainer["model"]
    trees = model["trees"]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        raise NotCovered("its leaves have several values")

    size = np.array([len(tree["left_children"]) for tree in trees])
    root = np.cumsum(size) - size

    def joined(name: str) -> Any:
        return np.concatenate([np.asarray(tree[name], dtype=np.float64) for tree in trees])

    left = joined("left_children").astype(np.int64)
    right = joined("right_children").astype(np.int64)
    shift = np.repeat(root, size)
    condition = joined("split_conditions").astype(np.float32)
    feature = joined("split_indices").astype(np.int64)
    is_inner = left >= 0
    is_categorical = is_inner & (joined("split_type") == 1)
    columns, column = np.unique(2 * feature + is_categorical, return_inverse=True)
    feature_of_column, holds_codes = columns // 2, columns % 2 == 1
    default_left = joined("default_left") > 0
    starts, flags, known = category_flags(*_sets(trees, root), column, False, default_left)
    weights = np.repeat(np.asarray(trainer.get("weight_drop", np.ones(len(trees)))), size)

    def prepare(X: Floats) -> Floats:
        prepared = in_single_precision(X[:, feature_of_column])
        for c in np.flatnonzero(holds_codes).tolist():
            prepared[:, c] = as_codes(prepared[:, c], known[c])
        return prepared

    base = _base(learner, objective)
    return assemble(
        Nodes(
            column=column,
            threshold=np.nextafter(condition, np.float32(-np.inf)).astype(np.float64),
            missing_left=default_left,
            left=np.where(is_inner, left + shift, -1),
            right=np.where(is_inner, right + shift, -1),
            value=(condition.astype(np.float64) * weights)[:, np.newaxis],
            cover=joined("sum_hessian"),
            root=root,
            category_start=starts,
        ),
        output=np.asarray(model["tree_info"], dtype=np.int64),
        base=base,
        divisor=1.0,
        link=_LINKS[objective],
        category_left=flags,
        feature_of_column=feature_of_column,
        prepare=prepare,
    )


def _sets(trees: list[dict[str, Any]], root: Any) -> tuple[Any, list[Any]]:
    """Return the nodes with a categorical test, and the codes that go right at each."""
    tests, going_right = [], []
    for tree, first in zip(trees, root, strict=True):
        codes = np.asarray(tree["categories"], dtype=np.int64)
        for node, begin, n in zip(
            tree["categories_nodes"],
            tree["categories_segments"],
            tree["categories_sizes"],
            strict=True,
        ):
            tests.append(first + node)
            going_right.append(codes[begin : begin + n])
    return np.array(tests, dtype=np.int64), going_right


def _base(learner: dict[str, Any], objective: str) -> Floats:
    parameters = learner["learner_model_param"]
    n_outputs = max(int(parameters["num_class"]), 1)
    base_score = np.atleast_1d(json.loads(parameters["base_score"]))
    base = np.broadcast_to(base_score, n_outputs).astype(np.float32).astype(np.float64)
    if objective == "binary:logistic":  # written as a probability
        return np.array([math.log(p / (1 - p)) for p in base])
    return base
