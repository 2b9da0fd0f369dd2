"""Checks that newer rows fit a former run's selection, and the hint where they do not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from chaffinch.errors import InputError
from chaffinch.storage.column_names import nearest, quoted, quoted_with_reasons
from chaffinch.storage.sources.formats.csv import MISSING
from chaffinch.tasks.data.roles import named_roles
from chaffinch.tasks.settings.reselection import Reselect
from chaffinch.tasks.settings.selection import SelectionSettings

DROPPED, TARGET_NOW = "left out as asked", "is the target now"
NO_COLUMN = "no such column"
_AGAIN = "or select again without a former run"
_HINT = f"change the rows, {_AGAIN}"


@contextmanager
def with_hints_for(settings: SelectionSettings) -> Iterator[None]:
    """Complete hints: a column without a role in the settings may be dropped.

    In a reselection, replace hints to change a setting, which the former run has set.
    """
    try:
        yield
    except InputError as error:
        if settings.former is None:
            with_a_role = {name for _, name in named_roles(settings)}
            error.may_drop = error.column is not None and error.column not in with_a_role
            raise
        if not error.hint:
            raise
        raise InputError(error.message, _AGAIN, how=error.how or "change the rows") from error


def optional_columns(settings: SelectionSettings) -> frozenset[str]:
    """Return the columns that the settings name and that the rows may lack.

    They are settings of a former run, and newer rows need only the columns that it used. The
    settings still apply to rows that have the columns.
    """
    columns = settings.columns
    if settings.former is None:
        return frozenset()
    dropped = set(columns.drop).intersection(settings.former.former_drop)
    return frozenset({*columns.categorical, *columns.numeric, *dropped})


def why_gone(
    method: Reselect,
    settings: SelectionSettings,
    features: Collection[str],
    excluded: Mapping[str, str],
    columns: Collection[str],
) -> dict[str, str]:
    """Return features that the former run kept and newer rows, of these columns, lack -> reason."""
    reasons = dict(excluded) | dict.fromkeys(settings.columns.drop, DROPPED)
    reasons[settings.target] = TARGET_NOW
    gone = (name for name in method.former if name not in features)
    return {
        name: reasons.get(name, "used for something else" if name in columns else NO_COLUMN)
        for name in gone
    }


def check_target_fits(method: Reselect, target: str, kind: str) -> None:
    """Raise InputError if a target of numbers in the former run is true and false."""
    if kind == "bool" and method.former_target in ("integer", "number"):
        raise InputError(
            f"target {target!r} was a number in the former run but is true and false in the newer "
            "rows",
            _HINT,
        )


def check_kinds_fit(
    method: Reselect,
    features: Collection[str],
    categories: Collection[str],
    gone: Mapping[str, str],
) -> None:
    """Raise InputError if a former feature has another kind, or none can be used."""
    of_use = [name for name in method.former if name in features]
    if not of_use:
        raise InputError(
            "none of the features that the former run kept can be used: "
            f"{quoted_with_reasons(gone)}; use one of them, or select again without a former run"
        )
    for name in of_use:
        kind = "category" if name in categories else "number"
        if kind != method.former[name]:
            raise _changed_kind_error(method, name, f"a {kind}")


def check_type_fits(method: Reselect, name: str, kind: str) -> None:
    """Raise InputError if a column whose type cannot be a feature was a former feature."""
    if name in method.former:
        raise _changed_kind_error(method, name, f"of type {kind}")


def _changed_kind_error(method: Reselect, name: str, now: str) -> InputError:
    return InputError(
        f"feature {name!r} was a {method.former[name]} in the former run but is {now} in the newer "
        "rows",
        _HINT,
    )


def warnings_since(
    method: Reselect, classes: Collection[str], rows: str, columns: Collection[str]
) -> tuple[str, ...]:
    """Return warnings of differences of the newer rows from the former run's rows."""
    warnings = []
    if missing := [name for name in method.former if name not in columns]:
        near = nearest(missing[0], columns) if len(missing) == 1 else ""
        warnings.append(
            f"the newer rows lack {quoted(missing, limit=20)}, which the former run kept{near}; "
            "make sure that this is meant"
        )
    if rows == method.former_rows:
        warnings.append(
            "the newer rows are the very rows of the former run, so that they show nothing new; "
            "give later ones"
        )
    before = method.former_classes
    if before and classes and (differ := other_classes(before, classes)):
        warnings.append(
            f"the target's classes are not those of the former run ({differ}); make sure that the "
            "labels mean the same"
        )
    return tuple(warnings)


def word_read_as_missing(
    known: Collection[str], now: Collection[str], n_missing: int, n_rows: int
) -> str:
    """Return that a category may have been read as missing, as NA of delimited text; else empty.

    `known` are the categories before, `now` those of the newer rows.
    """
    words = [word for word in known if word in MISSING]
    if not words or not n_missing or {*now}.intersection(words):
        return ""
    return (
        f"is missing in {n_missing} of {n_rows} rows and in none {quoted(words)}, a category "
        "before, which delimited text reads as missing; give Parquet, or write another word in both"
    )


def other_classes(before: Collection[str], now: Collection[str]) -> str:
    """Return which classes are new, and which are missing; empty if they are the same."""
    changes = {"new": {*now} - {*before}, "missing": {*before} - {*now}}
    return ", ".join(f"{which}: {quoted(sorted(of))}" for which, of in changes.items() if of)
