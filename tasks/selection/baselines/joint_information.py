"""Greedy choices by the information that features have about the target beside the chosen ones.

The information of X about Y given Z, all of them codes, is

    I(X; Y | Z) = H(X, Z) + H(Y, Z) - H(X, Y, Z) - H(Z).

Numbers, also of the target, are split into bins of equal frequency, as many as the fourth root of
the number of rows, 2 to 10: three columns are counted together, and noise in many bins would seem
to tell more than a category of few levels. A choice costs O(n d) for each feature chosen, O(n d^2)
in all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.baselines.columns import FEWEST_BINS, MOST_BINS, in_bins
from chaffinch.tasks.selection.baselines.filters import entropy_of
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats, Rows, Schema

_Codes = NDArray[np.int64]


@ranking(
    "jmi",
    score="the place in a greedy choice of what has the most information about the target together "
    "with each feature chosen before; the first chosen has the highest",
    is_place=True,
)
def jmi(rows: Rows, schema: Schema) -> Floats:
    """Score by the place in the greedy choice by joint mutual information, d for the first.

    Yang and Moody, "Data visualization and feature selection: new algorithms for nongaussian data",
    Advances in Neural Information Processing Systems 12 (1999): the next feature has the greatest

        sum over the features Z chosen before of I(X, Z; Y).
    """

    def joint(merit: Floats, of_chosen: float, given: Floats) -> Floats:
        return merit + of_chosen + given  # I(X, Z; Y) = I(Z; Y) + I(X; Y | Z)

    return _places(rows, schema, np.zeros_like, joint)


@ranking(
    "cmim",
    score="the place in a greedy choice of what has information about the target beyond any "
    "feature chosen before; the first chosen has the highest",
    is_place=True,
)
def cmim(rows: Rows, schema: Schema) -> Floats:
    """Score by the place in the greedy choice by conditional mutual information, d for the first.

    Fleuret, "Fast binary feature selection with conditional mutual information", Journal of Machine
    Learning Research 5 (2004): the next feature has the greatest

        minimum over the features Z chosen before of I(X; Y | Z).
    """

    def least(merit: Floats, of_chosen: float, given: Floats) -> Floats:
        return np.minimum(merit, given)

    return _places(rows, schema, np.array, least)


def _places(
    rows: Rows,
    schema: Schema,
    begin: Callable[[Floats], Floats],
    update: Callable[[Floats, float, Floats], Floats],
) -> Floats:
    """Return the places (d,) in a greedy choice; 0 for constants.

    The first has the most information. `begin` gives the merits after it from the information (d,),
    and `update` those with another feature chosen: from its information, and from that of each
    feature given it. Of equal merit is the feature of more information, then the highest index.
    """
    n_bins = int(np.clip(len(rows) ** 0.25, FEWEST_BINS, MOST_BINS))
    codes = [
        in_bins(rows.X[:, j], is_category=n > 0, n_bins=n_bins).astype(np.int64)
        for j, n in enumerate(schema.n_categories)
    ]
    target = in_bins(rows.y, is_category=schema.n_classes > 0, n_bins=n_bins).astype(np.int64)
    nothing = np.zeros(len(rows), dtype=np.int64)
    is_open = np.array([column.any() for column in codes]) & target.any()
    information = _given(codes, target, nothing, is_open)
    places, index = np.zeros(len(codes)), np.arange(len(codes))
    merit, first = begin(information), True
    for place in range(len(codes), len(codes) - int(is_open.sum()), -1):
        order = np.lexsort((index, information, information if first else merit))
        best = int(order[is_open[order]][-1])
        places[best], is_open[best], first = place, False, False
        given = _given(codes, target, codes[best], is_open)
        merit = update(merit, float(information[best]), given)
    return places


def _given(
    codes: list[_Codes], target: _Codes, chosen: _Codes, is_open: NDArray[np.bool_]
) -> Floats:
    """Return the information (d,) of each open feature about the target, given the chosen one."""
    information, with_target = np.zeros(len(codes)), _together(target, chosen)
    of_target = _entropy(with_target) - _entropy(chosen)
    for feature in np.flatnonzero(is_open):
        with_chosen = _entropy(_together(codes[feature], chosen))
        every = _entropy(_together(codes[feature], with_target))
        information[feature] = with_chosen + of_target - every
    return information


def _together(codes: _Codes, other: _Codes) -> _Codes:
    """Return a code for each pair of codes, no more than there are rows or possible pairs."""
    n_other = int(other.max()) + 1
    pairs: _Codes = codes * n_other + other
    if (int(codes.max()) + 1) * n_other > len(pairs):  # a table of all could outgrow the rows
        pairs = np.unique(pairs, return_inverse=True)[1]
    return pairs


def _entropy(codes: _Codes) -> float:
    """Return the entropy, corrected for what it lacks on average in a sample of so few rows.

    Miller, "Note on the bias of information estimates", Information Theory in Psychology (1955).
    Without it noise in several bins would seem to tell more than a flag that matters.
    """
    counts = np.bincount(codes)
    counts = counts[counts > 0]
    return entropy_of(counts) + (len(counts) - 1) / (2 * len(codes))
