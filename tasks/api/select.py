"""`chaffinch.select`: a selection as one Python call, without Prefect or a server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.column_names import labels_of
from chaffinch.storage.sources import source_of
from chaffinch.tasks.api.arguments import (
    OF_SELECTIONS,
    column_settings,
    execution_settings,
    history_settings,
    rare_settings,
    refusing_moved_names,
)
from chaffinch.tasks.api.arrays import with_target
from chaffinch.tasks.pipeline.progress import OnProgress, steps_of
from chaffinch.tasks.pipeline.progress.display import shown
from chaffinch.tasks.pipeline.run import select_features, select_in_memory
from chaffinch.tasks.results.result import SelectionResult, load_result, result_in_memory
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.input_checks import is_whole
from chaffinch.tasks.selection.losses import is_scorer, name_of_loss
from chaffinch.tasks.selection.masked_loss.fitted_estimators import digest_of_fit
from chaffinch.tasks.selection.models import packages_of
from chaffinch.tasks.settings.alternatives import AlternativeSettings, alternatives_of
from chaffinch.tasks.settings.columns import ColumnSettings, HistorySettings
from chaffinch.tasks.settings.identity import CustomObjects
from chaffinch.tasks.settings.method import Method, method_settings
from chaffinch.tasks.settings.selection import (
    TOLERANCE,
    ModelSettings,
    SelectionSettings,
    published_form,
)
from chaffinch.tasks.warnings import warn_of_data


@refusing_moved_names
def select(
    data: Any,
    target: Any,
    *,
    method: str | Mapping[str, Any] | Method = "auto",
    model: str | ModelSettings | Any = "lightgbm",
    n_features: int | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    constraints: Constraints | None = None,
    alternatives: int | AlternativeSettings | None = None,
    columns: ColumnSettings | Mapping[str, Any] | None = None,
    history: HistorySettings | Mapping[str, Any] | None = None,
    cv: Any = None,
    loss: Any = None,
    tolerance: float = TOLERANCE,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    cluster: str | int | Any = None,
    store: str | Path | None = None,
    verbose: bool | OnProgress | None = None,
) -> SelectionResult:
    """Select the features of a table that are worth keeping, and retrain a model on them.

    Parameters
    ----------
    data : path or address, list of these, or pandas, polars or Arrow table
        CSV or TSV (plain or .gz), a Parquet file or folder, here or at ``"s3://bucket/key"``,
        ``gs://`` or ``abfss://``; several files of one format, ``"data/2026-*.parquet"`` or a list;
        a Delta table, or ``"iceberg://catalog/shop.orders"``; a table or a query in a database,
        ``"postgresql://host/database#table"`` or ``"...#SELECT ..."``; or a table in memory. No
        address holds a password: that comes from the environment.
    target : str, or array-like of shape (n,)
        Column to predict, or its values, of a table in memory or an array of numbers, whose columns
        are then named x0, x1, ... The target is then named as the series is, or "target".
        Columns of a pandas table may be named here and below by their own labels where these are
        whole numbers.
    method : str, mapping, or settings such as Gbmo, AfsBm or Rfecv
        ``"auto"`` uses every row to train, order and judge in turn, and finds the number of
        features by itself. Methods of the papers: ``"gbmo"`` finds the number too, and so does
        ``"afs_bm"``, which trains and masks in turn; ``"flbmo"`` keeps a fixed number; ``"pefs"``
        trains a network of its own and the probability of each feature, and finds the number
        unless it is given. To compare with: ``"correlation"``, ``"anova_f"``,
        ``"mutual_information"``, ``"mrmr"``, ``"relieff"``, ``"fcbf"``, ``"jmi"``,
        ``"cmim"``, ``"lasso"``, ``"elastic_net"``, ``"select_from_model"``, ``"permutation"``,
        ``"tree_shap"``, ``"mission"`` and ``"dfs"`` rank the features once and keep the best;
        ``"rfe"``, ``"rfecv"``, ``"sequential_forward"``, ``"sequential_backward"``, ``"boruta"``
        and ``"particle_swarm"`` refit the model as they search. In place of a number of features,
        a ranking takes a lowest score in its own unit: ``{"kind": "anova_f", "min_score": 3}``.
    model : str, ModelSettings or estimator
        ``"lightgbm"``, ``"xgboost"``, ``"catboost"``, ``"mlp"``, ``"linear"``, ``"pefs-network"``,
        which is the network that the search of method pefs has trained, the name of a scikit-learn
        estimator, or an estimator of your own, which is cloned and not tuned. If it is fitted,
        GBMO and FLBMO mask it as it is, and fit clones only on the features that they keep; fit it
        on rows that the table does not have: on those it has seen, masking costs too much. One that
        takes no missing values, such as Lasso, is fitted on standardised numbers, with the mean for
        a missing one; trees and forests that take them get the numbers as they are.
    n_features : int, optional
        ``"auto"``, GBMO, AFS-BM, ``"rfecv"``, ``"boruta"`` and ``"particle_swarm"``: keep at most
        this many. Any other method: keep exactly this many. In place of what the method's settings
        have by default; if they name another, that is an error.
    keep, drop : collections of str
        Features never removed; columns left out altogether.
    weight, group, time : str, optional
        Columns of sample weights, of groups that stay together, of time order.
    constraints : Constraints, optional
        Groups of features of which some, or all or none, are kept; costs with a budget. Its
        `must_include` and `must_exclude` add to `keep` and `drop`. No feature may be in two groups.
        Methods choose the best features by their order that still fit; see `SelectionResult.costs`.
    alternatives : int or AlternativeSettings, optional
        Number of feature sets to find that differ from the chosen one and from each other, or
        settings of that search. Each is refitted and scored; nothing else depends on them.
    columns : ColumnSettings or mapping, optional
        What else columns are for, such as ``{"categorical": ["zip"], "drop_leaks": True}``: which
        are categories or numbers, your own parts, an embargo, and what becomes of leaks, of dates
        and of rows without a target; see `chaffinch.ColumnSettings`. `keep`, `drop`, `weight`,
        `group` and `time` may be named there as well. Whole numbers with leading zeros, such as
        00500, are categories unless named numeric.
    history : HistorySettings or mapping, optional
        In time order, features made of earlier rows, such as ``{"lags": (1, 7)}``; see
        `chaffinch.HistorySettings`. They are missing where the past does not reach that far back.
        New rows get them by `with_history`.
    cv : int, splitter of scikit-learn, or iterable of (train, test), optional
        Folds of the tuning, of ``"auto"`` and of ``"rfecv"``: their number,
        a splitter such as ``GroupKFold(5)``, or pairs of row numbers, at most 20. A splitter gets
        the target and the groups, and rows by number in the order of the table, so that one that
        goes by position gives other folds to rows in another order. ``"auto"`` takes only folds
        that hold out each row at most once. By default five folds: stratified, by group, or in time
        order.
    loss : str or scorer, optional
        ``"squared_error"``, ``"absolute_error"``, ``"log_loss"``, a scikit-learn scorer's name, or
        a scorer of your own by ``make_scorer``, which gets the classes by their own labels. Scores
        are negated. A run does not hold a scorer of your own: it is selected again by `select`
        only.
    tolerance : float in 0..1
        Share of what all features explain beyond a constant (R2 or explained deviance) that a
        smaller set may lose and still be as good.
    settings : mapping, optional
        What is rarely set, by name. ``"task"``: what the target is, ``"auto"``, ``"regression"`` or
        ``"classification"``. ``"baseline"``: what a masked feature is set to, ``"mean"``,
        ``"median"``, ``"minimum"``, ``"zero"``, or a mapping of values by feature, the others the
        mean.
        ``"shares"``: percent of the rows for training, mask validation, model validation and test,
        four whole numbers, in all 100. ``"search_rows"``: most rows outside the test part that
        tune and search, at least 1000; the final models are fitted on all.
        ``"mask_rows"``: most rows that masked losses are computed on. ``"price_columns"``: True
        to price each kept column by models fitted without it. ``"as_published"``: True for
        the form of the method's paper wherever a setting has our default and the two differ; the
        page of the method says where.
    seed : int in 0..2**32-1
        The only source of randomness.
    cluster : "none", "local", int, a scheduler's address or a client of Dask, optional
        What computes: local worker processes, one per core or as many as the number says, or the
        workers of a Dask scheduler, or of a client, which is left open. None is this process. The
        result does not depend on it.
    store : path or address, optional
        Folder, or ``"s3://bucket/prefix"``, that keeps datasets and runs, so that a killed run can
        resume. None keeps nothing.
    verbose : bool or callable, optional
        By default a progress bar in a terminal or a notebook, and nothing elsewhere. True: lines on
        standard error where there is no terminal. False: nothing. A function is called in place of
        the bar, with a stage's name, its items done, and their number in all.

    Returns
    -------
    SelectionResult

    Raises
    ------
    InputError
        If the table or a setting cannot be used. The message names the value and the remedy.

    Warns
    -----
    DataQualityWarning
        For each entry of the result's `warnings`, before training.

    Examples
    --------
    >>> import chaffinch
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> result = chaffinch.select(table, "target", n_features=5)
    >>> len(result.features) <= 5
    True
    """
    model, estimator = model_settings(model)
    model, folds = with_folds(model, cv)
    scorer = loss if is_scorer(loss) else None
    data, target = with_target(data, target)
    columns, limits = column_settings(
        columns, constraints, keep=keep, drop=drop, weight=weight, group=group, time=time
    )
    rare = rare_settings(settings, OF_SELECTIONS)
    as_published = rare.pop("as_published", False)
    if not isinstance(as_published, bool):
        raise InputError(f"as_published must be True or False but is {short_repr(as_published)}")
    run_settings = SelectionSettings(
        target=target,
        method=method_settings(method, n_features),
        model=model,
        columns=columns,
        constraints=limits,
        alternatives=alternatives_of(alternatives),
        history=history_settings(history),
        loss=name_of_loss(loss),
        tolerance=tolerance,
        seed=seed,
        **rare,
    )
    if as_published:
        run_settings = published_form(run_settings)
    masks_given = run_settings.method.traits.masks_given
    fitted = digest_of_fit(estimator) if masks_given else None
    custom = CustomObjects(estimator, folds, scorer, fitted=fitted)
    return selected(data, run_settings, custom, cluster, store, verbose)


def model_settings(model: str | ModelSettings | Any) -> tuple[ModelSettings, Any]:
    """Return a model's settings, and the user's estimator if there is any."""
    if isinstance(model, str):
        return ModelSettings(name=model), None
    if isinstance(model, ModelSettings):
        return model, None
    return ModelSettings(name=type(model).__name__, tuning="none"), model


def with_folds(model: ModelSettings, cv: Any) -> tuple[ModelSettings, Any]:
    """Return the settings of a model with the number of folds, and folds that are no number."""
    if is_whole(cv):
        by_default = ModelSettings.model_fields["folds"].default
        if model.folds not in (by_default, cv):
            raise InputError(
                f"cv is {cv}, but folds is {model.folds} in the settings of the model; give it once"
            )
        return ModelSettings(**{**model.model_dump(), "folds": cv}), None
    if cv is None or is_splitter(cv):
        return model, cv
    if isinstance(cv, Iterable) and not isinstance(cv, str | bytes):
        return model, list(cv)
    raise InputError(
        "cv must be a number of folds, a splitter of scikit-learn such as GroupKFold(5), or pairs "
        f"(train, test) of row numbers but is {short_repr(cv)}"
    )


def is_splitter(cv: Any) -> bool:
    return hasattr(cv, "split") and not isinstance(cv, str | bytes)


def selected(
    data: Any,
    settings: SelectionSettings,
    custom: CustomObjects,
    cluster: Any,
    store: str | Path | None,
    verbose: bool | OnProgress | None,
) -> SelectionResult:
    """Run the pipeline and return its result; the parameters are those of `select`."""
    execution = execution_settings(cluster, store)
    source = source_of(data)
    steps = steps_of(
        with_alternatives=settings.alternatives is not None,
        with_changes=settings.former is not None,
    )
    with shown(steps, verbose) as progress:
        options: dict[str, Any] = {"on_progress": progress, "warn": warn_of_data}
        options["custom"] = custom
        if store is None:
            run = select_in_memory(source, settings, execution, **options)
        else:
            kept = select_features(source, settings, execution, **options)
    if store is None:
        return result_in_memory(run, labels_of(data))
    own = () if custom.estimator is None else packages_of(custom.estimator)
    return load_result(kept, own, labels_of(data))
