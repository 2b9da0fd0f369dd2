"""Deployments that a process serves: on demand from the UI, every night, and on new data."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast
from zoneinfo import available_timezones

import click
import httpx
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    DeploymentStatus,
)
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger, Event, Resource
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType

from chaffinch.errors import InputError
from chaffinch.flows.comparison import comparison
from chaffinch.flows.feature_selection import feature_selection
from chaffinch.flows.prefect_runtime.events import resource_of, send, server_url
from chaffinch.flows.prefect_runtime.internals import dates_of_cron
from chaffinch.flows.prefect_runtime.reports import reports_served
from chaffinch.flows.prefect_runtime.server import ServerError, unauthorized
from chaffinch.flows.prefect_runtime.tasks import from_block
from chaffinch.flows.reselection import reselection
from chaffinch.flows.serving.automations import TAG, make_missing
from chaffinch.flows.serving.runner import serve_until_stopped
from chaffinch.storage.column_names import check_known, nearest
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import Source, source_of
from chaffinch.storage.sources.addresses import extra_credentials
from chaffinch.storage.sources.data_set_name import name_of_data_set
from chaffinch.tasks.pipeline.run import check_settings
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings, ServeSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

NEW_DATA = "chaffinch.new-data"
NAMED = "--name orders"


def announce(data: str, name: str | None = None) -> str:
    """Announce new data to the Prefect server; return as what, in words.

    ServerError if no run starts.
    """
    source = source_of(data)
    source.check()
    name = name_of_data_set(source, name, NAMED)
    resource = resource_of(name)
    if server_url() is None:
        raise InputError(
            "new data are announced to a Prefect server: set PREFECT_API_URL to the one that the "
            "deployments are served from"
        )
    send(
        Event(
            event=NEW_DATA,
            resource=Resource({"prefect.resource.id": resource}),
            payload={"path": source.address},
        )
    )
    deployment = f"{ON_NEW_DATA}-{name}"
    called = DeploymentFilter(name=DeploymentFilterName(any_=[deployment]))
    with get_client(sync_client=True) as client:
        registered = client.read_deployments(deployment_filter=called)
        if not registered:
            raise ServerError(
                f"no deployment {deployment} is registered at {server_url()}, so no run starts; "
                "serve the data set under this name, or announce the data by another --name"
            )
    # a process that has just begun to serve has not polled yet
    if all(d.last_polled and d.status == DeploymentStatus.NOT_READY for d in registered):
        return f"{resource}; no process serves {name} now, so that the run waits for the next one"
    return resource


NIGHTLY, ON_NEW_DATA = "nightly", "on-new-data"
# Deployments that are started from the form alone.
SELECT, COMPARE, RESELECT = "select-on-demand", "compare-on-demand", "reselect-on-demand"

# Triggered runs: for the same table, the next waits until the last has ended.
_ONE_AFTER_THE_OTHER = ConcurrencyLimitConfig(
    limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
)


@dataclass(frozen=True)
class Served:
    """A table to serve, its selection, and when and how it runs."""

    source: Source
    settings: SelectionSettings
    serve: ServeSettings

    @property
    def name(self) -> str:
        """Name of the data set."""
        name = name_of_data_set(self.source, self.serve.name, NAMED)
        if name.endswith(".py"):  # Prefect would strip the suffix
            raise InputError(
                f"data set {name!r} cannot be served, as Prefect takes .py off the names of "
                f"deployments; give another name, as in {NAMED}"
            )
        return name

    def check(self) -> None:
        """Raise InputError for what can be known to be wrong without a server."""
        self.source.check()
        check_settings(self.settings)
        _ = self.name, _schedule(self.serve.cron, self.serve.timezone)

    def on_demand(self, execution: ExecutionSettings) -> dict[str, Any]:
        """Return the parameters of a selection on demand."""
        names = LimitSettings.model_fields
        limits = LimitSettings(**{name: getattr(self.serve, name) for name in names})
        return {
            "execution": execution.model_dump(mode="json"),
            "limits": limits.model_dump(mode="json"),
            "data": self.source.address,  # a process in another folder may run the flow
            "settings": self.settings.model_dump(mode="json"),
        }

    def deployments(self, execution: ExecutionSettings) -> Iterator[RunnerDeployment]:
        """Yield what runs by the schedule or on new data, named after the data set."""
        parameters, resource = self.on_demand(execution), resource_of(self.name)
        parameters["limits"]["data_set"] = self.name
        if self.serve.promote:
            promotion = PromotionSettings(
                name=self.name,
                wait=self.serve.wait_for_approval,
                unattended=self.serve.unattended,
            )
            parameters["promotion"] = promotion.model_dump(mode="json")
        new_data = DeploymentEventTrigger(
            name=f"new data of {resource}",
            expect={NEW_DATA},
            match={"prefect.resource.id": resource},
            parameters={"data": "{{ event.payload.path }}"},
        )
        # A run that pauses loses its place under a limit, and Prefect ends a run without one within
        # four minutes. Without a limit, runs wait for their turn (`limits.data_set`) by themselves.
        may_pause = self.serve.promote and self.serve.wait_for_approval is not None
        limit = None if may_pause else _ONE_AFTER_THE_OTHER
        starts: dict[str, dict[str, Any]] = {
            NIGHTLY: {"schedule": _schedule(self.serve.cron, self.serve.timezone)},
            ON_NEW_DATA: {"triggers": [new_data]},
        }
        for what, when in starts.items():
            name = f"{what}-{self.name}"
            yield _deployment(feature_selection, name, parameters, concurrency_limit=limit, **when)


def serve_flows(tables: Sequence[Served], execution: ExecutionSettings) -> int:
    """Register the deployments of all flows and run what is started, until stopped.

    Scheduled and triggered deployments are named after the data set, so that other calls can serve
    other data sets. Those on demand are shared, with the defaults of the first table of the last
    call.

    Missing automations are created too; see `chaffinch.flows.serving.automations`.
    """
    for table in tables:
        table.check()
    names = [table.name for table in tables]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two tables are named {twice[0]!r}; name each data set once")
    check_server("serving")
    with extra_credentials(from_block):
        for table in tables:
            named = [table.settings.target, *table.settings.columns.named]
            check_known(named, table.source.columns())
        store = Store.open(execution.store)  # fail now rather than every night
    # the processes of runs may have another working directory
    place = execution.store if isinstance(execution.store, str) else store.path
    execution = execution.model_copy(update={"store": place})
    first = tables[0]
    selecting = first.on_demand(execution)
    reselecting = {name: value for name, value in selecting.items() if name != "settings"}
    comparing = {
        **selecting,
        "data": [selecting["data"]],
        "settings": {"target": first.settings.target},
        "limits": {**selecting["limits"], "timeout": None, "stage_timeout": None},
    }
    with reports_served(store.path, first.serve.reports_port):
        make_missing()
        return serve_until_stopped(
            [
                _deployment(feature_selection, SELECT, selecting),
                *chain.from_iterable(table.deployments(execution) for table in tables),
                _deployment(comparison, COMPARE, comparing),
                _deployment(reselection, RESELECT, reselecting),
            ]
        )


def _schedule(cron: str, timezone: str) -> Schedule:
    """Return the schedule; InputError if it is invalid, or Prefect finds no date for it."""
    known = available_timezones()
    if timezone not in known:
        raise InputError(
            f"there is no time zone {timezone!r}{nearest(timezone, known)}; give one such as "
            "Europe/Vienna"
        )
    try:
        schedule = Cron(cron, timezone=timezone)
    except ValueError as error:
        raise InputError(f"schedule {cron!r} in {timezone!r} cannot be read: {error}") from error
    try:
        asyncio.run(dates_of_cron(cron, timezone, 1))
    except ValueError as error:
        raise InputError(
            f"schedule {cron!r} never comes, as on a 31st of February; give a day that there is"
        ) from error
    return schedule


def _deployment(
    flow: Flow[..., Any], name: str, parameters: dict[str, Any], **when: Any
) -> RunnerDeployment:
    made = flow.to_deployment(
        name,
        parameters=parameters,
        tags=[TAG],
        entrypoint_type=EntrypointType.MODULE_PATH,
        **when,
    )
    return cast(RunnerDeployment, made)  # a coroutine only with an event loop


def check_server(what: str) -> None:
    """Raise if no Prefect server answers; warn if it needs no authentication."""
    url = server_url()
    remedy = (
        "start one with `prefect server start` and set PREFECT_API_URL=http://127.0.0.1:4200/api"
    )
    if url is None:
        raise InputError(f"{what} needs a Prefect server that stays: {remedy}")
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise ServerError(f"no Prefect server answers at {url}: {remedy}")
        if not _is_let_in(client):
            raise ServerError(unauthorized(url))
        asks_nobody = _is_let_in(client, Authorization="none")
    if asks_nobody:
        click.echo(
            f"Warning: the Prefect server at {url} asks for no authentication: anyone who reaches "
            "it can run code here and read its Secret blocks; set PREFECT_SERVER_API_AUTH_STRING "
            "for the server, and PREFECT_API_AUTH_STRING here, to one secret text",
            err=True,
        )


def _is_let_in(client: SyncPrefectClient, **headers: str) -> bool:
    """Return whether the server accepts a request, by default with our auth string."""
    try:
        client.request("GET", "/hello", headers=headers)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != 401:
            raise
        return False
    return True
