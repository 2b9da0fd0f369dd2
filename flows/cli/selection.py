"""Options that make the settings of a selection, for `run`, `serve` and `init`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import click

from chaffinch.errors import InputError
from chaffinch.flows.cli.options import (
    SELECTION,
    STRICT,
    Command,
    config_option,
    nested,
    settings_options,
    values_of,
)
from chaffinch.flows.cli.settings_file import (
    COMMANDS,
    data_of,
    execution_of,
    group_of,
    merged,
    named_in_errors,
    read_settings,
    settings_by_table,
)
from chaffinch.tasks.settings.method import Method, as_kind, kinds, method_of, method_settings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings, published_form

_METHOD = (
    click.option(
        "--method",
        metavar="METHOD",
        help=f"One of {', '.join(kinds())}; chaffinch methods describes each.  [default: auto]",
    ),
    click.option(
        "--set",
        "values",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the method, as in --set slacks=0.01,0.05; chaffinch methods METHOD "
        "lists them. May be given several times.",
    ),
    click.option(
        "--n-features",
        type=int,
        metavar="K",
        help="auto, gbmo, afs_bm, rfecv, boruta, particle_swarm: keep at most K; any other: "
        "exactly K.",
    ),
    click.option(
        "--min-score",
        type=float,
        metavar="SCORE",
        help="A ranking, in place of --n-features: keep the features whose score is at least "
        "SCORE.",
    ),
    click.option(
        "--as-published",
        is_flag=True,
        help="Take the form of the method's paper wherever our defaults depart from it; the page "
        "of the method says where.",
    ),
    click.option(
        "--validation",
        metavar="HOW",
        help="Method auto: folds or holdout, in place of --set validation=HOW.  [default: auto]",
    ),
)
_OF_METHOD = ("method", "values", "n_features", "min_score", "validation")
_OWN = [path.replace(".", "_") for path in (*SELECTION.values(), *STRICT.values())]


def selection_options(command: Command) -> Command:
    """Give a command the options of a selection, passed as `data`, `settings` and `execution`.

    ``serve`` gets a list of `Selected` as `tables`: the file of ``--config`` can have several.
    """

    @wraps(command)
    def with_settings(*, data: str | None, config: str | None, **options: Any) -> Any:
        file = read_settings(config)
        with named_in_errors(file):
            return called(file, data, options)

    def called(file: dict[str, Any], data: str | None, options: dict[str, Any]) -> Any:
        of_selection = {name: options.pop(name) for name in _OWN}
        of_method = {name: options.pop(name) for name in _OF_METHOD}
        as_published = options.pop("as_published")
        files = settings_by_table(file, command.__name__)
        if len(files) > 1 and data is not None:
            raise InputError(f"--data names one table but the file has {len(files)}; leave it out")
        tables = [_read_selected(settings, data, of_selection, of_method) for settings in files]
        if as_published:
            tables = [replace(table, settings=published_form(table.settings)) for table in tables]
        execution = execution_of(file, of_selection)
        if command.__name__ == "serve":
            return command(tables=tables, execution=execution, **options)
        (table,) = tables
        return command(data=table.data, settings=table.settings, execution=execution, **options)

    for add in (
        settings_options(ExecutionSettings, STRICT),
        settings_options(SelectionSettings, SELECTION, optional=True),
        *reversed(_METHOD),
        config_option,
    ):
        with_settings = add(with_settings)
    return with_settings


@dataclass(frozen=True)
class Selected:
    """A table and the settings of its selection; `serve` has those of its deployments."""

    data: str
    settings: SelectionSettings
    serve: Mapping[str, Any]


def _read_selected(
    file: Mapping[str, Any],
    data: str | None,
    of_selection: Mapping[str, Any],
    of_method: Mapping[str, Any],
) -> Selected:
    names = file.keys() - {"data", "execution", *COMMANDS}
    chosen = merged({name: file[name] for name in names}, nested(of_selection, SELECTION))
    if "target" not in chosen:
        raise InputError("target must be given, by --target or as `target` in the file of --config")
    method = _method_of(group_of(file, "method"), **of_method)
    settings = SelectionSettings(**{**chosen, "method": method})
    return Selected(data_of(file, data), settings, group_of(file, "serve"))


def _method_of(
    file: Mapping[str, Any],
    method: str | None,
    values: tuple[str, ...],
    n_features: int | None,
    min_score: float | None,
    validation: str | None,
) -> Method:
    """Return the method of a file or of the options, with the settings of both."""
    kind = as_kind(method or file.get("kind", "auto"))
    if validation is not None:
        if kind != "auto":
            raise InputError(
                f"--validation is for method auto but method is {kind}", "leave it out"
            )
        values += (f"validation={validation}",)
    own = dict(file) if kind == as_kind(file.get("kind", "auto")) else {}
    if n_features is not None or min_score is not None:
        own = {name: own[name] for name in own.keys() - {"n_features", "min_score"}}
    own |= {"kind": kind, **values_of(type(method_of(kind)), values)}
    if n_features is not None and "n_features" in type(method_of(kind)).model_fields:
        # beside the settings that need it, such as exactly
        own.setdefault("n_features", method_of(kind).as_sizes(n_features))
    return method_settings(method_of(own), n_features, min_score)
