"""LightGBM's trees in normal form, read from its own text format.

A numeric test of LightGBM has one of three kinds of missing values, set by two bits of its
``decision_type``: with "none" a NaN counts as 0, with "zero" both go to the default side, with
"NaN" only a NaN does. Before any test, values of at most 1e-35 count as 0. A categorical test
truncates its code towards 0; NaN and codes outside its bitset go right.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.forest import (
    NUMERIC,
    Forest,
    Integers,
    Link,
    Nodes,
    as_codes,
    assemble,
    category_flags,
)

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_SHIFT, _MISSING_NONE, _MISSING_ZERO = 2, 0, 1
_ZERO = float(np.float32(1e-35))  # LightGBM's kZeroThreshold
_LINKS: dict[str, Link] = {
    **dict.fromkeys(
        ("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"
    ),
    "binary sigmoid:1": "logistic",
    "multiclass": "softmax",
}
# How a column is made of its feature.
_PLAIN, _ZEROS_MISSING, _CODES = range(3)


def read_forest(booster: Any) -> Forest:
    """Return the forest of a `lightgbm.Booster`; NotCovered for linear leaves, other objectives."""
    header, _, trees = booster.model_to_string().partition("\nTree=0\n")
    link = _link(header)
    n_outputs = int(_setting(header, "num_tree_per_iteration"))
    body = _by_name(trees.partition("\nend of trees")[0])
    if "1" in body["is_linear"]:
        raise NotCovered("its leaves are linear models")
    size = np.array(body["num_leaves"], dtype=np.int64)  # leaves of each tree
    n_trees = len(size)
    inner_before = np.cumsum(size - 1) - (size - 1)
    kind = _integers(body, "decision_type")
    tree_of_inner = np.repeat(np.arange(n_trees), size - 1)
    tests = np.flatnonzero(kind & _CATEGORICAL)
    sets = _sets(body, tests, tree_of_inner)
    feature = _integers(body, "split_feature")
    how = np.where((kind >> _MISSING_SHIFT) & 3 == _MISSING_ZERO, _ZEROS_MISSING, _PLAIN)
    how[kind & _CATEGORICAL == 1] = _CODES
    columns, column = np.unique(3 * feature + how, return_inverse=True)
    feature_of_column, how_of_column = columns // 3, columns % 3

    # In a row of nodes: all inner nodes, then all leaves.
    leaf_base = len(kind) + np.cumsum(size) - size

    def position(child: Integers) -> Integers:
        return np.where(
            child >= 0, child + inner_before[tree_of_inner], ~child + leaf_base[tree_of_inner]
        )

    threshold = _numbers(body, "threshold")
    default_left = kind & _DEFAULT_LEFT > 0
    missing = (kind >> _MISSING_SHIFT) & 3
    never = np.zeros(len(kind), dtype=bool)  # a missing category goes right, as unknown ones do
    starts, flags, known = category_flags(tests, sets, column, True, never)
    n_leaves = int(size.sum())

    def with_leaves(values: Any, filler: Any) -> Any:
        return np.concatenate((values, np.full(n_leaves, filler)))

    nodes = Nodes(
        column=with_leaves(column, 0),
        threshold=with_leaves(threshold, 0.0),
        missing_left=with_leaves(
            np.where(missing == _MISSING_NONE, threshold >= 0, default_left), False
        ),
        left=with_leaves(position(_integers(body, "left_child")), -1),
        right=with_leaves(position(_integers(body, "right_child")), -1),
        value=np.concatenate((np.zeros(len(kind)), _numbers(body, "leaf_value")))[:, np.newaxis],
        # a tree of one leaf has no weight
        cover=np.concatenate(
            (np.zeros(len(kind)), _numbers({"": [text or "0" for text in body["leaf_weight"]]}, ""))
        ),
        root=np.where(size > 1, inner_before, leaf_base),
        category_start=with_leaves(starts, NUMERIC),
    )

    def prepare(X: Floats) -> Floats:
        prepared = X[:, feature_of_column]
        for c, made in enumerate(how_of_column):
            values = prepared[:, c]
            if made == _CODES:
                prepared[:, c] = as_codes(np.trunc(values), known[c])
            else:
                values[np.abs(values) <= _ZERO] = np.nan if made == _ZEROS_MISSING else 0.0
        return prepared

    return assemble(
        nodes,
        output=np.arange(n_trees) % n_outputs,
        base=np.zeros(n_outputs),
        divisor=float(n_trees // n_outputs) if "\naverage_output\n" in header + "\n" else 1.0,
        link=link,
        category_left=flags,
        feature_of_column=feature_of_column,
        prepare=prepare,
    )


def _sets(body: dict[str, list[str]], tests: Integers, tree_of_inner: Integers) -> list[Integers]:
    """Return the codes that go left at each of the categorical tests."""
    if not len(tests):
        return []
    # The threshold of a categorical test is the number of its bitset in its tree.
    number = _numbers(body, "threshold")[tests].astype(np.int64)
    bounds, words = body["cat_boundaries"], body["cat_threshold"]
    with_categories = np.unique(tree_of_inner[tests])
    of_tree = {
        tree: (np.fromstring(b, np.int64, sep=" "), np.fromstring(w, np.int64, sep=" "))
        for tree, b, w in zip(with_categories, bounds, words, strict=True)
    }
    sets = []
    for test, i in zip(tests, number, strict=True):
        bound, word = of_tree[tree_of_inner[test]]
        sets.append(_codes_in(word[bound[i] : bound[i + 1]]))
    return sets


def _codes_in(bitset: Integers) -> Integers:
    """Return the codes in a bitset of 32 to a word; most words of large codes are 0."""
    used = np.flatnonzero(bitset)
    octets = bitset[used].astype("<u4").view(np.uint8).reshape(-1, 4)
    place, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return 32 * used[place] + bit


def _link(header: str) -> Link:
    objective = _setting(header, "objective")
    link = _LINKS.get(re.sub(r" num_class:\d+", "", objective))
    if link is None:
        raise NotCovered(f"its objective is {objective!r}")
    return link


def _setting(header: str, name: str) -> str:
    match = re.search(rf"^{name}=(.*)$", header, re.MULTILINE)
    if match is None:
        raise NotCovered(f"its text has no {name}")
    return match[1]


def _by_name(trees: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in trees.split("\n"):
        name, _, value = line.partition("=")
        values.setdefault(name, []).append(value)
    return values


def _numbers(body: dict[str, list[str]], name: str) -> Floats:
    text = _joined(body[name])
    return np.fromstring(text, sep=" ") if text else np.zeros(0)


def _integers(body: dict[str, list[str]], name: str) -> Integers:
    # read ten times faster than as floats
    text = _joined(body[name])
    return np.fromstring(text, dtype=np.int64, sep=" ") if text else np.zeros(0, np.int64)


def _joined(values: list[str]) -> str:
    return " ".join(filter(None, values))  # a tree of one leaf has empty values
