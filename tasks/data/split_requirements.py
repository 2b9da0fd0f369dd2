"""Numbers of rows, groups or times that a split and its folds need, and errors of too few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.selection.baselines.names import fewest_rows
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import SelectionSettings

PARTS = ("train", "mask_validation", "model_validation", "test")

FEWER_FOLDS = "use fewer folds"
FEWEST_FOLDS = 2
MORE_ROWS = "give more rows"
MORE_GROUPS = "give rows of more groups"
MORE_TIMES = "give rows of more times"
FINER = "name a finer one"
MORE_OF_IT = "give more rows of it"
MERGE_CLASSES = "merge or drop rare classes"
NO_ROLES = "name no group or time column"
# reason for fewer distinct times than the table shows
NOT_FINER = "times finer than a microsecond count as one"


class TooFewError(InputError):
    """Too few rows, groups or times to split or fold, with remedies.

    Parameters
    ----------
    message : str
        Available and required numbers.
    *remedies : str
        Remedies; one of them is enough.
    """

    def __init__(self, message: str, *remedies: str) -> None:
        super().__init__(message, ", or ".join(remedies))
        self.args = (message, *remedies)  # what pickle makes it from
        self.remedies = remedies

    def without_fewer_folds(self, *others: str) -> TooFewError:
        """Return the error with `others` in place of the remedy of fewer folds."""
        left = [remedy for remedy in self.remedies if remedy != FEWER_FOLDS]
        return TooFewError(self.message, *(*left, *others) or (MORE_ROWS,))


def has_folds(settings: SelectionSettings) -> bool:
    """Return whether tuning or the search folds the training set."""
    return settings.model.tuning != "none" or bool(settings.method.folded_parts)


def least_members(settings: SelectionSettings, *, by_time: bool = False) -> Index:
    """Return the least number of members of each set, shape (4,).

    Members are rows of each class, groups, or distinct times. Every set needs one. The training set
    needs one for each fold of tuning or search; with times one more, because the earliest block is
    never held out.
    """
    folds = settings.model.folds + by_time if has_folds(settings) else 0
    return np.array([max(1, folds), 1, 1, 1])


def require_to_train_on(
    n_rows: int, method: Method, y: Floats | Index, *, is_within: bool = False
) -> None:
    """Raise TooFewError unless the training set has as many rows as a method needs."""
    n_classes = int(y.max()) + 1 if np.issubdtype(y.dtype, np.integer) else 0
    fewest = method.fewest_training_rows(n_classes)
    if n_rows < fewest:
        where = "an outer fold leaves" if is_within else "the parts leave"
        lower = n_rows >= fewest_rows(n_classes)  # only the order of dfs needs more
        others = (("take a lower order",) if lower else ()) + (
            (f"compare without {method.kind}",) if is_within else ()
        )
        raise TooFewError(
            f"{method.kind} needs at least {fewest} training rows but {where} it {n_rows}",
            MORE_ROWS,
            *others,
        )


def require_members(
    owner: str,
    what: str,
    members: tuple[int, int],
    least: Index,
    *remedies: str,
    by_time: bool = False,
) -> None:
    """Raise TooFewError unless there are as many members as all sets together need."""
    if members[0] < least.sum():
        owner_has = f"{owner} has {counted(members[1], what)}"
        raise _too_few(owner_has, members[0], least, *remedies, by_time=by_time)


def fewer_folds(n_members: int, least: Index, *, by_time: bool = False) -> tuple[str, ...]:
    """Return the remedy of fewer folds; empty if even the fewest folds are too many."""
    fewest = FEWEST_FOLDS + by_time
    is_cure = fewest < least[0] and n_members >= fewest + least[1:].sum()
    return (FEWER_FOLDS,) if is_cure else ()


def counted(number: int, what: str) -> str:
    """Return a number with its noun, such as ``1 row`` and ``2 rows``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def require_of_classes(y: Index, whole: Index, least: Index, classes: Sequence[str]) -> None:
    """Raise TooFewError unless every class has as many rows as all sets together need."""
    n_all = np.bincount(whole)
    n_parted = np.bincount(y, minlength=len(n_all))
    n_classes = int(np.count_nonzero(n_all))
    short = np.flatnonzero((n_parted < least.sum()) & (n_all > 0))
    if len(short) == n_classes > 1:
        owner_has = f"the table has {counted(len(whole), 'row')}"
        of_each, remedies = of_each_class(n_classes), in_each_class(n_classes)
        rarest = int(n_parted[short].min())
        raise _too_few(owner_has, len(y), least, *remedies, of_each=of_each, rarest=rarest)
    for label in short[:1]:
        owner_has = f"class {name_of_class(label, classes)} has {counted(int(n_all[label]), 'row')}"
        rarest, remedies = int(n_parted[short].min()), in_one_class(n_classes)
        raise _too_few(owner_has, int(n_parted[label]), least, *remedies, rarest=rarest)


