"""A file of settings for ``--config``, in TOML or YAML, and ``chaffinch init``, which writes it.

The settings of a selection stand at the top by their names, those of a group in a table, such as
``[columns]``; ``data`` is the table. ``[execution]`` has the store and the cluster. ``[serve]``,
``[compare]`` and ``[reselect]`` are read by these commands alone. Options of the command line
replace what the file has. For ``chaffinch serve``, ``[tables.orders]`` has the settings of one data
set of several, in place of those at the top.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import BaseModel

from chaffinch.errors import InputError, short_repr
from chaffinch.flows.cli.options import STRICT, nested, types_in
from chaffinch.storage.column_names import nearest, nearest_or_all
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.settings.base import Settings
from chaffinch.tasks.settings.execution import ServeSettings
from chaffinch.tasks.settings.method import classes, method_of
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

COMMANDS: dict[str, type[Settings]] = {
    "serve": ServeSettings,
    "compare": ComparisonSettings,
    "reselect": ReselectionSettings,
}
# Groups that may be a single value, as in method = "gbmo".
_BY_ONE_VALUE = {"method": "kind", "model": "name", "alternatives": "number"}
_TABLES, _FILE = "tables", "settings_file"
_WIDTH = 96
_LARGEST = 10_000_000  # bytes


def read_settings(path: str | None) -> dict[str, Any]:
    """Return the settings of a file by name; none without a file."""
    if path is None:
        return {}
    try:
        if (size := Path(path).stat().st_size) > _LARGEST:
            raise InputError(
                f"a file of settings must have at most {_LARGEST:,} bytes but {path} has {size:,}; "
                "give another file"
            )
        content = Path(path).read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; save it as such") from error
    settings = _parsed(path, text)
    if not isinstance(settings, dict):
        raise InputError(f'{path} must hold names with values, as in target = "price"')
    tables = group_of(settings, _TABLES)
    _check_names(settings, path, ["execution", *COMMANDS, _TABLES])
    for name in tables:
        _check_names(group_of(tables, name), f"[{_TABLES}.{name}] of {path}", ["serve"])
    digest = hashlib.sha256(content).hexdigest()
    execution = group_of(settings, "execution")
    return {
        **settings,
        "execution": execution | {_FILE: {"name": Path(path).name, "sha256": digest}},
    }


def _check_names(settings: dict[str, Any], where: str, groups: Sequence[str]) -> None:
    """Check the names of settings; turn groups with a single value into tables."""
    known = [*SelectionSettings.model_fields, "data", *groups]
    for name in settings:
        if name not in known:
            raise InputError(f"{where} has no setting {name!r}{_remedy(str(name), known)}")
    for group, kinds in _kinds_by_group().items():
        values, fields = settings.get(group), _fields(kinds)
        if group == "method" and isinstance(values, dict):
            with suppress(InputError):  # an unknown kind is refused where it is read
                fields = list(type(method_of(values.get("kind", "auto"))).model_fields)
        for name in values.keys() - fields if isinstance(values, dict) else ():
            raise InputError(
                f"[{group}] of {where} has no setting {name!r}{_remedy(str(name), fields)}"
            )
    for group, name in _BY_ONE_VALUE.items():
        if group in settings and not isinstance(settings[group], dict):
            settings[group] = {name: settings[group]}


@contextmanager
def named_in_errors(settings: Mapping[str, Any]) -> Iterator[None]:
    """Begin an error of settings with the file, and the group in it, that has the wrong value."""
    try:
        yield
    except InputError as error:
        if (file := group_of(settings, "execution").get(_FILE)) is None:
            raise
        tables = group_of(settings, _TABLES)
        parts = {"": settings, **{f"{_TABLES}.{name}": tables[name] for name in tables}}
        for prefix, part in parts.items():
            for group in [*_kinds_by_group(), ""]:  # a group comes before the file
                if _error_of(group, part) == str(error):
                    place = ".".join(filter(None, [prefix, group]))
                    where = f"[{place}] of {file['name']}" if place else file["name"]
                    raise InputError(f"{where}: {error.message}", error.hint) from error
        raise


def _error_of(group: str, settings: Mapping[str, Any]) -> str | None:
    """Return the error of the settings of a group, or of those at the top, by themselves."""
    values, kind = settings.get(group), _kinds_by_group().get(group, [SelectionSettings])[0]
    if not group:
        values = {name: settings[name] for name in kind.model_fields if name in settings}
    if not isinstance(values, dict):
        return None
    # what may stand elsewhere, such as the target, is made up
    required = {name: name for name, field in kind.model_fields.items() if field.is_required()}
    try:
        _ = method_of(values) if group == "method" else kind(**{**required, **values})
    except InputError as error:
        return str(error)
    return None


def _fields(kinds: Sequence[type[Settings]]) -> list[str]:
    return [*dict.fromkeys(name for kind in kinds for name in kind.model_fields)]


@cache
def _kinds_by_group() -> dict[str, list[type[Settings]]]:
    """Return the classes of settings that each group may be, of all methods for the method."""
    kinds: dict[str, list[Any]] = {"execution": [ExecutionSettings]}
    for name, field in SelectionSettings.model_fields.items():
        kinds[name] = classes() if name == "method" else list(types_in(field.annotation))
    kinds |= {name: [kind] for name, kind in COMMANDS.items()}
    of_settings = {
        group: [kind for kind in of_group if isinstance(kind, type) and issubclass(kind, Settings)]
        for group, of_group in kinds.items()
    }
    return {group: of_group for group, of_group in of_settings.items() if of_group}


def _remedy(name: str, known: Sequence[str]) -> str:
    """Return the known settings that are alike, or where a file may have this one."""
    places = ["at the top"] if name in SelectionSettings.model_fields else []
    groups = _kinds_by_group().items()
    places += [f"in [{group}]" for group, kinds in groups if name in _fields(kinds)]
    elsewhere = f"; it belongs {' or '.join(places)}" if places else ""
    return nearest(name, known) or elsewhere or nearest_or_all(name, known)


def settings_by_table(settings: Mapping[str, Any], command: str) -> list[dict[str, Any]]:
    """Return the settings of each of the ``[tables]``, or those at the top for a single table."""
    shared = {name: value for name, value in settings.items() if name != _TABLES}
    tables = group_of(settings, _TABLES)
    if not tables:
        return [shared]
    if command != "serve":
        raise InputError(f"[{_TABLES}] are for chaffinch serve; give {command} a file without them")
    return [merged(merged(shared, {"serve": {"name": name}}), own) for name, own in tables.items()]


def _parsed(path: str, text: str) -> Any:
    if Path(path).suffix in (".yaml", ".yml"):
        import yaml  # type: ignore[import-untyped]

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"{path} is not valid YAML ({error})") from error
    if Path(path).suffix != ".toml":
        raise InputError(f"{path} must end with .toml or .yaml")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML ({error})") from error


def group_of(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of a group, such as ``[execution]``; none if it is not there."""
    group = settings.get(name, {})
    if not isinstance(group, dict):
        raise InputError(f"{name} must be names with values but is {short_repr(group)}")
    return group


