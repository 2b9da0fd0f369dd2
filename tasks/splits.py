"""The four parts of the rows, and the folds inside the first.

Rows are parted once, before anything is learned: what models are fitted on, what masks are judged
on, what the chosen mask is judged on, and what nobody looks at until the end. Classes keep their
proportions; a group is never split; with a time column, later parts are strictly later.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.dealing import Index, cut_times, deal_groups, deal_rows
from chaffinch.tasks.selection.rivals.refit_names import FOLDED
from chaffinch.tasks.selection.vocabulary import Floats
from chaffinch.tasks.settings import SelectionSettings

PARTS = ("train", "mask_validation", "model_validation", "test")
# the first three of the usual shares, where the test part is given
_PERCENT_OF_THE_REST = np.array([53, 35, 12])

Keys = NDArray[np.generic]

# why times may be fewer than a person sees
NOT_FINER = "times finer than a microsecond are not told apart"


@dataclass(frozen=True)
class Splits:
    """Row numbers of the four parts: sorted, disjoint, and together every row.

    Attributes
    ----------
    train : ndarray of int64
        What models are fitted on; 45 % of the rows, unless other shares are asked for.
    mask_validation : ndarray of int64
        What masks are judged on; 30 %.
    model_validation : ndarray of int64
        What chooses between finished masks; 10 %.
    test : ndarray of int64
        What selection never sees; 15 %.
    """

    train: Index
    mask_validation: Index
    model_validation: Index
    test: Index


def least_members(settings: SelectionSettings, *, by_time: bool = False) -> Index:
    """Return how many members each part needs, shape (4,).

    Members are rows of each class, or groups, or different times. Every part needs one. The
    training part needs one for each fold, of tuning or search; in time one more, because the
    earliest stretch is never held out.
    """
    has_folds = settings.model.tuning != "none" or settings.method.kind in FOLDED
    folds = settings.model.folds + by_time if has_folds else 0
    return np.array([max(1, folds), 1, 1, 1])


def split_rows(
    y: Floats | Index,
    settings: SelectionSettings,
    *,
    groups: Keys | None = None,
    times: Keys | None = None,
    classes: Sequence[str] = (),
) -> Splits:
    """Part the rows into training, mask validation, model validation and test.

    Without groups or times every part is within one row of its share, unless a class is so rare
    that some part would get none. The result depends on the seed and the order of the rows; by
    group or by time not even on their order.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices, which are stratified.
    settings : SelectionSettings
        Gives the seed and the folds.
    groups : ndarray, shape (n,), optional
        Rows with equal values stay in one part.
    times : ndarray, shape (n,), optional
        Later parts are strictly later.
    classes : sequence of str, optional
        Names of the classes for the errors; without them, their indices.

    Raises
    ------
    InputError
        If rows, groups or times, or the rows of a class, are too few for the parts and the folds,
        or if both groups and times are given.
    """
    part = _dealt(
        y, settings, np.array(settings.shares), least_members(settings), groups, times, classes
    )
    return Splits(*(np.flatnonzero(part == number) for number in range(len(PARTS))))


def split_around(
    test: Index,
    y: Floats | Index,
    settings: SelectionSettings,
    *,
    groups: Keys | None = None,
    times: Keys | None = None,
    classes: Sequence[str] = (),
) -> Splits:
    """Part the rows that come before or beside a given test part; see `split_rows`.

    With times, rows that are not strictly earlier than every test row belong to no part.

    Parameters
    ----------
    test : ndarray of int64, shape (m,)
        Sorted row numbers of the test part.
    y, settings, groups, times, classes
        As in `split_rows`, of all rows.
    """
    rest = np.setdiff1d(np.arange(len(y)), test)
    if times is not None:
        rest = rest[times[rest] < times[test].min()]
    part = _dealt(
        y[rest],
        settings,
        _PERCENT_OF_THE_REST,
        least_members(settings)[:-1],
        None if groups is None else groups[rest],
        None if times is None else times[rest],
        classes,
    )
    train, mask_validation, model_validation = (rest[part == number] for number in range(3))
    return Splits(train, mask_validation, model_validation, test)


def _dealt(
    y: Floats | Index,
    settings: SelectionSettings,
    percent: Index,
    least: Index,
    groups: Keys | None,
    times: Keys | None,
    classes: Sequence[str],
) -> Index:
    """Return each row's part; see `split_rows` for what is raised."""
    if groups is not None and times is not None:
        raise InputError("rows are parted by groups or by times, not by both: give one of them")
    by_class = np.issubdtype(y.dtype, np.integer)
    labels = y.astype(np.int64) if by_class else np.zeros(len(y), dtype=np.int64)
    _require(len(y), least, "the table has {} rows", "give more rows")
    if groups is not None:
        said = f"group column {settings.columns.group or ''!r} has {{}} different values"
        _require(len(np.unique(groups)), least, said, "name a finer one")
        part = deal_groups(labels, groups, percent, least, np.random.default_rng(settings.seed))
    elif times is not None:
        in_time = least_members(settings, by_time=True)[: len(least)]
        said = f"time column {settings.columns.time or ''!r} has {{}} different values"
        _require(len(np.unique(times)), in_time, said, f"name a finer one ({NOT_FINER})")
        part = cut_times(times, percent, in_time)
        least = np.ones_like(least)
    else:
        for label, size in enumerate(np.bincount(labels) if by_class else ()):
            said = f"class {_name(label, classes)} has {{}} rows"
            _require(size, least, said, "merge or drop rare classes")
        part = deal_rows(labels, percent, least, np.random.default_rng(settings.seed))
    if by_class:
        _require_classes(labels, part, least, classes)
    return part


