"""Settings of every method, model and column: in range, out of it, of other types and names."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

from chaffinch import AlternativeSettings, ColumnSettings, HistorySettings, ModelSettings
from chaffinch.tasks.settings import _METHODS, SelectionSettings, method_of
from tests.fuzz import ground
from tests.fuzz.tables import select_checked
from tests.fuzz.values import (
    JSON_VALUES,
    NAMES,
    NUMBERS,
    Case,
    Draws,
    Place,
    often,
    pick,
    shown,
    some,
)

# What makes a method quick on a hundred rows; fields that a case draws come in their place.
_QUICK: dict[str, dict[str, Any]] = {
    "pefs": {"hidden_layer_sizes": (3,), "most_sweeps": 1, "penalties": (0.1,)},
    "particle_swarm": {"individuals": 3, "generations": 2},
}
_MOST = 60  # of a number that a quick method may be given
_LIGHTGBM: dict[str, list[Any]] = {
    "num_leaves": [-1, 0, 1, 2, 10**6, 10**12, "x", None, True, 2.5, [3]],
    "learning_rate": [-1, 0, 1e308, 1e-308, "x", None, float("nan"), float("inf")],
    "n_estimators": [-1, 0, 1, "5", None, 2.5],
    "max_depth": [-5, 0, 1, 10**6, "x"],
    "min_child_samples": [-1, 0, 10**9, "x"],
    "objective": ["binary", "regression", "multiclass", "x", "none", None, "lambdarank"],
    "boosting": ["dart", "rf", "goss", "x"],
    "device_type": ["gpu", "cuda", "x"],
    "max_bin": [0, 1, 2, 10**6, "x"],
    "num_threads": [-1, 0, 4, "x"],
    "num_class": [0, 5],
    "verbosity": [2, "x"],
    "metric": ["auc", "x"],
    "categorical_feature": ["0", "name:age", [99]],
    "monotone_constraints": [[1], [1] * 6, "x"],
    "forcedsplits_filename": ["nowhere.json"],
    "input_model": ["nowhere.txt"],
    "linear_tree": [True, "x"],
    "bagging_fraction": [-1, 0, 2],
    "a\nb": [1],
    "": [1],
    "random_state": [5, "x", -1],
}
_XGBOOST: dict[str, list[Any]] = {
    "n_estimators": [-1, 0, 1, "5", None],
    "max_depth": [-1, 0, 30, "x"],
    "learning_rate": [-1, 0, 1e308, "x", None, float("nan")],
    "objective": ["binary:logistic", "reg:squarederror", "x", "rank:pairwise", "count:poisson"],
    "booster": ["gblinear", "dart", "x"],
    "tree_method": ["exact", "approx", "gpu_hist", "x"],
    "device": ["cuda", "x"],
    "n_jobs": [-1, 0, "x"],
    "max_bin": [0, 1, 2],
    "subsample": [-1, 0, 2],
    "reg_lambda": [-1, 1e308, "x"],
    "grow_policy": ["lossguide", "x"],
    "base_score": [0, 1, 0.5, 1e30, "x"],
    "num_parallel_tree": [0, 3],
    "enable_categorical": [True],
    "missing": [0, "x"],
    "callbacks": [[1]],
    "eval_metric": ["auc", "x"],
    "a\nb": [1],
}
_MLP: dict[str, list[Any]] = {
    "hidden_layer_sizes": [[], [0], [-1], [2, 2], [10**9], "x", 3, None, [2.5]],
    "max_iter": [0, 1, -1, "x", None],
    "activation": ["relu", "tanh", "x", None],
    "learning_rate_init": [0, -1, 1e308, "x", float("nan")],
    "batch_size": [0, 1, 10**9, "x"],
    "alpha": [-1, 1e308, "x"],
    "solver": ["lbfgs", "x"],
    "a\nb": [1],
}
_LINEAR: dict[str, list[Any]] = {
    "C": [0, -1, 1e308, 1e-308, "x", None],
    "alpha": [0, -1, 1e308, "x"],
    "penalty": ["l1", "l2", "x", None],
    "fit_intercept": [False, "x"],
    "a\nb": [1],
}
_PARAMETERS = {"lightgbm": _LIGHTGBM, "xgboost": _XGBOOST, "mlp": _MLP, "linear": _LINEAR}


@cache
def _estimators() -> list[str]:
    from sklearn.utils import all_estimators

    return [name for name, _ in all_estimators()]


@cache
def _losses() -> list[str]:
    from sklearn.metrics import get_scorer_names

    return ["squared_error", "absolute_error", "log_loss", *get_scorer_names()]


def _drawn(draws: Draws, of: type[BaseModel], most: int = 3) -> dict[str, Any]:
    """Return up to so many fields of settings with other values, or fields that are none."""
    found = {}
    for name in some(draws, [*of.model_fields], most):
        default = of.model_fields[name].default
        near: list[Any] = [default, str(default), [default], {"x": default}]
        if isinstance(default, int | float) and not isinstance(default, bool):
            near += [default + 1, -default, default / 2, default * 2, float(default)]
        if isinstance(default, tuple):
            near += [default[:1], list(default) * 2, default[::-1], ",".join(map(str, default))]
        found[name] = pick(draws, [*near, *near, *JSON_VALUES, *NUMBERS, 1, 2, 3, [1], [2]])
    if often(draws, 0.1):
        found[pick(draws, [*NAMES, "n_feature", "slack", "Kind"])] = pick(draws, JSON_VALUES)
    return found


def _model(draws: Draws) -> Any:
    if often(draws, 0.5):
        return ground.cheap("lightgbm")
    if often(draws, 0.3):
        return {"name": pick(draws, _estimators()), "tuning": "none", "folds": 2}
    if often(draws, 0.2):
        return {"name": "lightgbm", "tuning": "none"} | _drawn(draws, ModelSettings)
    name = pick(draws, [*_PARAMETERS])
    asked = {
        field: pick(draws, _PARAMETERS[name][field])
        for field in some(draws, [*_PARAMETERS[name]], 2)
    }
    return {"name": name, "tuning": "none", "folds": 2, "parameters": ground.CHEAP[name] | asked}


def draw(draws: Draws, place: Place) -> Case:
    """Draw settings, which are checked and, where they are quick, used."""
    kind = pick(draws, [*_METHODS])
    of = type(method_of(kind))
    method = {"kind": kind} | _drawn(draws, of)
    values: dict[str, Any] = {"target": "churned", "method": method, "model": _model(draws)}
    others = {
        "columns": lambda: _columns(draws),
        "alternatives": lambda: (
            {"number": 1, "time_limit": 5} | _drawn(draws, AlternativeSettings, 2)
        ),
        "history": lambda: {"lags": [1]} | _drawn(draws, HistorySettings, 2),
        "loss": lambda: pick(draws, [*_losses(), *JSON_VALUES]),
        "task": lambda: pick(draws, ["classification", "regression", *JSON_VALUES]),
        "baseline": lambda: pick(
            draws, ["median", "zero", {"age": 1, "colour": "red"}, *JSON_VALUES]
        ),
        "seed": lambda: pick(draws, [1, 2**32, *JSON_VALUES]),
        "shares": lambda: pick(
            draws, [[50, 20, 20, 10], [97, 1, 1, 1], [25, 25, 25, 26], *JSON_VALUES]
        ),
        "model": lambda: pick(draws, ["linear", "catboost", *JSON_VALUES]),
        "method": lambda: pick(draws, ["GBMO", "mrmr", {}, *JSON_VALUES]),
        "target": lambda: pick(draws, ["age", "prize", *JSON_VALUES, *NAMES]),
        "a\nb": lambda: 1,
    }
    for name in some(draws, [*others], 2):
        values[name] = others[name]()

    def do() -> None:
        settings = SelectionSettings(**values)
        if _is_quick(settings):
            data = ground.of_days() if settings.history is not None else ground.table()
            _select(data, settings, place)

    if often(draws, 0.3):
        data = ground.table()
        asked = {
            k: v for k, v in values.items() if k in ("loss", "task", "baseline", "seed", "shares")
        }
        asked |= {"n_features": pick(draws, [None, 2, *JSON_VALUES])} if often(draws, 0.3) else {}
        asked |= _columns(draws)
        quick = {"method": pick(draws, ["mrmr", "gbmo"]), "model": ground.cheap("lightgbm")}
        return Case(
            f"select(table(), 'churned', **{shown(asked)})",
            lambda: select_checked(data, "churned", [*data.columns], **asked, **quick),
        )
    return Case(f"SelectionSettings(**{shown(values, 500)})", do)


def _columns(draws: Draws) -> dict[str, Any]:
    names = ["age", "colour", "income", "noise_1", "day", "churned", "absent", *NAMES[:10]]
    found = {}
    for role in some(draws, [*ColumnSettings.model_fields], 2):
        single = role in ("weight", "group", "time")
        found[role] = pick(draws, names) if single else some(draws, names)
        if often(draws, 0.2):
            found[role] = pick(draws, JSON_VALUES)
    return found


def _is_quick(settings: SelectionSettings) -> bool:
    """Return whether no number of a method asks for work without end."""
    default = method_of(settings.method.kind).model_dump()
    for name, value in settings.method.model_dump().items():
        values = value if isinstance(value, tuple | list) else [value]
        numbers = [v for v in values if isinstance(v, int | float)]
        if value != default[name] and (len(values) > 12 or any(v > _MOST for v in numbers)):
            return False
    few = {"max_iter", "n_estimators", "num_iterations"}
    return not any(
        isinstance(v, int) and v > _MOST for k, v in settings.model.parameters.items() if k in few
    )


def _select(data: Any, settings: SelectionSettings, place: Place) -> None:
    from chaffinch.tasks.select import selected

    method = settings.method
    quick = _QUICK.get(method.kind, {})
    asked = method.model_dump()
    default = method_of(method.kind).model_dump()
    slow = {name: v for name, v in quick.items() if asked[name] == default[name]}
    if slow and not (method.kind == "pefs" and asked.get("n_features")):
        settings = settings.model_copy(update={"method": type(method)(**asked | slow)})
    result = selected(data, settings, None, "none", None, place.store, _nobody)
    if settings.history is None:
        result.model.predict(data)


def _nobody(*_: object) -> None:
    """Take no notice of progress."""
