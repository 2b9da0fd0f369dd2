"""``chaffinch serve``, ``automations`` and ``announce``."""

import os
from typing import Any

import click

from chaffinch.flows.cli.options import LIMITS, STRICT, nested, settings_options
from chaffinch.flows.cli.terminal import echo
from chaffinch.flows.prefect_runtime.server import prepare
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.signals import Stopped


@click.command(short_help="Serve the flows to the Prefect UI, every night and on new data.")
@click.option("--data", metavar="PATH", help="Table of the nightly run.", required=True)
@click.option("--target", metavar="NAME", help="Column to predict.", required=True)
@click.option("--cron", default="0 2 * * *", show_default=True, help="When the nightly run starts.")
@click.option("--timezone", default="UTC", show_default=True, help="Time zone of the schedule.")
@click.option(
    "--name",
    help="Of the data set: what newer ones are announced as.  [default: the table's name]",
)
@click.option(
    "--promote",
    is_flag=True,
    help="Promote the contracts of scheduled runs that pass the gate.",
)
@click.option(
    "--reports-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve the store's reports to this machine, and link to them.  [default: name paths]",
)
@settings_options(LimitSettings, LIMITS)
@settings_options(ExecutionSettings, STRICT)
def serve(
    data: str,
    target: str,
    cron: str,
    timezone: str,
    name: str | None,
    promote: bool,
    reports_port: int | None,
    **given: Any,
) -> None:
    """Serve the flows: started from the Prefect UI, every night, and by `chaffinch announce`.

    Each data set is served by a command of its own, at the same time. Needs a Prefect server: start
    one with `prefect server start`, and set PREFECT_API_URL and PREFECT_API_AUTH_STRING.
    """
    prepare()
    from chaffinch.flows.serving.deployments import serve_flows

    stopped_by = serve_flows(
        data,
        SelectionSettings(target=target),
        ExecutionSettings(**nested(given, STRICT)),
        name=name,
        limits=LimitSettings(**nested(given, LIMITS)),
        promotion=PromotionSettings() if promote else None,
        cron=cron,
        timezone=timezone,
        reports_port=reports_port,
    )
    raise Stopped(stopped_by)


@click.command(short_help="Have the server see to runs that fail or fall silent.")
@click.option(
    "--webhook",
    metavar="NAME",
    help="Of a Webhook block of Prefect to call for each run that failed.  [default: note it only]",
)
def automations(webhook: str | None) -> None:
    """Make or replace two automations of the Prefect server, for all runs of deployments.

    One declares a run crashed that gave no sign of life for three heartbeats; the other reports
    each run that failed, took too long or crashed. Needs a server: set PREFECT_API_URL.
    """
    prepare(quiet=True)
    from chaffinch.flows.serving import automations as making
    from chaffinch.flows.serving.deployments import check_server

    check_server("making automations")
    for made in making.make(webhook):
        echo(f"Made automation {made.name!r}: {made.description}")


@click.command(short_help="Tell deployments that there are new data.")
@click.argument("data")
@click.option("--name", help="Of the data set that they belong to.  [default: the table's name]")
def announce(data: str, name: str | None) -> None:
    """Start the deployment `on-new-data-NAME` of the data set that DATA belongs to.

    Needs the Prefect server that it is served from: set PREFECT_API_URL. The table's name is the
    last level of its path, without endings such as .csv or .parquet: orders.v2.csv is orders.v2.
    """
    prepare(quiet=True)
    # a server that is started again is soon back
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "3")
    from chaffinch.flows.serving import deployments

    echo(f"Announced {data} as {deployments.announce(data, name)}")
