"""New data, and how a deployment learns of them: an event with the path in its payload."""

import re
from pathlib import Path

from chaffinch.flows.promotion_events import resource_of
from chaffinch.storage.addresses import place_of
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import check_source, source_name

NEW_DATA = "chaffinch.new-data"


def announce(data: str, name: str | None = None) -> str:
    """Tell the Prefect server that there are new data, and return as what.

    Parameters
    ----------
    data : str
        Where the new table is: a path on the machine that runs the flow, or an address.
    name : str, optional
        Of the data set that they belong to; by default the table's name without its ending.

    Raises
    ------
    InputError
        If there is no such table, the name is none, or no Prefect server takes the event.
    """
    from prefect.client.orchestration import get_client
    from prefect.events import Event, Resource
    from prefect.settings import PREFECT_API_URL

    check_source(data)
    resource, place = resource_of(name_of_data_set(data, name)), place_of(data)
    if not PREFECT_API_URL.value():
        raise InputError(
            "new data are announced to a Prefect server: set PREFECT_API_URL to the one that the "
            "deployments are served from"
        )
    event = Event(
        event=NEW_DATA,
        resource=Resource({"prefect.resource.id": resource}),
        payload={"path": str(place.absolute() if isinstance(place, Path) else data)},
    )
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise InputError(
                f"no Prefect server answers at {PREFECT_API_URL.value()}: start it, or set "
                "PREFECT_API_URL to one that runs"
            )
        client.request("POST", "/events", json=[event.model_dump(mode="json")])
    return resource


def name_of_data_set(data: str, name: str | None = None) -> str:
    """Return what a data set is called, such as ``orders``.

    Parameters
    ----------
    data : str
        Path or address of a table.
    name : str, optional
        In place of the table's own, up to its first dot.

    Raises
    ------
    InputError
        If the name holds anything but letters, digits, and ``_ -``.
    """
    called = source_name(data).split(".")[0] if name is None else name
    if not re.fullmatch(r"[\w-]+", called):
        raise InputError(
            f"the name of a data set must be letters, digits, _ and - but is {called!r}; give it "
            "one with --name"
        )
    return called
