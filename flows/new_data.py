"""New data, and how a deployment learns of them: an event with the path in its payload."""

from prefect.events import Event, Resource

from chaffinch.flows.events import resource_of, send, server_url
from chaffinch.storage.addresses import from_anywhere
from chaffinch.storage.data_sets import name_of_data_set
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import check_source

NEW_DATA = "chaffinch.new-data"
NAMED = "--name orders"


def announce(data: str, name: str | None = None) -> str:
    """Tell the Prefect server that there are new data, and return as what.

    Parameters
    ----------
    data : str
        Where the new table is: a path on the machine that runs the flow, or an address.
    name : str, optional
        Of the data set that they belong to; by default the table's, see
        `chaffinch.storage.data_sets.name_of_table`.

    Raises
    ------
    InputError
        If there is no such table, the name is none, or no Prefect server is configured.
    ServerError
        If it does not answer, or does not take the event.
    """
    check_source(data)
    resource = resource_of(name_of_data_set(data, name, NAMED))
    if server_url() is None:
        raise InputError(
            "new data are announced to a Prefect server: set PREFECT_API_URL to the one that the "
            "deployments are served from"
        )
    send(
        Event(
            event=NEW_DATA,
            resource=Resource({"prefect.resource.id": resource}),
            payload={"path": from_anywhere(data)},
        )
    )
    return resource
