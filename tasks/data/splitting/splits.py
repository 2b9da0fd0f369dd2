"""Split of rows into training, mask validation, model validation and test sets, and folds.

Rows are split once, before training. Models are fitted on the training set, masks are evaluated on
the mask validation set, and the model validation set chooses between final masks. The test set is
used only for the final scores. A cross-fitted method has a training set, which it folds, and a test
set or none. Sets keep the proportions of classes; a group is never split; with
a time column, each set is strictly later than the set before. With `search_rows`, the first three
sets are made smaller, and the rows that leave them are for the final models alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.stratified_split import (
    Index,
    assign_groups,
    assign_rows,
    assign_times,
)
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.base import FEWEST_FOLDS
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import SelectionSettings

PARTS = ("train", "mask_validation", "model_validation", "test")
FINAL = "final"  # the rows that only the final models are fitted on
# the first three default shares, rescaled, around a fixed test set
_SHARES_OF_THE_REST = dict(zip(PARTS, (53, 35, 12), strict=False))
SPLIT_WORDS = ("train", "validation", "test")
_SHARES_OF_VALIDATION = dict(zip(PARTS[1:], (75, 25), strict=False))
_NO_ROWS = np.array([], dtype=np.int64)

MORE_ROWS = "give more rows"
FEWER_FOLDS = "use fewer folds"
MORE_OUTER_FOLDS = "use more outer folds"
# reason for fewer distinct times than the table shows
NOT_FINER = "times finer than a microsecond count as one"

Keys = NDArray[np.generic]


class RareClassError(InputError):
    """A class has too few rows for the sets or the folds."""


@dataclass(frozen=True)
class Splits:
    """Row numbers of the sets: sorted and disjoint."""

    train: Index
    mask_validation: Index
    model_validation: Index
    test: Index
    final: Index = field(default_factory=lambda: _NO_ROWS)


@dataclass(frozen=True)
class Roles:
    """The columns of n rows that are not features, each shape (n,).

    y is float64, or class indices in int64, which are stratified. Rows of a group stay in one set;
    with times each set is later than the set before, by at least `embargo` and strictly. `split`
    are the user's own parts, indices of `SPLIT_WORDS`. `classes` are the names of the classes for
    errors, by default their indices.
    """

    y: Floats | Index
    groups: Keys | None = None
    times: Keys | None = None
    weight: Floats | None = None
    classes: Sequence[str] = ()
    split: Index | None = None
    embargo: float = 0

    @property
    def has_classes(self) -> bool:
        return bool(np.issubdtype(self.y.dtype, np.integer))

    @property
    def has_keys(self) -> bool:
        return self.groups is not None or self.times is not None

    def take(self, index: Index) -> Roles:
        of_rows = ("y", "groups", "times", "weight", "split")
        taken: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[index]
            for name in of_rows
        }
        return replace(self, **taken)


def split_rows(rows: Roles, settings: SelectionSettings) -> Splits:
    """Split rows into the sets.

    Without groups or times every set is within a row of its share, unless a rare class needs
    more. The result depends on the seed and, without groups or times, on the order of the rows.
    InputError if there are too few rows, groups, times or rows of a class.
    """
    splits = (
        _split_by_shares(rows, settings) if rows.split is None else _split_by_user(rows, settings)
    )
    if settings.search_rows is not None:
        splits = _for_search(splits, rows, settings.search_rows, settings)
    require_to_train_on(len(splits.train), settings.method, rows.y)
    return splits


def _for_search(splits: Splits, rows: Roles, most: int, settings: SelectionSettings) -> Splits:
    """Return the sets with `most` rows for the search, and the other rows for the final models."""
    sets = {name: index for name in PARTS[:3] if len(index := getattr(splits, name))}
    n_rows = sum(map(len, sets.values()))
    if n_rows <= most:
        return splits
    random = np.random.default_rng(settings.seed)
    kept = {
        name: index[_sample(rows.take(index), max(1, len(index) * most // n_rows), random)]
        for name, index in sets.items()
    }
    left = np.setdiff1d(np.concatenate([*sets.values()]), np.concatenate([*kept.values()]))
    smaller = replace(splits, **kept, final=left)
    folds = least_members(settings)[0]
    if rows.has_classes and not rows.has_keys:
        n_before, n_after = (
            np.bincount(rows.y[index], minlength=int(rows.y.max()) + 1)
            for index in (splits.train, smaller.train)
        )
        for label in np.flatnonzero((n_before >= folds) & (n_after < folds))[:1]:
            raise RareClassError(
                f"{most:,} search_rows leave {n_after[label]} training rows of class "
                f"{_name_of_class(rows, label)} but the folds need {folds}",
                f"give at least {math.ceil(folds * n_rows / n_before[label]):,} search_rows",
            )
    return smaller


def _sample(rows: Roles, n: int, random: np.random.Generator) -> Index:
    """Return the positions of at most `n` rows, ascending.

    The latest ones by time, whole groups at random, or rows at random with the shares of classes.
    """
    if rows.times is not None:
        start = np.sort(rows.times)[len(rows.times) - n]
        at_start = np.sum(rows.times >= start)
        latest = rows.times > start if at_start > n else rows.times >= start
        return np.flatnonzero(latest if latest.any() else rows.times == start)
    if rows.groups is not None:
        _, group, sizes = np.unique(rows.groups, return_inverse=True, return_counts=True)
        order = random.permutation(len(sizes))
        n_groups = max(1, np.searchsorted(np.cumsum(sizes[order]), n, side="right"))
        return np.flatnonzero(np.isin(group, order[:n_groups]))
    order = random.permutation(len(rows.y))
    if rows.has_classes:  # every so many rows of a class after another
        order = order[np.argsort(rows.y[order], kind="stable")]
    places = (np.arange(n) + 0.5) * len(order) / n
    return np.sort(order[places.astype(np.int64)])


def _split_by_shares(rows: Roles, settings: SelectionSettings) -> Splits:
    parts = _shares(settings, len(rows.y))
    part = _assign(rows, settings, parts)
    sets = {name: np.flatnonzero(part == number) for number, name in enumerate(parts)}
    return Splits(**dict.fromkeys(PARTS, _NO_ROWS) | sets)


def _split_by_user(rows: Roles, settings: SelectionSettings) -> Splits:
    """Split rows by the user's own parts; cross-fitting trains on rows of validation as well."""
    train, validation, test = parts = [
        np.flatnonzero(rows.split == code) for code in range(len(SPLIT_WORDS))
    ]
    _check_user_split(rows, parts, settings.columns)
    if settings.method.traits.is_cross_fitted:
        rest = np.sort(np.concatenate([train, validation]))
        return Splits(rest[_is_before(rest, test, rows)], _NO_ROWS, _NO_ROWS, test)
    if not len(validation):
        return split_around(test, rows, settings)
    part = _assign(rows.take(validation), settings, _SHARES_OF_VALIDATION, has_train=False)
    masks, models = (validation[part == number] for number in range(2))
    earlier = train[_is_before(train, validation, rows)]
    masks, models = (index[_is_before(index, test, rows)] for index in (masks, models))
    return Splits(earlier, masks, models, test)


