"""How rows, groups and moments are dealt out to parts of given shares: arithmetic alone.

`least` says how many members each part must get whatever its share; the caller has checked that
there are enough.
"""

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def deal_rows(labels: Index, percent: Index, least: Index, random: np.random.Generator) -> Index:
    """Return each row's part, every class dealt out in proportion."""
    order = random.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = _apportion(np.bincount(labels), percent, least)
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.repeat(np.tile(np.arange(len(percent)), len(counts)), counts.ravel())
    return part


def _apportion(sizes: Index, percent: Index, least: Index) -> Index:
    """Return rows of each class for each part, shape (n_classes, p), by largest remainder.

    What rounding owes a part is carried on from class to class, so that the parts' own sizes are
    within one row as well. All in hundredths of a row: whole numbers, so that nothing hangs on
    the last bit of a float.
    """
    counts = np.zeros((len(sizes), len(percent)), dtype=np.int64)
    owed = np.zeros(len(percent), dtype=np.int64)
    for label in np.argsort(sizes, kind="stable"):
        if not sizes[label]:
            continue
        quota = percent * sizes[label] + owed
        given = np.maximum(quota // 100, least)
        while given.sum() < sizes[label]:
            given[np.argmax(quota - 100 * given)] += 1
        while given.sum() > sizes[label]:
            given[np.argmin(np.where(given > least, quota - 100 * given, np.inf))] -= 1
        # where a rare class needs more than its share, the other classes do not make up for it
        owed = (quota - 100 * given).clip(-100, 100)
        counts[label] = given
    return counts


def deal_groups(
    labels: Index,
    groups: NDArray[np.generic],
    percent: Index,
    least: Index,
    random: np.random.Generator,
) -> Index:
    """Return each row's part: groups, the largest first, go where most is lacking.

    A part lacks the more, the more rows it is short of in the classes that the group holds. Once
    the groups left (of any kind, or with a certain class) are only just enough for the parts that
    still need one, they go to those.
    """
    names, group = np.unique(groups, return_inverse=True)
    n_classes = int(labels.max()) + 1
    cells = np.bincount(group * n_classes + labels, minlength=len(names) * n_classes)
    counts = cells.reshape(len(names), n_classes)
    totals = counts.sum(axis=0).clip(min=1)
    lacking = np.outer(percent / 100, totals)
    worth = counts / np.square(totals, dtype=np.float64)
    # in the first column groups of any kind, then groups with each class
    present = np.column_stack([np.ones(len(names), dtype=np.int64), counts > 0])
    needed = np.column_stack([least, np.ones((len(percent), n_classes), dtype=np.int64)])
    left = present.sum(axis=0)
    order = random.permutation(len(names))
    part_of = np.empty(len(names), dtype=np.int64)
    for number in order[np.argsort(-counts.sum(axis=1)[order], kind="stable")]:
        scarce = (present[number] > 0) & (left <= needed.sum(axis=0))
        urgent = (needed[:, scarce] > 0).sum(axis=1)
        lack = np.where(urgent == urgent.max(), (lacking * worth[number]).sum(axis=1), -np.inf)
        part = np.argmax(lack)
        part_of[number] = part
        lacking[part] -= counts[number]
        needed[part] = np.maximum(needed[part] - present[number], 0)
        left -= present[number]
    return part_of[group]


def cut_times(times: NDArray[np.generic], percent: Index, least: Index) -> Index:
    """Return each row's part: cuts between different times, as near to the shares as they come."""
    distinct, moment, counts = np.unique(times, return_inverse=True, return_counts=True)
    rows_before = np.concatenate([[0], np.cumsum(counts)])
    wanted = np.cumsum(percent) * len(times) / 100
    cuts = [0]
    for number in range(len(percent) - 1):
        lowest = cuts[-1] + least[number]
        highest = len(distinct) - least[number + 1 :].sum()
        distance = np.abs(rows_before[lowest : highest + 1] - wanted[number])
        cuts.append(int(lowest + np.argmin(distance)))
    return np.asarray(np.searchsorted(np.array(cuts[1:]), moment, side="right"), dtype=np.int64)
