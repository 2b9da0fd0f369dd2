"""Common parts of the flows: form fields, tasks, and the refusal of secrets in parameters.

Prefect stores the parameters of a run before it begins. An address with a password is therefore
refused earlier: by the form, which matches its pattern, and by the flow. Credentials come from the
environment, or from a Secret block of Prefect.
"""

# No `from __future__ import annotations` in flow modules: served runs could not resolve them.
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, cast

from prefect import Flow, runtime, task
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Completed
from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)

from chaffinch.errors import InputError
from chaffinch.flows.prefect_runtime.cancellation import ended_by_cancelling
from chaffinch.flows.prefect_runtime.logs import prepare_logs
from chaffinch.storage.datasets.written_table import write_table
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import Source, source_of
from chaffinch.storage.sources.addresses import SECRET
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.storage.sources.memory import MemorySource
from chaffinch.tasks.settings.base import refusal
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings
from chaffinch.tasks.settings.stage_titles import title_of

P = ParamSpec("P")
R = TypeVar("R")


def in_form(title: str, description: str | None = None) -> Any:
    """Return the annotation of a flow parameter for the UI form."""
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


def _as_text(value: Any, about: ValidationInfo) -> Any:
    """Return a path as text; refuse all but text, which would be stored and logged."""
    if isinstance(value, str | PurePath):
        return str(value)
    must, remedy = "a path or an address", "write a table in memory to Parquet"
    if about.field_name == "former":
        must, remedy = "the name or path of a run", "give a result to chaffinch.reselect"
    raise ValueError(
        f"{about.field_name} must be {must} but is of type {type(value).__name__}; {remedy}"
    )


def one_or_several(value: Any) -> Any:
    """Return a list; what is none is its only item, which is checked as such."""
    return value if isinstance(value, list | tuple) else [value]


# Form validation of a required text: not empty.
NAMED = {"type": "string", "minLength": 1, "pattern": r"\S"}
PathText = Annotated[str, BeforeValidator(_as_text)]
TablePath = Annotated[
    PathText,
    WithJsonSchema(
        NAMED
        | {
            "pattern": rf"^(?!{SECRET})\s*\S",
            "description": "The table: CSV or TSV (plain or .gz), Parquet file or folder of them, "
            "at its path on the machine that runs it or at s3://bucket/key, gs:// or "
            "abfss://; or postgresql://host/database#table, where a SELECT may stand in place of "
            "the table. Never with a password.",
        }
    ),
    in_form("Table"),
]


def name_in_title(data: str) -> str:
    """Return the name of a source's data set for a run's name: ``unnamed`` if it has none.

    Prefect needs the name before the flow begins, and an exception here crashes the run. The flow
    itself refuses an invalid source with a message.
    """
    try:
        name = shown_as(source_of(data))
    except InputError:
        return "unnamed"
    return name if name.strip() and name.isprintable() else "unnamed"


def shown_as(source: Source, promotion: PromotionSettings | None = None) -> str:
    """Return the name that a run and its artifacts have for its data set.

    That is the name of its promotions, if there is any, or the table's without its endings.
    """
    if promotion is not None and promotion.name:
        return promotion.name
    try:
        return name_of_table(source.name, "promotion.name: orders")
    except InputError:
        return source.name


def date_in_title() -> str:
    """Return the date on which the present flow run was to begin, on this machine's calendar."""
    return f"{runtime.flow_run.scheduled_start_time.astimezone():%Y-%m-%d}"


# First words of the run names that the form of Prefect's UI suggests, such as ``Tasty-Sushi``.
_OF_THE_FORM = {
    *("Awesome", "Rustic", "Small", "Gorgeous", "Fantastic", "Sleek", "Intelligent", "Unbranded"),
    *("Refined", "Licensed", "Generic", "Practical", "Ergonomic", "Handcrafted", "Tasty"),
    *("Handmade", "Incredible"),
}
_LONGEST_SECOND = 6  # characters


def _is_generated(name: str) -> bool:
    """Whether Prefect gave a run its name: its server, as ``calm-otter``, or the form of its UI."""
    from coolname.data import config

    first, _, second = name.partition("-")
    if first in _OF_THE_FORM and 0 < len(second) <= _LONGEST_SECOND:
        return True
    parts = cast(Mapping[str, Mapping[str, Any]], config).values()
    known = {word for part in parts for word in part.get("words", ())}
    words = name.split("-")
    return len(words) == 2 and known.issuperset(words)


# The final state of each flow run of this process that is about to end, by the run's id.
_concluded: dict[str, State[Any]] = {}


