"""The event that says which contract is the one in use now, for automations and other flows."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.exceptions import EventTooLarge
from prefect.settings import PREFECT_API_URL

from chaffinch.storage.runs import Store
from chaffinch.tasks.promoting import read_contract

EVENT = "chaffinch.promoted"

_SECONDS_TO_SEND = 10
# What a server may be too small for, the longest first; a reader of the event need not have them.
_LEFT_OUT = ((), ("candidates", "dropped"), ("candidates", "dropped", "settings", "features"))


def resource_of(name: str) -> str:
    """Return what a data set is called in events, such as ``chaffinch.dataset.orders``."""
    return f"chaffinch.dataset.{name}"


def announce(name: str, store: Path) -> None:
    """Send the event of the last promotion of a data set; its payload holds the contract.

    A contract that is longer than the server takes (by default 1.5 MB in all) comes without what
    ``left_out`` names.

    Raises
    ------
    StorageError
        If the history or the contract is damaged.
    """
    histories = Store(store.absolute()).promotions
    entry = histories.existing(name)[-1]
    contract = read_contract(histories, entry)
    for left_out in _LEFT_OUT:
        payload: dict[str, Any] = {
            "name": name,
            "promotion": asdict(entry),
            "contract": {key: contract[key] for key in contract if key not in left_out},
            "left_out": list(left_out),
        }
        resource = {
            "prefect.resource.id": resource_of(name),
            "prefect.resource.name": name,
        }
        try:
            emit_event(EVENT, resource, payload=payload)
        except EventTooLarge:
            continue
        return


def announce_from_outside(name: str, store: Path) -> str | None:
    """Send the same from where no flow is going, if a Prefect server is configured.

    Returns
    -------
    str or None
        Why the event was not sent, though there is a server.
    """
    url = PREFECT_API_URL.value()
    if not url:
        return None
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        return f"no Prefect server answers at {url}, so that nothing hears of the promotion"
    announce(name, store)
    EventsWorker.drain_all(timeout=_SECONDS_TO_SEND)
    return None
