"""``chaffinch serve``, ``automations`` and ``announce``."""

import os
from collections.abc import Sequence
from typing import Any

import click

from chaffinch.errors import InputError
from chaffinch.flows.cli.options import SERVE, nested, settings_options
from chaffinch.flows.cli.selection import Selected, selection_options
from chaffinch.flows.cli.settings_file import merged
from chaffinch.flows.cli.terminal import echo
from chaffinch.flows.prefect_runtime.server import prepare
from chaffinch.storage.extras import require
from chaffinch.tasks.settings.execution import ServeSettings
from chaffinch.tasks.settings.selection import ExecutionSettings
from chaffinch.tasks.workers.signals import Stopped


@click.command(short_help="Serve the flows to the Prefect UI, every night and on new data.")
@click.option("--data", metavar="PATH", help="Table of the nightly run.")
@settings_options(ServeSettings, SERVE)
@selection_options
def serve(tables: Sequence[Selected], execution: ExecutionSettings, **own_options: Any) -> None:
    """Serve the flows: started from the Prefect UI, every night, and by `chaffinch announce`.

    Several data sets are served by one command with a file of settings, one table
    [tables.NAME] each, or by several commands at the same time. Needs a Prefect server: start
    one with `prefect server start`, and set PREFECT_API_URL and PREFECT_API_AUTH_STRING.
    """
    _prepare("serve")
    from chaffinch.flows.serving.deployments import Served, serve_flows
    from chaffinch.storage.sources import source_of

    options = nested(own_options, SERVE)
    if len(tables) > 1 and "name" in options:
        raise InputError(
            f"--name names one data set but the file has {len(tables)}; leave it out, as the file "
            "names each"
        )
    served = [
        Served(source_of(table.data), table.settings, ServeSettings(**merged(table.serve, options)))
        for table in tables
    ]
    raise Stopped(serve_flows(served, execution))


@click.command(short_help="Create automations for runs that fail or stop responding.")
@click.option(
    "--webhook",
    metavar="NAME",
    help="Of a Webhook block of Prefect to call for each run that failed or needs a decision.  "
    "[default: note it only]",
)
def automations(webhook: str | None) -> None:
    """Make or replace three automations of the Prefect server, for all runs of deployments.

    One declares a run crashed that gave no sign of life for three heartbeats; one reports each run
    that failed, took too long or crashed; one reports each that needs a decision of a person.
    Needs a server: set PREFECT_API_URL.
    """
    _prepare("automations", quiet=True)
    from chaffinch.flows.serving import automations as making
    from chaffinch.flows.serving.deployments import check_server

    check_server("making automations")
    for made in making.make(webhook):
        echo(f"Made automation {made.name!r}: {made.description}")


@click.command(short_help="Start a selection on new data.")
@click.argument("data")
@click.option("--name", help="Of the data set that they belong to.  [default: the table's name]")
def announce(data: str, name: str | None) -> None:
    """Start the deployment `on-new-data-NAME` of the data set that DATA belongs to.

    Needs the Prefect server that it is served from: set PREFECT_API_URL. The table's name is the
    last level of its path, without endings such as .csv or .parquet: orders.v2.csv is orders.v2.
    """
    _prepare("announce", quiet=True)
    # a server that is started again is soon back
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "3")
    from chaffinch.flows.serving import deployments

    echo(f"Announced {data} as {deployments.announce(data, name)}")


def _prepare(command: str, *, quiet: bool = False) -> None:
    require("prefect", f"chaffinch {command}")
    prepare(quiet=quiet)