def execution_of(settings: Mapping[str, Any], options: Mapping[str, Any]) -> ExecutionSettings:
    """Return the store and the cluster of a file, or of the options."""
    return ExecutionSettings(**merged(group_of(settings, "execution"), nested(options, STRICT)))


def data_of(settings: Mapping[str, Any], argument: Any) -> Any:
    """Return the table, or tables, of the command line or of a file."""
    data = settings.get("data") if argument is None or argument == [] else argument
    if data is not None:
        return data
    raise InputError("DATA must be given, on the command line or as `data` in the file of --config")


def merged(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, replaced by those of `overrides`, group by group."""
    both = {**settings, **overrides}
    for name in settings.keys() & overrides.keys():
        if isinstance(settings[name], dict) and isinstance(overrides[name], dict):
            both[name] = merged(settings[name], overrides[name])
    return both


def as_toml(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    refused: Exception | None = None,
) -> str:
    """Return settings with a description each; those that have their default are comments.

    So is why a run refuses the table, at the top, and beside `drop` the column to leave out.
    """
    why = [] if refused is None else [*_comment(f"chaffinch run refuses this table: {refused}"), ""]
    return "\n".join(
        [
            "# Settings of `chaffinch run --config FILE`; one that begins with # has its default.",
            *why,
            f"data = {_value(data)}",
            *_with_drop(_lines(SelectionSettings, settings), settings, refused),
            "",
            "[execution]",
            *_lines(ExecutionSettings, execution),
            "",
        ]
    )


def _with_drop(
    lines: Iterator[str], settings: SelectionSettings, refused: Exception | None
) -> Iterator[str]:
    """Yield the lines of settings, `drop` with the refused column suggested before it."""
    column = refused.column if isinstance(refused, InputError) and refused.may_drop else None
    for line in lines:
        if column is not None and line.startswith(("drop =", "# drop =")):
            drop = [*settings.columns.drop, column]
            yield from _comment("To leave out the refused column, in place of the next line:")
            yield f"# drop = {_value(drop)}"
        yield line


def _comment(text: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _lines(kind: type[BaseModel], settings: BaseModel | None) -> Iterator[str]:
    """Yield the settings of a class, those of its groups last; None are the defaults."""
    groups: dict[str, tuple[type[BaseModel], BaseModel | None]] = {}
    for name, field in kind.model_fields.items():
        if name == _FILE:
            continue
        value = field.default if settings is None else getattr(settings, name)
        of_field = next(types_in(field.annotation))
        if isinstance(value, BaseModel):
            groups[name] = type(value), value
        elif isinstance(of_field, type) and issubclass(of_field, BaseModel):
            groups[name] = of_field, None
        else:
            is_default = settings is None or (value == field.default and name != "kind")
            yield from ("", *_comment(field.description or ""))
            has_value = value is not None and not (settings is None and field.is_required())
            line = f"{name} = {_value(value) if has_value else ''}".rstrip()
            yield f"# {line}" if is_default else line
    for name, (of_group, group) in groups.items():
        yield from ("", f"[{name}]" if group is not None else f"# [{name}]")
        yield from _lines(of_group, group)


def _value(value: Any) -> str:
    """Return a value in TOML, which has JSON's form of texts, numbers and lists of such."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)} = {_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple) and any(isinstance(item, BaseModel) for item in value):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)
