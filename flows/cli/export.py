"""``chaffinch export``."""

import click

from chaffinch.flows.cli.options import STORE, settings_options
from chaffinch.flows.cli.terminal import echo_exactly
from chaffinch.tasks.settings.selection import ExecutionSettings

TOOLS = ("mlflow", "openlineage", "pandera", "dbt")


@click.command(short_help="Export a run to MLflow, OpenLineage, pandera or dbt.")
@click.argument("run")
@click.option("--to", "tool", type=click.Choice(TOOLS), required=True, help="The tool.")
@click.option(
    "--output",
    metavar="PATH",
    help="pandera, openlineage: the file to write. dbt: the folder of models.",
)
@click.option(
    "--name",
    help="dbt, openlineage: the data set's name. By default the one that RUN was promoted under, "
    "or its table's. mlflow: the experiment.",
)
@click.option(
    "--table",
    metavar="NAME",
    help="dbt, openlineage: the table that rows come from, such as shop.orders. By default the "
    "data set's name.",
)
@settings_options(ExecutionSettings, STORE)
def export(
    run: str,
    tool: str,
    output: str | None,
    name: str | None,
    table: str | None,
    store: str | None,
) -> None:
    """Export the finished RUN to another tool.

    mlflow: log a run with its model where MLFLOW_TRACKING_URI names, and print its id.
    openlineage: send an event as OPENLINEAGE_URL names, or print it. pandera: print a schema as
    YAML. dbt: write a model that selects the kept columns, and an exposure.

    RUN is the name of a finished run in the store, a name that it was promoted under, its folder,
    or, for all but mlflow, its selection.json.
    """
    from chaffinch.tasks.exports import targets

    store = str(ExecutionSettings().store) if store is None else store
    echo_exactly(targets.export(tool, targets.Asked(run, store, output, name, table)))
