"""XGBoost: gradient-boosted trees over histograms, categories and missing values natively.

Parameters go by XGBoost's own names. XGBoost computes in float32: features are rounded to it
before they are compared, and probabilities are scaled to sum to 1 in float64 afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
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
    choice,
    combinations,
    native_file,
    real,
    whole,
    without_expected_value,
)
from chaffinch.tasks.selection.models.forest import Forest
from chaffinch.tasks.selection.models.xgboost.forest import read_forest
from chaffinch.tasks.selection.models.xgboost.ubjson import DAMAGED, check_ubjson

_FILE = "model.ubj"
_DEFAULT_ROUNDS = 100
_DEFAULT_BINS = 256
_PER_BIN, _PER_ROW = 6, 8  # bytes of these files, at most
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


def check(parameters: Parameters, *_: object) -> None:
    check_parameters("xgboost", parameters, _KNOWN, _REFUSED)


def grid(preset: str, *_: object) -> list[dict[str, JSON]]:
    # The papers have LightGBM's parameters, that of AFS-BM for XGBoost too. They are translated:
    # trees grow by leaves, and min_child_weight stands for min_child_samples, the same for squared
    # error. `subsample` has an effect here, which it had not in the published LightGBM runs.
    by_leaves: dict[str, tuple[JSON, ...]] = {"grow_policy": ("lossguide",), "max_depth": (0,)}
    if preset == "paper:afs-bm":
        return combinations(
            **by_leaves,
            max_leaves=(20, 50, 100),
            learning_rate=(0.01, 0.1, 0.5),
            n_estimators=(20, 50, 100),
            subsample=(0.6, 0.8, 1.0),
            colsample_bytree=(0.6, 0.8, 1.0),
            min_child_weight=(5, 10),
        )
    if preset == "paper:bmo":
        return combinations(
            **by_leaves,
            max_leaves=(7, 15),
            learning_rate=(0.01, 0.025, 0.05),
            n_estimators=(10, 20),
            subsample=(0.6, 0.8),
            colsample_bytree=(0.6, 0.8),
            min_child_weight=(5, 10),
        )
    return combinations(max_depth=(3, 6), learning_rate=(0.05,), n_estimators=(100, 300))


def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int, *_: object) -> XGBoostModel:
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
    settings: dict[str, Any] = {"enable_categorical": True, "max_bin": max_bin, "nthread": 1}
    if not rows.is_streamed:
        return xgboost.QuantileDMatrix(
            rows.X, rows.y, weight=rows.weight, feature_types=types, **settings
        )
    prefix = str(rows.temporary_path(_PER_BIN * rows.n_values + _PER_ROW * len(rows)))

    class Batches(xgboost.DataIter):
        def __init__(self) -> None:
            self.reset()
            super().__init__(cache_prefix=prefix, on_host=False)

        def next(self, input_data: Callable[..., Any]) -> bool:
            batch = next(self.batches, None)
            if batch is not None:
                input_data(data=batch.X, label=batch.y, weight=batch.weight, feature_types=types)
            return batch is not None

        def reset(self) -> None:
            self.batches = rows.batches()

    return xgboost.ExtMemQuantileDMatrix(Batches(), **settings)


@dataclass(frozen=True, eq=False)
class XGBoostModel(FittedModel):
    schema: Schema
    booster: Any

    kind = "xgboost"
    rows_are_independent = is_single_precision = True

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

    def forest(self) -> Forest:
        return read_forest(self.booster)

    def importances(self) -> Floats:
        gains = np.zeros(len(self.schema.features))
        for name, gain in self.booster.get_score(importance_type="total_gain").items():
            gains[int(name.removeprefix("f"))] = gain
        return gains

    def shap_values(self, X: Floats) -> Floats:
        from xgboost import DMatrix

        types = ["c" if n else "q" for n in self.schema.n_categories]
        table = DMatrix(X, feature_types=types, enable_categorical=True, nthread=1)
        values = self.booster.predict(table, pred_contribs=True, strict_shape=True)
        return without_expected_value(values, self.schema)

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
