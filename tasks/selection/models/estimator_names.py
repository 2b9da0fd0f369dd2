"""scikit-learn's estimators by name: which there are, what they take, what suits the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chaffinch.tasks.selection.models.parameters import (
    JSON,
    ONE_THREAD,
    QUIET,
    SEEDED,
    Parameters,
    combinations,
    nearest,
)
from chaffinch.tasks.selection.vocabulary import Task

_LINEAR: dict[Task, str] = {"classification": "LogisticRegression", "regression": "Ridge"}
# the library's 100 stops short, with a warning, on tables whose classes can be parted exactly
_DEFAULTS: dict[str, dict[str, JSON]] = {"LogisticRegression": {"max_iter": 1000}}
_REFUSED = {
    "n_jobs": ONE_THREAD,
    "random_state": SEEDED,
    "verbose": QUIET,
    "categorical_features": "follows from the table; leave it out",
}


def check(name: str, parameters: Parameters, task: Task | None) -> None:
    """Raise ValueError unless this is an estimator for the task that takes these parameters."""
    tasks: Sequence[Task] = (task,) if task else _tasks(name)
    errors = []
    for candidate in tasks:
        try:
            unfitted(name, parameters, candidate)
        except ValueError as error:
            errors.append(error)
    if len(errors) == len(tasks):
        raise errors[0]


def grid(name: str, task: Task) -> list[dict[str, JSON]]:
    """Return the candidates of the preset "small"; one without parameters where none is known."""
    name = _LINEAR[task] if name == "linear" else name
    if name == "Ridge":
        return combinations(alpha=(0.1, 1.0, 10.0, 100.0))
    if name == "LogisticRegression":
        return combinations(C=(0.01, 0.1, 1.0, 10.0))
    if name.startswith(("RandomForest", "ExtraTrees")):
        return combinations(max_features=("sqrt", 0.5), min_samples_leaf=(1, 5))
    if name.startswith("HistGradientBoosting"):
        return combinations(learning_rate=(0.05, 0.1), max_leaf_nodes=(7, 31))
    return [{}]


def unfitted(name: str, parameters: Parameters, task: Task) -> Any:
    """Return the estimator of that name for the task; ValueError as `check`."""
    name = _LINEAR[task] if name == "linear" else name
    estimator_class = _class(name)
    for parameter in parameters:
        if parameter in _REFUSED:
            raise ValueError(f"{name} parameter {parameter!r} {_REFUSED[parameter]}")
    try:
        estimator = estimator_class()
    except TypeError as error:
        raise ValueError(
            f"{name} is made of other estimators; pass an instance of it, not its name"
        ) from error
    for parameter in parameters:
        if parameter not in estimator.get_params():
            raise ValueError(
                f"{name} has no parameter {parameter!r}; "
                f"{nearest(parameter, estimator.get_params())}"
            )
    estimator.set_params(**{**_DEFAULTS.get(name, {}), **parameters})
    estimator._validate_params()
    check_task(estimator, task)
    return estimator


def _tasks(name: str) -> Sequence[Task]:
    """Return what an estimator of that name can be for; ValueError if there is none."""
    from sklearn.base import ClassifierMixin

    if name == "linear":
        return "regression", "classification"
    return ("classification",) if issubclass(_class(name), ClassifierMixin) else ("regression",)


def _class(name: str) -> Any:
    """Return scikit-learn's classifier or regressor of that name."""
    from sklearn import ensemble, linear_model
    from sklearn.utils.discovery import all_estimators

    for module in (linear_model, ensemble):
        if name in module.__all__ and isinstance(getattr(module, name), type):
            return getattr(module, name)
    # the rest takes seconds, because it imports all of scikit-learn
    known = dict(all_estimators(type_filter=["classifier", "regressor"]))
    if name not in known:
        built_in = ("lightgbm", "xgboost", "mlp", "linear")
        otherwise = (
            f"give {', '.join(built_in)}, or the name of a classifier or regressor of "
            "scikit-learn, such as RandomForestClassifier"
        )
        remedy = nearest(name, (*built_in, *known), otherwise)
        raise ValueError(f"there is no model {name!r}; {remedy}")
    return known[name]


def check_task(estimator: Any, task: Task) -> None:
    """Raise ValueError unless an estimator predicts values, or class probabilities, as asked."""
    from sklearn.base import is_classifier, is_regressor

    name = type(estimator).__name__
    if task == "regression" and not is_regressor(estimator):
        raise ValueError(f"{name} is no regressor but the target is a number; use one, or linear")
    if task == "classification" and not is_classifier(estimator):
        raise ValueError(f"{name} is no classifier but the target is a class; use one, or linear")
    if task == "classification" and not _gives_probabilities(estimator):
        inner = "..." if hasattr(estimator, "estimators") else f"{name}()"
        raise ValueError(
            f"{name} gives no class probabilities with these parameters; change them, take another "
            "model, such as LogisticRegression, or pass the instance "
            f"CalibratedClassifierCV({inner}, ensemble=False) instead"
        )


def _gives_probabilities(estimator: Any) -> bool:
    """Return whether a classifier has `predict_proba`; some made of others show it once trained."""
    from sklearn.base import clone

    if hasattr(estimator, "predict_proba"):
        return True
    if not hasattr(type(estimator), "predict_proba"):
        return False
    rows = np.arange(40)
    try:
        trained = clone(estimator).fit(np.column_stack((rows % 4, rows)), rows % 4 > 1)
    except (ValueError, TypeError, AttributeError):
        return False
    return hasattr(trained, "predict_proba")
