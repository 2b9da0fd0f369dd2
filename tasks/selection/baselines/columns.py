"""Features as filters read them: standardised columns, or codes in bins.

A number is one column, with missing values replaced by the mean. A category is one-hot encoded,
with missing as a separate value; the score of the feature is that of its best column. Columns are
standardised, which changes none of the statistics, but keeps their sums of squares accurate far
from zero. They are yielded in turn, so that memory does not grow with categories.

The mutual information of features in bins is a plain count of joint values, fast for all pairs.
With n_ab rows that have the value a of one feature and b of the other, of n in all,

    I = sum over a, b of n_ab / n log(n n_ab / (n_a n_b)),

so that a table of c log c for c in 0..n is all that is needed. Numbers, also of the target, are
split into bins of equal frequency by mean rank; equal values share a bin, and if there are no more
distinct values than bins, each has its own. Categories are unchanged. Missing is a separate value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, hstack, issparse

from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

_LARGE, _SMALLER = 2.0**900, 2.0**-200  # sums of 2**100 rows fit
_FULL = 0.2  # below this share of nonzeros a sparse table is faster


def columns_of(rows: Rows, schema: Schema, feature: int) -> Iterator[Floats]:
    """Yield the columns (n,) of a feature that vary, with weighted mean 0 and variance 1."""
    values = rows.X[:, feature]
    if not schema.n_categories[feature]:
        filled = standardised(without_gaps(values, rows.weight), rows.weight)
        if filled is not None:
            yield filled
        return
    codes = codes_of(values)
    for code in np.unique(codes):
        column = standardised((codes == code).astype(np.float64), rows.weight)
        if column is not None:
            yield column


def one_table(rows: Rows, schema: Schema) -> tuple[Any, NDArray[np.int64]]:
    """Return all columns of all features side by side, and the feature of each column, ascending.

    The table (n, c) is dense, or a csr_array where most of it is 0: numbers without gaps,
    categories as 0 and 1; not standardised. Constant columns are left out.
    """
    parts, feature = [], []
    for j, n_categories in enumerate(schema.n_categories):
        values = rows.X[:, j]
        columns = [without_gaps(values)]
        if n_categories:
            codes = codes_of(values)
            columns = [(codes == code).astype(np.float64) for code in np.unique(codes)]
        for column in columns:
            if column.min() < column.max():
                parts.append(csc_array(column[:, np.newaxis]) if n_categories else column)
                feature.append(j)
    owner = np.array(feature, dtype=np.int64)
    full = sum(part.nnz if issparse(part) else np.count_nonzero(part) for part in parts)
    if parts and full < _FULL * len(rows) * len(parts):
        sparse = [p if issparse(p) else csc_array(p[:, np.newaxis]) for p in parts]
        return hstack(sparse, format="csr"), owner
    dense = np.empty((len(rows), len(parts)))
    for place, part in enumerate(parts):
        dense[:, place] = part.toarray()[:, 0] if issparse(part) else part
    return dense, owner


def without_gaps(values: Floats, weight: Floats | None = None) -> Floats:
    """Return numbers (n,) with missing ones replaced by the weighted mean; 0 if all are missing."""
    missing = np.isnan(values)
    if not missing.any():
        return values
    if missing.all():
        return np.zeros(len(values))
    present = ~missing
    scale = _scale(values[present])
    of_present = None if weight is None else weight[present]
    mean = np.average(scale * values[present], weights=of_present) / scale
    return np.where(missing, mean, values)


def _scale(values: Floats) -> float:
    """Return a power of two, an exact scale, at which sums of the values are finite."""
    return _SMALLER if max(-values.min(), values.max()) > _LARGE else 1.0


def codes_of(values: Floats) -> NDArray[np.int64]:
    """Return categories as integers, shape (n,), with -1 for missing."""
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def standardised(values: Floats, weight: Floats | None = None) -> Floats | None:
    """Return values by their weighted mean and deviation, without gaps; None if all are equal."""
    if values.min() == values.max():
        return None
    if (scale := _scale(values)) < 1:
        values = scale * values
    centred = values - np.average(values, weights=weight)
    centred /= np.abs(centred).max()  # avoids underflow of squares
    centred -= np.average(centred, weights=weight)
    return np.asarray(centred / np.sqrt(np.average(centred**2, weights=weight)))


FEWEST_BINS, MOST_BINS = 2, 10
_ENDS: tuple[Literal["left"], Literal["right"]] = ("left", "right")

Codes = NDArray[np.int32]


def in_bins(values: NDArray[Any], *, is_category: bool, n_bins: int | None = None) -> Codes:
    """Return values as integers from 0, shape (n,), without gaps."""
    # by default numbers are split into as many bins as the cube root of n, 2 to 10
    if is_category:
        codes = codes_of(values)
    else:
        if n_bins is None:
            n_bins = int(np.clip(np.cbrt(len(values)), FEWEST_BINS, MOST_BINS))
        in_order = np.sort(values[~np.isnan(values)])
        if len(different := np.unique(in_order)) <= n_bins:
            codes = np.searchsorted(different, values)
        else:  # the mean rank, from 1/2, is half the sum of these
            left, right = (np.searchsorted(in_order, values, side) for side in _ENDS)
            codes = (left + right) * n_bins // (2 * len(in_order))
        codes = np.where(np.isnan(values), -1, codes)
    return np.unique(codes, return_inverse=True)[1].astype(np.int32)


def binned_information(rows: Rows, schema: Schema, n_bins: int | None = None) -> Floats:
    """Return the mutual information (d,) of each feature in bins with the target, in nats."""
    target = in_bins(rows.y, is_category=schema.n_classes > 0, n_bins=n_bins)
    codes = np.vstack((_codes(rows, schema, n_bins), target))
    return _information(codes, _terms(len(rows)), True)[-1, :-1]


def binned_information_of_pairs(rows: Rows, schema: Schema, n_bins: int | None = None) -> Floats:
    """Return the mutual information (d, d) of features in bins, in nats; the diagonal is 0."""
    return _information(_codes(rows, schema, n_bins), _terms(len(rows)), False)


def _codes(rows: Rows, schema: Schema, n_bins: int | None) -> Codes:
    return np.array(
        [
            in_bins(rows.X[:, j], is_category=n > 0, n_bins=n_bins)
            for j, n in enumerate(schema.n_categories)
        ]
    )


def _terms(n_rows: int) -> Floats:
    """Return c log c for c = 0..n."""
    counts = np.arange(n_rows + 1.0)
    counts[1:] *= np.log(counts[1:])
    return counts


@compiled
def _sum_of_terms(values: NDArray[np.int64], counts: NDArray[np.int64], terms: Floats) -> float:
    """Return the sum of c log c over how often values occur; `counts` are 0, and are so again."""
    total = 0.0
    for value in values:
        counts[value] += 1
    for value in range(len(counts)):
        total += terms[counts[value]]
        counts[value] = 0
    return float(total)


@compiled
def _sum_within_groups(
    codes: Codes,
    in_groups: NDArray[np.int64],
    ends: NDArray[np.int64],
    counts: NDArray[np.int64],
    often: NDArray[np.int64],
    terms: Floats,
) -> float:
    """Return the same over how often a code occurs in each group of rows, for many codes."""
    # Which count occurs how often is added up in integers, so that the order of rows is nothing.
    first, most = 0, 0
    for end in ends:
        for row in in_groups[first:end]:
            counts[codes[row]] += 1
        for row in in_groups[first:end]:
            count = counts[codes[row]]
            counts[codes[row]] = 0
            often[count] += 1
            most = max(most, count)
        first = end
    total = 0.0
    for count in range(1, most + 1):
        total += often[count] * terms[count]
    often[: most + 1] = 0
    return float(total)


@compiled
def _group(codes: Codes, ends: NDArray[np.int64], in_groups: NDArray[np.int64]) -> None:
    """Fill in the rows of each code, in their order, and where those of each code end."""
    ends[:] = 0
    for code in codes:
        ends[code] += 1
    first = 0
    for code in range(len(ends)):
        first, ends[code] = first + ends[code], first
    for row in range(len(codes)):
        in_groups[ends[codes[row]]] = row
        ends[codes[row]] += 1


@compiled
def _information(codes: Codes, terms: Floats, is_last_alone: bool) -> Floats:
    """Return the information of each pair of codes, shape (d, d), or of the last with others."""
    n_codes, n_rows = codes.shape
    information = np.zeros((n_codes, n_codes))
    sizes = np.array([of_feature.max() + 1 for of_feature in codes]).astype(np.int64)
    counts, often = np.zeros(n_rows + 1, np.int64), np.zeros(n_rows + 1, np.int64)
    pairs, in_groups = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    ends, alone = np.empty(n_rows, np.int64), np.empty(n_codes)
    for i in range(n_codes):
        pairs[:] = codes[i]
        alone[i] = _sum_of_terms(pairs, counts[: sizes[i]], terms)
    for i in range(n_codes - 1 if is_last_alone else 1, n_codes):
        _group(codes[i], ends[: sizes[i]], in_groups)
        for j in range(i):
            size = sizes[i] * sizes[j]
            if size > n_rows:  # a table of all values would outgrow the rows
                together = _sum_within_groups(
                    codes[j], in_groups, ends[: sizes[i]], counts, often, terms
                )
            else:
                for row in range(n_rows):
                    pairs[row] = codes[i, row] * sizes[j] + codes[j, row]
                together = _sum_of_terms(pairs, counts[:size], terms)
            both = max(0.0, (together - alone[i] - alone[j] + terms[-1]) / n_rows)
            information[i, j] = information[j, i] = both
    return information
