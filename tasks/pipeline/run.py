"""The pipeline of a run: from a table to the selected features and a retrained model.

`chaffinch.select` calls the steps as plain functions; the Prefect flow passes a `wrap_step` that
makes each step a task.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chaffinch.errors import InputError, UnreachableError, as_input_error
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.extras import require
from chaffinch.storage.memory import free_memory
from chaffinch.storage.runs.decisions import note_open
from chaffinch.storage.runs.refusals import forget_refusal, noting_refusals
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.source import Source
from chaffinch.tasks.data.reselection_fit import with_hints_for
from chaffinch.tasks.data.splitting.custom_folds import custom_folds
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.methods.alternatives import MODEL_GAIN
from chaffinch.tasks.methods.fitting import loss_of, recipe_of
from chaffinch.tasks.pipeline.alternatives import score_alternatives, search_alternatives
from chaffinch.tasks.pipeline.certification import check_certified
from chaffinch.tasks.pipeline.evaluation import evaluate, retrain
from chaffinch.tasks.pipeline.ingestion import (
    describe,
    ingest,
    split,
)
from chaffinch.tasks.pipeline.memory import (
    needed_memory,
    workers_for,
    workers_that_ingest,
    workers_that_read,
)
from chaffinch.tasks.pipeline.progress import (
    OnProgress,
    Warn,
    as_progress,
    no_progress,
    no_warnings,
)
from chaffinch.tasks.pipeline.progress.estimate import TimeEstimate, seconds_of_fits
from chaffinch.tasks.pipeline.report import write_report
from chaffinch.tasks.pipeline.reselection_changes import judge_changes
from chaffinch.tasks.pipeline.search import choose_mask, optimise_mask, train_base_model
from chaffinch.tasks.pipeline.selection_run import SelectionRun, StageResults
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.baselines.importances import check_importances
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.losses import Loss, check_loss
from chaffinch.tasks.settings.identity import NO_CUSTOM_OBJECTS, CustomObjects, identity, versions
from chaffinch.tasks.settings.method import Method, method_of
from chaffinch.tasks.settings.selection import (
    ExecutionSettings,
    ModelSettings,
    SelectionSettings,
)
from chaffinch.tasks.warnings import refuse_warnings
from chaffinch.tasks.workers.logging import logging_about

logger = logging.getLogger(__name__)

WrapStep = Callable[[Callable[..., Any]], Callable[..., Any]]


def _unwrapped(step: Callable[..., Any]) -> Callable[..., Any]:
    return step


def select_features(
    source: Source,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    wrap_step: WrapStep = _unwrapped,
    on_progress: OnProgress = no_progress,
    warn: Warn = no_warnings,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
    promoted_as: str | None = None,
    notes_decision: bool = False,
) -> Run:
    """Run the pipeline, or its unfinished steps, in a store, and return the finished run.

    The callable that `wrap_step` returns for a step is called in its place. `warn` is called with
    the data-quality warnings before training. `custom` are objects instead of what the settings
    name. `promoted_as` is the name of the promoted contract that the report compares with; by
    default that of the table. With `notes_decision` the caller notes afterwards whether a person
    has to decide.
    """
    with (
        noting_refusals(execution.store, source, promoted_as),
        _open_run(source, settings, execution, wrap_step, on_progress, custom) as run,
    ):
        run.promoted_as = promoted_as
        forget_refusal(execution.store, source, promoted_as)
        warn(run.description.warnings)
        _finish(run, wrap_step, notes_decision=notes_decision)
    return Store.open(execution.store).run(run.name)


def select_at(
    run: Run,
    n_features: int,
    execution: ExecutionSettings,
    *,
    on_progress: OnProgress = no_progress,
    warn: Warn = no_warnings,
    notes_decision: bool = False,
) -> Run:
    """Run the pipeline on the rows of a finished run of `auto`, with so many features exactly.

    The hyper-parameters are those that the run has tuned. Raises InputError if the number of
    features does not fit, or the run cannot be followed.
    """
    before, store = SelectionSettings(**run.description["settings"]), Store.of(run.folder)
    again = f"select again, with n_features={n_features}"
    at_most = ", which keeps at most so many" if before.method.traits.limits_size else ""
    if before.method.kind != "auto":
        raise InputError(
            f"run {run.name!r} is of method {before.method.kind}, not auto; {again}{at_most}"
        )
    stages = StageResults(run.name, run.records())
    if "write_report" not in stages.records:
        raise InputError(f"run {run.name!r} is not finished; run it again to continue it")
    tuned = stages.result("train_base_model")["parameters"]
    exact = {"n_features": n_features, "exactly": True, "within_one_standard_error": False}
    settings = before.model_copy(
        update={
            "method": method_of({**before.method.model_dump(), **exact}),
            "model": before.model.model_copy(update={"parameters": tuned, "tuning": "none"}),
            "alternatives": None,
        }
    )
    progress = as_progress(on_progress)
    with progress.stage("ingest"):
        dataset = Dataset.open(store.datasets, run.description["dataset"])
    source = run.description["source"]
    custom = CustomObjects(folds=stages.custom_folds)
    named = run_name(source, before, dataset, custom)
    if may_be_own_estimator(before.model) and run.name != named:
        raise InputError(
            f"run {run.name!r} may be of an estimator of your own, which a run does not hold; "
            f"{again} and exactly=true of method auto"
        )
    with _run_on(
        dataset, source, settings, execution, store, progress=progress, custom=custom
    ) as at:
        warn(at.description.warnings)
        _finish(at, _unwrapped, notes_decision=notes_decision)
    return store.run(at.name)


def select_in_memory(
    source: Source,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    on_progress: OnProgress = no_progress,
    warn: Warn = no_warnings,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
) -> SelectionRun:
    """Run the pipeline without a store, and return the finished run; see `select_features`."""
    with _open_run(
        source, settings, execution, _unwrapped, on_progress, custom, in_memory=True
    ) as run:
        warn(run.description.warnings)
        _finish(run, _unwrapped)
    return run


def check(
    source: Source,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    on_progress: OnProgress = no_progress,
) -> tuple[str, ...]:
    """Check the inputs of a run before training, and return the data-quality warnings.

    The first two steps, ingestion and description, are run and recorded for the run itself.
    """
    with _open_run(source, settings, execution, _unwrapped, on_progress) as run:
        return run.description.warnings


@dataclass(frozen=True)
class Preflight:
    """What is known of a run before it begins."""

    description: TableDescription
    rows_by_part: Mapping[str, int]
    n_units: int  # rows, groups or blocks of time of the part that judges
    bytes_needed: float
    bytes_free: int
    seconds_of_fits: float | None  # None if the number of fits is not known


def preflight(
    source: Source,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    is_timed: bool = True,
) -> Preflight:
    """Check the inputs of a run, and estimate what it needs; nothing is stored."""
    free = free_memory()  # before the check uses memory
    with _open_run(source, settings, execution, _unwrapped, no_progress, in_memory=True) as run:
        split(run)
        check_certified(run)
        shape = run.dataset.n_rows, len(run.dataset.columns)
        rows = run.records["split"].result["rows"]
        n_units = int(run.units("test" if rows.get("test") else "train").max()) + 1
        seconds = seconds_of_fits(run) if is_timed else None
        needed = needed_memory(*shape, settings)
        return Preflight(run.description, rows, n_units, needed, free, seconds)


def _finish(run: SelectionRun, wrap_step: WrapStep, *, notes_decision: bool = False) -> None:
    steps = [split, train_base_model, optimise_mask, choose_mask, retrain, evaluate]
    if run.settings.former is not None:
        steps += [judge_changes]
    if run.settings.alternatives is not None:
        steps += [search_alternatives, score_alternatives]
    time_estimate = TimeEstimate(run)
    for step in [*steps, write_report]:
        if notes_decision and step is write_report and run.stored is not None:
            note_open(run.stored)
        wrap_step(step)(run)
        if step is split:
            check_certified(run)
        if run.progress.wants_estimate and (estimate := time_estimate.after(step.__name__)):
            run.progress.expect(*estimate)


@contextmanager
def _open_run(
    source: Source,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    wrap_step: WrapStep,
    on_progress: OnProgress,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
    *,
    in_memory: bool = False,
) -> Iterator[SelectionRun]:
    """Ingest, check and describe a table, and yield its run, in the store or in memory."""
    with ExitStack() as opened:
        opened.enter_context(with_hints_for(settings))
        source.check()
        check_settings(settings, custom)
        store = None if in_memory else Store.open(execution.store)
        if store is None:
            temporary = opened.enter_context(TemporaryDirectory(prefix="chaffinch-"))
        datasets = Path(temporary) if store is None else store.datasets
        progress = as_progress(on_progress)
        with progress.stage("ingest"):
            open_workers = workers_that_ingest(execution)
            dataset = wrap_step(ingest)(source, settings, datasets, progress, open_workers)
        if custom.cv is not None:
            folds = custom_folds(custom.cv, dataset, settings)
            custom = replace(custom, folds=folds)
            model = settings.model.model_copy(update={"folds": len(folds)})
            settings = settings.model_copy(update={"model": model})
        yield opened.enter_context(
            _run_on(dataset, source.name, settings, execution, store, wrap_step, progress, custom)
        )


@contextmanager
def _run_on(
    dataset: Dataset,
    source: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    store: Store | None,
    wrap_step: WrapStep = _unwrapped,
    progress: OnProgress = no_progress,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
) -> Iterator[SelectionRun]:
    """Check and describe a dataset of a source by name, and yield its run."""
    with ExitStack() as opened:
        name = run_name(source, settings, dataset, custom)
        opened.enter_context(logging_about(run=name, dataset=dataset.hash[:16]))
        stored = None if store is None else store.run(name)
        if stored is not None:
            opened.enter_context(stored.lock())
        run = SelectionRun(
            settings,
            dataset,
            name=name,
            stored=stored,
            store=store,
            on_progress=progress,
            custom=custom,
        )
        run.settings_file, run.source = execution.settings_file, source
        if run.is_in_files:
            logger.info("rows are held in files, as memory is short for them")
        if run.is_in_files:
            workers = workers_that_read(dataset, execution)
        else:
            workers = workers_for(execution, [dataset])
        run.workers = opened.enter_context(workers)
        wrap_step(describe)(run)
        check_fit(settings, run.schema, custom.estimator, run.loss)
        if stored is not None and not stored.exists:
            stored.describe(
                {
                    "source": source,
                    "dataset": dataset.hash,
                    "settings": settings.model_dump(mode="json"),
                    "versions": versions(),
                }
            )
        try:
            refuse_warnings(run.description.warnings, strict=execution.strict)
            if stored is not None:
                stored.note_refusal("")  # of an earlier call
            yield run
        except UnreachableError:  # it may answer later
            raise
        except InputError as error:
            if stored is not None:
                stored.note_refusal(str(error))
            raise


def may_be_own_estimator(model: ModelSettings) -> bool:
    """Return whether the model may be a user's estimator rather than a model's name."""
    return model.tuning == "none" and model.name not in models.MODELS


def check_settings(settings: SelectionSettings, custom: CustomObjects = NO_CUSTOM_OBJECTS) -> None:
    """Raise InputError for an invalid model, loss or method, independent of the table."""
    settings.method.check_machine()
    require(models.kind_of(settings.model.name).package, f"model {settings.model.name}")
    if settings.alternatives is not None and settings.alternatives.search == "simultaneous":
        require("ortools", "search simultaneous")
    model, task = settings.model, None if settings.task == "auto" else settings.task
    with as_input_error():
        check_loss(settings.loss if custom.scorer is None else custom.scorer)
        if custom.estimator is not None:
            models.check_estimator(custom.estimator, task)
            return
        models.check_model(model.name, task, model.parameters)
        _check_goes_with(model, settings.method)
        # raises where the paper has none
        models.parameter_grid(model.name, model.tuning, task or "regression", n_rows=1)


def _check_goes_with(model: ModelSettings, method: Method) -> None:
    """Raise InputError for a model of another method, or with a parameter that the method sets."""
    of_method = models.kind_of(model.name).of_method
    if of_method is None:
        return
    if method.kind != of_method:
        raise InputError(
            f"model {model.name} is trained by method {of_method}, but the method is "
            f"{method.kind}; take method {of_method}, or another model such as mlp"
        )
    both = sorted(set(model.parameters) & set(method.model_parameters))
    if both:
        raise InputError(
            f"model {model.name} takes {both[0]} from method {of_method}; set it there instead"
        )


def check_fit(
    settings: SelectionSettings, schema: Schema, estimator: Any = None, loss: Loss | None = None
) -> None:
    """Raise InputError for a model or loss that does not fit the target, weights or method."""
    model, weighted = settings.model, settings.columns.weight is not None
    with as_input_error():
        if loss is None:
            loss_of(settings, schema)
        if estimator is not None:
            models.check_estimator(estimator, schema.task, weighted=weighted)
        else:
            models.check_model(model.name, schema.task, model.parameters, weighted=weighted)
        fit = recipe_of(settings, estimator).fit
        settings.method.check_model(model.name, model.parameters, schema.n_classes, fit)
        if settings.alternatives is not None and settings.alternatives.quality == "model_gain":
            check_importances(model.name, schema.n_classes, fit, MODEL_GAIN)


def run_name(
    source: str,
    settings: SelectionSettings,
    dataset: Dataset,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
) -> str:
    """Return the name of the run: source, method and model, then a hash.

    Equal rows, settings and versions have the same name, so that a killed run can be resumed.
    """
    words = [source.split(".")[0], settings.method.name, settings.model.name]
    readable = "-".join(re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")[:30] for word in words)
    return f"{readable}-{identity(settings, dataset.hash, custom)[:10]}"
