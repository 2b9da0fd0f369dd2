"""`chaffinch.reselect`: update a former selection by newer rows."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from chaffinch.errors import InputError
from chaffinch.tasks.api.arguments import named_constraints, refusing_moved_names
from chaffinch.tasks.api.select import model_settings, selected
from chaffinch.tasks.pipeline.progress import OnProgress
from chaffinch.tasks.results.previous_run import STORE, read_former, settings_of
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.settings.base import listed
from chaffinch.tasks.settings.identity import CustomObjects
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ModelSettings


@refusing_moved_names
def reselect(
    former: SelectionResult | str | Path,
    data: Any,
    target: str | None = None,
    *,
    model: str | ModelSettings | Any | None = None,
    drop: Collection[str] | None = None,
    constraints: Constraints | None = None,
    gain: float = 0.01,
    slack: float = 0.05,
    rejections: int = 10,
    seed: int | None = None,
    cluster: str | int | Any = None,
    store: str | Path | None = None,
    verbose: bool | OnProgress | None = None,
) -> SelectionResult:
    """Update the features of a former run by newer rows.

    The search begins with the former features, and the newer rows are split as in any run. Models
    are refitted and compared on the mask-validation rows. A feature returns, or a new column is
    added, if it is shown to help; a feature leaves if it is not, and the loss without it is shown
    to be hardly higher. All others stay as they were. The test rows then compare the former set,
    the new one and all features, each refitted on the newer rows, and every change by itself.

    Parameters
    ----------
    former : SelectionResult, str or Path
        A result; or the name of a run in the store, its folder, or its ``selection.json``.
    data : path or address, or pandas, polars or Arrow table
        The newer rows, with every column that the former run kept, its target and its columns of
        weights, groups, times and series. Other columns are candidates as well. The former run's
        settings for other columns, such as to drop them, apply if they are present.
    target : str, optional
        Column to predict; by default the former run's.
    model : str, ModelSettings or estimator, optional
        In place of the former run's model, which is set and tuned as it was then.
    drop : collection of str, optional
        Columns left out altogether; by default the former run's.
    constraints : Constraints, optional
        Groups of features, costs and a budget; by default the former run's. What it must include or
        exclude is the former run's to keep, and `drop`.
    gain : float, at least 0
        Share of the loss that a feature must save to be of help.
    slack : float, at least 0
        Share by which the loss may rise for all features together that leave in a round.
    rejections : int, at least 1
        How many features a round may reject.
    seed : int in 0..2**32-1, optional
        The only source of randomness; by default the former run's.
    cluster, store, verbose
        As in `select`. A name is looked up in `store`, or without one in ``chaffinch-store``.

    Returns
    -------
    SelectionResult
        `changes` has the changes and their reasons; `features` are those of the new set, with any
        verdict.

    Raises
    ------
    InputError
        If there is no such run, the newer rows do not fit it, or a setting cannot be used.
    StorageError
        If the former run is damaged, or a later release wrote it.

    Warns
    -----
    DataQualityWarning
        For each entry of the result's `warnings`, before training.

    Examples
    --------
    >>> import chaffinch
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> former = chaffinch.select(table[:280], "target", model="linear", n_features=5)
    >>> newer = chaffinch.reselect(former, table[280:])
    >>> newer.changes["verdict"] in ("change", "keep the former set", "cannot tell")
    True
    """
    chosen, estimator = (None, None) if model is None else model_settings(model)
    to_keep, to_drop, limits = named_constraints(constraints)
    if to_keep or to_drop:
        raise InputError(
            "must_include and must_exclude are not for a reselection, which keeps what the former "
            "run was to keep; leave them out, and give drop"
        )
    changes = ReselectionSettings(
        target=target,
        drop=None if drop is None else listed("drop", drop, "a list of column names"),
        constraints=limits,
        gain=gain,
        slack=slack,
        rejections=rejections,
        seed=seed,
    )
    known = read_former(former, STORE if store is None else store)
    settings = settings_of(known, changes, chosen)
    return selected(data, settings, CustomObjects(estimator), cluster, store, verbose)
