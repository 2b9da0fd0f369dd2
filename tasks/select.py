"""`chaffinch.select`: the story as one Python call, with no Prefect and no server."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chaffinch.storage.errors import InputError
from chaffinch.tasks.result import SelectionResult, load_result
from chaffinch.tasks.settings import (
    ColumnSettings,
    ExecutionSettings,
    Flbmo,
    Gbmo,
    ModelSettings,
    SelectionSettings,
)
from chaffinch.tasks.stage import OnProgress, tell_nobody
from chaffinch.tasks.story import select_features

AnySettings = TypeVar("AnySettings", bound=BaseModel)


def select(
    data: Any,
    target: str,
    *,
    method: str | Gbmo | Flbmo = "gbmo",
    model: str | ModelSettings | Any = "lightgbm",
    n_features: int | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    task: str = "auto",
    loss: str | None = None,
    baseline: str | Mapping[str, float | str] = "mean",
    seed: int = 0,
    cluster: str | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    on_progress: OnProgress = tell_nobody,
) -> SelectionResult:
    """Select the features of a table that are worth keeping, and retrain a model on them.

    Parameters
    ----------
    data : path, or pandas, polars or Arrow table
        CSV or TSV (plain or gz), a Parquet file or folder, or a table in memory.
    target : str
        Column to predict.
    method : "gbmo", "flbmo", Gbmo or Flbmo
        GBMO finds the number of features by itself; FLBMO keeps a fixed number.
    model : str, ModelSettings or estimator
        ``"lightgbm"``, ``"xgboost"``, ``"mlp"``, ``"linear"``, the name of a scikit-learn
        estimator, or an unfitted estimator of your own, which is cloned and not tuned.
    n_features : int, optional
        GBMO: keep at most this many. FLBMO: keep exactly this many.
    keep, drop : collections of str
        Features never removed; columns left out altogether.
    categorical, numeric : collections of str
        Columns of numbers that are categories; columns that must be numbers.
    weight, group, time : str, optional
        Columns of sample weights, of groups that stay together, of time order.
    task : "auto", "regression" or "classification"
        What the target is.
    loss : str, optional
        ``"squared_error"``, ``"absolute_error"``, ``"log_loss"`` or a scikit-learn scorer's name.
    baseline : "mean", "median", "zero" or mapping
        What a masked feature is set to; a mapping gives values by feature, the others the mean.
    seed : int in 0..2**32-1
        The only source of randomness.
    cluster : "none", "local" or a scheduler's address, optional
        Who computes; None means this process. Never changes the result.
    workers : int, optional
        Processes of a local cluster; by default one per core.
    store : path, optional
        Folder that keeps datasets and runs, so that a killed run can go on. None keeps nothing.
    on_progress : callable, optional
        Called with a stage's name, its items done, and their number in all.

    Returns
    -------
    SelectionResult

    Raises
    ------
    InputError
        If the table or a setting cannot be used; the message says what and how to mend it.

    Examples
    --------
    >>> import chaffinch
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> result = chaffinch.select(table, "target", n_features=5)
    >>> len(result.features) <= 5
    True
    """
    estimator = None if isinstance(model, str | ModelSettings) else model
    named = model
    if estimator is not None:
        named = ModelSettings(name=type(estimator).__name__, tuning="none")
    settings = selection_settings(
        target=target,
        method=method_settings(method, n_features),
        model=named,
        columns=_validated(
            ColumnSettings,
            keep=tuple(keep),
            drop=tuple(drop),
            categorical=tuple(categorical),
            numeric=tuple(numeric),
            weight=weight,
            group=group,
            time=time,
        ),
        task=task,
        loss=loss,
        baseline=baseline,
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as temporary:
        execution = execution_settings(
            store=Path(temporary) if store is None else Path(store),
            cluster=cluster or "none",
            workers=workers,
        )
        run = select_features(
            data, settings, execution, on_progress=on_progress, estimator=estimator
        )
        return load_result(run, keep_folder=store is not None)


def method_settings(method: str | Gbmo | Flbmo, n_features: int | None) -> Gbmo | Flbmo:
    """Return the method's settings from its name and the number of features asked for.

    Raises
    ------
    InputError
        If the method is unknown, or the number below 1.
    """
    if isinstance(method, str):
        known: Mapping[str, type[Gbmo | Flbmo]] = {"gbmo": Gbmo, "flbmo": Flbmo}
        if method not in known:
            raise InputError(f"method must be one of {', '.join(known)} but is {method!r}")
        method = known[method]()
    if n_features is None:
        return method
    asked = n_features if isinstance(method, Gbmo) else (n_features,)
    return _validated(type(method), **{**method.model_dump(), "n_features": asked})


def selection_settings(**values: Any) -> SelectionSettings:
    """Return validated settings.

    Raises
    ------
    InputError
        With the first thing that is wrong, in one line.
    """
    return _validated(SelectionSettings, **values)


def execution_settings(**values: Any) -> ExecutionSettings:
    """Return validated settings; raises as `selection_settings` does."""
    return _validated(ExecutionSettings, **values)


def _validated(kind: type[AnySettings], **values: Any) -> AnySettings:
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        message = first["msg"].removeprefix("Value error, ")
        given = first.get("input")
        shown = f" but is {given!r}" if not isinstance(given, dict) and where else ""
        raise InputError(f"{where}: {message}{shown}" if where else message) from error
