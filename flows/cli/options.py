"""Command-line options made from the settings, so that defaults and limits are written once."""

import csv
import io
import types
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chaffinch.storage.errors import InputError

Command = Callable[..., Any]

_QUOTED = """a name with a comma, a quote or a newline goes in double quotes, as in '"a, b",c'"""

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")

_quiet = click.option("--quiet", is_flag=True, help="Say nothing on the way but warnings.")
_verbose = click.option(
    "--verbose",
    is_flag=True,
    help="Say on the way what is decided and why, each line with its run, stage and data set.",
)


def verbosity_flags(command: Command) -> Command:
    """Give a command --quiet and --verbose, passed as its `verbosity`.

    The command raises InputError where both are given.
    """

    @wraps(command)
    def with_verbosity(*arguments: Any, quiet: bool, verbose: bool, **options: Any) -> Any:
        if quiet and verbose:
            raise InputError("--quiet and --verbose go against each other; give one of them")
        verbosity = "quiet" if quiet else "verbose" if verbose else None
        return command(*arguments, verbosity=verbosity, **options)

    return _quiet(_verbose(with_verbosity))


class Names(click.ParamType[tuple[str, ...]]):
    """Names between commas, as one row of CSV."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split the text of one option."""
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


def settings_options(settings: type[BaseModel], fields: Mapping[str, str]) -> Command:
    """Return a decorator that gives a command one option per field."""

    def decorate(command: Command) -> Command:
        for option, path in reversed(list(fields.items())):
            field = _find(settings, path)
            command = click.option(
                option,
                _parameter_name(path),
                required=field.is_required() and "." not in path,
                help=_help(field),
                **_how_it_is_given(field.annotation, has_two_flags="/" in option),
            )(command)
        return command

    return decorate


