"""Command-line options made from the settings, so that defaults and limits are written once."""

import csv
import io
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chaffinch.errors import InputError
from chaffinch.tasks.settings.selection import ExecutionSettings

Command = Callable[..., Any]

_QUOTED = """a name with a comma, a quote or a newline goes in double quotes, as in '"a, b",c'"""

config_option = click.option(
    "--config",
    metavar="FILE",
    help="Settings in TOML or YAML, which options replace; chaffinch init writes one.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")

prefect_flag = click.option(
    "--prefect/--no-prefect",
    "with_prefect",
    default=None,
    help="Run as a Prefect flow, on the configured server or one of its own. By default only if a "
    "server is configured, as with PREFECT_API_URL.",
)

_quiet = click.option("--quiet", is_flag=True, help="Print the result and warnings only.")
_verbose = click.option(
    "--verbose",
    is_flag=True,
    help="Log decisions and their reasons, each line with its run, stage and data set.",
)


def verbosity_flags(command: Command) -> Command:
    """Give a command --quiet and --verbose, passed as its `verbosity`."""

    @wraps(command)
    def with_verbosity(*arguments: Any, quiet: bool, verbose: bool, **options: Any) -> Any:
        if quiet and verbose:
            raise InputError("--quiet and --verbose go against each other; give one of them")
        verbosity = "quiet" if quiet else "verbose" if verbose else None
        return command(*arguments, verbosity=verbosity, **options)

    return _quiet(_verbose(with_verbosity))


# click 8.4 and newer take the type of the values; earlier classes take none
if TYPE_CHECKING:
    _TypeOfNames = click.ParamType[tuple[str, ...]]
else:
    _TypeOfNames = click.ParamType


class Names(_TypeOfNames):
    """Names between commas, as a row of CSV."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        lines = io.StringIO(value, newline="")
        try:
            rows = list(csv.reader(lines, skipinitialspace=True, strict=True))
        except csv.Error as error:
            self.fail(f"{value!r} cannot be read as names ({error}); {_QUOTED}", param, ctx)
        if len(rows) > 1:
            self.fail(f"{value!r} has several lines; {_QUOTED}", param, ctx)
        return tuple(rows[0]) if rows else ()


# options that need no value, and what they mean without it
_WITHOUT_VALUE: dict[str, dict[str, Any]] = {
    "--wait-for-approval": {"is_flag": False, "flag_value": "12"},
}


def settings_options(
    settings: type[BaseModel], fields: Mapping[str, str], *, optional: bool = False
) -> Command:
    """Return a decorator that gives a command an option per field.

    Parameters
    ----------
    optional : bool
        Whether required fields may be missing, as a file can have them.
    """

    def decorate(command: Command) -> Command:
        for option, path in reversed(list(fields.items())):
            field = _find(settings, path)
            command = click.option(
                option,
                path.replace(".", "_"),
                required=field.is_required() and "." not in path and not optional,
                help=_help(field),
                **_click_arguments(field.annotation),
                **_WITHOUT_VALUE.get(option, {}),
            )(command)
        return command

    return decorate


def store_option(command: Command) -> Command:
    """Give a command --store, passed as its `store`."""

    @wraps(command)
    def with_store(*arguments: Any, store: str | None, **options: Any) -> Any:
        by_default = ExecutionSettings().store
        return command(*arguments, store=by_default if store is None else store, **options)

    decorated: Command = settings_options(ExecutionSettings, STORE)(with_store)
    return decorated


def nested(options: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the options as the nested mapping that the settings read."""
    values: dict[str, Any] = {}
    for path in fields.values():
        value = options[path.replace(".", "_")]
        if value is None:
            continue
        *groups, last = path.split(".")
        inner = values
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return values


