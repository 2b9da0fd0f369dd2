"""Split of rows into training, mask validation, model validation and test sets, and folds.

Rows are split once, before training. Models are fitted on the training set, masks are evaluated on
the mask validation set, and the model validation set chooses between final masks. The test set is
used only for the final scores. Sets keep the proportions of classes; a group is never split; with
a time column, each set is strictly later than the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.data.split_requirements import (
    FEWER_FOLDS,
    FINER,
    MORE_GROUPS,
    MORE_ROWS,
    MORE_TIMES,
    NOT_FINER,
    PARTS,
    TooFewError,
    least_members,
    require_classes,
    require_for_folds,
    require_members,
    require_of_classes,
    require_to_train_on,
)
from chaffinch.tasks.data.stratified_split import Index, cut_times, deal_groups, deal_rows
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.selection import SelectionSettings

# the first three default shares, rescaled, for a given test set
_PERCENT_OF_THE_REST = np.array([53, 35, 12])

Keys = NDArray[np.generic]


@dataclass(frozen=True)
class Splits:
    """Row numbers of the four sets: sorted and disjoint.

    Attributes
    ----------
    train : ndarray of int64
        Rows for fitting models; 45 % by default.
    mask_validation : ndarray of int64
        Rows for evaluating masks; 30 % by default.
    model_validation : ndarray of int64
        Rows for choosing between final masks; 10 % by default.
    test : ndarray of int64
        Rows that a selection never uses; 15 % by default.
    """

    train: Index
    mask_validation: Index
    model_validation: Index
    test: Index


def split_rows(
    y: Floats | Index,
    settings: SelectionSettings,
    *,
    groups: Keys | None = None,
    times: Keys | None = None,
    classes: Sequence[str] = (),
) -> Splits:
    """Split rows into training, mask validation, model validation and test sets.

    Without groups or times every set is within one row of its share, unless a rare class needs
    more. The result depends on the seed and, without groups or times, on the order of the rows.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices, which are stratified.
    settings : SelectionSettings
        Settings with the seed, the shares and the folds.
    groups : ndarray, shape (n,), optional
        Rows with equal values stay in one set.
    times : ndarray, shape (n,), optional
        Each set is strictly later than the one before.
    classes : sequence of str, optional
        Names of the classes for errors; by default their indices.

    Raises
    ------
    InputError
        If rows, groups or times, or the rows of a class, are too few for the sets, the folds or
        the method, or if both groups and times are given.
    """
    rows = _Rows(y, groups, times)
    part = _dealt(rows, settings, np.array(settings.shares), least_members(settings), classes)
    require_to_train_on(int((part == 0).sum()), settings.method, y)
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
    """Split the rows outside a given test set; see `split_rows`.

    With times, rows that are not strictly earlier than every test row belong to no set.
    """
    rest = np.setdiff1d(np.arange(len(y)), test)
    if times is not None:
        rest = rest[times[rest] < times[test].min()]
    every, least = _Rows(y, groups, times), least_members(settings)[:-1]
    part = _dealt(every.take(rest), settings, _PERCENT_OF_THE_REST, least, classes, every)
    train, mask_validation, model_validation = (rest[part == number] for number in range(3))
    return Splits(train, mask_validation, model_validation, test)


@dataclass(frozen=True)
class _Rows:
    """Inputs of a split."""

    y: Floats | Index
    groups: Keys | None
    times: Keys | None

    def take(self, rows: Index) -> _Rows:
        """Return the inputs of some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return _Rows(self.y[rows], groups, None if self.times is None else self.times[rows])