def nested(given: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that were given as the nested mapping that the settings read."""
    values: dict[str, Any] = {}
    for path in fields.values():
        value = given[_parameter_name(path)]
        if value is None:
            continue
        *groups, last = path.split(".")
        inner = values
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return values


def values_of(settings: type[BaseModel], given: Sequence[str]) -> dict[str, Any]:
    """Return settings given as NAME=VALUE by their names; several values stand between commas.

    Raises InputError for text of another form and for a setting that is given twice.
    """
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not equals:
            raise InputError(f"--set must be NAME=VALUE, as in slacks=0.01,0.05, but is {text!r}")
        if name in values:
            raise InputError(f"--set gives {name} twice; give it once")
        field = settings.model_fields.get(name)
        is_list = field is not None and isinstance(_type_of(field.annotation), Names)
        values[name] = Names().convert(value, None, None) if is_list else value.strip()
    return values


def defaults_of(settings: type[BaseModel]) -> list[tuple[str, str]]:
    """Return each setting of a method with what it means and its default."""
    return [(name, _help(field)) for name, field in settings.model_fields.items() if name != "kind"]


def _find(settings: type[BaseModel], path: str) -> FieldInfo:
    *groups, last = path.split(".")
    for group in groups:
        settings = _without_none(settings.model_fields[group].annotation)
    return settings.model_fields[last]


def _parameter_name(path: str) -> str:
    return path.replace(".", "_")


def _how_it_is_given(annotation: Any, *, has_two_flags: bool) -> dict[str, Any]:
    if _without_none(annotation) is bool:
        # all that come are kept, as click would take the last of two that go against each other
        both = {"multiple": True, "callback": _one_of_two} if has_two_flags else {"default": None}
        return {"is_flag": True, **both}
    metavar = None if _choices(annotation) else _metavar(annotation)
    given: dict[str, Any] = {"type": _type_of(annotation), "metavar": metavar}
    if isinstance(given["type"], Names):  # the option may come several times, each with some
        given |= {"multiple": True, "callback": _joined}
    return given


def _joined(
    context: click.Context, option: click.Parameter, given: tuple[tuple[str, ...], ...]
) -> tuple[str, ...] | None:
    """Return all names of an option; None where it was not given."""
    return tuple(name for names in given for name in names) if given else None


def _one_of_two(
    context: click.Context, option: click.Parameter, given: tuple[bool, ...]
) -> bool | None:
    """Return which of two flags was given; None where none was."""
    if len(set(given)) > 1:
        flags = " and ".join([*option.opts, *option.secondary_opts])
        raise InputError(f"{flags} go against each other; give one of them")
    return given[0] if given else None


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the words to choose from; what else a field may take is for Python and the form."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next((words for part in get_args(annotation) if (words := _choices(part))), ())
    if hasattr(annotation, "__metadata__"):
        return _choices(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        return next(a for a in get_args(annotation) if a is not type(None))
    return annotation


def _type_of(annotation: Any) -> click.ParamType[Any] | type:
    if _choices(annotation):
        return click.Choice(_choices(annotation))
    plain = _without_none(annotation)
    if get_origin(plain) is tuple:
        return Names()
    base = get_args(plain)[0] if hasattr(plain, "__metadata__") else plain
    if get_origin(base) is tuple:
        return Names()
    return int if base is int else str


def _metavar(annotation: Any) -> str:
    kind = _type_of(annotation)
    if isinstance(kind, Names):
        return "NUMBERS" if _is_number(get_args(_without_none(annotation))[0]) else "NAMES"
    if kind is int:
        return "N"
    return "NUMBER" if _is_number(_without_none(annotation)) else "TEXT"


def _is_number(annotation: Any) -> bool:
    """Return whether a type, or each of several with limits of their own, is a number's."""
    if get_origin(annotation) in (Union, types.UnionType):
        return all(_is_number(part) for part in get_args(annotation))
    plain = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    return plain in (int, float) or (plain is not annotation and _is_number(plain))


def _help(field: FieldInfo) -> str:
    words = field.description or ""
    if field.is_required() or field.default in (None, ()) or field.default is False:
        return words
    return f"{words}  [default: {_in_words(field.default)}]"


def _in_words(default: Any) -> str:
    """Return a default as it would be given."""
    if isinstance(default, tuple):
        return ",".join(_in_words(one) for one in default)
    if isinstance(default, float):
        return f"{default:.4g}"
    if isinstance(default, BaseModel):
        return str(getattr(default, "kind", None) or getattr(default, "name", default))
    return str(default)


SELECTION = {
    "--target": "target",
    "--model": "model.name",
    "--keep": "columns.keep",
    "--drop": "columns.drop",
    "--categorical": "columns.categorical",
    "--numeric": "columns.numeric",
    "--weight": "columns.weight",
    "--group": "columns.group",
    "--time": "columns.time",
    "--task": "task",
    "--loss": "loss",
    "--baseline": "baseline",
    "--tuning": "model.tuning",
    "--folds": "model.folds",
    "--seed": "seed",
    "--shares": "shares",
    "--lags": "history.lags",
    "--rolling": "history.rolling",
    "--history-columns": "history.columns",
    "--series": "history.series",
    "--scale": "history.scale",
    "--alternatives": "alternatives.number",
    "--tau": "alternatives.tau",
    "--quality": "alternatives.quality",
    "--search": "alternatives.search",
    "--aggregate": "alternatives.aggregate",
    "--alternatives-time-limit": "alternatives.time_limit",
}
COMPARISON = {
    "--target": "target",
    "--methods": "methods",
    "--models": "models",
    "--folds": "folds",
    "--seeds": "seeds",
    "--sizes": "sizes",
    **{option: SELECTION[option] for option in SELECTION if "columns." in SELECTION[option]},
    **{option: SELECTION[option] for option in ("--task", "--loss", "--baseline")},
}
RESELECTION = {
    f"--{name}": name for name in ("target", "drop", "model", "gain", "slack", "rejections", "seed")
}
SHUFFLE = {
    "--target": "target",
    "--drop": "drop",
    "--sparse": "sparse",
    "--zero-based/--one-based": "zero_based",
    "--n-columns": "n_columns",
    "--dtype": "dtype",
    "--seed": "seed",
    "--block-rows": "block_rows",
}
DESCENT = {
    "--n-features": "n_features",
    "--penalty": "penalty",
    "--order": "order",
    "--steps": "steps",
    "--batch-rows": "batch_rows",
    "--blocks-per-step": "blocks_per_step",
    "--task": "task",
    "--seed": "seed",
}
STORE = {"--store": "store"}
WORKERS = {"--cluster": "cluster", "--workers": "workers"}
STRICT = {**STORE, **WORKERS, "--strict": "strict"}
LIMITS = {
    f"--{name.replace('_', '-')}": name
    for name in ("retries", "retry_delay", "timeout", "stage_timeout")
}


_GOES_ON, _MAY_BE_DONE = (
    "The same command continues where it stopped.",
    "`chaffinch promoted` shows whether it was done.",
)
_AFTER_A_STOP = {
    **dict.fromkeys(("run", "reselect", "compare"), _GOES_ON),
    "descend": "The same command continues where it was seconds ago.",
    **dict.fromkeys(("promote", "rollback"), _MAY_BE_DONE),
    "serve": "The same command serves again.",
}
_BEGINS_AGAIN = "The same command begins again."


class Commands(click.Group):
    """Commands, each of which knows what a stop of it leaves behind."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a stop takes a note with it of what the same command does then."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            error.add_note(_AFTER_A_STOP.get(str(ctx.invoked_subcommand), _BEGINS_AGAIN))
            raise
