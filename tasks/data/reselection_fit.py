"""Whether newer rows fit what a former run kept, and what is left to do where they do not."""

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
    """Let an error inside name no remedy that a reselection cannot set."""
    try:
        yield
    except MendableError as error:
        if settings.former is not None:
            raise error.by_rows_alone() from error
        if type(error) is MendableError:  # servers show the name, which is to be the public one
            raise InputError(str(error)) from error
        raise


def may_lack(settings: SelectionSettings) -> frozenset[str]:
    """Return the columns that are named for something and that the rows need not have.

    A former run was told of them, and newer rows are asked only for what it used. What is told of
    them holds on for rows that have them again.
    """
    columns = settings.columns
    if settings.former is None:
        return frozenset()
    dropped = set(columns.drop).intersection(settings.former.former_drop)
    return frozenset({*columns.categorical, *columns.numeric, *dropped})


def check_columns_fit(method: Reselect, names: Collection[str], drop: Collection[str]) -> None:
    """Refuse newer rows that lack what the former run kept."""
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
    """Return what the former run kept and newer rows cannot offer, and why."""
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
    """Refuse newer rows in which a former feature is of another kind, or none is of use."""
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
    """Raise InputError if a column of a type that cannot be a feature was one in the former run."""
    if name in method.former:
        raise _other_kind(method, name, f"of type {kind}")


def _other_kind(method: Reselect, name: str, now: str) -> InputError:
    return InputError(
        f"feature {name!r} was a {method.former[name]} in the former run but is {now} in the newer "
        "rows; mend the column, or select anew"
    )


def instead_of_keeping(settings: SelectionSettings) -> str:
    """Return what to do about a column that is to be kept and is no use as a feature."""
    if settings.former is not None:
        return f"the former run was told to keep it, so mend the column, or {ANEW}"
    return "take it off the keep list"


def unless_given(settings: SelectionSettings, remedy: str, instead: str) -> str:
    """Return a remedy that is a setting, or what to do where the former run has set it."""
    return remedy if settings.former is None else instead


def warnings_since(method: Reselect, classes: Collection[str], rows: str) -> tuple[str, ...]:
    """Return what is odd about newer rows beside those of the former run, one sentence each."""
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
