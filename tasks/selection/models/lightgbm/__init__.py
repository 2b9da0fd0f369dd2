"""LightGBM: gradient-boosted trees, with categories and missing values taken natively.

Parameters go by the names of LightGBM's scikit-learn interface, and their defaults are that
interface's too, so that a model trained here is the LGBMRegressor or LGBMClassifier of the same
parameters and random_state, up to 500 columns or a hundred million values. One default surprises:
`subsample` alone does nothing, since `subsample_freq` is 0. The published runs of binary mask
optimisation had it so, and the grids of the papers keep it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
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
    without_expected_value,
)
from chaffinch.tasks.selection.models.forest import Forest
from chaffinch.tasks.selection.models.lightgbm.forest import read_forest
from chaffinch.tasks.selection.models.lightgbm.text import check_text
from chaffinch.tasks.selection.models.runtime import threads_for

_FILE = "model.txt"
_READS = re.compile(r"^(?:split_feature|leaf_features)=(.*)$", re.MULTILINE)
_THREADS = re.compile(r"\[num_threads: \d+\]")
# On tables of many columns memory is bounded. The histograms of 31 leaves of more than 4,000
# columns take more MB than these, and are computed again as needed. Bins are found in 200,000 rows,
# or in as many as have so many values.
_POOL_SIZE, SAMPLED_ROWS, SAMPLED_VALUES = 512, 200_000, 10**8
_DEFAULT_ROUNDS = 100
_ZERO = 1e-35  # of LightGBM: the largest value that counts as zero
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

# with the library's defaults a table of fewer than 40 rows would have no split, and one of 300 none
# by a text category; with smaller groups, or less cat_smooth, noise of many rare categories is kept
FEW_ROWS = {"min_child_samples": (10, 20), "min_data_per_group": (4, 100)}
SHAP_OF_LINEAR_LEAVES = (
    "tree_shap needs leaves of one value but lightgbm parameter 'linear_tree' is True; leave it "
    "out, or use permutation"
)


def check(parameters: Parameters, *_: object) -> None:
    check_parameters("lightgbm", parameters, _KNOWN, _REFUSED)
    is_bagged = parameters.get("subsample", 1) != 1 and parameters.get("subsample_freq", 0) != 0
    is_thinned = parameters.get("colsample_bytree", 1) != 1
    if parameters.get("boosting_type") == "rf" and not (is_bagged or is_thinned):
        raise InputError(
            "lightgbm boosting_type 'rf' would grow equal trees; set colsample_bytree below 1, "
            "or subsample below 1 and subsample_freq to at least 1"
        )


def grid(preset: str, *_: object) -> list[dict[str, JSON]]:
    if preset == "paper:bmo":
        return combinations(
            num_leaves=(7, 15),
            learning_rate=(0.01, 0.025, 0.05),
            n_estimators=(10, 20),
            subsample=(0.6, 0.8),
            colsample_bytree=(0.6, 0.8),
            min_child_samples=(5, 10),
        )
    if preset == "paper:afs-bm":
        return combinations(
            boosting_type=("goss", "gbdt"),
            num_leaves=(20, 50, 100),
            learning_rate=(0.01, 0.1, 0.5),
            n_estimators=(20, 50, 100),
            subsample=(0.6, 0.8, 1.0),
            colsample_bytree=(0.6, 0.8, 1.0),
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


def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int, *_: object) -> LightGBMModel:
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
        "num_threads": 1 if parameters.get("linear_tree") else threads_for(rows.n_values),
        "histogram_pool_size": _POOL_SIZE,
        "subsample_for_bin": parameters.get(
            "subsample_for_bin", min(SAMPLED_ROWS, SAMPLED_VALUES // rows.n_features)
        ),
        "verbosity": -1,
    }
    rounds = settings.pop("n_estimators", _DEFAULT_ROUNDS)
    if rows.is_streamed:
        # which Dataset derives from `seed` only where it samples an array
        settings["data_random_seed"] = _data_random_seed(settings["seed"])
    options = {"categorical_feature": list(schema.categorical), "params": settings}
    if rows.is_streamed:
        data = _streamed(rows, **options)
    else:
        data = lightgbm.Dataset(rows.X, rows.y, weight=rows.weight, **options)
    return LightGBMModel(schema, lightgbm.train(settings, data, num_boost_round=rounds))


def _data_random_seed(seed: int) -> int:
    """Return the `data_random_seed` that LightGBM draws from a `seed`."""
    return ((214013 * seed + 2531011) % 2**32 >> 16 & 0x7FFF) % 32767


def _streamed(rows: Rows, **settings: Any) -> Any:
    """Return a Dataset of rows that are read twice, for a sample and for their bins."""
    lightgbm = _library()

    class Batches(lightgbm.Sequence):  # type: ignore[misc, name-defined]
        batch_size = 2**14

        def __init__(self) -> None:
            self._batches, self._begin, self._end = rows.matrices(), 0, 0

        def __getitem__(self, index: slice) -> Floats:
            parts, start = [], index.start
            while start < index.stop:
                while start >= self._end:
                    self._batch = np.empty(0)  # free memory before the next one
                    self._batch = next(self._batches)
                    self._begin, self._end = self._end, self._end + len(self._batch)
                end = min(index.stop, self._end)
                parts.append(self._batch[start - self._begin : end - self._begin])
                start = end
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        def __len__(self) -> int:
            return len(rows)

    class Dataset(lightgbm.Dataset):  # type: ignore[misc, name-defined]
        def _Dataset__sample(self, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:  # noqa: N802
            """Return the values of a sample of rows that are not zero, and their places, by column.

            The library's own method holds the sample three times.
            """
            index = self._create_sample_indices(total_nrow=len(rows))
            sample, begin, start = np.empty((rows.n_features, len(index))), 0, 0
            for batch in rows.matrices():
                stop = int(np.searchsorted(index, begin + len(batch)))
                sample[:, start:stop] = batch[index[start:stop] - begin].T
                begin, start = begin + len(batch), stop
            places = np.arange(len(index), dtype=np.int32)
            held = [(np.abs(values) > _ZERO) | np.isnan(values) for values in sample]
            pairs = list(zip(sample, held, strict=True))
            return (
                [values if some.all() else values[some] for values, some in pairs],
                [places if some.all() else places[some] for some in held],
            )

    return Dataset(Batches(), rows.y, weight=rows.weight, **settings)


def features_in(text: str, n_features: int) -> Mask:
    """Return which features the trees of a model's text read, shape (n_features,)."""
    # LightGBM's own counts leave out splits of gain 0, which move predictions as others do.
    used = np.zeros(n_features, dtype=bool)
    used[np.array(" ".join(_READS.findall(text)).split(), dtype=np.int64)] = True
    return used


@dataclass(frozen=True, eq=False)
class LightGBMModel(FittedModel):
    schema: Schema
    booster: Any

    kind = "lightgbm"
    rows_are_independent = True

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

    def forest(self) -> Forest:
        return read_forest(self.booster)

    def importances(self) -> Floats:
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def shap_values(self, X: Floats) -> Floats:
        # LightGBM before 4.7 does not know the parameters of a booster that was read
        if "\nis_linear=1\n" in self.booster.model_to_string():
            raise InputError(SHAP_OF_LINEAR_LEAVES)
        values = self.booster.predict(X, pred_contrib=True, num_threads=1)
        return without_expected_value(values, self.schema)

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