def _too_few(
    owner_has: str,
    n_parted: int,
    least: Index,
    *remedies: str,
    of_each: str = "",
    rarest: int | None = None,
    by_time: bool = False,
) -> TooFewError:
    """Return the error for too few members.

    `of_each` names the classes that each need the members. `rarest` is the size of the rarest
    class: fewer folds are a remedy only if they suffice for it.
    """
    is_within = len(least) < len(PARTS)
    parts = ", 1 in each part"
    if least[0] > 1:
        folds = "the folds within" if is_within else "the folds"
        parts = f" ({least[0]} to train on, for {folds}, and 1 in each other part)"
    needs = f"but needs {least.sum()}{of_each}{parts}"
    if is_within:
        needs = (
            f"of which an outer fold leaves {n_parted} to select by, but {least.sum()}{of_each} "
            f"are needed there{parts}"
        )
    fewer = fewer_folds(n_parted if rarest is None else rarest, least, by_time=by_time)
    comma = ", " if is_within else " "
    return TooFewError(f"{owner_has}{comma}{needs}", *remedies, *fewer)


def of_each_class(n_classes: int) -> str:
    """Return the phrase that each class needs as many rows."""
    return f" of each of its {n_classes} classes"


def in_one_class(n_classes: int) -> tuple[str, ...]:
    """Return the remedies for too few rows of a class; two classes cannot be merged or dropped."""
    return (MORE_OF_IT,) if n_classes <= 2 else (MORE_OF_IT, MERGE_CLASSES)


def in_each_class(n_classes: int) -> tuple[str, ...]:
    """Return the remedies for too few rows of every class."""
    return (MORE_ROWS,) if n_classes <= 2 else (MORE_ROWS, MERGE_CLASSES)


def require_classes(labels: Index, part: Index, least: Index, classes: Sequence[str]) -> None:
    """Raise TooFewError unless every set has enough rows of every class."""
    n_classes = int(labels.max()) + 1
    cells = np.bincount(part * n_classes + labels, minlength=len(least) * n_classes)
    counts = cells.reshape(len(least), n_classes)
    short = np.argwhere((counts < least[:, np.newaxis]) & (counts.sum(axis=0) > 0))
    within = " inside an outer fold" if len(least) < len(PARTS) else ""
    # two classes cannot be merged or dropped
    of_classes = (MERGE_CLASSES,) if np.count_nonzero(counts.any(axis=0)) > 2 else ()
    for number, label in short[:1]:
        n_there = counted(int(counts[number, label]), "row")
        raise TooFewError(
            f"class {name_of_class(label, classes)} has {n_there} in the {PARTS[number]} part"
            f"{within} but needs {least[number]}, because groups stay whole and times in order",
            *of_classes,
            NO_ROLES,
        )


def require_for_folds(members: int, n_folds: int, what: str) -> None:
    """Raise TooFewError unless there is a member for each fold."""
    if members < n_folds:
        remedy = FEWER_FOLDS if members >= FEWEST_FOLDS else MORE_ROWS
        raise TooFewError(f"{n_folds} folds need {n_folds} {what} but there are {members}", remedy)


def name_of_class(label: Any, classes: Sequence[str]) -> str:
    """Return a class's name in errors: its label, or its index if there are no labels."""
    return repr(classes[label]) if len(classes) else str(label)
