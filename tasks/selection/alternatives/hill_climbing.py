"""Qualities defined by a function: hill climbing by swaps.

Bach, arXiv 2307.11607v3, section 3.3.2, Algorithm 1 ("Greedy Wrapper"), set by set.

=====================================  =================
paper                                  here
=====================================  =================
Algorithm 1                            `Wrapper.climb`
the nearest set that allows a swap,    `_swapped`
eq 15-16
=====================================  =================

Deviations: the first set is the lexicographically first, or the best by `start`, where the
paper takes the result of its solver; ties of distance go to the lexicographically first set. A set
is scored once, over all searches. Results have no bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.exact.best_sets import BestSet, Limits, best_set
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.validation import check_names, check_numbers
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.core import MaskedLoss
from chaffinch.tasks.selection.input_checks import LARGEST, check_count

Score = Callable[[tuple[int, ...]], float]

_MOST_STEPS = 1000  # the paper's


class Wrapper:
    """A quality defined by a function, such as the score of a model fitted on the set.

    Parameters
    ----------
    score : callable
        Maps sorted indices, a tuple of int, to the quality; higher is better, and -inf excludes a
        set. Called once per set.
    n_features : int
        n, number of features.
    names : sequence of str, length n, optional
    start : array of float, shape (n,), optional
        The climb starts from the best set by these values, such as feature importances.
    max_steps : int, at least 1
        Largest number of swaps tried for a set, including the first set.

    Raises
    ------
    InputError
        If they do not fit each other.
    """

    def __init__(
        self,
        score: Score,
        n_features: int,
        *,
        names: Sequence[str] | None = None,
        start: ArrayLike | None = None,
        max_steps: int = _MOST_STEPS,
    ) -> None:
        if not callable(score):
            raise InputError(f"score must be a function of a set's indices but is {score!r}")
        for name, number in (("n_features", n_features), ("max_steps", max_steps)):
            check_count(name, number, 1)
        self.n_features = n_features = int(n_features)
        self.names = check_names(names, n_features)
        self.max_steps = int(max_steps)
        self._start = np.zeros(n_features) if start is None else check_numbers("start", start)
        self._score = score
        self._known: dict[tuple[int, ...], float] = {}
        if len(self._start) != n_features:
            raise InputError(f"start must be {n_features} numbers but is {len(self._start)}")

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices; InputError if it is no number, or too large."""
        indices = tuple(sorted(features))
        if indices not in self._known:
            self._known[indices] = _read_worth(self._score(indices), indices)
        return self._known[indices]

    def climb(
        self,
        k: int,
        *,
        limits: Limits,
        constraints: Constraints,
        deadline: float | None = None,
    ) -> BestSet:
        """Return a set of k features that no swap improves, or the best so far when time is over.

        None, without a proof, if all sets visited have a quality of -inf. At least one set is
        scored, however late it is.
        """
        form = Form(self._start)
        first = best_set(form, k, limits=limits, constraints=constraints, deadline=deadline)
        if first.indices is None:
            bound = -math.inf if first.complete else math.inf
            return BestSet(None, -math.inf, bound, first.complete)
        best = first.indices
        value = self.value(best)
        swaps = combinations(range(self.n_features), 2)
        for _ in range(self.max_steps - 1):
            swap = next(swaps, None)
            if swap is None or (deadline is not None and time.monotonic() >= deadline):
                break
            other = self._swapped(best, swap, k, limits, constraints)
            if other is not None and self.value(other) > value:
                best, value = other, self.value(other)
                swaps = combinations(range(self.n_features), 2)
        return BestSet(best if value > -math.inf else None, value, math.inf, complete=False)

    def _swapped(
        self,
        best: tuple[int, ...],
        swap: tuple[int, int],
        k: int,
        limits: Limits,
        constraints: Constraints,
    ) -> tuple[int, ...] | None:
        """Return the nearest set after a swap of two features; None if none is allowed."""
        added = [feature for feature in swap if feature not in best]
        removed = [feature for feature in swap if feature in best]
        if set(added) & set(constraints.excluded) or set(removed) & set(constraints.included):
            return None
        turned = replace(
            constraints,
            must_include=sorted({*constraints.included, *added}),
            must_exclude=sorted({*constraints.excluded, *removed}),
        )
        if len(turned.must_include) > k or self.n_features - len(turned.must_exclude) < k:
            return None
        likeness = np.zeros(self.n_features)
        likeness[list(best)] = 1.0
        return best_set(Form(likeness), k, limits=limits, constraints=turned).indices


def _read_worth(score: object, indices: tuple[int, ...]) -> float:
    """Return a score as a float; InputError if it is neither finite, nor -inf, nor small enough."""
    try:
        worth = math.nan if isinstance(score, str | bytes) else float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        worth = math.nan
    if not (abs(worth) <= LARGEST or worth == -math.inf):
        raise InputError(
            f"score must be a number, at most {LARGEST:g} in size, or -inf for a set that is not "
            f"to be, but is {score!r} for the features {indices}"
        )
    return worth


class MaskedLossQuality(Wrapper):
    """Quality of a set: the negative loss of a trained model with all other features masked.

    The model is never trained again.

    Parameters
    ----------
    masked_loss : MaskedLoss
        An engine over n features, such as `chaffinch.masked_loss` returns; its own mask is ignored.
    names, max_steps
        See `Wrapper`.
    """

    def __init__(
        self,
        masked_loss: MaskedLoss,
        *,
        names: Sequence[str] | None = None,
        max_steps: int = _MOST_STEPS,
    ) -> None:
        n_features = len(masked_loss.mask)
        every = np.ones((1, n_features), dtype=bool)

        def score(indices: tuple[int, ...]) -> float:
            mask = np.zeros((1, n_features), dtype=bool)
            mask[0, list(indices)] = True
            return -float(masked_loss(mask)[0])

        masks = every & ~np.eye(n_features, dtype=bool)
        start = masked_loss(masks) - masked_loss(every)[0]
        super().__init__(score, n_features, names=names, start=start, max_steps=max_steps)
