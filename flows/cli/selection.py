"""Options that make the settings of a selection, for `run`, `serve` and `init`."""

from collections.abc import Mapping
from functools import wraps
from typing import Any

import click

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
    read_settings,
)
from chaffinch.storage.errors import InputError
from chaffinch.tasks.settings.method import Method, as_kind, kinds, method_of, method_settings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

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
        help="auto, gbmo, afs_bm, rfecv, particle_swarm: keep at most K; any other: exactly K.",
    ),
    click.option(
        "--min-score",
        type=float,
        metavar="SCORE",
        help="A ranking, in place of --n-features: keep the features whose score is at least "
        "SCORE.",
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

    A command that has a group of its own in the file of ``--config`` gets that as `group`.
    """

    @wraps(command)
    def with_settings(*, data: str | None, config: str | None, **options: Any) -> Any:
        file = read_settings(config)
        given = {name: options.pop(name) for name in _OWN}
        method = _method_of(group_of(file, "method"), **{n: options.pop(n) for n in _OF_METHOD})
        names, command_name = file.keys() - {"data", "execution", *COMMANDS}, command.__name__
        if command_name in COMMANDS:
            options["group"] = group_of(file, command_name)
        chosen = merged({name: file[name] for name in names}, nested(given, SELECTION))
        return command(
            data=data_of(file, data),
            settings=SelectionSettings(**{**chosen, "method": method}),
            execution=execution_of(file, given),
            **options,
        )

    for add in (
        settings_options(ExecutionSettings, STRICT),
        settings_options(SelectionSettings, SELECTION, may_lack=True),
        *reversed(_METHOD),
        config_option,
    ):
        with_settings = add(with_settings)
    return with_settings


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
    return method_settings(method_of(own), n_features, min_score)