def values_of(settings: type[BaseModel], texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of NAME=VALUE texts by name; commas separate several values."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not equals:
            raise InputError(f"--set must be NAME=VALUE, as in slacks=0.01,0.05, but is {text!r}")
        if name in values:
            raise InputError(f"--set gives {name} twice; give it once")
        field = settings.model_fields.get(name)
        is_list = field is not None and get_origin(next(types_in(field.annotation))) is tuple
        values[name] = Names().convert(value, None, None) if is_list else value.strip()
    return values


def defaults_of(settings: type[BaseModel]) -> list[tuple[str, str]]:
    """Return each setting of a method with its description and default."""
    return [(name, _help(field)) for name, field in settings.model_fields.items() if name != "kind"]


def _find(settings: type[BaseModel], path: str) -> FieldInfo:
    *groups, last = path.split(".")
    for group in groups:
        settings = next(types_in(settings.model_fields[group].annotation))
    return settings.model_fields[last]


def _click_arguments(annotation: Any) -> dict[str, Any]:
    """Return the arguments of a click option for the first type of an annotation."""
    kinds = list(types_in(annotation))
    if kinds[0] is bool:
        return {"is_flag": True, "default": None}
    for kind in kinds:
        if get_origin(kind) is Literal:
            return {"type": click.Choice(get_args(kind)), "metavar": None}
    if get_origin(kinds[0]) is tuple:
        numbers = all(kind in (int, float) for kind in types_in(get_args(kinds[0])[0]))
        metavar = "NUMBERS" if numbers else "NAMES"
        # the option may be repeated
        return {"type": Names(), "metavar": metavar, "multiple": True, "callback": _join_names}
    if get_origin(kinds[0]) is dict:
        return {"type": str, "metavar": "NAME=NUMBER", "multiple": True, "callback": _read_pairs}
    if kinds[0] is int:
        return {"type": int, "metavar": "N"}
    return {"type": str, "metavar": "NUMBER" if kinds[0] is float else "TEXT"}


def types_in(annotation: Any) -> Iterator[Any]:
    """Yield the types of a union, without None and without their limits."""
    if get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from types_in(part)
    elif hasattr(annotation, "__metadata__"):
        yield from types_in(get_args(annotation)[0])
    elif annotation is not types.NoneType:
        yield annotation


def _join_names(
    context: click.Context, option: click.Parameter, occurrences: tuple[tuple[str, ...], ...]
) -> tuple[str, ...] | None:
    """Return all names of an option; None without the option."""
    return tuple(name for names in occurrences for name in names) if occurrences else None


def _read_pairs(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    """Return values by name; None without the option."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not name or not equals:
            raise InputError(
                f"{option.opts[0]} must be NAME=NUMBER, as in age=1.5, but is {text!r}"
            )
        if name in values:
            raise InputError(f"{option.opts[0]} gives {name!r} twice; give it once")
        values[name] = value
    return values or None


def _help(field: FieldInfo) -> str:
    words = field.description or ""
    if field.is_required() or field.default in (None, (), {}) or field.default is False:
        return words
    return f"{words}  [default: {_in_words(field.default)}]"


def _in_words(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(_in_words(value) for value in default)
    if isinstance(default, float):
        return f"{default:.4g}"
    if isinstance(default, BaseModel):
        return str(getattr(default, "kind", None) or getattr(default, "name", default))
    return str(default)


# An option has the name of its field, except for these.
_NAMES = {
    "model.name": "--model",
    "history.columns": "--history-columns",
    "alternatives.number": "--alternatives",
    "alternatives.time_limit": "--alternatives-time-limit",
    "constraints.costs": "--cost",
}


def _options(paths: str) -> dict[str, str]:
    """Return the option of each field, in the order of the help."""
    named = ((_NAMES.get(path, f"--{path.rpartition('.')[-1]}"), path) for path in paths.split())
    return {option.replace("_", "-"): path for option, path in named}


_COLUMNS = (
    "columns.keep columns.drop constraints.costs constraints.budget columns.categorical "
    "columns.numeric columns.weight columns.group columns.time columns.split columns.embargo "
    "columns.drop_leaks columns.drop_rows_without_target columns.dates"
)
SELECTION = _options(
    f"target model.name {_COLUMNS} task loss baseline model.tuning model.folds model.tuning_rows "
    "search_rows mask_rows price_columns seed shares tolerance "
    "history.lags history.rolling history.columns history.series "
    "alternatives.number alternatives.tau alternatives.quality alternatives.search "
    "alternatives.aggregate alternatives.time_limit alternatives.price_curve "
    "alternatives.certified alternatives.certified_size alternatives.together "
    "alternatives.dissimilarity"
)
COMPARISON = _options(
    f"target methods models folds seeds sizes {_COLUMNS} task loss baseline tolerance"
)
RESELECTION = _options("target drop model gain slack rejections seed")
STORE = _options("store")
WORKERS = _options("cluster workers")
AT = STORE | WORKERS
STRICT = _options("store cluster workers strict")
SERVE = _options(
    "cron timezone name promote wait_for_approval unattended reports_port "
    "retries retry_delay timeout stage_timeout"
)

_CONTINUES = "The same command continues where it stopped."
_MAY_BE_DONE = "`chaffinch promoted` shows whether it was done."
_AFTER_A_STOP = {
    **dict.fromkeys(("run", "at", "reselect", "compare"), _CONTINUES),
    **dict.fromkeys(("promote", "rollback"), _MAY_BE_DONE),
    "serve": "The same command serves again.",
}
_BEGINS_AGAIN = "The same command begins again."


class Commands(click.Group):
    """Commands that add to a stop's exception what the same command does afterwards."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            error.add_note(_AFTER_A_STOP.get(str(ctx.invoked_subcommand), _BEGINS_AGAIN))
            raise
