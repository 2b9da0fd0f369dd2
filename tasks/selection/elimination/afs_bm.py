"""AFS-BM: alternate between training the model and masking random features.

Turali, Lorasdagi, Koc and Kozat, "AFS-BM: Enhancing Model Performance through Adaptive Feature
Selection with Binary Masking", arXiv 2401.11250 (2024).

===================================  ========================================================
paper, Algorithm 1                   here
===================================  ========================================================
line 1: mu, beta, Delta L            `Rules.rejections`, `Rules.patience`, `Rules.slack`
lines 6-10: fit (eq 7, 8)            `train`, called with the features still kept
lines 11-14: L_th (eq 9-12)          `MaskingRound.trained_loss`
lines 17-21: an index not yet drawn  the permutation in `_Walk.round`
lines 22-27: L_mask (eq 14-19)       `losses_ahead`
lines 28-34: keep it masked or not   `_Walk._is_accepted` (eq 21, 22)
eq 5: ||z|| / M                      `Rules.penalty`
line 36: DeleteColumns (eq 23)       the next `train` has the other features alone
lines 5, 37-39: a stable mask        the loop of `alternate`
===================================  ========================================================

Choices where the paper is silent, or its text and its published runs differ: an index is drawn
uniformly ("Gaussian" in the text) from the kept features not yet drawn in the round. mu is reset in
every round, beta whenever the mask shrinks. The loss of a trial is compared with that of the last
mask accepted in the round, at first with that of the model just trained. A slack is relative to the
absolute value, so that it loosens negated scores too; for a loss of 0 it is nothing. The last
feature is always put back. The published runs also compare with the very first loss: the optional
drift cap does. Equation 5 adds the share of kept features to the loss and Algorithm 1 does not:
with the optional penalty, what is compared is the loss with that share, `penalty` times.

Deviations: an unchanged mask is not trained on again, since the same seed would give the same
model; such a round only draws again. A search that would end with more features than allowed masks
the feature that costs least, and continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Mask, MaskedLoss, loosened
from chaffinch.tasks.selection.masked_loss import losses_ahead

# Maps a mask (d,) to the masked loss of a model trained on its k features alone, of length k.
Train = Callable[[Mask], MaskedLoss]


@dataclass(frozen=True)
class Rules:
    """Acceptance rule, and the ends of a round and of the search."""

    slack: float  # Delta L: stay masked while loss <= last accepted loss (1 + slack)
    rejections: int  # mu: a round ends when this many features were put back
    patience: int  # beta: the search ends after so many rounds in a row that masked nothing
    # stay masked only while loss <= very first loss (1 + drift_cap) too
    drift_cap: float | None = None
    penalty: float = 0.0  # of the share of kept features, added to each loss that is compared

    def __post_init__(self) -> None:
        least_of = {"slack": 0, "rejections": 1, "patience": 1, "drift_cap": 0, "penalty": 0}
        for name, least in least_of.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InputError(f"{name} must be at least {least} but is {value}")


@dataclass(frozen=True)
class MaskingRound:
    """One training, and the trials that follow it."""

    mask: Mask  # (d,), at the end of the round
    trained_loss: float  # of the model trained on the features kept at the beginning
    tried: tuple[int, ...]
    losses: tuple[float, ...]  # losses[i]: with tried[i] and all masked so far in the round masked
    rejected: tuple[int, ...]  # put back
    # stay masked, in order; also the cheapest if the mask had to shrink
    removed: tuple[int, ...]
    loss: float  # of the same model with these masked


@dataclass(frozen=True)
class MaskingWalk:
    """Rounds of a search with a slack and a number of rejections, at least one."""

    slack: float
    rejections: int
    rounds: tuple[MaskingRound, ...]

    @property
    def mask(self) -> Mask:
        """Features kept at the end, shape (d,)."""
        return self.rounds[-1].mask

    @property
    def n_trainings(self) -> int:
        # the first, and another after each round that masked something
        return 1 + sum(bool(masked.removed) for masked in self.rounds[:-1])


def alternate(
    train: Train,
    start: Mask,
    rules: Rules,
    seed: int,
    *,
    keep: Collection[int] = (),
    at_most: int | None = None,
) -> MaskingWalk:
    """Train and mask in turn until the mask is stable (Algorithm 1)."""
    # `train` is called once per mask; `keep` is never masked
    start, kept = np.asarray(start, dtype=bool), sorted(set(keep))
    if not start.any():
        raise InputError(f"start must keep at least 1 of {len(start)} features but keeps none")
    if any(not 0 <= j < len(start) or not start[j] for j in kept):
        raise InputError(f"keep must name features of start but is {kept}")
    fewest, most = max(1, len(kept)), len(start) if at_most is None else at_most
    if not fewest <= most <= len(start):
        raise InputError(f"at_most must be in {fewest}..{len(start)} but is {at_most}")
    walk = _Walk(train, start, rules, seed, kept)
    rounds: list[MaskingRound] = []
    n_unchanged = 0
    while n_unchanged < rules.patience:
        is_last = n_unchanged == rules.patience - 1
        rounds.append(walk.round(must_shrink=is_last and walk.mask.sum() > most))
        n_unchanged = 0 if rounds[-1].removed else n_unchanged + 1
    return MaskingWalk(rules.slack, rules.rejections, tuple(rounds))


class _Walk:
    """The current mask, and the model that was trained on it last."""

    def __init__(self, train: Train, start: Mask, rules: Rules, seed: int, keep: list[int]) -> None:
        self.mask = start.copy()
        self._train, self._rules, self._keep = train, rules, keep
        self._random = np.random.default_rng(seed)
        self._is_trained = False
        self._first_objective: float | None = None

    def round(self, *, must_shrink: bool) -> MaskingRound:
        """Train if the mask has changed, and mask on trial; at least one if it must shrink."""
        if not self._is_trained:
            self._engine, self._features = self._train(self.mask.copy()), np.flatnonzero(self.mask)
            self._is_trained = True
        engine, features = self._engine, self._features
        trained_loss = loss = engine.loss
        if self._first_objective is None:
            self._first_objective = self._objective(loss, len(features))
        order = self._random.permutation(np.flatnonzero(~np.isin(features, self._keep))).tolist()
        tried: list[int] = []
        losses: list[float] = []
        rejected: list[int] = []
        removed: list[int] = []
        known: dict[int, float] = {}
        n_sure = 1
        for place, candidate in enumerate(order):
            n_left = self._rules.rejections - len(rejected)
            if candidate not in known:
                known = losses_ahead(engine, order[place:], min(n_sure, n_left))
                n_sure *= 2  # losses computed ahead are valid until a trial is accepted
            tried.append(candidate)
            losses.append(known[candidate])
            n_kept = len(features) - len(removed)
            if n_kept > 1 and self._is_accepted(known[candidate], loss, n_kept):
                engine.remove(candidate)
                removed.append(candidate)
                loss, known, n_sure = known[candidate], {}, 1
                continue
            rejected.append(candidate)
            if n_left == 1:
                break
        if must_shrink and not removed:
            without = engine.without_each()
            without[np.isin(features, self._keep)] = np.inf
            removed.append(int(np.argmin(without)))
            loss = float(without[removed[0]])
        self.mask[features[removed]] = False
        self._is_trained = not removed
        return MaskingRound(
            self.mask.copy(),
            trained_loss,
            tuple(features[tried].tolist()),
            tuple(losses),
            tuple(features[rejected].tolist()),
            tuple(features[removed].tolist()),
            loss,
        )

    def _is_accepted(self, loss: float, last: float, n_kept: int) -> bool:
        """Return whether a mask of `n_kept` - 1 features is near enough to the last of `n_kept`."""
        rules = self._rules
        ceiling = loosened(self._objective(last, n_kept), rules.slack)
        if rules.drift_cap is not None and self._first_objective is not None:
            ceiling = min(ceiling, loosened(self._first_objective, rules.drift_cap))
        return self._objective(loss, n_kept - 1) <= ceiling

    def _objective(self, loss: float, n_kept: int) -> float:
        return loss + self._rules.penalty * n_kept / len(self.mask)
