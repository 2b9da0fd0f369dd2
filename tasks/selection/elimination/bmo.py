"""Binary mask optimisation: GBMO and FLBMO.

Lorasdagi, Turali, Koc and Kozat, "Binary Feature Mask Optimization for Feature Selection",
arXiv 2401.12644 (2024).

====================  ======================================
paper                 here
====================  ======================================
Algorithm 1 (SLUF)    the argmin in `eliminate` (eq 16, 17)
Algorithm 2 (GBMO)    `EliminationPath.gbmo`
Algorithm 3 (FLBMO)   `EliminationPath.flbmo`
====================  ======================================

The removals do not depend on the slack or the size: these only determine where to stop. So the path
is computed once, and every slack and size is read from it.

Where the paper is silent: a tie goes to the lowest index; a slack is relative to the absolute
value of the previous loss, so that it also loosens for losses below zero (negated scores); the
optional drift cap bounds the loss against the unmasked loss, which the paper's rule never does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Mask, MaskedLoss, loosened, mask_of_size


@dataclass(frozen=True)
class EliminationPath:
    """One greedy walk from all features down."""

    n_features: int
    unmasked_loss: float
    removed: tuple[int, ...]
    losses: tuple[float, ...]  # losses[t]: once removed[0..t] are masked

    def flbmo(self, n_features: int) -> Mask:
        """Return the mask of exactly `n_features` (Algorithm 3); InputError if not reached."""
        return mask_of_size(self.n_features, self.removed, n_features)

    def gbmo(
        self, slack: float, *, n_features: int | None = None, drift_cap: float | None = None
    ) -> Mask:
        """Return the mask at which Algorithm 2 stops.

        `slack`, the paper's mu: accept a removal while loss <= previous loss (1 + mu). The first is
        always accepted, because the paper starts from an infinite loss. `n_features`: keep at most
        this many. `drift_cap`: accept only while loss <= unmasked loss (1 + drift_cap) as well.
        """
        if slack < 0:
            raise InputError(f"slack must be at least 0 but is {slack}")
        if drift_cap is not None and drift_cap < 0:
            raise InputError(f"drift_cap must be at least 0 but is {drift_cap}")
        ceiling = np.inf if drift_cap is None else loosened(self.unmasked_loss, drift_cap)
        previous, accepted = np.inf, 0
        for loss in self.losses:
            if loss > loosened(previous, slack) or loss > ceiling:
                break
            previous, accepted = loss, accepted + 1
        size = self.n_features - accepted
        return self.flbmo(size if n_features is None else min(size, n_features))


def eliminate(
    masked_loss: MaskedLoss,
    *,
    keep: Collection[int] = (),
    min_features: int = 1,
    on_removal: Callable[[int, int], None] | None = None,
) -> EliminationPath:
    """Mask the least useful feature again and again (Algorithm 1) until `min_features` are left.

    `masked_loss` must be new, with all d features kept. `keep` is never removed. `on_removal` gets
    the number of removals done and the number in all.
    """
    n_features = len(masked_loss.mask)
    protected = sorted(set(keep))
    if protected and not 0 <= protected[0] <= protected[-1] < n_features:
        raise InputError(f"keep must name features in 0..{n_features - 1} but is {protected}")
    if not 1 <= min_features <= n_features:
        raise InputError(f"min_features must be in 1..{n_features} but is {min_features}")
    unmasked_loss = masked_loss.loss
    removed: list[int] = []
    losses: list[float] = []
    n_removals = n_features - max(min_features, len(protected))
    for done in range(1, n_removals + 1):
        candidates = masked_loss.without_each()
        candidates[protected] = np.inf
        feature = int(np.argmin(candidates))
        masked_loss.remove(feature)
        removed.append(feature)
        losses.append(float(candidates[feature]))
        if on_removal is not None:
            on_removal(done, n_removals)
    return EliminationPath(n_features, unmasked_loss, tuple(removed), tuple(losses))