def _dealt(
    rows: _Rows,
    settings: SelectionSettings,
    percent: Index,
    least: Index,
    classes: Sequence[str],
    every: _Rows | None = None,
) -> Index:
    """Return the number of each row's set; see `split_rows` for the errors.

    `every` includes the rows of a given test set.
    """
    groups, times, columns = rows.groups, rows.times, settings.columns
    if groups is not None and times is not None:
        raise InputError("rows are split by groups or by times, not by both: give one of them")
    by_class, whole = np.issubdtype(rows.y.dtype, np.integer), every or rows
    labels = rows.y.astype(np.int64) if by_class else np.zeros(len(rows.y), dtype=np.int64)
    in_time = least_members(settings, by_time=times is not None)[: len(least)]
    if not by_class or groups is not None or times is not None:
        members, by_time = (len(rows.y), len(whole.y)), times is not None
        require_members("the table", "row", members, in_time, MORE_ROWS, by_time=by_time)
    if groups is not None:
        owner, n_distinct = f"group column {columns.group or ''!r}", _distinct(groups, whole.groups)
        finer = (FINER,) if _may_be_finer(rows, least, every) else ()
        require_members(owner, "different value", n_distinct, least, MORE_GROUPS, *finer)
        part = deal_groups(labels, groups, percent, least, np.random.default_rng(settings.seed))
    elif times is not None:
        owner, n_distinct = f"time column {columns.time or ''!r}", _distinct(times, whole.times)
        finer = (f"{FINER} ({NOT_FINER})",) if _may_be_finer(rows, in_time, every) else ()
        what, remedies = "different value", (MORE_TIMES, *finer)
        require_members(owner, what, n_distinct, in_time, *remedies, by_time=True)
        part = cut_times(times, percent, in_time)
        least = np.ones_like(least)
    else:
        if by_class:
            require_of_classes(labels, whole.y.astype(np.int64), least, classes)
        part = deal_rows(labels, percent, least, np.random.default_rng(settings.seed))
    if by_class:
        require_classes(labels, part, least, classes)
    return part


def _may_be_finer(rows: _Rows, least: Index, every: _Rows | None) -> bool:
    """Return whether a column with a distinct value in every row would suffice.

    Twice as many rows are required within outer folds, where the share of times that a fold leaves
    varies.
    """
    return bool(len(rows.y) >= least.sum() * (1 if every is None else 2))


def _distinct(keys: Keys, every: Keys | None) -> tuple[int, int]:
    """Return the numbers of distinct values of `keys` and of `every`."""
    n_distinct = len(np.unique(keys))
    return n_distinct, n_distinct if every is None else len(np.unique(every))


def fold_indices(
    y: Floats | Index,
    settings: SelectionSettings,
    *,
    groups: Keys | None = None,
    times: Keys | None = None,
    shuffle_groups: bool = False,
) -> list[tuple[Index, Index]]:
    """Return the folds of the training set as pairs of row numbers (to fit on, held out).

    Classes are stratified and groups kept whole; with times, a fold holds out strictly later rows
    than it is fitted on. Row numbers are positions in `y`.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices.
    settings : SelectionSettings
        Settings with the number of folds and the seed.
    groups, times : ndarray, shape (n,), optional
        See `split_rows`.
    shuffle_groups : bool
        Whether to shuffle groups by the seed even without classes, which makes the sizes of folds
        less equal.

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
        require_for_folds(rarest, n_folds, "rows of its rarest class")
    if groups is not None:
        require_for_folds(len(np.unique(groups)), n_folds, "groups")
        # without classes, scikit-learn balances the sizes of folds only without shuffling
        splitter = (
            model_selection.StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
            if by_class
            else model_selection.GroupKFold(
                n_folds, shuffle=shuffle_groups, random_state=seed if shuffle_groups else None
            )
        )
        folds = list(splitter.split(y, y, groups))
    elif times is not None:
        distinct, moment = np.unique(times, return_inverse=True)
        require_for_folds(len(distinct) - 1, n_folds, "different times after the first")
        folds = [
            (np.flatnonzero(moment < late[0]), np.flatnonzero(np.isin(moment, late)))
            for _, late in model_selection.TimeSeriesSplit(n_folds).split(distinct)
        ]
    else:
        require_for_folds(len(y), n_folds, "rows")
        kind = model_selection.StratifiedKFold if by_class else model_selection.KFold
        folds = list(kind(n_folds, shuffle=True, random_state=seed).split(y, y))
    for number, (fitted, held_out) in enumerate(folds, start=1):
        if not len(held_out):
            raise TooFewError(f"fold {number} of {n_folds} would hold out no row", FEWER_FOLDS)
        if by_class and len(np.unique(y[fitted])) == 1:
            raise TooFewError(
                f"fold {number} of {n_folds} would be fitted on one class only", FEWER_FOLDS
            )
    return folds
