"""LightGBM: gradient-boosted trees, with categories and missing values taken natively.

Parameters go by the names of LightGBM's scikit-learn interface, and their defaults are that
interface's too, so that a model trained here is the LGBMRegressor or LGBMClassifier of the same
parameters and random_state, up to 500 columns or a hundred million values. One default surprises:
`subsample` alone does nothing, since `subsample_freq` is 0. The published runs of binary mask
optimisation had it so, and the grid named "paper" keeps it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.base import (
    FLAG,
    FROM_TARGET,
    JSON,
    QUIET,
    SEEDED,
    THREADS,
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
from chaffinch.tasks.selection.models.runtime import threads_for

# LightGBM's text format, looked over before LightGBM reads it: damage ends the process there.
#
# LightGBM reads the trees in parallel, where an error cannot be caught, and trusts the numbers of
# children and features without checks. What is checked here: every tree lies where ``tree_sizes``
# points, its lines hold numbers and as many as its leaves need, children come after their parents,
# features, leaves and categories are in range, and each parameter has a name and a value, which is
# a number or a list of numbers where LightGBM reads these. A digit that became another digit may
# pass, and then the model only predicts something else: against that a run has the SHA-256 of its
# files.

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
    """Raise InputError unless a model's text can be given to LightGBM.

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
    """Check the sets of categories, and that each categorical split names one of them."""
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


_FILE = "model.txt"
_READS = re.compile(r"^(?:split_feature|leaf_features)=(.*)$", re.MULTILINE)
_THREADS = re.compile(r"\[num_threads: \d+\]")
# On tables of many columns memory is bounded. The histograms of 31 leaves of more than 4,000
# columns take more MB than these, and are computed again as needed. Bins are found in 200,000 rows,
# or in as many as have so many values.
_POOL_SIZE, SAMPLED_ROWS, SAMPLED_VALUES = 512, 200_000, 10**8
_DEFAULT_ROUNDS = 100
_KNOWN = {
    "boosting_type": choice("gbdt", "dart", "rf", "goss"),
    "n_estimators": whole(1),
    "learning_rate": real(0, above_low=True),
    "num_leaves": whole(2, 131072),
    "max_depth": whole(-1),
    "min_child_samples": whole(0),
    "min_child_weight": real(0),
    "min_split_gain": real(0),
    "max_delta_step": real(),
    "subsample": real(0, 1, above_low=True),
    "subsample_freq": whole(0),
    "subsample_for_bin": whole(1),
    "colsample_bytree": real(0, 1, above_low=True),
    "feature_fraction_bynode": real(0, 1, above_low=True),
    "reg_alpha": real(0),
    "reg_lambda": real(0),
    "path_smooth": real(0),
    "extra_trees": FLAG,
    "linear_tree": FLAG,
    "linear_lambda": real(0),
    "max_bin": whole(2, 65535),
    "min_data_in_bin": whole(1),
    "use_missing": FLAG,
    "zero_as_missing": FLAG,
    "cat_smooth": real(0),
    "cat_l2": real(0),
    "max_cat_threshold": whole(1),
    "max_cat_to_onehot": whole(1),
    "min_data_per_group": whole(1),
    "scale_pos_weight": real(0, above_low=True),
    "is_unbalance": FLAG,
    "top_rate": real(0, 1),
    "other_rate": real(0, 1),
    "drop_rate": real(0, 1),
    "skip_drop": real(0, 1),
    "max_drop": whole(-1),
    "uniform_drop": FLAG,
    "xgboost_dart_mode": FLAG,
}
_SCIKIT_NAMES = {
    "boosting": "boosting_type",
    "num_iterations": "n_estimators",
    "num_boost_round": "n_estimators",
    "eta": "learning_rate",
    "min_data_in_leaf": "min_child_samples",
    "min_sum_hessian_in_leaf": "min_child_weight",
    "min_gain_to_split": "min_split_gain",
    "bagging_fraction": "subsample",
    "bagging_freq": "subsample_freq",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "feature_fraction": "colsample_bytree",
    "colsample_bynode": "feature_fraction_bynode",
    "lambda_l1": "reg_alpha",
    "lambda_l2": "reg_lambda",
}
_REFUSED = {
    **dict.fromkeys(("num_threads", "n_jobs", "nthread"), THREADS),
    **dict.fromkeys(("seed", "random_state", "bagging_seed", "feature_fraction_seed"), SEEDED),
    **dict.fromkeys(("objective", "num_class", "metric", "categorical_feature"), FROM_TARGET),
    **dict.fromkeys(("verbosity", "verbose"), QUIET),
    **dict.fromkeys(
        ("deterministic", "force_row_wise", "force_col_wise", "device_type"),
        "is fixed, so that one seed gives one model; leave it out",
    ),
    **{native: f"goes by the name {name!r} here" for native, name in _SCIKIT_NAMES.items()},
}


