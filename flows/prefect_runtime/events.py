"""Events sent to a Prefect server: resource names, and sending with errors reported."""

import httpx
from prefect.client.orchestration import get_client
from prefect.events import Event
from prefect.events.related import related_resources_from_run_context
from prefect.settings import PREFECT_API_URL
from prefect.utilities.asyncutils import run_coro_as_sync

from chaffinch.flows.prefect_runtime.server import ServerError, unauthorized


def resource_of(name: str) -> str:
    """Return the resource name of a data set in events, such as ``chaffinch.dataset.orders``."""
    return f"chaffinch.dataset.{name}"


def server_url() -> str | None:
    """Return the address of the configured Prefect server, or None."""
    return PREFECT_API_URL.value() or None


def send(event: Event) -> None:
    """Send an event, and return when the server has it; it is related to the flow run, if any.

    Prefect's own `emit_event` returns before anything is sent, and loses events on errors.
    """
    url = server_url() or "its own address"
    try:
        run_coro_as_sync(_post(event))
    except httpx.HTTPStatusError as error:
        if error.response.status_code == 401:
            raise ServerError(unauthorized(url)) from error
        answer = f"{error.response.status_code} {error.response.reason_phrase}".strip()
        raise ServerError(
            f"the Prefect server at {url} does not take the event ({answer}); see to it, or to "
            "PREFECT_API_URL"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        first, *_ = [*str(error).splitlines(), type(error).__name__]
        raise ServerError(
            f"no Prefect server answers at {url} ({first}); start it, or set PREFECT_API_URL to "
            "one that runs"
        ) from error


async def _post(event: Event) -> None:
    async with get_client() as client:
        event.related += await related_resources_from_run_context(client)
        await client.request("POST", "/events", json=[event.model_dump(mode="json")])
