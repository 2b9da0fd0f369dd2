"""Reselection: start from an earlier mask, and let features return as well as leave.

Not from a paper: AFS-BM alternates between training and masking, but masked features never return.
Here features first return and then leave in each round, and every change is judged by models fitted
again with and without it, on the same rows.

===========================  ======================================================================
a feature returns            if it is shown to help: the loss is lower by more than the gain, and
                             the upper bound of the difference lies below 0. The bound holds for
                             all that could return at once (Bonferroni), for of many useless
                             features one will look useful
a feature leaves             if it is not shown to help, and the loss without all that left in this
                             round is shown to be hardly higher: the upper bound of the difference
                             to the set before any left is at most the slack (non-inferiority)
it ends                      after a round in which nothing returned, or that led to a mask that an
                             earlier one ended with
===========================  ======================================================================

What the rows cannot show changes nothing. A bound is one-sided, by Student's t over the units that
rows fall into. In which order features are tried comes from masked losses, which cost no fit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.baselines.wrappers import MaskSequence
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gap:
    """The loss of a mask less that of another, over the same rows."""

    difference: float  # below 0 the first is better
    error: float  # standard error; NaN where there is none
    n_units: int  # rows, groups or blocks of time

    def highest(self, confidence: float) -> float:
        """Return the one-sided upper bound at a confidence in (0, 1); inf where none is known."""
        from scipy import stats

        if self.n_units < 2 or math.isnan(self.error):
            return math.inf
        return self.difference + float(stats.t.ppf(confidence, self.n_units - 1)) * self.error

    def reversed(self) -> Gap:
        return Gap(-self.difference, self.error, self.n_units)


class Refits(Protocol):
    """Losses of models fitted again on masks, each shape (d,)."""

    def loss(self, mask: Mask) -> float: ...

    def gap(self, mask: Mask, other: Mask) -> Gap: ...

    def returning(self, mask: Mask) -> Sequence[int]:
        """Return the features outside a mask, the most promising first."""
        ...

    def leaving(self, mask: Mask) -> Sequence[int]:
        """Return the features of a mask, the feature that seems to cost least first."""
        ...


@dataclass(frozen=True)
class Trial:
    """A change that was tried."""

    feature: int
    is_return: bool
    # of a return: to the loss without it; of a leave: to the loss before any left
    difference: float
    highest: float  # upper bound of the difference
    is_made: bool


@dataclass(frozen=True)
class Revision(MaskSequence):
    """A former mask and all changes tried, in order; the last mask is the result."""

    trials: tuple[Trial, ...]


def revise(
    refits: Refits,
    start: Mask,
    *,
    gain: float,
    slack: float,
    rejections: int,
    keep: Collection[int] = (),
    feasible: FeasibleMasks | None = None,
) -> Revision:
    """Let features return and leave in turn, as supported by the rows.

    `gain` is the share of the loss that a returning feature must save; `slack` the share by which
    the loss may rise for all leaves of a round together; a round stops after so many `rejections`.
    `feasible` must allow `start`; a change that it does not allow is not tried, and features that
    go together change together.
    """
    start = np.asarray(start, dtype=bool)
    if not start.any():
        raise InputError(f"start must keep at least 1 of {len(start)} features but keeps none")
    if any(not 0 <= j < len(start) or not start[j] for j in keep):
        raise InputError(f"keep must name features of start but is {sorted(keep)}")
    for name, value, least in (
        ("gain", gain, 0),
        ("slack", slack, 0),
        ("rejections", rejections, 1),
    ):
        if not value >= least:
            raise InputError(f"{name} must be at least {least} but is {value}")
    walk = _Walk(refits, start, gain, slack, rejections, frozenset(keep), feasible)
    walk.let_return()
    walk.let_leave()
    ends = {start.tobytes()}
    while walk.mask.tobytes() not in ends:
        ends.add(walk.mask.tobytes())
        if not walk.let_return():
            break
        walk.let_leave()
    losses = tuple(refits.loss(mask) for mask in walk.masks)
    return Revision(tuple(walk.masks), losses, tuple(walk.trials))


class _Walk:
    def __init__(
        self,
        refits: Refits,
        start: Mask,
        gain: float,
        slack: float,
        rejections: int,
        keep: frozenset[int],
        feasible: FeasibleMasks | None,
    ) -> None:
        self.masks, self.trials = [start.copy()], list[Trial]()
        self._refits, self._gain, self._slack = refits, gain, slack
        self._rejections, self._keep, self._feasible = rejections, keep, feasible

    @property
    def mask(self) -> Mask:
        return self.masks[-1]

    def let_return(self) -> bool:
        """Let features return in turn; return whether any did."""
        n_before = len(self.masks)
        refused: list[int] = []
        order = list(self._refits.returning(self.mask))
        while order and len(refused) < self._rejections:
            candidate = order.pop(0)
            if not self._may_change(candidate):
                continue
            if self._returns(candidate):
                order = [j for j in self._refits.returning(self.mask) if j not in refused]
            else:
                refused.append(candidate)
        return len(self.masks) > n_before

    def let_leave(self) -> None:
        """Let features leave in turn; the last never does."""
        reference = self.mask
        refused: list[int] = []
        order = self._may_leave(refused)
        while order and len(refused) < self._rejections:
            candidate = order.pop(0)
            if not self._may_change(candidate):
                continue
            if self._leaves(candidate, reference):
                order = self._may_leave(refused)
            else:
                refused.append(candidate)

    def _may_leave(self, refused: list[int]) -> list[int]:
        if self.mask.sum() == 1:
            return []
        staying = self._keep.union(refused)
        return [j for j in self._refits.leaving(self.mask) if j not in staying]

    def _may_change(self, candidate: int) -> bool:
        return self._feasible is None or self._feasible.allow(self._changed(candidate))

    def _returns(self, candidate: int) -> bool:
        n_candidates = int((~self.mask).sum())
        confidence = 1 - (1 - CONFIDENCE) / n_candidates
        gap = self._refits.gap(self._changed(candidate), self.mask)
        is_made = self._helps(gap, self.mask, confidence)
        return self._record_trial(candidate, gap, confidence, is_made=is_made, is_return=True)

    def _leaves(self, candidate: int, reference: Mask) -> bool:
        without = self._changed(candidate)
        gap = self._refits.gap(without, reference)
        is_cheap = gap.highest(CONFIDENCE) <= self._slack * abs(self._refits.loss(reference))
        with_it = self._refits.gap(without, self.mask).reversed()
        is_made = is_cheap and not self._helps(with_it, without, CONFIDENCE)
        return self._record_trial(candidate, gap, CONFIDENCE, is_made=is_made, is_return=False)

    def _helps(self, gap: Gap, without: Mask, confidence: float) -> bool:
        is_enough = -gap.difference > self._gain * abs(self._refits.loss(without))
        return is_enough and gap.highest(confidence) < 0

    def _changed(self, candidate: int) -> Mask:
        mask = self.mask.copy()
        together = candidate if self._feasible is None else self._feasible.together(candidate)
        mask[together] = not mask[candidate]
        return mask

    def _record_trial(
        self, candidate: int, gap: Gap, confidence: float, *, is_made: bool, is_return: bool
    ) -> bool:
        highest, changed = gap.highest(confidence), self._changed(candidate)
        for feature in np.flatnonzero(changed != self.mask).tolist():
            self.trials.append(Trial(feature, is_return, gap.difference, highest, is_made))
        if is_made:
            self.masks.append(changed)
        return is_made
