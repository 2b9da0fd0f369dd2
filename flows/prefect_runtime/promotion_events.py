"""The event that says which contract is the one in use now, for automations and other flows.

The history says which events are owed. One is sent after its promotion was written, and crossed off
after the server has it; so whatever dies in between, it is sent again, and never lost.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from prefect.events import Event, Resource
from prefect.settings import get_current_settings

from chaffinch.flows.prefect_runtime.events import resource_of, send
from chaffinch.flows.prefect_runtime.server import ServerError
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.promotion.promote import read_contract

EVENT = "chaffinch.promoted"

# What a server may be too small for, the longest first; a reader of the event need not have them.
_LEFT_OUT = ((), ("candidates", "dropped"), ("candidates", "dropped", "settings", "features"))


def send_owed(name: str, store: Path) -> str | None:
    """Send the events that are owed of a data set, the oldest first; each holds its contract.

    A contract that is longer than the server takes (by default 1.5 MB in all) comes without what
    ``left_out`` names. An event that is sent again, as this program was killed before it was
    crossed off, has the same id.
    """
    histories, problem = Store(store.absolute()).promotions, None
    try:
        if not histories.owed(name):
            return None
        with histories.sending():
            for place, entry in histories.owed(name):
                try:
                    contract = read_contract(histories, entry)
                except StorageError as error:
                    problem = str(error)
                    continue
                send(_event(name, place, entry, contract))
                histories.settle(name, place)
    except (InputError, StorageError, ServerError) as error:
        problem = str(error)
    return None if problem is None else f"an event of {name} is not sent yet: {problem}"


def _event(name: str, place: int, entry: Promotion, contract: Mapping[str, Any]) -> Event:
    """Return the event of an entry, as long as the server takes."""
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
                "contract": {key: contract[key] for key in contract if key not in left_out},
                "left_out": list(left_out),
            },
        )
        if event.size_bytes <= most:
            break
    return event
