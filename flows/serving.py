"""Deployments that one process serves: on demand from the UI, and every night."""

from typing import Any, cast

from prefect import serve
from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType

from chaffinch.flows.feature_selection import feature_selection
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import check_source
from chaffinch.tasks.promotion_settings import PromotionSettings
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings

ON_DEMAND, NIGHTLY = "on-demand", "nightly"


def serve_feature_selection(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    *,
    cron: str = "0 2 * * *",
    timezone: str = "UTC",
    promotion: PromotionSettings | None = None,
) -> None:
    """Register both deployments and run what is started, until stopped.

    Parameters
    ----------
    data : str
        Table of the nightly run, and the form's first suggestion.
    settings : SelectionSettings
        Of the nightly run, and the form's first suggestion.
    execution : ExecutionSettings
        Store, cluster and workers, likewise.
    cron : str
        When the nightly run starts: minute, hour, day of month, month, day of week.
    timezone : str
        Of the schedule, such as ``"Europe/Vienna"``.
    promotion : PromotionSettings, optional
        When the contract of the nightly run is promoted; without, none is.

    Raises
    ------
    InputError
        If there is no such table, the schedule is none, or no Prefect server answers.
    """
    check_source(data)
    _check_server()
    parameters = {
        "data": data,
        "settings": settings.model_dump(mode="json"),
        "execution": execution.model_dump(mode="json"),
    }
    nightly: dict[str, Any] = {"parameters": parameters}
    if promotion is not None:
        nightly["parameters"] = {**parameters, "promotion": promotion.model_dump(mode="json")}
    try:
        nightly["schedule"] = Cron(cron, timezone=timezone)
    except ValueError as error:
        raise InputError(f"schedule {cron!r} in {timezone!r} cannot be read: {error}") from error
    served = [
        feature_selection.to_deployment(
            name,
            tags=["chaffinch"],
            entrypoint_type=EntrypointType.MODULE_PATH,
            **when,
        )
        for name, when in ((ON_DEMAND, {"parameters": parameters}), (NIGHTLY, nightly))
    ]
    serve(*cast(list[RunnerDeployment], served))


def _check_server() -> None:
    url = PREFECT_API_URL.value()
    remedy = (
        "start one with `prefect server start` and set PREFECT_API_URL=http://127.0.0.1:4200/api"
    )
    if not url:
        raise InputError(f"serving needs a Prefect server that stays: {remedy}")
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise InputError(f"no Prefect server answers at {url}: {remedy}")
