"""Assignment of rows, groups and times to sets by shares.

`least` is the minimum number of members of each set; the caller checks that there are enough.
"""

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def assign_rows(labels: Index, percent: Index, least: Index, random: np.random.Generator) -> Index:
    """Return the number of each row's set, stratified by class."""
    order = random.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    counts = _apportion(np.bincount(labels), percent, least)
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.repeat(np.tile(np.arange(len(percent)), len(counts)), counts.ravel())
    return part


def _apportion(sizes: Index, percent: Index, least: Index) -> Index:
    """Return rows of each class for each set, shape (n_classes, p), by largest remainder.

    The rounding error of a set is carried from class to class, so that the sizes of sets are within
    a row as well. Quotas are in hundredths of a row: integers, without floating-point errors.
    """
    counts = np.zeros((len(sizes), len(percent)), dtype=np.int64)
    carried = np.zeros(len(percent), dtype=np.int64)
    for label in np.argsort(sizes, kind="stable"):
        if not sizes[label]:
            continue
        quota = percent * sizes[label] + carried
        n_rows = np.maximum(quota // 100, least)
        while n_rows.sum() < sizes[label]:
            n_rows[np.argmax(quota - 100 * n_rows)] += 1
        while n_rows.sum() > sizes[label]:
            n_rows[np.argmin(np.where(n_rows > least, quota - 100 * n_rows, np.inf))] -= 1
        # other classes do not compensate for a rare class that needs more than its share
        carried = (quota - 100 * n_rows).clip(-100, 100)
        counts[label] = n_rows
    return counts


def assign_groups(
    labels: Index,
    groups: NDArray[np.generic],
    percent: Index,
    least: Index,
    random: np.random.Generator,
) -> Index:
    """Return the number of each row's set; groups, the largest first, go to the neediest set.

    The need of a set is its shortage of rows in the classes of the group. Once the remaining groups
    (all, or those with a certain class) are just enough for the sets that still need a group,
    they go to those sets.
    """
    names, group = np.unique(groups, return_inverse=True)
    n_classes = int(labels.max()) + 1
    cells = np.bincount(group * n_classes + labels, minlength=len(names) * n_classes)
    counts = cells.reshape(len(names), n_classes)
    totals = counts.sum(axis=0).clip(min=1)
    lacking = np.outer(percent / 100, totals)
    worth = counts / np.square(totals, dtype=np.float64)
    # first column: all groups; other columns: groups with each class
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


def assign_times(times: NDArray[np.generic], percent: Index, least: Index) -> Index:
    """Return the number of each row's set; cuts between distinct times approximate the shares."""
    distinct, moment, counts = np.unique(times, return_inverse=True, return_counts=True)
    rows_before = np.concatenate([[0], np.cumsum(counts)])
    ideal = np.cumsum(percent) * len(times) / 100
    cuts = [0]
    for number in range(len(percent) - 1):
        lowest = cuts[-1] + least[number]
        highest = len(distinct) - least[number + 1 :].sum()
        distance = np.abs(rows_before[lowest : highest + 1] - ideal[number])
        cuts.append(int(lowest + np.argmin(distance)))
    return np.asarray(np.searchsorted(np.array(cuts[1:]), moment, side="right"), dtype=np.int64)