class TableFlow(Flow[P, R]):
    """A flow whose parameter ``data`` is a table or a list of tables."""

    if not TYPE_CHECKING:  # the overloads are those of Flow

        def __call__(
            self, *args: Any, return_state: bool = False, wait_for: Any = None, **parameters
        ):
            """Run the flow; InputError for a parameter that is missing or unknown."""
            try:
                bound = signature(self.fn).bind(*args, **parameters)
            except TypeError as error:
                raise InputError(f"{self.fn.__name__}: {error}; see its parameters") from None
            if "execution" in bound.signature.parameters:  # it has a store
                bound.arguments["data"] = self._written(bound.arguments)
            state = super().__call__(
                *bound.args, return_state=True, wait_for=wait_for, **bound.kwargs
            )
            concluded = _concluded.pop(str(state.state_details.flow_run_id), None)
            # a server that is told twice, since its first answer came late, answers without data
            if concluded is not None and state.is_completed() and state.data is None:
                state.data = concluded.data
            return state if return_state else state.result(_sync=True)

    def _written(self, parameters: Mapping[str, Any]) -> Any:
        """Return ``data`` with paths in place of tables in memory, which are written to the store.

        Prefect stores and logs parameters, so that rows must be none of them.
        """
        data = parameters["data"]
        tables = list(one_or_several(data))
        sources = {i: source for i, table in enumerate(tables) if (source := _in_memory(table))}
        if not sources:
            return data

        def with_paths(paths: Mapping[int, str]) -> Any:
            named = [paths.get(i, table) for i, table in enumerate(tables)]
            return named if isinstance(data, list | tuple) else named[0]

        any_path = with_paths(dict.fromkeys(sources, "table.arrow"))
        checked = self._checked({**parameters, "data": any_path})  # before any work
        store = Store.open(checked.get("execution", ExecutionSettings()).store)
        for source in sources.values():
            source.check()
        return with_paths({i: str(write_table(at, store.tables)) for i, at in sources.items()})

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as Prefect stores them; refuse tables and secrets before that."""
        checked = self._checked(parameters)
        data = checked.get("data")
        for source in data if isinstance(data, list) else [data]:
            if isinstance(source, str):
                source_of(source)  # refuses a secret
        return super().serialize_parameters(checked)

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with their types; Prefect would log the values of wrong ones."""
        return super().validate_parameters(self._checked(parameters))

    def _checked(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters with their types; InputError, in one line without rows of a table."""
        own = {name: value for name, value in parameters.items() if not _is_of_prefect(value)}
        kinds = {name: signature(self.fn).parameters[name].annotation for name in own}
        fields: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
        model = create_model("Parameters", **fields)
        try:
            checked = model(**own)
        except ValidationError as error:
            raise InputError(refusal(error, kinds)) from None
        return {**parameters, **{name: getattr(checked, name) for name in own}}


def _in_memory(value: Any) -> Source | None:
    """Return the source of what is neither a path nor an address, nor of Prefect."""
    if isinstance(value, str | PurePath) or _is_of_prefect(value):
        return None
    source = source_of(value)
    return source if isinstance(source, MemorySource) else None


def _is_of_prefect(value: Any) -> bool:
    """Return whether a parameter is the result of a task to come, or names a block."""
    return isinstance(value, PrefectFuture | State) or (isinstance(value, dict) and "$ref" in value)


def table_flow(
    name: str,
    description: str,
    title: Callable[[Mapping[str, Any]], str],
    summary_line: Callable[[R], str],
) -> Callable[[Callable[P, R]], TableFlow[P, R]]:
    """Return a decorator that makes a `TableFlow` of a function.

    A run's name is `title` of its parameters and the date; the message of its completed state is
    `summary_line` of its result.
    """

    def decorate(function: Callable[P, R]) -> TableFlow[P, R]:
        @wraps(function)
        def concluded(*args: P.args, **kwargs: P.kwargs) -> R:
            prepare_logs()
            result = function(*args, **kwargs)
            # returned as the flow's own state, whose data calling the flow returns
            state = (
                result  # a final state of the function's own
                if isinstance(result, State)
                else Completed(message=summary_line(result), data=result)
            )
            _concluded[str(runtime.flow_run.id)] = state
            return cast(R, state)

        def run_name() -> str:
            name = str(runtime.flow_run.name)
            if not _is_generated(name):  # a person has named the run
                return name
            return f"{title(runtime.flow_run.parameters)} {date_in_title()}"

        return TableFlow(
            ended_by_cancelling(concluded),
            name=name,
            description=description,
            flow_run_name=run_name,
            validate_parameters=True,
            persist_result=False,
        )

    return decorate


def from_block(variable: str) -> str | None:
    """Return the value of the Secret block for a variable, if there is any.

    Block names have small letters and dashes: ``AWS_SECRET_ACCESS_KEY`` is stored in
    ``aws-secret-access-key``, and ``PGPASSWORD`` in ``pgpassword``.
    """
    try:
        block = cast(Secret[Any], Secret.load(variable.lower().replace("_", "-")))
    except ValueError:
        return None
    return str(block.get())


# The last completed task of a flow run, by the run's id.
_last_task: ContextVar[tuple[str, State[Any]] | None] = ContextVar("last_task", default=None)


def as_task(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a plain step as a Prefect task, after the last task of its flow.

    Not cached by Prefect: a step stores its finished work in the run's folder, verified by
    content hash, where every entry point finds it.
    """
    name = title_of(step.__name__)
    make_task = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)

    def in_line(*arguments: Any, **options: Any) -> Any:
        # Without parameters, which Prefect would search for results of other tasks: the graph
        # shows the line that the steps are.
        def bound() -> Any:
            return step(*arguments, **options)

        flow_run, last = str(runtime.flow_run.id), _last_task.get()
        before = [last[1]] if last is not None and last[0] == flow_run else []
        state = make_task(bound)(return_state=True, wait_for=before)
        if state.is_completed():
            _last_task.set((flow_run, state))
        return state.result()

    return in_line
