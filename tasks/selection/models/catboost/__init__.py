"""CatBoost: gradient-boosted symmetric trees, categories by statistics of the target.

Parameters go by CatBoost's own names. The model is the one in CatBoost's JSON, which rounds the
values of leaves to 16 digits: it is read back after training, so that files change no prediction.
A missing category is a category of its own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.base import (
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
from chaffinch.tasks.selection.models.catboost.checked_json import (
    DAMAGED,
    PARTS,
    features_of_splits,
    read_parts,
)

_FILE = "model.json"
_KNOWN = {
    "iterations": whole(1),
    "learning_rate": real(0, above_low=True),
    "depth": whole(1, 16),
    "l2_leaf_reg": real(0),
    "random_strength": real(0),
    "bootstrap_type": choice("Bayesian", "Bernoulli", "MVS", "No"),
    "bagging_temperature": real(0),
    "subsample": real(0, 1, above_low=True),
    "rsm": real(0, 1, above_low=True),
    "border_count": whole(1, 65535),
    "feature_border_type": choice(
        "Median", "Uniform", "UniformAndQuantiles", "MaxLogSum", "MinEntropy", "GreedyLogSum"
    ),
    "nan_mode": choice("Min", "Max"),
    "boosting_type": choice("Ordered", "Plain"),
    "score_function": choice("Cosine", "L2"),
    "leaf_estimation_method": choice("Newton", "Gradient"),
    "leaf_estimation_iterations": whole(1),
    "one_hot_max_size": whole(2),
    "max_ctr_complexity": whole(1, 16),
    "model_size_reg": real(0),
}
_REFUSED = {
    "thread_count": ONE_THREAD,
    **dict.fromkeys(("random_seed", "random_state"), SEEDED),
    **dict.fromkeys(
        ("loss_function", "objective", "eval_metric", "classes_count", "class_names"), FROM_TARGET
    ),
    "cat_features": "follows from the table; leave it out",
    **dict.fromkeys(("verbose", "logging_level", "silent"), QUIET),
    "task_type": "is fixed at 'CPU', so that one seed gives one model; leave it out",
    "grow_policy": "is fixed at 'SymmetricTree', whose files are checked; leave it out",
    **dict.fromkeys(
        ("n_estimators", "num_boost_round", "num_trees"), "goes by the name 'iterations' here"
    ),
    "max_depth": "goes by the name 'depth' here",
    "eta": "goes by the name 'learning_rate' here",
    "reg_lambda": "goes by the name 'l2_leaf_reg' here",
    "colsample_bylevel": "goes by the name 'rsm' here",
    "max_bin": "goes by the name 'border_count' here",
}
_LOSSES = {0: "RMSE", 2: "Logloss"}


def check(parameters: Parameters, *_: object) -> None:
    check_parameters("catboost", parameters, _KNOWN, _REFUSED)


def grid(preset: str, *_: object) -> list[dict[str, JSON]]:
    if preset != "small":
        return []
    return combinations(depth=(4, 6), learning_rate=(0.05,), iterations=(100, 300))


def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int, *_: object) -> CatBoostModel:
    import catboost

    y, classes = rows.y, list[int]()
    if schema.n_classes:  # CatBoost knows the classes that have rows, and two at least
        present, y = np.unique(y, return_inverse=True)
        absent = [c for c in range(schema.n_classes) if c not in present]
        classes = [*present.tolist(), *absent[: len(present) == 1]]
    settings: dict[str, Any] = {
        **parameters,
        "loss_function": _loss_of(classes),
        "random_seed": seed,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
        "allow_const_label": True,
    }
    trained = catboost.CatBoost(settings)
    with _own_errors():
        trained.fit(_pool(rows.X, schema, y, rows.weight))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, _FILE)
        trained.save_model(str(path), format="json")
        content = json.loads(path.read_bytes())
    # the rest says when it was trained
    parts = {part: content[part] for part in PARTS if part in content} | {"classes": classes}
    return CatBoostModel.from_files({_FILE: json.dumps(parts, sort_keys=True).encode()}, schema)


def _loss_of(classes: Sequence[int]) -> str:
    return _LOSSES.get(len(classes), "MultiClass")


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise CatBoost's errors as InputError, with their reason alone."""
    from catboost import CatBoostError

    try:
        yield
    except CatBoostError as error:
        reason = str(error).rpartition(": ")[2].strip().rstrip(".")
        raise InputError(f"CatBoost says: {reason}; change its parameters or the table") from error


def _pool(X: Floats, schema: Schema, y: Any = None, weight: Any = None) -> Any:
    """Return rows as CatBoost reads them: codes of categories must be whole numbers."""
    from catboost import Pool

    categorical = schema.categorical
    table: Any = X.view()  # which CatBoost keeps from being written
    if len(categorical):
        import pandas as pd

        table = pd.DataFrame(table)
        for feature in categorical:
            codes = X[:, feature]
            table[feature] = np.where(np.isnan(codes), -1, codes).astype(np.int64)
    return Pool(table, y, weight=weight, cat_features=list(categorical), thread_count=1)


@dataclass(frozen=True, eq=False)
class CatBoostModel(FittedModel):
    schema: Schema
    booster: Any
    classes: tuple[int, ...]  # that it tells apart; the others have probability 0
    content: bytes  # JSON
    used: Mask

    kind = "catboost"
    rows_are_independent = True

    @property
    def used_features(self) -> Mask:
        return self.used

    def predict(self, X: Floats) -> Floats:
        """Predict rows; a category code out of its range counts as another category."""
        check_matrix(X, self.schema)
        n_classes = self.schema.n_classes
        if not len(X):
            return np.empty((0, n_classes) if n_classes else 0)
        how = "Probability" if n_classes else "RawFormulaVal"
        pool = _pool(X, self.schema)
        predicted = self.booster.predict(pool, prediction_type=how, thread_count=1)
        if not n_classes:
            return np.asarray(predicted, dtype=np.float64)
        prediction = np.zeros((len(X), n_classes))
        prediction[:, self.classes] = predicted
        return prediction

    def importances(self) -> Floats:
        return np.array(self.booster.get_feature_importance(type="PredictionValuesChange"))

    def shap_values(self, X: Floats) -> Floats:
        pool = _pool(X, self.schema)
        values = self.booster.get_feature_importance(pool, type="ShapValues", thread_count=1)
        return without_expected_value(values, self.schema)

    def to_files(self) -> dict[str, bytes]:
        return {_FILE: self.content}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], schema: Schema) -> Self:
        import catboost

        content = native_file(files, _FILE)
        parts = read_parts(content, schema)
        used = np.zeros(len(schema.features), dtype=bool)
        used[features_of_splits(parts, schema)] = True
        loss = {"type": _loss_of(parts["classes"]), "params": {}}
        # without its loss CatBoost would guess it, and say so
        info = {"params": {"flat_params": {}, "loss_function": loss}}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, _FILE)
            path.write_text(json.dumps({**parts, "model_info": info}))
            try:
                booster = catboost.CatBoost().load_model(str(path), format="json")
            except catboost.CatBoostError as error:
                raise InputError(DAMAGED) from error
        return cls(schema, booster, tuple(parts["classes"]), content, used)
