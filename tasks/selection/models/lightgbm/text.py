"""LightGBM's text format, looked over before LightGBM reads it: damage ends the process there.

LightGBM reads the trees in parallel, where an error cannot be caught, and trusts the numbers of
children and features without checks. What is checked here: every tree lies where ``tree_sizes``
points, its lines hold numbers and as many as its leaves need, children come after their parents,
features, leaves and categories are in range, and each parameter has a name and a value, which is
a number or a list of numbers where LightGBM reads these. A digit that became another digit may
pass, and then the model only predicts something else: against that a run has the SHA-256 of its
files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError

# exponents that float64 has: LightGBM dies of others
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?(?:\d{1,2}|[0-2]\d\d|30[0-7]))?|inf|nan)"
_LINE = re.compile(rf"[a-z_]+=(?:{_NUMBER})?(?: +{_NUMBER})* *")
_HEADER = ("version", "num_class", "label_index", "objective")
_PER_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_PER_LEAF_OF_LINEAR = ("leaf_const", "num_features")
_END_OF_TREES, _PARAMETERS, _END = "end of trees\n", "\nparameters:\n", "\nend of parameters\n"
_WORDS = (  # parameters that are no numbers
    "boosting|objective|metric|tree_learner|device_type|data_sample_strategy"
    "|interaction_constraints|monotone_constraints_method"
)
_PARAMETER = re.compile(rf"\[(?:(?:{_WORDS}): [^\r\n]*|\w+: (?:{_NUMBER}(?:,{_NUMBER})*)?)\]")
_CATEGORICAL = 1  # bit of decision_type

Lines = Mapping[str, str]


def check_text(text: str) -> None:
    """Raise InputError unless LightGBM may read a model's text.

    Parameters
    ----------
    text : str
        What ``Booster.model_to_string`` gave.

    Raises
    ------
    InputError
        If it is truncated, or damaged in a way listed above.
    """
    try:
        _check("\0" not in text, "a zero byte")
        head, separator, rest = text.partition("\n\nTree=0\n")
        header = _lines(head)
        _check(all(key in header for key in _HEADER), "its head")
        sizes = [int(size) for size in header["tree_sizes"].split()]
        trees = (separator + rest).removeprefix("\n\n")
        n_features, per_round = int(header["max_feature_idx"]) + 1, _round(header)
        _check(len(header["feature_names"].split()) == n_features, "feature_names")
        _check(len(header["feature_infos"].split()) == n_features, "feature_infos")
        _check(bool(sizes) and len(sizes) % per_round == 0, "tree_sizes")
        _check(trees[sum(sizes) :].startswith(_END_OF_TREES) and _END in trees, "its end")
        start = 0
        for number, size in enumerate(sizes):
            _check_tree(trees[start : start + size], number, n_features)
            start += size
        parameters = trees[start:].partition(_PARAMETERS)[2].partition(_END)[0]
        _check(all(map(_PARAMETER.fullmatch, parameters.splitlines())), "its parameters")
    except (KeyError, IndexError, OverflowError, ValueError) as error:
        raise InputError(
            f"the model's file is no LightGBM text or is damaged ({error}); give it as it was "
            "written"
        ) from error


def _round(header: Lines) -> int:
    """Return the number of trees in a round of boosting."""
    n = int(header["num_tree_per_iteration"])
    _check(n >= 1 and n == int(header["num_class"]), "num_tree_per_iteration")
    return n


def _check_tree(text: str, number: int, n_features: int) -> None:
    first, *lines = text.rstrip("\n").split("\n")
    what = f"tree {number}"
    _check(first == f"Tree={number}" and text.endswith("\n\n\n"), what)
    _check(all(map(_LINE.fullmatch, lines)), what)
    tree = _lines("\n".join(lines))
    n_leaves = int(tree["num_leaves"])
    _check(n_leaves >= 1 and len(tree["leaf_value"].split()) == n_leaves, what)
    _check(float(tree["shrinkage"]) >= 0, what)
    if int(tree["is_linear"]):
        _check_linear(tree, n_leaves, n_features, what)
    if n_leaves > 1:
        _check_splits(tree, n_leaves, n_features, what)


def _check_splits(tree: Lines, n_leaves: int, n_features: int, what: str) -> None:
    n = n_leaves - 1
    for key in ("split_gain", "internal_value", "internal_weight", "internal_count"):
        _check(len(tree[key].split()) == n, what)
    for key in ("leaf_weight", "leaf_count"):
        _check(len(tree[key].split()) == n_leaves, what)
    _check(all(len(tree[key].split()) == n for key in _PER_SPLIT), what)
    feature, kind, *children = (_whole(tree[key]) for key in _PER_SPLIT if key != "threshold")
    _check(_within(feature, 0, n_features) and _within(kind, 0, 16), what)
    for child in children:
        _check(bool(((child > np.arange(n)) | (child < 0)).all()), what)
        _check(_within(child, -n_leaves, n), what)
    threshold = np.array(tree["threshold"].split(), dtype=np.float64)
    _check_categories(tree, threshold[(kind & _CATEGORICAL) > 0], what)


def _check_categories(tree: Lines, chosen: NDArray[np.float64], what: str) -> None:
    """Check the sets of categories, and that each categorical split names one."""
    n = int(tree["num_cat"])
    _check(n >= 0 and _within(chosen, 0, n), what)
    if n:
        bounds, words = _whole(tree["cat_boundaries"]), _whole(tree["cat_threshold"])
        _check(len(bounds) == n + 1 and bounds[0] == 0 and bounds[-1] == len(words), what)
        _check(bool((np.diff(bounds) > 0).all()) and _within(words, 0, 2**32), what)


def _check_linear(tree: Lines, n_leaves: int, n_features: int, what: str) -> None:
    _check(all(len(tree[key].split()) == n_leaves for key in _PER_LEAF_OF_LINEAR), what)
    counts, features = _whole(tree["num_features"]), _whole(tree["leaf_features"])
    _check(_within(counts, 0, n_features + 1), what)
    _check(len(features) == len(tree["leaf_coeff"].split()) == counts.sum(), what)
    _check(_within(features, 0, n_features), what)


def _lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _whole(values: str) -> NDArray[np.int64]:
    return np.array(values.split(), dtype=np.int64)


def _within(values: NDArray[np.int64] | NDArray[np.float64], low: int, high: int) -> bool:
    """Whether every value is in low..high - 1."""
    return bool(((values >= low) & (values < high)).all())


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(what)
