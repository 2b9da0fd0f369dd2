"""`chaffinch.compare`: a comparison as one Python call, without Prefect or a server."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any, Literal

from chaffinch.errors import InputError
from chaffinch.storage.sources import source_of
from chaffinch.tasks.api.select import named_constraints, naming
from chaffinch.tasks.comparing.run import (
    STEPS,
    ComparisonResult,
    compare_methods,
    load_comparison,
)
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.pipeline.progress import OnProgress, Say, Warn, no_messages
from chaffinch.tasks.pipeline.progress_display import shown
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import (
    TOLERANCE,
    Baseline,
    ExecutionSettings,
    ModelSettings,
    TaskOrAuto,
)
from chaffinch.tasks.warnings import warn_of_data


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
    constraints: Constraints | None = None,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    embargo: str | float | None = None,
    drop_leaks: bool = False,
    drop_rows_without_target: bool = False,
    dates: Literal["none", "parts"] = "none",
    task: TaskOrAuto = "auto",
    loss: str | None = None,
    baseline: Baseline = "mean",
    tolerance: float = TOLERANCE,
    cluster: str | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    time_budget: float | None = None,
    verbose: bool | None = None,
    on_progress: OnProgress | None = None,
    say: Say = no_messages,
    warn: Warn = warn_of_data,
) -> ComparisonResult:
    """Compare methods of feature selection on tables, with nested folds and several seeds.

    Tuning, selection and the choice of a size use only the rows inside an outer fold. Each selected
    set is scored once, on the rows outside.

    Parameters
    ----------
    data : path or address, or pandas, polars or Arrow table, or a list of them
        Tables; see `chaffinch.select`. Several tables in memory are numbered in their order.
    target : str
        Column to predict, in every table.
    methods : sequence of str or method settings, optional
        Methods to compare; see `chaffinch.select`. By default gbmo and three other methods; with
        sample weights, those of them that support weights. All features and a constant prediction
        are always included.
    models : sequence of str or ModelSettings
        Models to select for and to retrain.
    folds : int in 2..20
        Number of outer folds: stratified, by whole groups, or in time order.
    seeds : int, at least 1
        Number of repetitions of the folds, with the seeds 0, 1, 2, ...
    sizes : sequence of int or of float below 1
        Numbers of features, or shares of all, at which each method is scored in addition to its own
        choice; afs_bm and particle_swarm have no fixed sizes.
    keep, drop, constraints, categorical, numeric, weight, group, time, embargo, drop_leaks
        See `chaffinch.select`; the same for every table.
    task, loss, baseline, tolerance, drop_rows_without_target, dates
        Likewise.
    cluster : "none", "local" or a scheduler's address, optional
        Workers; None is this process. The result does not depend on it.
    workers : int, optional
        Processes of a local cluster; by default one per core.
    store : path, optional
        Folder for results, so that a stopped comparison resumes, and one with more methods, models
        or seeds measures only the new cells. None stores nothing.
    time_budget : float, optional
        Seconds after which measuring stops and the finished cells are summarised.
    verbose : bool, optional
        By default a progress bar in a terminal or a notebook, and nothing elsewhere. True: lines on
        standard error where there is no terminal. False: nothing.
    on_progress : callable, optional
        Called with a stage's name, its items done, and their number in all, in place of the bar.
    say : callable, optional
        Called with a message if the time budget is used up.
    warn : callable, optional
        Called with the list of data-quality warnings before measuring, in place of
        `warnings.warn`; the result includes them.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    InputError
        If a table or a setting cannot be used.

    Warns
    -----
    DataQualityWarning
        For each entry of the result's `warnings`, before measuring.

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
    if not isinstance(target, Hashable):
        raise InputError(
            f"target must be the name of a column but is of type {type(target).__name__}; add it "
            "to the table as a column, and give its name"
        )
    tables: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    as_text, texts = naming(*tables)
    chosen: dict[str, Any] = {} if methods is None else {"methods": methods}
    chosen |= {"models": models, "sizes": sizes}
    to_keep, to_drop, limits = named_constraints(constraints, as_text)
    settings = ComparisonSettings(
        target=as_text(target),
        folds=folds,
        seeds=seeds,
        columns=ColumnSettings(
            keep=(*texts("keep", keep), *to_keep),
            drop=(*texts("drop", drop), *to_drop),
            categorical=texts("categorical", categorical),
            numeric=texts("numeric", numeric),
            weight=as_text(weight),
            group=as_text(group),
            time=as_text(time),
            embargo=embargo,
            drop_leaks=drop_leaks,
            drop_rows_without_target=drop_rows_without_target,
            dates=dates,
        ),
        constraints=limits,
        task=task,
        loss=loss,
        baseline=baseline,
        tolerance=tolerance,
        **chosen,
    )
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as temporary:
        execution: dict[str, Any] = {
            "store": temporary if store is None else store,
            "cluster": "none" if cluster is None else cluster,
            "workers": workers,
        }
        with shown(STEPS, verbose, on_progress) as progress:
            run = compare_methods(
                list(map(source_of, tables)),
                settings,
                ExecutionSettings(**execution),
                time_budget=time_budget,
                on_progress=progress,
                say=say,
                warn=warn,
                is_kept=store is not None,
            )
        return load_comparison(run, keep_folder=store is not None)
