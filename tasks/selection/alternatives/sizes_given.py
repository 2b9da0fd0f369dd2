"""How large sets are to be, and how many, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import numpy as np

from chaffinch.tasks.selection.alternatives.constraints_given import is_whole
from chaffinch.tasks.selection.alternatives.numbers_given import in_short

_MOST = 1_000_000  # alternatives: each takes a search


def sizes_of(k: int | Sequence[int], n_alternatives: int | None) -> tuple[int, ...]:
    """Return the size of each set; of one set where there is no number of alternatives.

    Parameters
    ----------
    k : int or sequence of int
        One for all sets, or one for each.
    n_alternatives : int or None
        How many sets there are to be besides the first.

    Raises
    ------
    ValueError
        If they are no whole numbers, do not fit each other, or there are too many sets.
    """
    if n_alternatives is not None and not (is_whole(n_alternatives) and n_alternatives >= 0):
        raise ValueError(
            f"n_alternatives must be a whole number of at least 0 but is {n_alternatives!r}"
        )
    if n_alternatives is not None and n_alternatives > _MOST:
        raise ValueError(
            f"n_alternatives must be at most {_MOST} but is {in_short(n_alternatives)}; "
            "alternatives_one_by_one goes on without end"
        )
    if isinstance(k, Integral) and is_whole(k):
        return (int(k),) * (1 + (n_alternatives or 0))
    if isinstance(k, str) or not isinstance(k, Iterable) or not np.ndim(k):
        raise ValueError(f"k must be a whole number, or one for each set, but is {k!r}")
    sizes = tuple(k)
    if not sizes or n_alternatives not in (None, len(sizes) - 1):
        raise ValueError(
            f"k must be one size, or one for each of the {1 + (n_alternatives or 0)} sets, but is "
            f"{len(sizes)} sizes"
        )
    wrong = next((size for size in sizes if not is_whole(size)), None)
    if wrong is not None or None in sizes:
        raise ValueError(f"k must be whole numbers, one for each set, but holds {wrong!r}")
    return tuple(int(size) for size in sizes)
