"""`chaffinch.compare`: a comparison as one Python call, with no Prefect and no server."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from chaffinch.tasks.api.select import naming
from chaffinch.tasks.comparing.run import ComparisonResult, compare_methods, load_comparison
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.pipeline.stage import (
    OnProgress,
    Say,
    Warn,
    no_messages,
    no_progress,
    no_warnings,
)
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import (
    Baseline,
    ExecutionSettings,
    ModelSettings,
    TaskOrAuto,
)


def compare(
    data: Any,
    target: str,
    *,
    methods: Sequence[str | Method] | None = None,
    models: Sequence[str | ModelSettings] = ("lightgbm",),
    folds: int = 5,
    seeds: int = 3,
    sizes: Sequence[int | float] = (),
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    task: TaskOrAuto = "auto",
    loss: str | None = None,
    baseline: Baseline = "mean",
    cluster: str | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    time_budget: float | None = None,
    on_progress: OnProgress = no_progress,
    say: Say = no_messages,
    warn: Warn = no_warnings,
) -> ComparisonResult:
    """Compare methods of feature selection on tables, by nested folds and over seeds.

    Everything that a method does, tuning and the choice of a size with it, happens inside an outer
    fold; each set it chooses is scored once, on the rows outside.

    Parameters
    ----------
    data : path or address, or pandas, polars or Arrow table, or a list of them
        Each as for `chaffinch.select`. Several tables in memory are numbered in their order.
    target : str
        Column to predict, in every table.
    methods : sequence of str or method settings, optional
        What to compare; see `chaffinch.select`. By default gbmo and three rivals, or those of them
        that take sample weights where there are some. Keeping every feature, and predicting a
        constant, are always among it.
    models : sequence of str or ModelSettings
        Models to select for and to retrain.
    folds : int in 2..20
        Outer folds: stratified, groups whole, or in time.
    seeds : int, at least 1
        How often the folds are dealt anew, with the seeds 0, 1, 2, ...
    sizes : sequence of int or of float below 1
        Numbers of features, or shares of all, at which each method that can be asked for a number
        is scored besides its own choice; afs_bm and particle_swarm cannot.
    keep, drop, categorical, numeric, weight, group, time, task, loss, baseline
        As for `chaffinch.select`, in every table.
    cluster : "none", "local" or a scheduler's address, optional
        Who computes; None means this process. Never changes the result.
    workers : int, optional
        Processes of a local cluster; by default one per core.
    store : path, optional
        Folder that keeps what is measured, so that a comparison that was stopped goes on, and one
        with more methods, models or seeds measures only these. None keeps nothing.
    time_budget : float, optional
        Seconds of measuring after which what is done by then is concluded from.
    on_progress : callable, optional
        Called with a step's name, its items done, and their number in all.
    say : callable, optional
        Called with how much there is to do before it begins.
    warn : callable, optional
        Called with what is odd about the tables, in a list, as soon as that is known; the result
        holds it as well.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    InputError
        If a table or a setting cannot be used.

    Examples
    --------
    >>> import chaffinch
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> compared = chaffinch.compare(  # doctest: +SKIP
    ...     table, "target", methods=["gbmo", "anova_f"], sizes=[5, 10]
    ... )
    >>> compared  # doctest: +SKIP
    """
    sources: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    as_text, texts = naming(*sources)
    chosen: dict[str, Any] = {} if methods is None else {"methods": methods}
    chosen |= {"models": models, "sizes": sizes}
    asked = ComparisonSettings(
        target=as_text(target),
        folds=folds,
        seeds=seeds,
        columns=ColumnSettings(
            keep=texts("keep", keep),
            drop=texts("drop", drop),
            categorical=texts("categorical", categorical),
            numeric=texts("numeric", numeric),
            weight=as_text(weight),
            group=as_text(group),
            time=as_text(time),
        ),
        task=task,
        loss=loss,
        baseline=baseline,
        **chosen,
    )
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as temporary:
        execution: dict[str, Any] = {
            "store": temporary if store is None else store,
            "cluster": "none" if cluster is None else cluster,
            "workers": workers,
        }
        run = compare_methods(
            sources,
            asked,
            ExecutionSettings(**execution),
            time_budget=time_budget,
            on_progress=on_progress,
            say=say,
            warn=warn,
            is_kept=store is not None,
        )
        return load_comparison(run, keep_folder=store is not None)
