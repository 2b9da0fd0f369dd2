"""Base class of settings, fields with their texts, and types of numbers and paths."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.column_names import nearest, text_of_label
from chaffinch.storage.files import check_named, is_address

# Pydantic's kind of error -> the condition that failed, with the limits from the error's context.
# Pydantic's own messages are written for programmers and take four lines.
_MUST = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "literal_error": "must be {expected}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "too_short": "must be a list of at least {min_length}",
    "dict_type": "must be names with values",
    "model_type": "must be names with values",
    "too_long": "must be a list of at most {max_length}",
    "path_type": "must be a path",
}


def refusal(
    error: ValidationError, fields: Iterable[str], shown_as: Mapping[str, str] | None = None
) -> str:
    """Return the first error, in a single line; that of an unknown name before all others."""
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda detail: detail["type"] != "extra_forbidden")
    kind, place, value = first["type"], first["loc"], first.get("input")
    if kind == "value_error":  # a sentence of our own
        return str(first["ctx"]["error"])
    if not place:  # a name that is not valid Unicode
        return "the name of a setting is not valid Unicode text; correct it"
    name = (shown_as or {}).get(str(place[0]), str(place[0]))
    if kind == "extra_forbidden":
        known = [field for field in fields if field != "kind"]
        near = nearest(name, known) or f"; there are {', '.join(known)}"
        return f"there is no setting {name!r}{near}"
    if kind == "missing":
        return f"{place[0]} must be given"
    must = first["msg"].replace("Input should be", "must be", 1)
    if kind in _MUST:
        must = _MUST[kind].format(**first.get("ctx", {}))
    remedy = ""
    if kind == "tuple_type" and isinstance(value, str):
        remedy = f"; write [{value if value.isdecimal() else short_repr(value)}]"
    return f"{name} {must} but is {short_repr(value)}{remedy}"


def _refuse_ambiguous_size(value: Any) -> Any:
    """Refuse a size such as 1.0, which may mean a single feature or all of them."""
    if isinstance(value, bool | float) or (isinstance(value, str) and not value.strip().isdigit()):
        raise ValueError(
            "a size must be a whole number of features, or a share below 1, but is "
            f"{short_repr(value)}"
        )
    return value


def as_name(label: Any) -> Any:
    """Return the name of a column for its label in a pandas table; anything else unchanged."""
    is_label = isinstance(label, Integral | tuple) and not isinstance(label, bool)
    return text_of_label(label) if is_label else label


Name = Annotated[str, BeforeValidator(as_name)]
# Sorted: the order of the values does not change the identity of the settings.
InOrder = AfterValidator(lambda values: tuple(sorted(set(values))))
Names = Annotated[tuple[Name, ...], InOrder]
FEWEST_FOLDS, MOST_FOLDS = 2, 20
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
# A number or a share of features: 5, or 0.5. The form has a single field for both: of two choices,
# the UI takes the first for any number, and then refuses its own 0.5.
Size = Annotated[
    Annotated[int, BeforeValidator(_refuse_ambiguous_size), Field(ge=1)] | Share,
    WithJsonSchema(
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "if": {"minimum": 1},
            "then": {"multipleOf": 1},
        }
    ),
]


def as_list(value: Any) -> Any:
    """Return a number as a list of a single number; anything else unchanged."""
    return (value,) if isinstance(value, Real) and not isinstance(value, bool) else value


def _sizes_as_list(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(
            f"{info.field_name} must be a whole number of features, a share below 1, or a list of "
            f"such, but is {short_repr(value)}"
        )
    return as_list(value)


Sizes = Annotated[tuple[Size, ...], Field(min_length=1), BeforeValidator(_sizes_as_list)]


def _check_store_named(value: Any) -> Any:
    if is_address(value):
        from chaffinch.storage.objects.mirror import source_of_store

        return str(source_of_store(value))
    check_named(value, "store")
    # text is an address from here on
    return Path(value) if isinstance(value, str) else value


# Checked as text, because the path of empty text is the present folder.
StorePath = Annotated[
    Path | StrictStr,
    BeforeValidator(_check_store_named),
    WithJsonSchema({"type": "string", "format": "path", "minLength": 1, "pattern": r"\S"}),
]

STARTED_HERE = ("auto", "local")  # clusters on this machine
_CLUSTER = r"^(auto|local|none|(tcp|tls|ws|wss|ucx)://\S+)$"


def _check_cluster(value: Any) -> Any:
    if not isinstance(value, str) or not re.search(_CLUSTER, value):
        raise ValueError(
            "cluster must be 'auto', 'local', 'none' or a scheduler's address such as "
            f"tcp://host:8786 but is {short_repr(value)}"
        )
    return value


Cluster = Annotated[str, BeforeValidator(_check_cluster), Field(pattern=_CLUSTER)]


def _at_least_one(workers: int) -> int:
    if workers < 1:
        raise ValueError(
            f"workers must be at least 1 but is {workers}; for this process alone, leave it out "
            "and set cluster to 'none'"
        )
    return workers


WorkerCount = Annotated[
    int, AfterValidator(_at_least_one), WithJsonSchema({"type": "integer", "minimum": 1})
]


# JSON types in the words of the form.
_IN_WORDS = {
    "integer": "Number",
    "number": "Number",
    "string": "Text",
    "boolean": "Yes or no",
    "array": "List",
    "object": "Values",
    "null": "None",
}


def setting(default: Any, description: str, **options: Any) -> Any:
    """Return a field; its title is its name in words unless `options` have one."""
    return Field(default, description=description, **options)


def complete_form(schema: dict[str, Any]) -> None:
    """Order the fields of the form, and name their choices, which would be ``int`` and ``str``."""
    for position, field in enumerate(schema["properties"].values()):
        field["position"] = position
        for choice in field.get("anyOf", ()):
            if "$ref" not in choice:
                choice.setdefault("title", _IN_WORDS[choice["type"]])


def _types_of(annotation: Any) -> tuple[set[Any], set[Any]]:
    """Return the types of a field except None, and the types of the items of a list in it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _types_of(inner[0])
    if origin is tuple:
        return set(), _types_of(inner[0])[0]
    if origin not in (Union, UnionType):
        return {annotation} - {type(None)}, set()
    kinds, item_kinds = zip(*map(_types_of, inner), strict=True)
    return set().union(*kinds), set().union(*item_kinds)


