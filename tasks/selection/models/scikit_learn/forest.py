"""scikit-learn's trees in normal form: decision trees, forests and histogram gradient boosting.

The columns are those that the model's own transformer makes; of a one-hot feature they are several,
masked together. Trees and forests round them to float32 before they compare. HistGradientBoosting
encodes categories again: a category that is unknown, or that a test has not seen, counts as
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.base import check_own
from chaffinch.tasks.selection.models.forest import (
    NUMERIC,
    Flags,
    Forest,
    Integers,
    Link,
    Nodes,
    as_codes,
    assemble,
    in_single_precision,
)
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.selection.models.scikit_learn import (
    FORESTS,
    TREES,
    ScikitLearnModel,
    feature_of_column,
    histogram_order,
    own_family,
)

_HISTOGRAM_CODES = 256  # as many as its bitsets hold


def read_forest(model: ScikitLearnModel) -> Forest:
    """Return a trained model's forest; NotCovered if it has none, or does not know all classes."""
    estimator, n_classes = model.estimator, model.schema.n_classes
    if n_classes and len(getattr(estimator, "classes_", ())) != n_classes:
        raise NotCovered("it was trained without some class")
    columns = model.pipeline.named_steps["columns"]
    features = feature_of_column(columns, model.schema)

    def transform(X: Floats) -> Floats:
        if isinstance(columns, str):
            return X
        with single_thread():
            return np.asarray(columns.transform(X), dtype=np.float64)

    family = own_family(estimator)
    if family in TREES:
        return _averaged([estimator], n_classes, features, transform)
    if family in FORESTS:
        for tree in estimator.estimators_:
            check_own(tree, "sklearn", "scikit-learn")
        return _averaged(estimator.estimators_, n_classes, features, transform)
    if family == "HistGradientBoosting":
        return _boosted(estimator, n_classes, features, transform)
    raise NotCovered(f"{type(estimator).__name__} is not made of trees that are known here")


def _averaged(
    estimators: list[Any], n_classes: int, features: Integers, transform: Callable[[Floats], Floats]
) -> Forest:
    trees = [estimator.tree_ for estimator in estimators]
    size = np.array([tree.node_count for tree in trees])
    root = np.cumsum(size) - size
    shift = np.repeat(root, size)
    left = np.concatenate([tree.children_left for tree in trees])
    right = np.concatenate([tree.children_right for tree in trees])
    value = np.concatenate([tree.value[:, 0] for tree in trees])
    link: Link = "probability" if n_classes else "identity"
    if n_classes == 2:
        value = value[:, 1:]

    def prepare(X: Floats) -> Floats:
        return in_single_precision(transform(X))

    return assemble(
        Nodes(
            column=np.concatenate([tree.feature for tree in trees]).astype(np.int64),
            threshold=np.concatenate([tree.threshold for tree in trees]),
            missing_left=np.concatenate([tree.missing_go_to_left for tree in trees]) > 0,
            left=np.where(left >= 0, left + shift, -1),
            right=np.where(left >= 0, right + shift, -1),
            value=value,
            cover=np.concatenate([tree.weighted_n_node_samples for tree in trees]),
            root=root,
            category_start=np.full(len(left), NUMERIC),
        ),
        output=np.zeros(len(trees), dtype=np.int64),
        base=np.zeros(value.shape[1]),
        divisor=float(len(trees)),
        link=link,
        category_left=np.zeros(0, dtype=bool),
        feature_of_column=features,
        prepare=prepare,
    )


def _boosted(
    estimator: Any, n_classes: int, features: Integers, transform: Callable[[Floats], Floats]
) -> Forest:
    from sklearn._loss.link import IdentityLink

    if not n_classes and not isinstance(estimator._loss.link, IdentityLink):
        raise NotCovered(f"its loss {estimator.loss!r} has another link than the identity")
    predictors = [tree for iteration in estimator._predictors for tree in iteration]
    nodes = np.concatenate([tree.nodes for tree in predictors])
    size = np.array([len(tree.nodes) for tree in predictors])
    root = np.cumsum(size) - size
    shift = np.repeat(root, size)
    is_inner = nodes["is_leaf"] == 0
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    start, flags, holds_codes = _histogram_categories(estimator, predictors, nodes, is_inner)
    links: dict[int, Link] = {0: "identity", 2: "logistic"}

    def prepare(X: Floats) -> Floats:
        prepared = np.array(transform(X))
        if estimator._preprocessor is not None:
            prepared = np.array(estimator._preprocessor.transform(prepared), dtype=np.float64)
        for c in np.flatnonzero(holds_codes):
            prepared[:, c] = as_codes(prepared[:, c], np.arange(_HISTOGRAM_CODES))
        return prepared

    return assemble(
        Nodes(
            column=np.where(is_inner, nodes["feature_idx"], 0).astype(np.int64),
            threshold=nodes["num_threshold"],
            missing_left=nodes["missing_go_to_left"] > 0,
            left=np.where(is_inner, nodes["left"] + shift, -1),
            right=np.where(is_inner, nodes["right"] + shift, -1),
            value=nodes["value"][:, np.newaxis],
            cover=nodes["count"].astype(np.float64),
            root=root,
            category_start=start,
        ),
        output=np.arange(len(predictors)) % len(base),
        base=base,
        divisor=1.0,
        link=links.get(n_classes, "softmax"),
        category_left=flags,
        feature_of_column=features[histogram_order(estimator)],
        prepare=prepare,
    )


def _histogram_categories(
    estimator: Any, predictors: list[Any], nodes: Any, is_inner: Flags
) -> tuple[Integers, Flags, Flags]:
    """Return `category_start`, `category_left`, and which columns hold codes."""
    tests = np.flatnonzero(is_inner & (nodes["is_categorical"] > 0))
    column = nodes["feature_idx"][tests]
    holds_codes = np.zeros(estimator._bin_mapper.n_bins_non_missing_.shape[0], dtype=bool)
    holds_codes[column] = True
    start = np.full(len(nodes), NUMERIC)
    start[tests] = np.arange(len(tests)) * (_HISTOGRAM_CODES + 2)
    if not len(tests):
        return start, np.zeros(0, dtype=bool), holds_codes
    known, place = estimator._bin_mapper.make_known_categories_bitsets()
    bitsets = np.concatenate([tree.raw_left_cat_bitsets for tree in predictors])
    # a predictor numbers its bitsets from 0
    n_bitsets = np.array([len(tree.raw_left_cat_bitsets) for tree in predictors])
    of_node = np.repeat(np.arange(len(predictors)), [len(tree.nodes) for tree in predictors])
    first_bitset = (np.cumsum(n_bitsets) - n_bitsets)[of_node[tests]]
    goes_left = _bits(bitsets[first_bitset + nodes["bitset_idx"][tests]])
    is_known = _bits(known[place[column]])
    missing_left = nodes["missing_go_to_left"][tests, np.newaxis] > 0
    flags = np.hstack((goes_left | (~is_known & missing_left), missing_left, missing_left))
    return start, flags.ravel(), holds_codes


def _bits(words: Any) -> Flags:
    """Unpack bitsets of 32-bit words, (n, 8) -> (n, 256)."""
    octets = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").astype(bool)
