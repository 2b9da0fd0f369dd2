"""What all flows of tables share: how their form reads, and that no secret of it reaches Prefect.

Prefect records the parameters of a run before it begins, and for good. So an address that holds a
password is refused before that: by the form, which knows what it looks like, and by the flow.
Credentials come from the environment, or from a Secret block of Prefect.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
import logging
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar, cast

from prefect import Flow, task
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE
from pydantic import Field, WithJsonSchema

from chaffinch.flows.prefect_runtime.cancellation import ended_by_cancelling
from chaffinch.flows.prefect_runtime.log_lines import say_in_lines
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import SECRET
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings
from chaffinch.tasks.workers.logging import ContextFilter

P = ParamSpec("P")
R = TypeVar("R")


def in_form(title: str, description: str | None = None) -> Any:
    """Return what a parameter of a flow is annotated with for the form in the UI."""
    words: dict[str, Any] = {"title": title}
    return Field(json_schema_extra=words | ({"description": description} if description else {}))


ExecutionForm = Annotated[ExecutionSettings, in_form("Execution")]
PromotionForm = Annotated[
    PromotionSettings | None,
    in_form(
        "Promotion",
        "The gate that the contract meets. By default there is none: the run is compared with what "
        "is promoted of its table, and nothing is promoted.",
    ),
]
LimitsForm = Annotated[
    LimitSettings | None,
    in_form("Limits", "Tries, time, and turns among runs of one data set. By default none."),
]
# What the form of itself can say of a text that must name something: it is not empty.
NAMED = {"type": "string", "minLength": 1, "pattern": r"\S"}
NamedText = Annotated[str, WithJsonSchema(NAMED)]
TablePath = Annotated[
    str,
    WithJsonSchema(
        NAMED
        | {
            "pattern": rf"^(?!{SECRET})\s*\S",
            "description": "The table: CSV or TSV (plain or .gz), Parquet file or folder of them, "
            "at its path on the machine that runs it or at s3://bucket/key; or "
            "postgresql://host/database#table, where a SELECT may stand in place of the table. "
            "Never with a password.",
        }
    ),
    in_form("Table"),
]


def name_in_title(source: str) -> str:
    """Return what the name of a run calls a source: its name, or ``unnamed`` if it can have none.

    Prefect asks for the name before the flow begins, and what is raised there crashes the run: it
    is for the flow to refuse a source, and to say why.
    """
    try:
        name = source_of(source).name
    except InputError:
        return "unnamed"
    return name if name.strip() and name.isprintable() else "unnamed"


class TableFlow(Flow[P, R]):
    """A flow whose parameter ``data`` is a table, or several."""

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as Prefect records them."""
        data = parameters.get("data")
        for source in data if isinstance(data, list) else [data]:
            if isinstance(source, str):
                source_of(source)  # refuses a secret
        return super().serialize_parameters(parameters)


def table_flow(
    name: str, description: str, title: Callable[[], str]
) -> Callable[[Callable[P, R]], TableFlow[P, R]]:
    """Return a decorator that makes such a flow of a function."""

    def decorate(function: Callable[P, R]) -> TableFlow[P, R]:
        return TableFlow(
            ended_by_cancelling(function),
            name=name,
            description=description,
            flow_run_name=title,
            validate_parameters=True,
            persist_result=False,
        )

    return decorate


def from_block(variable: str) -> str | None:
    """Return the value of the Secret block that is named as a variable, if there is one.

    A block's name has small letters and dashes: ``AWS_SECRET_ACCESS_KEY`` is kept in
    ``aws-secret-access-key``, and ``PGPASSWORD`` in ``pgpassword``.
    """
    try:
        block = cast(Secret[Any], Secret.load(variable.lower().replace("_", "-")))
    except ValueError:
        return None
    return str(block.get())


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
