"""Outer folds of a comparison, and the inner split of the other rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.data.arrow import as_keys, column_of, kind_of
from chaffinch.tasks.data.split_requirements import (
    FINER,
    MORE_GROUPS,
    MORE_ROWS,
    MORE_TIMES,
    NO_ROLES,
    NOT_FINER,
    TooFewError,
    counted,
    fewer_folds,
    has_folds,
    in_each_class,
    in_one_class,
    least_members,
    name_of_class,
    of_each_class,
    require_to_train_on,
)
from chaffinch.tasks.data.splits import Keys, Splits, fold_indices, split_around, split_rows
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.base import FEWEST_OUTER_FOLDS, MOST_OUTER_FOLDS
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import SelectionSettings


@dataclass(frozen=True)
class RowsToSplit:
    """Target, groups and times of all rows: the inputs of a split.

    Attributes
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices, which are stratified.
    groups, times : ndarray, shape (n,), optional
        See `splits.split_rows`.
    classes : sequence of str
        Names of the classes for errors.
    """

    y: Floats | Index
    groups: Keys | None = None
    times: Keys | None = None
    classes: Sequence[str] = ()


@dataclass(frozen=True)
class OuterFolds:
    """Split of a table's rows into outer folds.

    Attributes
    ----------
    n_folds : int in 2..20
    n_seeds : int
        Number of repetitions, with the seeds 0 to n_seeds - 1.
    selections : tuple of SelectionSettings
        Settings that all methods share: one for each model.
    methods : tuple of Method
        Methods that are compared. The folds do not depend on them, so that a method's selection is
        the same in every comparison.
    """

    n_folds: int
    n_seeds: int
    selections: tuple[SelectionSettings, ...]
    methods: tuple[Method, ...] = ()

    def splits(self, fold: int, rows: RowsToSplit, settings: SelectionSettings) -> Splits:
        """Return the split around an outer fold, which is the test set.

        Parameters
        ----------
        fold : int
            Number of the fold, from 0.
        rows : RowsToSplit
        settings : SelectionSettings
            Settings with the seed and the inner folds.

        Raises
        ------
        InputError
            If rows, groups or times, or the rows of a class, are too few for the outer folds, the
            split or the inner folds.
        """
        return _around(self._dealt(rows, settings)[fold], rows, settings)

    def check(self, rows: RowsToSplit) -> None:
        """Check that the outer folds of every seed leave enough rows for inner splits and folds.

        Raises
        ------
        InputError
            See `splits`; the message names the nearest feasible number of outer folds, if any.
        """
        try:
            self._try(rows)
        except TooFewError as error:
            for n_folds in self._nearest():
                try:
                    replace(self, n_folds=n_folds)._try(rows)
                except InputError:
                    continue
                raise error.without_fewer_folds(f"use {n_folds} outer folds") from error
            raise error.without_fewer_folds() from error

    def _try(self, rows: RowsToSplit) -> None:
        for selection in self.selections:
            for seed in range(self.n_seeds):
                settings = selection.model_copy(update={"seed": seed})
                folded = next((m for m in self.methods if m.folded_parts), settings.method)
                neediest = settings.model_copy(update={"method": folded})
                for test in self._dealt(rows, neediest):
                    _fold_inside(_around(test, rows, neediest).train, rows, neediest)
                    self._try_methods(_around(test, rows, settings), rows, settings)

    def _try_methods(self, splits: Splits, rows: RowsToSplit, settings: SelectionSettings) -> None:
        """Check that each method has enough rows in the final split."""
        for method in self.methods:
            require_to_train_on(len(splits.train), method, rows.y, is_within=True)
            method.check_training_rows(len(splits.train))
            if method.folded_parts:
                seen = [getattr(splits, part) for part in method.folded_parts]
                _fold_inside(np.sort(np.concatenate(seen)), rows, settings, is_known=False)

    def _dealt(self, rows: RowsToSplit, settings: SelectionSettings) -> list[Index]:
        """Return the rows of each outer fold."""
        outer = settings.model.model_copy(update={"folds": self.n_folds})
        dealt = settings.model_copy(update={"model": outer})
        try:
            folds = fold_indices(
                rows.y, dealt, groups=rows.groups, times=rows.times, shuffle_groups=True
            )
        except TooFewError as error:
            few = self._too_few(rows, settings)
            raise few or TooFewError(f"outer {error.message}", NO_ROLES) from error
        return [held_out for _, held_out in folds]

    def _too_few(self, rows: RowsToSplit, settings: SelectionSettings) -> TooFewError | None:
        """Return the error for fewer groups, times or rows than outer folds; None otherwise."""
        n_needed = self._least_members(settings, by_time=rows.times is not None)
        needs = f"but {self.n_folds} outer folds and the parts inside need at least {n_needed}"
        columns = settings.columns
        if np.issubdtype(rows.y.dtype, np.integer) and rows.times is None:
            of_each = np.bincount(rows.y)
            n_classes = int(np.count_nonzero(of_each))
            rarest = int(np.argmin(np.where(of_each > 0, of_each, len(rows.y))))
            if of_each[rarest] < self.n_folds and of_each.max() < n_needed and n_classes > 1:
                subject = f"the table has {counted(len(rows.y), 'row')} {needs}"
                each = of_each_class(n_classes)
                return TooFewError(f"{subject}{each}", *in_each_class(n_classes))
            if of_each[rarest] < self.n_folds:
                name = name_of_class(rarest, rows.classes)
                subject = f"class {name} has {counted(int(of_each[rarest]), 'row')} {needs}"
                return TooFewError(subject, *in_one_class(n_classes))
        is_enough = len(rows.y) >= n_needed  # if each row had a value of its own
        if rows.groups is not None and (n := len(np.unique(rows.groups))) < self.n_folds:
            subject = f"group column {columns.group or ''!r} has {counted(n, 'different value')}"
            finer = (FINER,) if is_enough else ()
            return TooFewError(f"{subject} {needs}", MORE_GROUPS, *finer)
        if rows.times is not None and (n := len(np.unique(rows.times))) <= self.n_folds:
            subject = f"time column {columns.time or ''!r} has {counted(n, 'different value')}"
            finer = (f"{FINER} ({NOT_FINER})",) if is_enough else ()
            return TooFewError(f"{subject} {needs}", MORE_TIMES, *finer)
        if len(rows.y) < self.n_folds:
            return TooFewError(f"the table has {counted(len(rows.y), 'row')} {needs}", MORE_ROWS)
        return None

    def _least_members(self, settings: SelectionSettings, *, by_time: bool) -> int:
        """Return the least number of rows, groups or times of which every outer fold leaves enough.

        Groups of unequal sizes can need more.
        """
        inside = int(least_members(settings, by_time=by_time)[:-1].sum())
        for n in count(self.n_folds + by_time):
            held_out = self.n_folds * (n // (self.n_folds + 1)) if by_time else n / self.n_folds
            if n - math.ceil(held_out) >= inside:
                break
        return n

    def _nearest(self) -> list[int]:
        """Return the other allowed numbers of folds, the nearest first."""
        numbers = range(FEWEST_OUTER_FOLDS, MOST_OUTER_FOLDS + 1)
        return sorted(set(numbers) - {self.n_folds}, key=lambda n: (abs(n - self.n_folds), -n))


def _around(test: Index, rows: RowsToSplit, settings: SelectionSettings) -> Splits:
    return split_around(
        test, rows.y, settings, groups=rows.groups, times=rows.times, classes=rows.classes
    )


def _fold_inside(
    train: Index, rows: RowsToSplit, settings: SelectionSettings, *, is_known: bool = True
) -> None:
    """Raise unless the training set can be folded.

    If `is_known`, the split already provides rows of each class for every fold.
    """
    has_roles = rows.groups is not None or rows.times is not None
    if is_known and not (has_folds(settings) and has_roles):
        return
    groups = None if rows.groups is None else rows.groups[train]
    times = None if rows.times is None else rows.times[train]
    try:
        fold_indices(rows.y[train], settings, groups=groups, times=times)
    except TooFewError as error:
        remedy = NO_ROLES if has_roles else MORE_ROWS
        raise TooFewError(f"inside an outer fold, {error.message}", remedy) from error


def require_rows(n_rows: int, settings: SelectionSettings, outer_folds: OuterFolds | None) -> None:
    """Raise unless there are enough rows for the split, before any column is read.

    With outer folds only an empty table raises; `OuterFolds.check` covers their needs.
    """
    by_time = settings.columns.time is not None
    least = least_members(settings, by_time=by_time)
    needed, is_folded = int(least.sum()), bool(least[0] > 1)
    if n_rows >= (1 if outer_folds else needed):
        return
    what = "parts and the folds" if is_folded else "parts"
    few = TooFewError(
        f"the table has {counted(n_rows, 'row')} but the {what} need {needed}",
        MORE_ROWS,
        *fewer_folds(n_rows, least, by_time=by_time),
    )
    raise few.without_fewer_folds() if outer_folds else few


def check_parts(
    table: Any,
    settings: SelectionSettings,
    y: Floats | Index,
    classes: tuple[str, ...],
    outer_folds: OuterFolds | None,
) -> None:
    """Raise InputError unless the rows can be split."""
    columns = settings.columns
    groups = times = None
    if columns.group is not None:
        groups = as_keys(column_of(table, columns.group, "group column"))
    if columns.time is not None:
        times = as_keys(column_of(table, columns.time, "time column"))

    def split(y: Floats | Index) -> Splits | None:
        if outer_folds is None:
            return split_rows(y, settings, groups=groups, times=times, classes=classes)
        outer_folds.check(RowsToSplit(y, groups, times, classes))
        return None

    def numbers_part() -> bool:
        try:
            split(y.astype(np.float64))
        except InputError:
            return False
        return True

    with _with_hint_for_the_target(table, settings, classes, numbers_part):
        splits = split(y)
    if splits is not None:
        settings.method.check_training_rows(len(splits.train))


@contextmanager
def _with_hint_for_the_target(
    table: Any,
    settings: SelectionSettings,
    classes: Sequence[str],
    numbers_part: Callable[[], bool],
) -> Iterator[None]:
    """Extend a split error with a remedy if the target does not look like classes.

    The error is unchanged if a numeric target could not be split either.
    """
    try:
        yield
    except InputError as error:
        if not numbers_part():
            raise
        are_numbers = bool(classes) and all(label.lstrip("-").isdigit() for label in classes)
        if settings.task == "auto" and are_numbers:
            is_text = kind_of(settings.target, table[settings.target]) == "category"
            remedy = "name it as numeric and " if is_text else ""  # it has leading zeros
            remedy += "set task to regression"
            hint = f"{error.hint}; if {settings.target!r} is a quantity, {remedy}"
            raise InputError(error.message, hint) from error
        n_rows = len(table)
        if 2 * len(classes) > n_rows:
            raise InputError(
                f"target {settings.target!r} has {len(classes)} different texts in {n_rows} rows, "
                "too many to be classes: give numbers, or classes of several rows each"
            ) from error
        raise