class Settings(BaseModel):
    """Immutable settings that refuse unknown names and invalid values in a single line."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,  # a traceback would quote rows of a table
        json_schema_extra=complete_form,
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
        model_title_generator=lambda model: model.__name__.replace("Settings", " settings"),
    )
    # names in errors of settings that users set under another name
    shown_as: ClassVar[Mapping[str, str]] = MappingProxyType({})

    if not TYPE_CHECKING:  # type checkers know each model's own arguments

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                kind = type(self)
                raise InputError(refusal(error, kind.model_fields, kind.shown_as)) from error

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any, about: ValidationInfo) -> Any:
        """Refuse booleans for numbers, also in lists; pydantic takes them for 1 and 0."""
        name = str(about.field_name)
        kinds, item_kinds = _types_of(cls.model_fields[name].annotation)
        items = value if isinstance(value, Collection) and not isinstance(value, str) else ()
        for number, types in ((value, kinds), *((item, item_kinds) for item in items)):
            # numpy has a truth of its own, and is not loaded for settings
            is_truth = isinstance(number, bool) or str(getattr(number, "dtype", "")) == "bool"
            if is_truth and types in ({int}, {float}):
                must = "a whole number" if types == {int} else "a number"
                raise ValueError(f"{cls.shown_as.get(name, name)} must be {must} but is {number}")
        return value


def listed(role: str, values: Any, what: str = "a list") -> tuple[Any, ...]:
    """Return the items of a list; InputError for a single value, such as a text."""
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise InputError(f"{role} must be {what} but is {short_repr(values)}")
    return tuple(values)


SIZES = setting(
    (1 / 6, 1 / 5, 1 / 4, 1 / 2),
    "Numbers of features to keep, or shares of all; of several, the one that does best on the "
    "model-validation rows wins.",
    title="Sizes",
)