def _check_user_split(rows: Roles, parts: Sequence[Index], columns: ColumnSettings) -> None:
    """Raise InputError if the user's parts tear a group, or are not in the order of time."""
    there = [(name, part) for name, part in zip(SPLIT_WORDS, parts, strict=True) if len(part)]
    for (name, part), (later_name, later) in combinations(there, 2):
        if rows.groups is not None:
            n_torn = len(np.intersect1d(rows.groups[part], rows.groups[later]))
            if n_torn:
                raise InputError(
                    f"split column {columns.split!r} has {n_torn} groups of {columns.group!r} in "
                    f"both {name} and {later_name}",
                    "correct the split, or leave out the group column",
                )
        if rows.times is not None:
            n_late = int((rows.times[part] >= rows.times[later].min()).sum())
            if n_late:
                raise InputError(
                    f"split column {columns.split!r} has {n_late} rows of {name} that are not "
                    f"earlier by {columns.time!r} than every row of {later_name}",
                    "correct the split, or leave out the time column",
                )


def _is_before(index: Index, later: Index, rows: Roles) -> NDArray[np.bool_]:
    """Return which rows are early enough for the rows `later`; all without times."""
    if rows.times is None:
        return np.ones(len(index), dtype=bool)
    return are_early(rows.times[index], rows.times[later].min(), rows.embargo)