def fold_indices(
    y: Floats | Index,
    settings: SelectionSettings,
    *,
    groups: Keys | None = None,
    times: Keys | None = None,
    anew: bool = False,
) -> list[tuple[Index, Index]]:
    """Return the folds of the training part as pairs of row numbers (to fit on, held out).

    Classes are stratified and groups kept whole; with times, a fold holds out strictly later rows
    than it is fitted on. Row numbers count the rows given, which are those of the training part.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices.
    settings : SelectionSettings
        Gives the number of folds and the seed.
    groups, times : ndarray, shape (n,), optional
        As in `split_rows`.
    anew : bool
        Whether groups are dealt anew for each seed even where there are no classes, at the price
        of folds with less equal numbers of rows.

    Raises
    ------
    InputError
        If the rows of a class, the groups or the times are too few for the folds, or a fold would
        be fitted on one class only.
    """
    from sklearn import model_selection

    n_folds, seed = settings.model.folds, settings.seed
    by_class = bool(np.issubdtype(y.dtype, np.integer))
    if by_class and times is None:
        rarest = int(np.bincount(y)[np.unique(y)].min())
        _require_for_folds(rarest, n_folds, "rows of its rarest class")
    if groups is not None:
        _require_for_folds(len(np.unique(groups)), n_folds, "groups")
        # without classes, scikit-learn balances the folds' rows only if it does not shuffle
        splitter = (
            model_selection.StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
            if by_class
            else model_selection.GroupKFold(
                n_folds, shuffle=anew, random_state=seed if anew else None
            )
        )
        folds = list(splitter.split(y, y, groups))
    elif times is not None:
        distinct, moment = np.unique(times, return_inverse=True)
        _require_for_folds(len(distinct) - 1, n_folds, "different times after the first")
        folds = [
            (np.flatnonzero(moment < late[0]), np.flatnonzero(np.isin(moment, late)))
            for _, late in model_selection.TimeSeriesSplit(n_folds).split(distinct)
        ]
    else:
        _require_for_folds(len(y), n_folds, "rows")
        kind = model_selection.StratifiedKFold if by_class else model_selection.KFold
        folds = list(kind(n_folds, shuffle=True, random_state=seed).split(y, y))
    for number, (fitted, held_out) in enumerate(folds, start=1):
        if not len(held_out):
            raise InputError(f"fold {number} of {n_folds} would hold out no row: use fewer folds")
        if by_class and len(np.unique(y[fitted])) == 1:
            raise InputError(
                f"fold {number} of {n_folds} would be fitted on one class only: use fewer folds"
            )
    return folds


def _require(members: int, least: Index, said: str, remedy: str) -> None:
    """Raise unless there are as many members as all parts together need."""
    if members >= least.sum():
        return
    folds = f" ({least[0]} to train on, for the folds, and 1 in each other part)"
    fewer = ", or use fewer folds" if least[0] > 1 else ""
    raise InputError(
        f"{said.format(members)} but needs {least.sum()}{folds if fewer else ', 1 in each part'}: "
        f"{remedy}{fewer}"
    )


def _require_classes(labels: Index, part: Index, least: Index, classes: Sequence[str]) -> None:
    """Raise unless every part has enough rows of every class."""
    n_classes = int(labels.max()) + 1
    cells = np.bincount(part * n_classes + labels, minlength=len(least) * n_classes)
    counts = cells.reshape(len(least), n_classes)
    short = np.argwhere((counts < least[:, np.newaxis]) & (counts.sum(axis=0) > 0))
    for number, label in short[:1]:
        raise InputError(
            f"class {_name(label, classes)} has {counts[number, label]} rows in the "
            f"{PARTS[number]} part but needs {least[number]}, because groups stay whole and times "
            "in order: merge or drop rare classes, or name no group or time column"
        )


def _require_for_folds(members: int, n_folds: int, what: str) -> None:
    if members < n_folds:
        raise InputError(
            f"{n_folds} folds need {n_folds} {what} but there are {members}: use fewer folds"
        )


def _name(label: int, classes: Sequence[str]) -> str:
    return repr(classes[label]) if len(classes) else str(label)
