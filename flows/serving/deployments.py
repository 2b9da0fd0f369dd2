"""Deployments served by one process: on demand from the UI, every night, and on new data."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from zoneinfo import available_timezones

import click
import httpx
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger, Event, Resource
from prefect.schedules import Cron, Schedule
from prefect.server.schemas.schedules import CronSchedule
from prefect.types.entrypoint import EntrypointType

from chaffinch.flows.comparison import comparison
from chaffinch.flows.differentiable_selection import differentiable_selection
from chaffinch.flows.feature_selection import feature_selection
from chaffinch.flows.prefect_runtime.artifacts import reports_served
from chaffinch.flows.prefect_runtime.events import resource_of, send, server_url
from chaffinch.flows.prefect_runtime.server import ServerError, unauthorized
from chaffinch.flows.prefect_runtime.tasks import from_block
from chaffinch.flows.reselection import reselection
from chaffinch.flows.serving.automations import TAG, make_missing
from chaffinch.flows.serving.runner import serve_until_stopped
from chaffinch.storage.datasets.column_names import check_known, nearest
from chaffinch.storage.errors import InputError
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import looked_up_too
from chaffinch.storage.sources.data_set_name import name_of_data_set
from chaffinch.tasks.pipeline.run import check_settings
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

NEW_DATA = "chaffinch.new-data"
NAMED = "--name orders"


def announce(data: str, name: str | None = None) -> str:
    """Announce new data to the Prefect server; return its name. Warn if none starts."""
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
        if not client.read_deployments(deployment_filter=called):
            click.echo(
                f"Warning: no deployment {deployment} is registered at {server_url()}; serve the "
                "data set under this name, or announce the data by another --name",
                err=True,
            )
    return resource


ON_DEMAND, NIGHTLY, ON_NEW_DATA = "on-demand", "nightly", "on-new-data"

# Triggered runs: for one table, the next waits until the last has ended.
_ONE_AFTER_THE_OTHER = ConcurrencyLimitConfig(
    limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
)


def serve_flows(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    name: str | None = None,
    cron: str = "0 2 * * *",
    timezone: str = "UTC",
    promotion: PromotionSettings | None = None,
    limits: LimitSettings | None = None,
    reports_port: int | None = None,
) -> int:
    """Register the deployments of all flows and run what is started, until stopped.

    Scheduled and triggered deployments are named after the data set, so that other calls can serve
    other data sets. Those on demand are shared, with the defaults of the last call.

    Missing automations are created too; see `chaffinch.flows.serving.automations`.
    """
    source = source_of(data)
    source.check()
    check_settings(settings)
    called = name_of_data_set(source, name, NAMED)
    if called.endswith(".py"):  # Prefect would strip the suffix
        raise InputError(
            f"data set {called!r} cannot be served, as Prefect takes .py off the names of "
            f"deployments; give another name, as in {NAMED}"
        )
    schedule = _schedule(cron, timezone)
    check_server("serving")
    with looked_up_too(from_block):
        check_known([settings.target, *settings.columns.named], source.columns())
    Store.open(execution.store)  # fail now rather than every night
    address = source.address  # another process, in another folder, may run the flows on demand
    execution = execution.model_copy(update={"store": execution.store.absolute()})
    limited = (limits or LimitSettings()).model_dump(mode="json")
    common: dict[str, Any] = {
        "execution": execution.model_dump(mode="json"),
        "limits": limited,
    }
    selecting = {**common, "data": address, "settings": settings.model_dump(mode="json")}
    comparing = {
        **common,
        "data": [address],
        "settings": {"target": settings.target},
        "limits": {**limited, "timeout": None, "stage_timeout": None},
    }
    unasked = {**selecting, "limits": {**limited, "data_set": called}}
    if promotion is not None:
        promoted_as = promotion.name or called
        unasked["promotion"] = {**promotion.model_dump(mode="json"), "name": promoted_as}
    with reports_served(execution.store, reports_port):
        make_missing()
        return serve_until_stopped(
            [
                _deployment(feature_selection, ON_DEMAND, selecting),
                *_of_data_set(called, unasked, schedule),
                _deployment(comparison, ON_DEMAND, comparing),
                _deployment(reselection, ON_DEMAND, {**common, "data": address}),
                _deployment(differentiable_selection, ON_DEMAND, {}),
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
        asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(1))
    except ValueError as error:
        raise InputError(
            f"schedule {cron!r} never comes, as on a 31st of February; give a day that there is"
        ) from error
    return schedule


def _of_data_set(
    name: str, parameters: dict[str, Any], schedule: Schedule
) -> Iterator[RunnerDeployment]:
    """Yield the deployments of one data set, named after it."""
    resource = resource_of(name)
    new_data = DeploymentEventTrigger(
        name=f"new data of {resource}",
        expect={NEW_DATA},
        match={"prefect.resource.id": resource},
        parameters={"data": "{{ event.payload.path }}"},
    )
    for what, when in ((NIGHTLY, {"schedule": schedule}), (ON_NEW_DATA, {"triggers": [new_data]})):
        yield _deployment(
            feature_selection,
            f"{what}-{name}",
            parameters,
            concurrency_limit=_ONE_AFTER_THE_OTHER,
            **when,
        )


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
