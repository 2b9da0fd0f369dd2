"""What `chaffinch export` writes for each tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import InputError
from chaffinch.storage.files import file_to_write, path_from, write_file
from chaffinch.tasks.exports.dbt import to_dbt
from chaffinch.tasks.exports.mlflow import to_mlflow
from chaffinch.tasks.exports.openlineage import as_json, send, to_openlineage
from chaffinch.tasks.exports.pandera import to_pandera


@dataclass(frozen=True)
class Asked:
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

    export: Callable[[Asked], str]
    options: frozenset[str]


def export(target: str, asked: Asked) -> str:
    """Export a run, and return the lines to print; InputError for an option of other targets."""
    known = TARGETS[target]
    for option in ("output", "name", "table"):
        if getattr(asked, option) is not None and option not in known.options:
            fitting = [name for name, one in TARGETS.items() if option in one.options]
            raise InputError(
                f"--{option} is for --to {' or '.join(fitting)} but this is --to {target}; leave "
                "it out"
            )
    return known.export(asked)


def _mlflow(asked: Asked) -> str:
    return to_mlflow(asked.run, experiment=asked.name, store=asked.store)


def _openlineage(asked: Asked) -> str:
    event = to_openlineage(asked.run, name=asked.name, table=asked.table, store=asked.store)
    return send(event) if asked.output is None else asked.written(as_json(event))


def _pandera(asked: Asked) -> str:
    return asked.written(to_pandera(asked.run, store=asked.store).to_yaml() or "")


def _dbt(asked: Asked) -> str:
    if asked.output is None:
        raise InputError("dbt needs --output, the folder of its models, as in --output models")
    folder = path_from(asked.output, "--output")
    texts = to_dbt(asked.run, name=asked.name, table=asked.table, store=asked.store)
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
