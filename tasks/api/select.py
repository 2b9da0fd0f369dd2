"""`chaffinch.select`: a selection as one Python call, without Prefect or a server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.column_names import Labels
from chaffinch.storage.sources import source_of
from chaffinch.tasks.api.arrays import with_target
from chaffinch.tasks.pipeline.progress import OnProgress, steps_of
from chaffinch.tasks.pipeline.progress_display import shown
from chaffinch.tasks.pipeline.run import select_features, select_in_memory
from chaffinch.tasks.results.result import SelectionResult, load_result, result_in_memory
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.input_checks import is_whole
from chaffinch.tasks.selection.losses import is_scorer, name_of_loss
from chaffinch.tasks.selection.models import packages_of
from chaffinch.tasks.settings.alternatives import AlternativeSettings, alternatives_of
from chaffinch.tasks.settings.base import listed
from chaffinch.tasks.settings.columns import ColumnSettings, HistorySettings
from chaffinch.tasks.settings.identity import CustomObjects
from chaffinch.tasks.settings.method import PERCENT, Method, method_settings
from chaffinch.tasks.settings.selection import (
    MASK_ROWS,
    TOLERANCE,
    Baseline,
    ExecutionSettings,
    ModelSettings,
    SelectionSettings,
    TaskOrAuto,
)
from chaffinch.tasks.warnings import warn_of_data


def select(
    data: Any,
    target: Any,
    *,
    method: str | Method = "auto",
    model: str | ModelSettings | Any = "lightgbm",
    n_features: int | None = None,
    min_score: float | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    constraints: Constraints | None = None,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    split: str | None = None,
    embargo: str | float | None = None,
    drop_leaks: bool = False,
    drop_rows_without_target: bool = False,
    dates: Literal["none", "parts"] = "none",
    alternatives: int | AlternativeSettings | None = None,
    lags: Collection[int] = (),
    rolling: Collection[int] = (),
    history_columns: Collection[str] = (),
    series: str | None = None,
    shares: tuple[int, int, int, int] = PERCENT,
    cv: Any = None,
    task: TaskOrAuto = "auto",
    loss: Any = None,
    baseline: Baseline = "mean",
    tolerance: float = TOLERANCE,
    mask_rows: int = MASK_ROWS,
    seed: int = 0,
    cluster: str | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    verbose: bool | None = None,
    on_progress: OnProgress | None = None,
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
    method : str, mapping, or settings such as Gbmo, AfsBm, RobustElimination or Rfecv
        ``"auto"`` uses every row to train, order and judge in turn, and finds the number of
        features by itself. Methods of the papers: ``"gbmo"`` finds the number too, and so does
        ``"afs_bm"``, which trains and masks in turn; ``"flbmo"`` keeps a fixed number;
        ``"robust_elimination"`` judges by models, one for each fold, that have seen masked rows,
        and ``"pefs"`` trains a network of its own and the probability of each feature: both find
        the number unless it is given. To compare with: ``"correlation"``, ``"anova_f"``,
        ``"mutual_information"``, ``"mrmr"``, ``"relieff"``, ``"fcbf"``, ``"jmi"``,
        ``"cmim"``, ``"lasso"``, ``"elastic_net"``, ``"select_from_model"``, ``"permutation"``,
        ``"tree_shap"``, ``"mission"`` and ``"dfs"`` rank the features once and keep the best;
        ``"rfe"``, ``"rfecv"``, ``"sequential_forward"``, ``"sequential_backward"``, ``"boruta"``
        and ``"particle_swarm"`` refit the model as they search.
    model : str, ModelSettings or estimator
        ``"lightgbm"``, ``"xgboost"``, ``"mlp"``, ``"linear"``, the name of a scikit-learn
        estimator, or an unfitted estimator of your own, which is cloned and not tuned. One that
        takes no missing values, such as Lasso, is fitted on standardised numbers, with the mean for
        a missing one; trees and forests that take them get the numbers as they are.
    n_features : int, optional
        ``"auto"``, GBMO, AFS-BM, ``"rfecv"``, ``"boruta"`` and ``"particle_swarm"``: keep at most
        this many. Any other method: keep exactly this many. In place of what the method's settings
        have by default; if they name another, that is an error.
    min_score : float, optional
        A ranking, in place of a number: keep the features whose score is at least this, in the
        ranking's own unit; those on the keep list in any case.
    keep, drop : collections of str
        Features never removed; columns left out altogether.
    constraints : Constraints, optional
        Groups of features of which some, or all or none, are kept; costs with a budget. Its
        `must_include` and `must_exclude` add to `keep` and `drop`. No feature may be in two groups.
        Methods choose the best features by their order that still fit; see `SelectionResult.costs`.
    categorical, numeric : collections of str
        Columns of numbers that are categories, kept as they are written; columns that must be
        numbers. Whole numbers with leading zeros, such as 00500, are categories unless numeric.
    weight, group, time : str, optional
        Columns of sample weights, of groups that stay together, of time order.
    split : str, optional
        Column with your own parts: the words train, validation and test. The verdict comes from the
        test rows.
    embargo : str or float, optional
        Time that must lie between rows to fit on and later rows that judge, such as ``"7 days"``,
        or a number in the unit of the time column.
    drop_leaks : bool
        Whether features are left out that predict the target, or one of its classes, without the
        others.
    drop_rows_without_target : bool
        Whether rows whose target is missing are left out, rather than refused. The contract says
        how many.
    dates : "none" or "parts"
        What becomes of columns of dates. ``"parts"``: the year, month, day of week and hour are
        features, named as in ``signup_month``, where they vary, and so are sine and cosine of the
        cyclical ones. The model and `SelectionResult.transform` make them of new rows. A column
        with a role, such as the time, has no parts. ``"none"``: dates are left out.
    alternatives : int or AlternativeSettings, optional
        Number of feature sets to find that differ from the chosen one and from each other, or
        settings of that search. Each is refitted and scored; nothing else depends on them.
    lags, rolling : collections of int
        In time order, features made of earlier rows: the value so many rows before, the mean and
        deviation of so many rows before; missing where the past does not reach that far back. New
        rows get them by `with_history`.
    history_columns : collection of str
        Columns of numbers that these are made of; by default the target.
    series : str, optional
        Column that names the series of a row; no series uses the past of another.
    shares : four whole percents, in all 100
        Percent of the rows for training, mask validation, model validation and test.
    cv : int, splitter of scikit-learn, or iterable of (train, test), optional
        Folds of the tuning, of ``"auto"``, ``"rfecv"`` and ``"robust_elimination"``: their number,
        a splitter such as ``GroupKFold(5)``, or pairs of row numbers, at most 20. A splitter gets
        the target and the groups, and rows by number in the order of the table, so that one that
        goes by position gives other folds to rows in another order. ``"auto"`` takes only folds
        that hold out each row at most once. By default five folds: stratified, by group, or in time
        order.
    task : "auto", "regression" or "classification"
        What the target is.
    loss : str or scorer, optional
        ``"squared_error"``, ``"absolute_error"``, ``"log_loss"``, a scikit-learn scorer's name, or
        a scorer of your own by ``make_scorer``, which gets the classes by their own labels. Scores
        are negated. A run does not hold a scorer of your own: it is selected again by `select`
        only.
    baseline : "mean", "median", "zero" or mapping
        What a masked feature is set to; a mapping gives values by feature, the others the mean.
    tolerance : float in 0..1
        Share of what all features explain beyond a constant (R2 or explained deviance) that a
        smaller set may lose and still be as good.
    mask_rows : int
        Most rows that masked losses are computed on.
    seed : int in 0..2**32-1
        The only source of randomness.
    cluster : "none", "local" or a scheduler's address, optional
        What computes; None is this process. The result does not depend on it.
    workers : int, optional
        Processes of a local cluster; by default one per core.
    store : path, optional
        Folder that keeps datasets and runs, so that a killed run can resume. None keeps nothing.
    verbose : bool, optional
        By default a progress bar in a terminal or a notebook, and nothing elsewhere. True: lines on
        standard error where there is no terminal. False: nothing.
    on_progress : callable, optional
        Called with a stage's name, its items done, and their number in all, in place of the bar.

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
    as_text, texts = naming(data)
    to_keep, to_drop, limits = named_constraints(constraints, as_text)
    settings = SelectionSettings(
        target=as_text(target),
        method=method_settings(method, n_features, min_score),
        model=model,
        columns=ColumnSettings(
            keep=(*texts("keep", keep), *to_keep),
            drop=(*texts("drop", drop), *to_drop),
            categorical=texts("categorical", categorical),
            numeric=texts("numeric", numeric),
            weight=as_text(weight),
            group=as_text(group),
            time=as_text(time),
            split=as_text(split),
            embargo=embargo,
            drop_leaks=drop_leaks,
            drop_rows_without_target=drop_rows_without_target,
            dates=dates,
        ),
        constraints=limits,
        alternatives=alternatives_of(alternatives),
        task=task,
        loss=name_of_loss(loss),
        baseline=baseline,
        seed=seed,
        history=_history(
            listed("lags", lags),
            listed("rolling", rolling),
            texts("history_columns", history_columns),
            as_text(series),
        ),
        shares=shares,
        tolerance=tolerance,
        mask_rows=mask_rows,
    )
    custom = CustomObjects(estimator, folds, scorer)
    return selected(data, settings, custom, cluster, workers, store, verbose, on_progress)


def _history(
    lags: tuple[int, ...],
    rolling: tuple[int, ...],
    columns: tuple[str, ...],
    series: str | None,
) -> HistorySettings | None:
    """Return the settings of lag features; None if none are requested."""
    if not (lags or rolling or columns) and series is None:
        return None
    return HistorySettings(lags=lags, rolling=rolling, columns=columns, series=series)


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
    cluster: str | None,
    workers: int | None,
    store: str | Path | None,
    verbose: bool | None,
    on_progress: OnProgress | None,
) -> SelectionResult:
    """Run the pipeline and return its result; the parameters are those of `select`."""
    where: dict[str, Any] = {} if store is None else {"store": store}
    cluster = "none" if cluster is None else cluster
    execution = ExecutionSettings(cluster=cluster, workers=workers, **where)
    source = source_of(data)
    steps = steps_of(
        with_alternatives=settings.alternatives is not None,
        with_changes=settings.former is not None,
    )
    with shown(steps, verbose, on_progress) as progress:
        options: dict[str, Any] = {"on_progress": progress, "warn": warn_of_data}
        options["custom"] = custom
        if store is None:
            run = select_in_memory(source, settings, execution, **options)
        else:
            kept = select_features(source, settings, execution, **options)
    if store is None:
        return result_in_memory(run, Labels(data))
    own = () if custom.estimator is None else packages_of(custom.estimator)
    return load_result(kept, own, Labels(data))


def naming(*tables: Any) -> tuple[Callable[[Any], Any], Callable[[str, Any], tuple[Any, ...]]]:
    """Return functions from a column's label, and from a list of labels for a role, to text."""
    labels = Labels(*tables)

    def texts(role: str, names: Any) -> tuple[Any, ...]:
        return tuple(map(labels.as_text, listed(role, names, "a list of column names")))

    return labels.as_text, texts


def named_constraints(
    constraints: Any, name_of: Callable[[Any], Any]
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
