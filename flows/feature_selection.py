"""The feature-selection flow: ingest, train, optimise the mask, retrain, report.

The steps are told once, in `chaffinch.tasks.story`; here each becomes a Prefect task, so that a
person sees them in the UI, with progress and the result as artifacts.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE

from chaffinch.flows.artifacts import ProgressArtifact, publish
from chaffinch.flows.table_flow import TablePath, from_block, table_flow
from chaffinch.storage.credentials import looked_up_too
from chaffinch.storage.sources import source_name
from chaffinch.tasks.log_context import ContextFilter
from chaffinch.tasks.result import SelectionResult, load_result
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings
from chaffinch.tasks.steps import steps_of
from chaffinch.tasks.story import select_features

_in_context = ContextFilter()


def run_title() -> str:
    """Return the name of the present flow run: its table, method and model."""
    parameters = runtime.flow_run.parameters
    settings = parameters["settings"]
    return f"{source_name(parameters['data'])} {settings.method.kind} {settings.model.name}"


@table_flow(
    name="feature-selection",
    description="A table in; the features worth keeping, a model retrained on them, a report out.",
    title=run_title,
)
def feature_selection(
    data: TablePath,
    settings: SelectionSettings,
    execution: ExecutionSettings = ExecutionSettings(),  # noqa: B008 - frozen
) -> SelectionResult:
    """Select the features of a table that are worth keeping, and retrain a model on them.

    Parameters
    ----------
    data : str
        Path or address; see `chaffinch.select`.
    settings : SelectionSettings
        Everything that can change the result.
    execution : ExecutionSettings
        Store, cluster and workers.

    Returns
    -------
    SelectionResult
        The same as `chaffinch.select` gives.

    Raises
    ------
    InputError
        If the table or a setting cannot be used.
    """
    say_where()
    with looked_up_too(from_block):
        run = select_features(
            data,
            settings,
            execution,
            through=as_task,
            on_progress=ProgressArtifact(
                steps=steps_of(
                    with_alternatives=settings.alternatives is not None,
                    with_changes=settings.method.kind == "reselect",
                )
            ),
        )
    result = load_result(run)
    publish(result)
    return result


def say_where() -> None:
    """Let log lines go to the server, with their run, stage and data set in front."""
    log = logging.getLogger("chaffinch")
    for handler in log.handlers:
        handler.addFilter(_in_context)
    if log.handlers and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


@cache
def as_task(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Prefect task around a plain step.

    Not cached by Prefect: a step keeps its own finished work in the run's folder, verified by
    content hash, where every door to the story finds it again.
    """
    name = step.__name__.replace("_", "-")
    make_task = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    return make_task(step)