def check(parameters: Parameters) -> None:
    check_parameters("lightgbm", parameters, _KNOWN, _REFUSED)
    is_bagged = parameters.get("subsample", 1) != 1 and parameters.get("subsample_freq", 0) != 0
    is_thinned = parameters.get("colsample_bytree", 1) != 1
    if parameters.get("boosting_type") == "rf" and not (is_bagged or is_thinned):
        raise InputError(
            "lightgbm boosting_type 'rf' would grow equal trees; set colsample_bytree below 1, "
            "or subsample below 1 and subsample_freq to at least 1"
        )


def grid(preset: str) -> list[dict[str, JSON]]:
    if preset == "paper":
        return combinations(
            num_leaves=(7, 15),
            learning_rate=(0.01, 0.025, 0.05),
            n_estimators=(10, 20),
            subsample=(0.6, 0.8),
            colsample_bytree=(0.6, 0.8),
            min_child_samples=(5, 10),
        )
    return combinations(num_leaves=(7, 31), learning_rate=(0.05,), n_estimators=(100, 300))


@cache
def _library() -> Any:
    """Import LightGBM, with threads that sleep while they wait for others.

    By default they spin, which makes a fit several times slower if other programs want the cores.
    """
    name, waiting = "OMP_WAIT_POLICY", os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault(name, "passive")  # read when the library is loaded
    try:
        import lightgbm
    finally:
        if waiting is None:
            del os.environ[name]
    return lightgbm


def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int) -> LightGBMModel:
    lightgbm = _library()
    objective = "regression"
    if schema.n_classes:
        objective = "binary" if schema.n_classes == 2 else "multiclass"
    settings: dict[str, Any] = {
        **parameters,
        "objective": objective,
        "num_class": schema.n_classes if schema.n_classes > 2 else 1,
        "seed": seed % 2**31,  # LightGBM's own seeds are 32-bit signed
        "deterministic": True,
        "force_col_wise": True,
        # linear leaves are sums by thread, all else a sum by feature or row by row
        "num_threads": 1 if parameters.get("linear_tree") else threads_for(rows.X.size),
        "histogram_pool_size": _POOL_SIZE,
        "subsample_for_bin": parameters.get(
            "subsample_for_bin", min(SAMPLED_ROWS, SAMPLED_VALUES // rows.X.shape[1])
        ),
        "verbosity": -1,
    }
    rounds = settings.pop("n_estimators", _DEFAULT_ROUNDS)
    table = lightgbm.Dataset(
        rows.X,
        rows.y,
        weight=rows.weight,
        categorical_feature=list(schema.categorical),
        params=settings,
    )
    return LightGBMModel(schema, lightgbm.train(settings, table, num_boost_round=rounds))


def features_in(text: str, n_features: int) -> Mask:
    """Return which features the trees of a model's text read, shape (n_features,)."""
    # LightGBM's own counts leave out splits of gain 0, which move predictions as others do.
    used = np.zeros(n_features, dtype=bool)
    used[np.array(" ".join(_READS.findall(text)).split(), dtype=np.int64)] = True
    return used


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    schema: Schema
    booster: Any

    @property
    def kind(self) -> str:
        return "lightgbm"

    def predict(self, X: Floats) -> Floats:
        """Predict rows; a category code out of its range counts as another category."""
        check_matrix(X, self.schema)
        prediction: Floats = self.booster.predict(X, num_threads=threads_for(X.size))
        if self.schema.n_classes == 2:
            return np.column_stack((1 - prediction, prediction))
        return (
            prediction.reshape(-1, self.schema.n_classes) if self.schema.n_classes else prediction
        )

    @property
    def used_features(self) -> Mask:
        return features_in(self.booster.model_to_string(), len(self.schema.features))

    def to_files(self) -> dict[str, bytes]:
        """Return LightGBM's own text format; InputError if it cannot hold what was learnt."""
        text = _THREADS.sub("[num_threads: 1]", self.booster.model_to_string())
        try:
            check_text(text)
        except ValueError as error:
            raise InputError(
                "lightgbm has learnt numbers that are too large for its file; use a smaller "
                "learning_rate, or smaller numbers in the target"
            ) from error
        return {_FILE: text.encode()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], schema: Schema) -> Self:
        lightgbm = _library()
        text = native_file(files, _FILE).decode()
        check_text(text)
        try:
            booster = lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as error:
            raise InputError(f"LightGBM cannot read the model's file: {error}") from error
        check_width(booster.num_feature(), schema)
        return cls(schema, booster)