def are_early(times: Keys, start: Any, embargo: float) -> NDArray[np.bool_]:
    """Return which times are before a start, by at least the embargo."""
    return np.asarray(times <= start - embargo if embargo else times < start)


def _shares(settings: SelectionSettings, n_rows: int) -> dict[str, int]:
    """Return the percent of the rows of each set."""
    if not settings.method.traits.is_cross_fitted:
        return dict(zip(PARTS, settings.shares, strict=True))
    test = settings.shares[-1] if settings.method.has_test_part(settings, n_rows) else 0
    return {"train": 100 - test} | ({"test": test} if test else {})


def split_around(test: Index, rows: Roles, settings: SelectionSettings) -> Splits:
    """Split the rows outside a fixed test set; see `split_rows`.

    With times, rows that are not early enough for every test row belong to no set.
    """
    rest = np.setdiff1d(np.arange(len(rows.y)), test)
    rest = rest[_is_before(rest, test, rows)]
    part = _assign(rows.take(rest), settings, _SHARES_OF_THE_REST, is_inside=True)
    train, mask_validation, model_validation = (rest[part == number] for number in range(3))
    return Splits(train, mask_validation, model_validation, test)


def has_folds(settings: SelectionSettings) -> bool:
    """Return whether tuning or the search folds the training set."""
    return settings.model.tuning != "none" or bool(settings.method.traits.folded_parts)


def least_members(
    settings: SelectionSettings, n_parts: int = len(PARTS), *, by_time: bool = False
) -> Index:
    """Return the least number of rows of each class, groups, or times of each set, shape (p,).

    The training set needs as many as there are folds of tuning or search; with times another,
    because the earliest block is never held out.
    """
    folds = settings.model.folds + by_time if has_folds(settings) else 0
    return np.array([max(1, folds), *[1] * (n_parts - 1)])


def _assign(
    rows: Roles,
    settings: SelectionSettings,
    shares: Mapping[str, int],
    *,
    is_inside: bool = False,
    has_train: bool = True,
) -> Index:
    """Return the number of each row's set, in the order of `shares`; `is_inside` an outer fold.

    The number is -1 for rows under an embargo.
    """
    if rows.groups is not None and rows.times is not None:
        raise InputError("rows are split by groups or by times, not by both: give one of them")
    n_rows, by_time = len(rows.y), rows.times is not None
    labels = rows.y.astype(np.int64) if rows.has_classes else np.zeros(n_rows, dtype=np.int64)
    percent, least = np.array([*shares.values()]), least_members(settings, len(shares))
    in_time = least_members(settings, len(shares), by_time=by_time)
    if not has_train:
        least = in_time = np.ones_like(least)
    fewest = settings.method.traits.fewest_folds
    require = partial(_require, is_inside=is_inside, fewest_folds=fewest)
    random = np.random.default_rng(settings.seed)
    if rows.has_keys or not rows.has_classes:
        require("the table", "row", n_rows, in_time, MORE_ROWS, by_time=by_time)
    if rows.groups is not None:
        owner = f"group column {settings.columns.group or ''!r}"
        remedy = "give rows of more groups, or name a finer one"
        require(owner, "different value", len(np.unique(rows.groups)), least, remedy)
        part = assign_groups(labels, rows.groups, percent, least, random)
    elif rows.times is not None:
        owner, n_distinct = (
            f"time column {settings.columns.time or ''!r}",
            len(np.unique(rows.times)),
        )
        remedy = f"give rows of more times, or name a finer one ({NOT_FINER})"
        require(owner, "different value", n_distinct, in_time, remedy, by_time=True)
        part = assign_times(rows.times, percent, in_time)
        part = _with_embargo(part, rows, [*shares])
        least = np.ones_like(least)
    else:
        if rows.has_classes:
            present, counts = np.unique(labels, return_counts=True)
            rarest = int(np.argmin(counts))
            owner = f"class {_name_of_class(rows, present[rarest])}"
            remedy = f"give more rows of it{_or_merge(len(present))}"
            require(owner, "row", int(counts[rarest]), least, remedy, kind=RareClassError)
        part = assign_rows(labels, percent, least, random)
    if rows.has_classes:
        _require_in_sets(rows, labels, part, dict(zip(shares, least, strict=True)), is_inside)
    return part


