"""CatBoost's JSON, checked before CatBoost reads it, which trusts numbers of splits and lengths.

What is checked: every split is one that the features have, every tree has as many leaves as its
splits ask for, and the tables of categories are as wide as they say. A number that became another
number may pass, and then the model only predicts something else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.models.base import check_width

DAMAGED = (
    "the model's file is no CatBoost model of these features and classes or is damaged; give it as "
    "it was written"
)
PARTS = ("ctr_data", "features_info", "oblivious_trees", "scale_and_bias")
_OF_COLUMNS = ("float_features", "categorical_features")
_MISSING = ("AsIs", "AsFalse", "AsTrue")
_DEEPEST = 16
_PER_CATEGORY = {"Borders": range(3, 2**16), "Counter": range(2, 3)}  # with its hash
_INT = 2**31
_DAMAGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


def read_parts(content: bytes, schema: Schema) -> dict[str, Any]:
    """Return the parts of a model's file that CatBoost may read.

    Parameters
    ----------
    content : bytes
        The `PARTS` of what ``CatBoost.save_model(format="json")`` wrote, and ``"classes"``, those
        that the model tells apart.
    schema : Schema
        The features and classes that the model was trained on.

    Raises
    ------
    InputError
        If it is damaged, or is a model of other features or classes.
    """
    try:
        parts: dict[str, Any] = json.loads(content)
        json.dumps(parts, allow_nan=False)  # CatBoost reads a file up to a number that is none
        _check({*parts} <= {*PARTS, "classes"})
        info, classes = parts["features_info"], parts["classes"]
        _check(len({*classes}) == len(classes) != 1)
        _check_whole(classes, 0, schema.n_classes)
        _check(bool(classes) == bool(schema.n_classes))
        n_features = sum(len(info.get(kind, ())) for kind in _OF_COLUMNS)
        if n_features == len(schema.features):
            _check_features(info, parts.get("ctr_data", {}), schema)
            _check_trees(parts, schema)
    except _DAMAGE as error:
        raise InputError(DAMAGED) from error
    check_width(n_features, schema)
    return parts


def features_of_splits(parts: dict[str, Any], schema: Schema) -> list[int]:
    """Return the features that some tree asks for, each as often as it does."""
    of_split = _features_of_each_split(parts["features_info"], schema)
    splits = (split for tree in parts["oblivious_trees"] for split in tree["splits"] or ())
    return [feature for split in splits for feature in of_split[split["split_index"]]]


def _features_of_each_split(info: dict[str, Any], schema: Schema) -> list[list[int]]:
    """Return the features that each possible split reads, in the order of CatBoost's numbers."""
    of_split = []
    for feature in info.get("float_features", ()):
        of_split += [[feature["flat_feature_index"]]] * len(feature["borders"] or ())
    for feature in info.get("categorical_features", ()):
        of_split += [[feature["flat_feature_index"]]] * len(feature.get("values", ()))
    numeric, categorical = _by_kind(schema)
    for table in info.get("ctrs", ()):
        read = [
            numeric[element["float_feature_index"]]
            if "float_feature_index" in element
            else categorical[element["cat_feature_index"]]
            for element in table["elements"]
        ]
        of_split += [read] * len(table["borders"])
    return of_split


def _by_kind(schema: Schema) -> tuple[list[int], list[int]]:
    numeric = [j for j, size in enumerate(schema.n_categories) if not size]
    return numeric, list(schema.categorical)


def _check_features(info: dict[str, Any], tables: dict[str, Any], schema: Schema) -> None:
    _check({*info} <= {*_OF_COLUMNS, "ctrs"})
    numeric, categorical = _by_kind(schema)
    floats, categories = (info.get(kind, []) for kind in _OF_COLUMNS)
    for features, positions in ((floats, numeric), (categories, categorical)):
        for name, numbers in (
            ("flat_feature_index", positions),
            ("feature_index", [*range(len(positions))]),
        ):
            of_file = [feature[name] for feature in features]
            _check_whole(of_file, 0, len(schema.features))
            _check(of_file == numbers)
        for feature, position in zip(features, positions, strict=True):
            _check(feature["feature_id"] in ("", str(position)))
    for feature in floats:
        _check_numbers(feature["borders"] or ())
        _check(isinstance(feature["has_nans"], bool))
        _check(feature["nan_value_treatment"] in _MISSING)
    for feature in categories:
        _check_whole(feature.get("values", ()), -_INT, _INT)
        _check(all(isinstance(text, str) for text in feature.get("string_values", ())))
    named = set()
    for table in info.get("ctrs", ()):
        for element in table["elements"]:
            _check_element(element, floats, categories)
        own = {"identifier": table["elements"], "type": table["ctr_type"]}
        named.add(table["identifier"])
        _check(own["identifier"] and json.loads(table["identifier"]) == own)
        _check_numbers(table["borders"])
        _check_numbers([table[name] for name in _OF_TABLES])
        stride = _check_table(tables[table["identifier"]], table["ctr_type"])
        _check_whole([table["target_border_idx"]], 0, max(1, stride - 2))
    _check({*tables} == named)


_OF_TABLES = ("prior_numerator", "prior_denomerator", "scale", "shift")


def _check_element(element: dict[str, Any], floats: Sequence[Any], known: Sequence[Any]) -> None:
    kind = element["combination_element"]
    if kind == "float_feature":
        _check_whole([element["float_feature_index"]], 0, len(floats))
        _check(element["border"] in floats[element["float_feature_index"]]["borders"])
        return
    _check_whole([element["cat_feature_index"]], 0, len(known))
    of_value = kind == "cat_feature_exact_value"
    _check("float_feature_index" not in element and (of_value or kind == "cat_feature_value"))
    _check(not of_value or element["value"] in known[element["cat_feature_index"]]["values"])


def _check_table(table: dict[str, Any], kind: str) -> int:
    """Check the table of a kind of statistics, and return how many cells a category has."""
    stride: int = table["hash_stride"]
    cells: Sequence[Any] = table["hash_map"]
    _check(type(stride) is int and stride in _PER_CATEGORY[kind])
    _check(len(cells) > 0 and len(cells) % stride == 0)
    hashes = cells[::stride]
    _check(len({*hashes}) == len(hashes) and all(map(str.isdecimal, hashes)))
    _check(max(map(int, hashes)) < 2**64)
    for cell in range(1, stride):
        _check_whole(cells[cell::stride], 0, _INT)
    _check_whole([table["counter_denominator"]], 0, _INT)
    return stride


def _check_trees(parts: dict[str, Any], schema: Schema) -> None:
    n_outputs = len(parts["classes"]) if len(parts["classes"]) > 2 else 1
    n_splits = len(_features_of_each_split(parts["features_info"], schema))
    scale, bias = parts["scale_and_bias"]
    _check(len(bias) == n_outputs and len(parts["oblivious_trees"]) > 0)
    _check_whole([scale], 1, 2)
    _check_numbers(bias)
    for tree in parts["oblivious_trees"]:
        splits = tree["splits"] or ()
        _check(len(splits) <= _DEEPEST)
        _check_whole([split["split_index"] for split in splits], 0, n_splits)
        for name, size in (("leaf_weights", 1), ("leaf_values", n_outputs)):
            _check(len(tree[name]) == size * 2 ** len(splits))
            _check_numbers(tree[name])


def _check_numbers(values: Sequence[Any]) -> None:
    _check(all(type(value) in (int, float) for value in values))


def _check_whole(values: Sequence[Any], low: int, end: int) -> None:
    _check(all(type(value) is int and low <= value < end for value in values))


def _check(holds: object) -> None:
    if not holds:
        raise ValueError
