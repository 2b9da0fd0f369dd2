"""Models: three libraries of boosted trees, a neural network and scikit-learn's.

All are behind `FittedModel`. A model is identified by its name: one in `MODELS`, or the class name
of a scikit-learn estimator such as "RandomForestClassifier". `check_model` validates early, `fit`
trains, `load` rebuilds from native files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import get_args

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Predictor, Rows, Schema, Task
from chaffinch.tasks.selection.limits import Tuning
from chaffinch.tasks.selection.models import (
    catboost,
    lightgbm,
    mlp,
    pefs_network,
    scikit_learn,
    xgboost,
)
from chaffinch.tasks.selection.models.base import (
    JSON,
    Parameters,
    check_rows,
    of_other_task,
)
from chaffinch.tasks.selection.models.catboost import CatBoostModel as CatBoostModel
from chaffinch.tasks.selection.models.lightgbm import LightGBMModel as LightGBMModel
from chaffinch.tasks.selection.models.mlp import NeuralNetwork as NeuralNetwork
from chaffinch.tasks.selection.models.scikit_learn import ScikitLearnModel as ScikitLearnModel
from chaffinch.tasks.selection.models.scikit_learn import check_estimator as check_estimator
from chaffinch.tasks.selection.models.scikit_learn import fit_estimator as fit_estimator
from chaffinch.tasks.selection.models.scikit_learn import packages_of as packages_of
from chaffinch.tasks.selection.models.xgboost import XGBoostModel as XGBoostModel


@dataclass(frozen=True)
class ModelKind:
    """What is known of a model before it is trained."""

    model: type[FittedModel]
    library: ModuleType  # with check, fit and grid, whose last arguments are for estimators
    package: str  # that is imported
    distribution: str  # that has the package
    prefix: str = ""  # what the library's own names begin with: XGBClassifier
    # parameters that are smaller for few rows: one for so many rows, up to the library's default
    few_rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reads_files: bool = False  # it keeps a byte of each value, so that rows may be in files
    imputes: bool = False  # a missing value counts as the mean of the training rows
    of_method: str | None = None  # the only method that it goes with
    task: Task | None = None  # the only one that it suits; None: both, or its check decides
    overflows: bool = False  # sums of very large values would, and their difference be NaN

    def suits(self, task: Task) -> bool:
        """Return whether its models may be trained for a task."""
        return self.task in (None, task)

    def offers(self, what: str) -> bool:
        """Return whether its models have what `Predictor` leaves open, as "importances"."""
        return getattr(self.model, what) is not getattr(Predictor, what)


_ESTIMATOR = ModelKind(ScikitLearnModel, scikit_learn, "sklearn", "scikit-learn")
MODELS = {
    "lightgbm": ModelKind(
        LightGBMModel, lightgbm, "lightgbm", "lightgbm", "lg", lightgbm.FEW_ROWS, reads_files=True
    ),
    "xgboost": ModelKind(XGBoostModel, xgboost, "xgboost", "xgboost-cpu", "xg", reads_files=True),
    "catboost": ModelKind(CatBoostModel, catboost, "catboost", "catboost", "catb"),
    "mlp": ModelKind(NeuralNetwork, mlp, "torch", "torch", imputes=True, overflows=True),
    "linear": replace(_ESTIMATOR, imputes=True),
    pefs_network.NAME: ModelKind(
        NeuralNetwork,
        pefs_network,
        "torch",
        "torch",
        imputes=True,
        overflows=True,
        of_method="pefs",
    ),
}


def kind_of(name: str) -> ModelKind:
    """Return what is known of a model by its name; any other name is that of an estimator."""
    few_rows = {"min_samples_leaf": (10, 20)} if name.startswith("HistGradientBoosting") else {}
    return MODELS.get(name) or replace(_ESTIMATOR, few_rows=few_rows)


def check_model(
    name: str, task: Task | None, parameters: Parameters, *, weighted: bool = False
) -> None:
    """Raise InputError unless a model of that name suits the task, if known, and its parameters."""
    kind = kind_of(name)
    if task is not None and not kind.suits(task):
        raise of_other_task(name, task)
    kind.library.check(parameters, name, task, weighted)


def fit(name: str, rows: Rows, schema: Schema, parameters: Parameters, *, seed: int) -> FittedModel:
    """Train a model; a seed gives the same model to the last bit, for any number of threads."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must be in 0..{2**32 - 1} but is {seed}")
    check_model(name, schema.task, parameters)
    check_rows(rows, schema)
    model: FittedModel = kind_of(name).library.fit(rows, schema, parameters, seed, name)
    return model


def load(
    kind: str, files: Mapping[str, bytes], schema: Schema, trusted: Sequence[str] = ()
) -> FittedModel:
    """Rebuild a model from its native files; for `trusted` see `packages_of`."""
    classes = {str(known.model.kind): known.model for known in MODELS.values()}
    if kind not in classes:
        raise InputError(f"model kind must be one of {', '.join(classes)} but is {kind!r}")
    if kind == ScikitLearnModel.kind:
        return ScikitLearnModel.from_files(files, schema, trusted)
    return classes[kind].from_files(files, schema)


def parameter_grid(name: str, preset: str, task: Task, n_rows: int) -> list[dict[str, JSON]]:
    """Return the hyper-parameters to try, in a fixed order; of "paper", all that are drawn from."""
    if preset not in get_args(Tuning):
        raise InputError(f"tuning must be one of {', '.join(get_args(Tuning))} but is {preset!r}")
    if preset == "none":
        return [{}]
    kind, preset = kind_of(name), "paper:bmo" if preset == "paper" else preset
    candidates: list[dict[str, JSON]] = kind.library.grid(preset, name, task)
    if not candidates:
        published = [model for model in MODELS if kind_of(model).library.grid(preset, model, task)]
        raise InputError(
            f"the paper has no grid for {name!r}, only for {', '.join(published)}; "
            "set tuning to small or none"
        )
    if preset != "small":
        return candidates
    scaled: dict[str, JSON] = {
        parameter: min(default, max(1, n_rows // rows))
        for parameter, (rows, default) in kind.few_rows.items()
    }
    return [candidate | scaled for candidate in candidates]
