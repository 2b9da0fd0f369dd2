"""The arguments that several functions have in common: what settings they make, and old names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from inspect import signature
from numbers import Integral
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.settings.base import Settings, as_name, listed
from chaffinch.tasks.settings.columns import ColumnSettings, HistorySettings
from chaffinch.tasks.settings.selection import ExecutionSettings

_Kind = TypeVar("_Kind", bound=Settings)
_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")

OF_COMPARISONS = ("task", "baseline")
_OF_ONE_SELECTION = ("shares", "search_rows", "mask_rows", "price_columns", "as_published")
OF_SELECTIONS = (*OF_COMPARISONS, *_OF_ONE_SELECTION)
_LISTS = ("keep", "drop", "categorical", "numeric")
_NO_PARAMETER = (
    *("categorical", "numeric", "split", "embargo"),
    *("drop_leaks", "drop_rows_without_target", "dates"),
)
# Parameter -> arguments of earlier releases, the command line or scikit-learn in its place, each
# with what to give for it.
_MOVED = {
    "columns": {name: f"columns=ColumnSettings({name}=%s)" for name in _NO_PARAMETER},
    "history": {
        **{name: f"history=HistorySettings({name}=%s)" for name in ("lags", "rolling", "series")},
        "history_columns": "history=HistorySettings(columns=%s)",
    },
    "settings": {name: f"settings={{{name!r}: %s}}" for name in OF_SELECTIONS},
    "method": {
        "min_score": "it to a ranking, as in method={'kind': 'anova_f', 'min_score': %s}",
        "validation": "it to the method, as in method={'kind': 'auto', 'validation': %s}",
    },
    "model": {
        name: f"it to the model, as in model=ModelSettings(name='lightgbm', {name}=%s)"
        for name in ("tuning", "tuning_rows")
    },
    "cluster": {"workers": "cluster=%s", "n_jobs": "cluster=%s"},
    "n_jobs": {"workers": "n_jobs=%s", "cluster": "n_jobs"},
    "seed": {"random_state": "seed=%s"},
    "random_state": {"seed": "random_state=%s"},
    "cv": {"folds": "cv=%s"},
    "verbose": {"on_progress": "the function as verbose", "quiet": "verbose=False"},
    "time_budget": {
        "say": "logging a handler, as logging.basicConfig does",
        "warn": "warnings a filter, as warnings.simplefilter does",
    },
}


def refusing_moved_names(
    function: Callable[_Arguments, _Returned],
) -> Callable[_Arguments, _Returned]:
    """Refuse the arguments that a function had in earlier releases, each with its new place."""
    takes = signature(function).parameters
    moved = {old: new for name in takes for old, new in _MOVED.get(name, {}).items()}

    @wraps(function)
    def checked(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Returned:
        for name, value in options.items():
            if name in moved and name not in takes:
                called = function.__qualname__.removesuffix(".__init__")
                place = moved[name].replace("%s", short_repr(value))
                if isinstance(method := options.get("method"), str):
                    place = re.sub(r"(?<='kind': )'\w+'", repr(method), place)
                raise InputError(f"{called} takes no {name}; give {place}")
        return function(*args, **options)

    return checked


def column_settings(
    columns: ColumnSettings | Mapping[str, Any] | None,
    constraints: Constraints | None,
    *,
    name_of: Callable[[Any], Any] = as_name,
    **by_name: Any,
) -> tuple[ColumnSettings, Any]:
    """Return the settings of columns, and of the constraints what is not to keep or to drop.

    `by_name` are parameters that name some of the columns. `name_of` returns the name of a feature.
    """
    names = _settings_of(ColumnSettings, "columns", columns).model_dump(exclude_defaults=True)
    for role, name in ColumnSettings(**by_name).model_dump(exclude_defaults=True).items():
        if names.setdefault(role, name) != name:
            raise InputError(
                f"{role} is {short_repr(name)} but {short_repr(names[role])} in columns; give it "
                "once"
            )
    for role in _LISTS:
        names[role] = [*map(name_of, names.get(role, ()))]
    to_keep, to_drop, limits = named_constraints(constraints, name_of)
    names["keep"] += to_keep
    names["drop"] += to_drop
    return ColumnSettings(**names), limits


def named_constraints(
    constraints: Constraints | None, name_of: Callable[[Any], Any] = as_name
) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
    """Return the names to keep, those to drop, and the other constraints, which settings take."""
    if constraints is None:
        return (), (), None
    if not isinstance(constraints, Constraints):
        raise InputError(
            f"constraints must be chaffinch.Constraints but are {short_repr(constraints)}"
        )
    if constraints.max_sets_per_feature is not None:
        raise InputError("max_sets_per_feature is for find_alternatives; leave it out")

    def names(role: str, features: Any) -> tuple[Any, ...]:
        return tuple(map(name_of, listed(role, features, "a list of features")))

    named = constraints.renamed(names)
    limits = replace(named, must_include=(), must_exclude=())
    return tuple(named.must_include), tuple(named.must_exclude), limits


def history_settings(history: HistorySettings | Mapping[str, Any] | None) -> HistorySettings | None:
    return None if history is None else _settings_of(HistorySettings, "history", history)


def _settings_of(kind: type[_Kind], name: str, values: Any) -> _Kind:
    if isinstance(values, kind):
        return values
    if values is not None and not isinstance(values, Mapping):
        raise InputError(
            f"{name} must be {kind.__name__}, or names with values, but is {short_repr(values)}"
        )
    return kind(**{str(setting): value for setting, value in (values or {}).items()})


def rare_settings(settings: Mapping[str, Any] | None, takes: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings that have no parameter of their own, which are those of `takes`."""
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(f"settings must be names with values but is {short_repr(settings)}")
    for name in settings or {}:
        if name not in takes:
            known = f"{', '.join(takes[:-1])} and {takes[-1]}"
            raise InputError(f"settings takes no {short_repr(name)}; it takes {known}")
    return dict(settings or {})


def execution_settings(cluster: Any, store: str | Path | None) -> ExecutionSettings:
    """Return what computes, and where results are kept: by default in the default store."""
    where: dict[str, Any] = {} if store is None else {"store": store}
    if hasattr(cluster, "get_client"):
        raise InputError(f"cluster is {short_repr(cluster)}; give its client, cluster.get_client()")
    if hasattr(cluster, "submit"):
        return ExecutionSettings.with_client(cluster, **where)
    return ExecutionSettings(**_cluster_settings(cluster), **where)


def _cluster_settings(cluster: Any) -> dict[str, Any]:
    """Return what computes as settings have it: a number of local processes, or a name."""
    if not isinstance(cluster, Integral) or isinstance(cluster, bool):
        return {"cluster": "none" if cluster is None else cluster}
    if cluster < 1:
        raise InputError(
            f"cluster must be at least 1 local process but is {cluster}; for this process alone, "
            "leave it out"
        )
    return {"cluster": "local", "workers": cluster}
