"""Models: LightGBM, XGBoost, a neural network and scikit-learn's, all behind `FittedModel`.

A model is identified by its name: "lightgbm", "xgboost", "mlp", "linear", or the class name of a
scikit-learn estimator such as "RandomForestClassifier". `check_model` validates early, `fit`
trains, `load` rebuilds from native files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Rows, Schema, Task
from chaffinch.tasks.selection.models import lightgbm, mlp, scikit_learn, xgboost
from chaffinch.tasks.selection.models.base import JSON, Parameters, check_rows
from chaffinch.tasks.selection.models.lightgbm import LightGBMModel as LightGBMModel
from chaffinch.tasks.selection.models.mlp import NeuralNetwork as NeuralNetwork
from chaffinch.tasks.selection.models.scikit_learn import ScikitLearnModel as ScikitLearnModel
from chaffinch.tasks.selection.models.scikit_learn import check_estimator as check_estimator
from chaffinch.tasks.selection.models.scikit_learn import fit_estimator as fit_estimator
from chaffinch.tasks.selection.models.scikit_learn import packages_of as packages_of
from chaffinch.tasks.selection.models.xgboost import XGBoostModel as XGBoostModel

_BUILT_IN: dict[str, ModuleType] = {"lightgbm": lightgbm, "xgboost": xgboost, "mlp": mlp}
NAMES = (*_BUILT_IN, "linear")  # of models that are no class of an estimator
# Parameters that are smaller for few rows: one for so many rows, up to the library's default. With
# the defaults a table of fewer than 40 rows has no split, and one of 300 none by a text category.
_OF_FEW_ROWS = {
    # with smaller groups, or less cat_smooth, noise of many rare categories is kept in 300 rows
    "lightgbm": {"min_child_samples": (10, 20), "min_data_per_group": (4, 100)},
    "HistGradientBoostingClassifier": {"min_samples_leaf": (10, 20)},
    "HistGradientBoostingRegressor": {"min_samples_leaf": (10, 20)},
}
_KINDS: dict[str, type[FittedModel]] = {
    "lightgbm": LightGBMModel,
    "xgboost": XGBoostModel,
    "mlp": NeuralNetwork,
    "sklearn": ScikitLearnModel,
}


def check_model(
    name: str, task: Task | None, parameters: Parameters, *, weighted: bool = False
) -> None:
    """Raise InputError unless a model of that name suits the task, if known, and its parameters."""
    if name in _BUILT_IN:
        _BUILT_IN[name].check(parameters)
        return
    scikit_learn.check(name, parameters, task)
    if task is not None:
        unfitted = scikit_learn.unfitted(name, parameters, task)
        if weighted:
            scikit_learn.weight_argument(unfitted)


def fit(name: str, rows: Rows, schema: Schema, parameters: Parameters, *, seed: int) -> FittedModel:
    """Train a model; a seed gives the same model to the last bit, for any number of threads."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must be in 0..{2**32 - 1} but is {seed}")
    check_model(name, schema.task, parameters)
    check_rows(rows, schema)
    if name in _BUILT_IN:
        model: FittedModel = _BUILT_IN[name].fit(rows, schema, parameters, seed)
        return model
    return scikit_learn.fit(name, rows, schema, parameters, seed)


def load(
    kind: str, files: Mapping[str, bytes], schema: Schema, trusted: Sequence[str] = ()
) -> FittedModel:
    """Rebuild a model from its native files; for `trusted` see `packages_of`."""
    if kind not in _KINDS:
        raise InputError(f"model kind must be one of {', '.join(_KINDS)} but is {kind!r}")
    if kind == "sklearn":
        return ScikitLearnModel.from_files(files, schema, trusted)
    return _KINDS[kind].from_files(files, schema)


def parameter_grid(name: str, preset: str, task: Task, n_rows: int) -> list[dict[str, JSON]]:
    """Return the hyper-parameters to try, in a fixed order."""
    # "paper" is Table 1 of "Binary mask optimisation" (arXiv 2401.12644); its runs tried 20 of them
    if preset not in ("none", "small", "paper"):
        raise InputError(f"tuning must be one of none, small, paper but is {preset!r}")
    if preset == "none":
        return [{}]
    if preset == "paper":
        if name not in _BUILT_IN:
            raise InputError(
                f"the paper has no grid for {name!r}, only for {', '.join(_BUILT_IN)}; "
                "set tuning to small or none"
            )
        published: list[dict[str, JSON]] = _BUILT_IN[name].grid(preset)
        return published
    small = _BUILT_IN[name].grid(preset) if name in _BUILT_IN else scikit_learn.grid(name, task)
    scaled = {
        parameter: min(default, max(1, n_rows // rows))
        for parameter, (rows, default) in _OF_FEW_ROWS.get(name, {}).items()
    }
    return [{**candidate, **scaled} for candidate in small]


def check_tuning(name: str, preset: str) -> None:
    parameter_grid(name, preset, "regression", n_rows=1)