def _with_embargo(part: Index, rows: Roles, names: Sequence[str]) -> Index:
    """Return the sets without the rows that are less than the embargo before a later set."""
    if rows.times is None or not rows.embargo:
        return part
    is_early = np.ones(len(part), dtype=bool)
    for number in range(1, len(names)):
        start = rows.times[part == number].min()
        is_early &= (part >= number) | are_early(rows.times, start, rows.embargo)
    part = np.where(is_early, part, -1)
    for number, name in enumerate(names):
        if not (part == number).any():
            raise InputError(
                f"the embargo leaves no row in the {name} part",
                "give a shorter embargo, or rows of a longer time",
            )
    return part


def require_rows(settings: SelectionSettings, n_rows: int, *, by_time: bool) -> None:
    """Raise InputError unless there are as many rows as all sets together need."""
    least = least_members(settings, len(_shares(settings, n_rows)), by_time=by_time)
    fewest = settings.method.traits.fewest_folds
    _require("the table", "row", n_rows, least, MORE_ROWS, by_time=by_time, fewest_folds=fewest)


def _require(
    owner: str,
    what: str,
    n_members: int,
    least: Index,
    remedy: str,
    *,
    fewest_folds: int,
    by_time: bool = False,
    is_inside: bool = False,
    kind: type[InputError] = InputError,
) -> None:
    needed, where, parts = int(least.sum()), "", ", 1 in each part"
    if n_members >= needed:
        return
    if len(least) == 1:
        parts = ", for the folds"
    elif least[0] > 1:
        parts = f" ({least[0]} to train on, for the folds, and 1 in each other part)"
    if is_inside:
        where = " outside an outer fold"
        remedy += f", or {MORE_OUTER_FOLDS}"
    elif n_members - needed >= fewest_folds + by_time - least[0]:
        remedy += f", or {FEWER_FOLDS}"
    has = f"{n_members} {what}{'' if n_members == 1 else 's'}{where}"
    raise kind(f"{owner} has {has} but needs {needed}{parts}", remedy)


def _require_in_sets(
    rows: Roles, labels: Index, part: Index, least: Mapping[str, int], is_inside: bool
) -> None:
    """Raise RareClassError unless every set has enough rows of every class."""
    n_classes = int(labels.max()) + 1
    cells = (part * n_classes + labels)[part >= 0]
    cells = np.bincount(cells, minlength=len(least) * n_classes)
    counts, needed = cells.reshape(len(least), n_classes), np.array([*least.values()])
    short = np.argwhere((counts < needed[:, np.newaxis]) & (counts.sum(axis=0) > 0))
    for number, label in short[:1]:
        n_there = int(counts[number, label])
        within = " inside an outer fold" if is_inside else ""
        raise RareClassError(
            f"class {_name_of_class(rows, label)} has {n_there} row{'' if n_there == 1 else 's'} "
            f"in the {[*least][number]} part{within} but needs {needed[number]}, because groups "
            "stay whole and times in order",
            remedy_of_keys(rows, is_outer=is_inside) + _or_merge(int(counts.any(axis=0).sum())),
        )


def remedy_of_keys(rows: Roles, *, is_outer: bool) -> str:
    """Return the remedy for parts or folds by group or time that lack rows of a class.

    It never drops the column: its leaks would then be in the verdict.
    """
    if rows.times is None:
        return "name a finer group column, or give rows of more groups"
    by = "use fewer outer folds" if is_outer else "choose other shares of the parts"
    shorter = ", shorten the embargo" if rows.embargo else ""
    return f"{by}{shorter}, or leave out the earliest or the latest rows"


