"""Checks that newer rows fit a former run's selection, and the remedies where they do not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from chaffinch.storage.datasets.column_names import nearest, quoted, quoted_with_reasons
from chaffinch.storage.errors import InputError, MendableError
from chaffinch.tasks.errors import ANEW
from chaffinch.tasks.settings.reselection import Reselect
from chaffinch.tasks.settings.selection import SelectionSettings

DROPPED, TARGET_NOW = "left out as asked", "is the target now"


@contextmanager
def within_reach(settings: SelectionSettings) -> Iterator[None]:
    """Remove remedies that a reselection cannot set from errors of the block."""
    try:
        yield
    except MendableError as error:
        if settings.former is not None:
            raise error.by_rows_alone() from error
        if type(error) is MendableError:  # servers show the class name: use the public one
            raise InputError(str(error)) from error
        raise


def may_lack(settings: SelectionSettings) -> frozenset[str]:
    """Return the columns that the settings name and that the rows may lack.

    They are settings of a former run, and newer rows need only the columns that it used. The
    settings still apply to rows that have the columns.
    """
    columns = settings.columns
    if settings.former is None:
        return frozenset()
    dropped = set(columns.drop).intersection(settings.former.former_drop)
    return frozenset({*columns.categorical, *columns.numeric, *dropped})


def check_columns_fit(method: Reselect, names: Collection[str], drop: Collection[str]) -> None:
    """Raise InputError if newer rows lack a feature that the former run kept."""
    missing = [name for name in method.former if name not in names and name not in drop]
    if missing:
        near = nearest(missing[0], names) if len(missing) == 1 else ""
        raise InputError(
            f"the newer rows lack {quoted(missing, limit=20)}, which the former run kept{near}; "
            f"add what is missing, or {ANEW}"
        )


def why_gone(
    method: Reselect,
    settings: SelectionSettings,
    features: Collection[str],
    excluded: Mapping[str, str],
) -> dict[str, str]:
    """Return features that the former run kept and newer rows lack -> reason."""
    reasons = dict(excluded) | dict.fromkeys(settings.columns.drop, DROPPED)
    reasons[settings.target] = TARGET_NOW
    gone = (name for name in method.former if name not in features)
    return {name: reasons.get(name, "used for something else") for name in gone}


def check_kinds_fit(
    method: Reselect,
    features: Collection[str],
    categories: Collection[str],
    gone: Mapping[str, str],
) -> None:
    """Raise InputError if a former feature has another kind, or none can be used."""
    of_use = [name for name in method.former if name in features]
    if not of_use:
        remedies = {DROPPED: "drop fewer", TARGET_NOW: "choose another target"}
        remedy = [words for reason, words in remedies.items() if reason in gone.values()]
        raise InputError(
            "none of the features that the former run kept can be used: "
            f"{quoted_with_reasons(gone)}; {', or '.join([*remedy, ANEW])}"
        )
    for name in of_use:
        kind = "category" if name in categories else "number"
        if kind != method.former[name]:
            raise _other_kind(method, name, f"a {kind}")


def check_type_fits(method: Reselect, name: str, kind: str) -> None:
    """Raise InputError if a column whose type cannot be a feature was a former feature."""
    if name in method.former:
        raise _other_kind(method, name, f"of type {kind}")


def _other_kind(method: Reselect, name: str, now: str) -> InputError:
    return InputError(
        f"feature {name!r} was a {method.former[name]} in the former run but is {now} in the newer "
        "rows; mend the column, or select anew"
    )


def instead_of_keeping(settings: SelectionSettings) -> str:
    """Return the remedy for a keep column that cannot be a feature."""
    if settings.former is not None:
        return f"the former run was told to keep it, so mend the column, or {ANEW}"
    return "take it off the keep list"


def unless_given(settings: SelectionSettings, remedy: str, instead: str) -> str:
    """Return `remedy`, which is a setting, or `instead` in a reselection."""
    return remedy if settings.former is None else instead


def warnings_since(method: Reselect, classes: Collection[str], rows: str) -> tuple[str, ...]:
    """Return warnings of differences between newer rows and those of the former run."""
    found = []
    if rows == method.former_rows:
        found.append(
            "the newer rows are the very rows of the former run, so that they show nothing new; "
            "give later ones"
        )
    before, now = set(method.former_classes), set(classes)
    if before and now and before != now:
        differs = [
            f"{said}: {quoted(sorted(names))}"
            for said, names in (("new", now - before), ("missing", before - now))
            if names
        ]
        found.append(
            f"the target's classes are not those of the former run ({', '.join(differs)}); make "
            "sure that the labels mean the same"
        )
    return tuple(found)
