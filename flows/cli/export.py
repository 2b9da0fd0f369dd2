"""``chaffinch export``, and what it writes for each tool."""

from pathlib import Path

import click

from chaffinch.errors import InputError
from chaffinch.flows.cli.options import store_option
from chaffinch.flows.cli.terminal import echo_exactly
from chaffinch.storage.files import file_to_write, path_from, write_file

_OPTIONS = {  # that each tool takes
    "mlflow": {"name"},
    "openlineage": {"output", "name", "table"},
    "pandera": {"output"},
    "dbt": {"output", "name", "table"},
    "feast": {"output", "name", "table"},
}


def _exported(
    run: str, tool: str, store: str | Path, output: str | None, name: str | None, table: str | None
) -> str:
    """Export a run, and return the lines to print."""
    if tool == "mlflow":
        from chaffinch.tasks.exports.mlflow import to_mlflow

        return to_mlflow(run, experiment=name, store=store)
    if tool == "openlineage":
        from chaffinch.tasks.exports.openlineage import as_json, send, to_openlineage

        event = to_openlineage(run, name=name, table=table, store=store)
        return send(event) if output is None else _written({output: as_json(event)})
    if tool == "pandera":
        from chaffinch.tasks.exports.pandera import to_pandera

        text = to_pandera(run, store=store).to_yaml() or ""
        return text if output is None else _written({output: text})
    if tool == "feast":
        from chaffinch.tasks.exports.feast import to_feast

        if table is None:
            raise InputError("feast needs --table, a feature view, as in --table features.orders")
        text = to_feast(run, name=name, table=table, store=store)
        return text if output is None else _written({_module(output, table): text})
    from chaffinch.tasks.exports.dbt import to_dbt

    if output is None:
        raise InputError("dbt needs --output, the folder of its models, as in --output models")
    folder, texts = path_from(output, "--output"), to_dbt(run, name=name, table=table, store=store)
    return _written({str(folder / file): text for file, text in texts.items()})


def _module(output: str, table: str) -> str:
    """Return a path for a module that imports a feature view of another module."""
    path = path_from(output, "--output")
    if path.suffix != ".py":
        raise InputError(f"--output must end with .py but is {output}")
    module = table.split(".")[:-1]
    if [*path.parent.parts, path.stem][-len(module) :] == module:
        raise InputError(
            f"--output must be another file than {output}, which has the feature view {table}"
        )
    return output


def _written(texts: dict[str, str]) -> str:
    """Write texts to files, and return their paths."""
    files = {file_to_write(path_from(f, "--output"), "--output"): t for f, t in texts.items()}
    for file, text in files.items():
        write_file(file, text.encode())
    return "\n".join(map(str, files))


@click.command(short_help="Export a run to MLflow, OpenLineage, pandera, dbt or Feast.")
@click.argument("run")
@click.option("--to", "tool", type=click.Choice(list(_OPTIONS)), required=True, help="The tool.")
@click.option(
    "--output",
    metavar="PATH",
    help="pandera, openlineage, feast: the file to write. dbt: the folder of models.",
)
@click.option(
    "--name",
    help="dbt, feast, openlineage: the data set's name. By default the one that RUN was promoted "
    "under, or its table's. mlflow: the experiment.",
)
@click.option(
    "--table",
    metavar="NAME",
    help="dbt, openlineage: the table that rows come from, such as shop.orders. By default the "
    "data set's name. feast: the feature view with its module, such as features.orders.",
)
@store_option
def export(run: str, tool: str, store: str | Path, **options: str | None) -> None:
    """Export the finished RUN to another tool.

    mlflow: log a run with its model where MLFLOW_TRACKING_URI names, and print its id.
    openlineage: send an event as OPENLINEAGE_URL names, or print it. pandera: print a schema as
    YAML. dbt: write a model that selects the kept columns, and an exposure. feast: print a Python
    file with a feature service of the kept columns.

    RUN is the name of a finished run in the store, a name that it was promoted under, its folder,
    or, for all but mlflow, its selection.json.
    """
    for option, value in options.items():
        if value is not None and option not in _OPTIONS[tool]:
            fitting = [other for other, takes in _OPTIONS.items() if option in takes]
            raise InputError(
                f"--{option} is for --to {' or '.join(fitting)} but this is --to {tool}; leave it "
                "out"
            )
    echo_exactly(_exported(run, tool, store, **options))