def _or_merge(n_classes: int) -> str:
    return ", or merge or drop rare classes" if n_classes > 2 else ""


def _name_of_class(rows: Roles, label: int) -> str:
    return repr(rows.classes[label]) if len(rows.classes) else str(label)


def require_to_train_on(
    n_rows: int, method: Method, y: Floats | Index, *, is_within: bool = False
) -> None:
    """Raise InputError unless the training set has as many rows as a method needs."""
    n_classes = int(y.max()) + 1 if np.issubdtype(y.dtype, np.integer) else 0
    fewest = method.min_training_rows(n_classes)
    if n_rows < fewest:
        where = "an outer fold leaves" if is_within else "the parts leave"
        raise InputError(
            f"{method.kind} needs at least {fewest} training rows but {where} it {n_rows}",
            MORE_ROWS + (f", or compare without {method.kind}" if is_within else ""),
        )


def fold_indices(
    rows: Roles, settings: SelectionSettings, *, outer: int = 0
) -> list[tuple[Index, Index]]:
    """Return the folds of the rows as pairs of positions (to fit on, held out).

    Classes are stratified and groups kept whole; with times, a fold holds out strictly later rows
    than it is fitted on, and later by the embargo. `outer` is the number of outer folds, which
    shuffle groups by the seed even without classes, so that their sizes are less equal; by default
    the folds of the settings. InputError if there are too few rows, groups or times, or a fold has
    a single class.
    """
    from sklearn import model_selection

    y, groups, times = rows.y, rows.groups, rows.times
    n_folds, seed = outer or settings.model.folds, settings.seed
    fewest = FEWEST_FOLDS if outer else settings.method.traits.fewest_folds
    name, remedy = (
        ("outer fold", f"{MORE_ROWS}, or use fewer outer folds") if outer else ("fold", FEWER_FOLDS)
    )
    by_class = bool(np.issubdtype(y.dtype, np.integer))

    def require(n_members: int, what: str, kind: type[InputError] = InputError) -> None:
        if n_members < n_folds:
            raise kind(
                f"{n_folds} {name}s need {n_folds} {what} but there are {n_members}",
                remedy if n_members >= fewest else MORE_ROWS,
            )

    if by_class and times is None:
        rarest = int(np.unique(y, return_counts=True)[1].min())
        require(rarest, "rows of its rarest class", RareClassError)
    if groups is not None:
        require(len(np.unique(groups)), "groups")
        # without classes, scikit-learn balances the sizes of folds only without shuffling
        splitter = (
            model_selection.StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
            if by_class
            else model_selection.GroupKFold(
                n_folds, shuffle=bool(outer), random_state=seed if outer else None
            )
        )
        folds = list(splitter.split(y, y, groups))
    elif times is not None:
        distinct, moment = np.unique(times, return_inverse=True)
        require(len(distinct) - 1, "different times after the first")
        folds = [
            (
                np.flatnonzero(are_early(times, distinct[late[0]], rows.embargo)),
                np.flatnonzero(np.isin(moment, late)),
            )
            for _, late in model_selection.TimeSeriesSplit(n_folds).split(distinct)
        ]
    else:
        require(len(y), "rows")
        kind = model_selection.StratifiedKFold if by_class else model_selection.KFold
        folds = list(kind(n_folds, shuffle=True, random_state=seed).split(y, y))
    check_folds(folds, y, name, remedy_of_keys(rows, is_outer=True) if outer else remedy)
    return folds


def check_folds(
    folds: Sequence[tuple[Index, Index]], y: Floats | Index, name: str, remedy: str
) -> None:
    """Raise InputError for a fold without rows to fit on or held out, or fitted on one class."""
    for number, (fitted, held_out) in enumerate(folds, start=1):
        wrong = "" if len(held_out) else "hold out no row"
        if not len(fitted):
            wrong = "have no row to fit on, given the embargo"
        if np.issubdtype(y.dtype, np.integer) and len(np.unique(y[fitted])) == 1:
            wrong = wrong or "be fitted on one class only"
        if wrong:
            raise InputError(f"{name} {number} of {len(folds)} would {wrong}", remedy)
