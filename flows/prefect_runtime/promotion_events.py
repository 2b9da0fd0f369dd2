"""The event for a promoted contract, for automations and other flows.

The history lists unsent events. An event is sent after its promotion is written, and marked as sent
after the server has received it; after a crash it is sent again, so none is lost.
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

# Parts that may be too large for a server, the longest first; event readers can do without them.
_LEFT_OUT = ((), ("candidates", "dropped"), ("candidates", "dropped", "settings", "features"))


def send_owed(name: str, store: Path) -> str | None:
    """Send the unsent events of a data set, oldest first; each contains its contract.

    A contract larger than the server accepts (by default 1.5 MB in all) is sent without the parts
    named in ``left_out``. An event that is sent twice, because this program was killed in between,
    has the same id.
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
                "contract": {key: contract[key] for key in contract if key not in left_out},
                "left_out": list(left_out),
            },
        )
        if event.size_bytes <= most:
            break
    return event
