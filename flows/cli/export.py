"""``chaffinch export``, and what it writes for each tool."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from chaffinch.errors import InputError
from chaffinch.flows.cli.options import STORE, settings_options
from chaffinch.flows.cli.terminal import echo_exactly
from chaffinch.storage.files import file_to_write, path_from, write_file
from chaffinch.tasks.settings.selection import ExecutionSettings


@dataclass(frozen=True)
class ExportRequest:
    """A run, and the options of the command, of which each target takes some."""

    run: str
    store: str | Path
    output: str | None = None
    name: str | None = None
    table: str | None = None

    def written(self, text: str) -> str:
        """Write a text to the output, and return its path; without an output, return the text."""
        if self.output is None:
            return text
        path = path_from(self.output, "--output")
        write_file(file_to_write(path, "--output"), text.encode())
        return str(path)


@dataclass(frozen=True)
class Target:
    """A tool: its function returns what the command prints."""

    export: Callable[[ExportRequest], str]
    options: frozenset[str]


def _export_run(target: str, request: ExportRequest) -> str:
    """Export a run, and return the lines to print; InputError for an option of other targets."""
    known = TARGETS[target]
    for option in ("output", "name", "table"):
        if getattr(request, option) is not None and option not in known.options:
            fitting = [name for name, other in TARGETS.items() if option in other.options]
            raise InputError(
                f"--{option} is for --to {' or '.join(fitting)} but this is --to {target}; leave "
                "it out"
            )
    return known.export(request)


def _mlflow(request: ExportRequest) -> str:
    from chaffinch.tasks.exports.mlflow import to_mlflow

    return to_mlflow(request.run, experiment=request.name, store=request.store)


def _openlineage(request: ExportRequest) -> str:
    from chaffinch.tasks.exports.openlineage import as_json, send, to_openlineage

    event = to_openlineage(request.run, name=request.name, table=request.table, store=request.store)
    return send(event) if request.output is None else request.written(as_json(event))


def _pandera(request: ExportRequest) -> str:
    from chaffinch.tasks.exports.pandera import to_pandera

    return request.written(to_pandera(request.run, store=request.store).to_yaml() or "")


def _dbt(request: ExportRequest) -> str:
    from chaffinch.tasks.exports.dbt import to_dbt

    if request.output is None:
        raise InputError("dbt needs --output, the folder of its models, as in --output models")
    folder = path_from(request.output, "--output")
    texts = to_dbt(request.run, name=request.name, table=request.table, store=request.store)
    files = {file_to_write(folder / name, "--output"): text for name, text in texts.items()}
    for file, text in files.items():
        write_file(file, text.encode())
    return "\n".join(map(str, files))


TARGETS = {
    "mlflow": Target(_mlflow, frozenset({"name"})),
    "openlineage": Target(_openlineage, frozenset({"output", "name", "table"})),
    "pandera": Target(_pandera, frozenset({"output"})),
    "dbt": Target(_dbt, frozenset({"output", "name", "table"})),
}


@click.command(short_help="Export a run to MLflow, OpenLineage, pandera or dbt.")
@click.argument("run")
@click.option("--to", "tool", type=click.Choice(list(TARGETS)), required=True, help="The tool.")
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
    store = str(ExecutionSettings().store) if store is None else store
    echo_exactly(_export_run(tool, ExportRequest(run, store, output, name, table)))
