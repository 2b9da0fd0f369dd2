"""Settings of methods, models and columns: in range, out of it, of other types and names."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chaffinch import AlternativeSettings, ColumnSettings, HistorySettings, ModelSettings
from chaffinch.tasks.api.select import selected
from chaffinch.tasks.selection.models import MODELS
from chaffinch.tasks.settings.constraints import ConstraintSettings, FeatureGroup
from chaffinch.tasks.settings.identity import NO_CUSTOM_OBJECTS
from chaffinch.tasks.settings.method import kinds, method_of
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.fuzz import ground
from tests.fuzz.tables import select_checked
from tests.fuzz.values import JSON_VALUES, NAMES, Case, Draws, often, pick, shown, some

# What makes a method quick on a hundred rows, where a case does not say otherwise.
_QUICK: dict[str, dict[str, Any]] = {
    "pefs": {"hidden_layer_sizes": (3,), "most_sweeps": 1},
    "particle_swarm": {"individuals": 3, "generations": 2},
}
_MOST = 60  # of a number that asks for work
_WORK = ("max_iter", "n_estimators", "num_iterations", "steps")
# fmt: off
_RATES: list[Any] = [-1, 0, 1e308, 1e-308, "x", None, float("nan"), float("inf")]
_COUNTS: list[Any] = [-1, 0, 1, 2, 10**6, 10**12, "5", "x", None, 2.5, [3], True]
_PARAMETERS: dict[str, dict[str, list[Any]]] = {
    name: {"": [1], "a\nb": [1]} for name in MODELS
} | {
    "lightgbm": {
        "num_leaves": _COUNTS, "learning_rate": _RATES, "n_estimators": _COUNTS, "max_bin": _COUNTS,
        "max_depth": _COUNTS, "min_child_samples": _COUNTS, "num_threads": _COUNTS, "a\nb": [1],
        "objective": ["binary", "regression", "multiclass", "x", None, "lambdarank"],
        "boosting": ["dart", "rf", "goss", "x"], "device_type": ["gpu", "cuda", "x"],
        "num_class": [0, 5], "verbosity": [2, "x"], "metric": ["auc", "x"], "": [1],
        "categorical_feature": ["0", "name:age", [99]], "monotone_constraints": [[1], [1] * 6, "x"],
        "forcedsplits_filename": ["nowhere.json"], "input_model": ["nowhere.txt"],
        "linear_tree": [True, "x"], "bagging_fraction": [-1, 0, 2], "random_state": [5, "x", -1],
    },
    "xgboost": {
        "n_estimators": _COUNTS, "max_depth": _COUNTS, "learning_rate": _RATES, "max_bin": _COUNTS,
        "objective": ["binary:logistic", "reg:squarederror", "x", "rank:pairwise", "count:poisson"],
        "booster": ["gblinear", "dart", "x"], "tree_method": ["exact", "approx", "gpu_hist", "x"],
        "device": ["cuda", "x"], "n_jobs": _COUNTS, "subsample": [-1, 0, 2], "reg_lambda": _RATES,
        "grow_policy": ["lossguide", "x"], "base_score": _RATES, "num_parallel_tree": [0, 3],
        "enable_categorical": [True], "missing": [0, "x"], "callbacks": [[1]], "a\nb": [1],
    },
    "catboost": {
        "iterations": [-1, 0, 5, "5", None, 2.5], "depth": [0, 3, 17, "x"], "learning_rate": _RATES,
        "grow_policy": ["Lossguide"], "bootstrap_type": ["No", "Bernoulli", "x"], "rsm": [0, 2],
        "subsample": [-1, 0.5, 2], "one_hot_max_size": _COUNTS, "cat_features": [[0], "x"],
    },
    "mlp": {
        "hidden_layer_sizes": [[], [0], [-1], [2, 2], [10**9], "x", 3, None, [2.5]], "a\nb": [1],
        "max_iter": _COUNTS, "activation": ["relu", "tanh", "x", None], "alpha": _RATES,
        "learning_rate_init": _RATES, "batch_size": _COUNTS, "solver": ["lbfgs", "x"],
    },
    "linear": {"C": _RATES, "alpha": _RATES, "fit_intercept": [False, "x"], "max_iter": _COUNTS,
               "penalty": ["l1", "l2", "x", None], "solver": ["saga", "x"], "a\nb": [1]},
    "pefs-network": {"steps": _COUNTS, "hidden_layer_sizes": [[], [2, 2], [10**9], "x"]},
}
# fmt: on


@cache
def _estimators() -> list[str]:
    from sklearn.utils import all_estimators

    kinds = [
        *all_estimators("classifier") * 3,
        *all_estimators("regressor"),
        *all_estimators()[::9],
    ]
    return [name for name, _ in kinds]


@cache
def _losses() -> list[str]:
    from sklearn.metrics import get_scorer_names

    return ["squared_error", "absolute_error", "log_loss", *get_scorer_names()]


def _drawn(draws: Draws, of: type[BaseModel], most: int = 2) -> dict[str, Any]:
    """Return up to so many fields of settings, and now and then one that is none."""
    schema, found = of.model_json_schema(), {}
    for name in some(draws, [*of.model_fields], most):
        fits = _fitting(draws, schema["properties"].get(name, {}), schema.get("$defs", {}))
        found[name] = fits if often(draws, 0.75) else pick(draws, [*JSON_VALUES, str(fits), [fits]])
    if often(draws, 0.05):
        found[pick(draws, [*NAMES, "n_feature", "slack", "Kind"])] = pick(draws, JSON_VALUES)
    return found


def _fitting(draws: Draws, schema: dict[str, Any], known: dict[str, Any]) -> Any:
    """Return a value that a JSON schema allows, now and then the first that it does not."""
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return _fitting(draws, pick(draws, schema["anyOf"]), known)
    if "enum" in schema or "const" in schema:
        return pick(draws, schema.get("enum") or [schema["const"]])
    kind = schema.get("type")
    if kind == "array":
        return [
            _fitting(draws, schema.get("items", {}), known)
            for _ in range(pick(draws, [1, 1, 2, 0]))
        ]
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        largest = schema.get("maximum", schema.get("exclusiveMaximum", least + 5))
        value = pick(draws, [least, largest, *[draws.uniform(least, min(largest, least + 5))] * 4])
        if often(draws, 0.05):
            value = pick(draws, [least - 1, largest + 1])
        return round(value) if kind == "integer" or often(draws, 0.3) else float(value)
    if kind == "string":
        return pick(draws, ["age", "income", "colour", "x"])
    return {"boolean": often(draws, 0.5), "object": {}}.get(str(kind))


def _model(draws: Draws) -> Any:
    if often(draws, 0.4):
        return ground.cheap("lightgbm")
    if often(draws, 0.3):
        return {"name": pick(draws, _estimators()), "tuning": "none", "folds": 3}
    if often(draws, 0.2):
        return {"name": "lightgbm", "tuning": "none"} | _drawn(draws, ModelSettings)
    name = pick(draws, [*_PARAMETERS])
    known = _PARAMETERS[name]
    asked = {field: pick(draws, known[field]) for field in some(draws, [*known], 2)}
    return ground.cheap(name).model_dump() | {"parameters": ground.CHEAP.get(name, {}) | asked}


def _columns(draws: Draws) -> dict[str, Any]:
    names = [*["age", "colour", "income", "noise_1"] * 4, "day", "churned", "absent", *NAMES[:10]]
    found: dict[str, Any] = {}
    for role in some(draws, [*ColumnSettings.model_fields], 2):
        is_one = role in ("weight", "group", "time")
        found[role] = pick(draws, names) if is_one else some(draws, names)
        if often(draws, 0.1):
            found[role] = pick(draws, JSON_VALUES)
    return found


def _constraints(draws: Draws) -> dict[str, Any]:
    names = [*["age", "colour", "income", "noise_1"] * 9, "churned", "absent", *NAMES[:2]]
    groups = [
        {"features": some(draws, names) or ["age"]} | _drawn(draws, FeatureGroup, 1)
        for _ in range(pick(draws, [0, 1, 1, 2]))
    ]
    costs = {name: pick(draws, [0, 1, 2.5]) for name in some(draws, names)}
    found = {"groups": groups, "costs": costs, "budget": pick(draws, [None, 1, 3])}
    return found | _drawn(draws, ConstraintSettings) if often(draws, 0.3) else found


def draw(draws: Draws, place: Path) -> Case:
    """Draw settings, which are checked and, where they are quick, used."""
    kind = pick(draws, kinds())
    method = {"kind": kind} | _drawn(draws, type(method_of(kind)))
    values: dict[str, Any] = {"target": "churned", "method": method, "model": _model(draws)}
    shares = [[50, 20, 20, 10], [97, 1, 1, 1], [25, 25, 25, 26]]
    others = {
        "columns": lambda: _columns(draws),
        "constraints": lambda: _constraints(draws),
        "alternatives": lambda: {"number": 1, "time_limit": 5} | _drawn(draws, AlternativeSettings),
        "history": lambda: {"lags": [1], "series": "shop"} | _drawn(draws, HistorySettings),
        "loss": lambda: pick(draws, [*_losses(), *JSON_VALUES]),
        "task": lambda: pick(draws, ["classification", "regression", *JSON_VALUES]),
        "baseline": lambda: pick(
            draws, ["median", "zero", {"age": 1, "colour": "red"}, *JSON_VALUES]
        ),
        "seed": lambda: pick(draws, [1, 2**32, *JSON_VALUES]),
        "shares": lambda: pick(draws, [*shares * 5, *JSON_VALUES]),
        "model": lambda: pick(draws, ["linear", "catboost", *JSON_VALUES]),
        "method": lambda: pick(draws, ["GBMO", "mrmr", {}, *JSON_VALUES]),
        "target": lambda: pick(draws, ["age", "prize", *JSON_VALUES, *NAMES]),
        "a\nb": lambda: 1,
    }
    for name in some(draws, [*others], int(often(draws, 0.4))):
        values[name] = others[name]()
    if "history" in values:
        values |= {"target": "sold", "columns": {"time": "day"}}
    if often(draws, 0.3):
        data = ground.table()
        asked = {name: values[name] for name in ("loss", "seed") if name in values}
        rare = ("task", "baseline", "shares")
        asked["settings"] = {name: values[name] for name in rare if name in values}
        asked["columns"] = pick(draws, [*[_columns(draws)] * 9, *JSON_VALUES])
        asked |= {name: _columns(draws).get(name) for name in some(draws, ["weight", "time"], 1)}
        asked["cluster"] = pick(draws, [*[None] * 9, "none", 0, -1, "x"])
        asked["n_features"] = pick(draws, [None, 1, 2, 3, *JSON_VALUES])
        quick = {"method": pick(draws, ["mrmr", "gbmo", "auto"]), "model": ground.cheap("lightgbm")}
        return Case(
            f"select(table(), 'churned', **{shown(asked)})",
            lambda: select_checked(data, "churned", [*data.columns], **asked, **quick),
        )
    return Case(f"SelectionSettings(**{shown(values, 500)})", lambda: _use(values, place))


def _use(values: dict[str, Any], place: Path) -> None:
    settings = SelectionSettings(**values)
    method = settings.method
    asked, default = method.model_dump(), method_of(method.kind).model_dump()
    others = {name: value for name, value in asked.items() if value != default[name]}
    work = [v for name, v in settings.model.parameters.items() if name in _WORK]
    for value in [*others.values(), *work]:
        numbers = value if isinstance(value, tuple | list) else [value]
        if len(numbers) > 12 or any(isinstance(v, int | float) and v > _MOST for v in numbers):
            return  # work without end
    quick = {name: v for name, v in _QUICK.get(method.kind, {}).items() if name not in others}
    if quick:
        settings = settings.model_copy(
            update={"method": type(method)(**{**others, **quick, "kind": method.kind})}
        )
    data = ground.table() if settings.history is None else ground.of_days()
    result = selected(data, settings, NO_CUSTOM_OBJECTS, "none", place / "store", lambda *_: None)
    if settings.history is None:
        result.model.predict(data)
