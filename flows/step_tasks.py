"""Steps as Prefect tasks, and log lines: how the UI shows what a flow does one after the other."""

import logging
from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from chaffinch.flows.lines_of_prefect import say_in_lines
from chaffinch.tasks.log_context import ContextFilter

_in_context = ContextFilter()


def as_task(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Prefect task around a plain step.

    Not cached by Prefect: a step keeps its own finished work in the run's folder, verified by
    content hash, where every door to the story finds it again.
    """
    name = step.__name__.replace("_", "-")
    make_task = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    return make_task(step)


def prepare_logs() -> None:
    """Let log lines go to the server, with their run, stage and data set in front.

    What Prefect logs of a server that has gone is in lines as well.
    """
    say_in_lines()
    log = logging.getLogger("chaffinch")
    for handler in log.handlers:
        handler.addFilter(_in_context)
    if log.handlers and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
