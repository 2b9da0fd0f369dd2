"""`chaffinch.compare`: a comparison as one Python call, without Prefect or a server."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaffinch.errors import InputError
from chaffinch.storage.sources import source_of
from chaffinch.tasks.api.arguments import (
    OF_COMPARISONS,
    column_settings,
    execution_settings,
    rare_settings,
    refusing_moved_names,
)
from chaffinch.tasks.comparing.run import (
    STEPS,
    ComparisonResult,
    compare_methods,
    load_comparison,
)
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.pipeline.progress import OnProgress
from chaffinch.tasks.pipeline.progress.display import shown
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.losses import is_scorer, name_of_loss
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.identity import CustomObjects
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import TOLERANCE, ModelSettings
from chaffinch.tasks.warnings import warn_of_data

logger = logging.getLogger(__name__)


@refusing_moved_names
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
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    constraints: Constraints | None = None,
    columns: ColumnSettings | Mapping[str, Any] | None = None,
    loss: Any = None,
    tolerance: float = TOLERANCE,
    settings: Mapping[str, Any] | None = None,
    cluster: str | int | Any = None,
    store: str | Path | None = None,
    time_budget: float | None = None,
    verbose: bool | OnProgress | None = None,
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
    keep, drop, weight, group, time, constraints, columns, loss, tolerance
        See `chaffinch.select`; the same for every table.
    settings : mapping, optional
        What is rarely set, by name: ``"task"`` and ``"baseline"``, as in `chaffinch.select`.
    cluster : "none", "local", int, a scheduler's address or a client of Dask, optional
        What computes; see `chaffinch.select`. The result does not depend on it.
    store : path or address, optional
        Folder for results, or ``"s3://bucket/prefix"``, so that a stopped comparison resumes, and
        one with more methods, models or seeds measures only the new cells. None stores nothing.
    time_budget : float, optional
        Seconds after which measuring stops and the finished cells are summarised; a warning of
        `logging` says how many there are.
    verbose : bool or callable, optional
        Progress, as in `chaffinch.select`.

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
    chosen: dict[str, Any] = {} if methods is None else {"methods": methods}
    chosen |= {"models": models, "sizes": sizes}
    columns, limits = column_settings(
        columns, constraints, keep=keep, drop=drop, weight=weight, group=group, time=time
    )
    plan_settings = ComparisonSettings(
        target=target,
        folds=folds,
        seeds=seeds,
        columns=columns,
        constraints=limits,
        loss=name_of_loss(loss),
        tolerance=tolerance,
        **rare_settings(settings, OF_COMPARISONS),
        **chosen,
    )
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as temporary:
        execution = execution_settings(cluster, temporary if store is None else store)
        with shown(STEPS, verbose) as progress:
            run = compare_methods(
                list(map(source_of, tables)),
                plan_settings,
                execution,
                custom=CustomObjects(scorer=loss if is_scorer(loss) else None),
                time_budget=time_budget,
                on_progress=progress,
                say=logger.warning,
                warn=warn_of_data,
                is_kept=store is not None,
            )
        return load_comparison(run, keep_folder=store is not None)
