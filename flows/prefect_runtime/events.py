"""Events sent to a Prefect server, such as that of a promoted contract.

The history lists unsent events of promotions. An event is sent after its promotion is written, and
marked as sent after the server has received it; after a crash it is sent again, so none is lost.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import httpx
from prefect.client.orchestration import get_client
from prefect.events import Event, Resource
from prefect.settings import PREFECT_API_URL, get_current_settings

from chaffinch.errors import InputError, StorageError
from chaffinch.flows.prefect_runtime.internals import (
    related_resources_from_run_context,
    run_coro_as_sync,
)
from chaffinch.flows.prefect_runtime.server import ServerError, unauthorized
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.results.previous_run import read_contract

EVENT = "chaffinch.promoted"

# Parts that may be too large for a server, the longest first; event readers can do without them.
_LEFT_OUT = ((), ("candidates", "dropped"), ("candidates", "dropped", "settings", "features"))


def resource_of(name: str) -> str:
    """Return the resource name of a data set in events, such as ``chaffinch.dataset.orders``."""
    return f"chaffinch.dataset.{name}"


def server_url() -> str | None:
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


def send_pending(name: str, store: Path | str) -> str | None:
    """Send the unsent events of a data set, oldest first; each contains its contract.

    A contract larger than the server accepts (by default 1.5 MB in all) is sent without the parts
    named in ``left_out``. An event that is sent twice, because this program was killed in between,
    has the same id.
    """
    problem = None
    try:
        histories = Store.at(store).promotions
        if not histories.pending_events(name):
            return None
        with histories.sending():
            for place, entry in histories.pending_events(name):
                try:
                    contract = read_contract(histories, entry).to_dict()
                except StorageError as error:
                    problem = str(error)
                    continue
                send(_event(name, place, entry, contract))
                histories.mark_sent(name, place)
    except (InputError, StorageError, ServerError) as error:
        problem = str(error)
    return None if problem is None else f"an event of {name} is not sent yet: {problem}"


def _event(name: str, place: int, entry: Promotion, contract: Mapping[str, Any]) -> Event:
    """Return the event of an entry, as large as the server accepts."""
    most = get_current_settings().server.events.maximum_size_bytes
    for left_out in _LEFT_OUT:
        event = Event(
            id=uuid5(NAMESPACE_OID, f"{name} {place} {entry.promoted} {entry.contract}"),
            event=EVENT,
            resource=Resource(
                {"prefect.resource.id": resource_of(name), "prefect.resource.name": name}
            ),
            payload={
                "name": name,
                "promotion": asdict(entry),
                "contract": {k: part for k, part in contract.items() if k not in left_out},
                "left_out": list(left_out),
            },
        )
        if event.size_bytes <= most:
            break
    return event
