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
optional drift cap bounds the loss against the unmasked one, which the paper's rule never does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.core import Mask, MaskedLoss, loosened, mask_of_size


@dataclass(frozen=True)
class EliminationPath:
    """One greedy walk from all features down.

    Attributes
    ----------
    n_features : int
        d, the number of features at the start.
    unmasked_loss : float
        Loss with every feature kept.
    removed : tuple of int
        Features in the order of their removal.
    losses : tuple of float
        `losses[t]` is the loss once `removed[0..t]` are masked.
    """

    n_features: int
    unmasked_loss: float
    removed: tuple[int, ...]
    losses: tuple[float, ...]

    def flbmo(self, n_features: int) -> Mask:
        """Return the mask of exactly `n_features` features (Algorithm 3).

        Raises
        ------
        ValueError
            If the path does not reach that size.
        """
        return mask_of_size(self.n_features, self.removed, n_features)

    def gbmo(
        self, slack: float, *, n_features: int | None = None, drift_cap: float | None = None
    ) -> Mask:
        """Return the mask at which Algorithm 2 stops.

        Parameters
        ----------
        slack : float, at least 0
            The paper's mu: a removal is accepted while loss <= previous loss (1 + mu). The first
            removal is always accepted, because the paper starts from an infinite loss.
        n_features : int, optional
            Keep at most this many: go on removing until no more are left.
        drift_cap : float, at least 0, optional
            Accept a removal only while loss <= unmasked loss (1 + drift_cap) as well.

        Raises
        ------
        ValueError
            If slack or cap is below 0, or the path does not reach `n_features`.
        """
        if slack < 0:
            raise ValueError(f"slack must be at least 0 but is {slack}")
        if drift_cap is not None and drift_cap < 0:
            raise ValueError(f"drift_cap must be at least 0 but is {drift_cap}")
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
    """Walk the elimination path: mask the least useful feature again and again (Algorithm 1).

    Parameters
    ----------
    masked_loss : MaskedLoss
        Fresh, with all d features kept; it is walked down.
    keep : collection of int
        Features that are never removed.
    min_features : int in 1..d
        Stop when this many are left, or when only `keep` is left.
    on_removal : callable, optional
        Called after each removal with the number done and the number in all.

    Raises
    ------
    ValueError
        If `min_features` or `keep` do not fit the number of features.
    """
    n_features = len(masked_loss.mask)
    protected = sorted(set(keep))
    if protected and not 0 <= protected[0] <= protected[-1] < n_features:
        raise ValueError(f"keep must name features in 0..{n_features - 1} but is {protected}")
    if not 1 <= min_features <= n_features:
        raise ValueError(f"min_features must be in 1..{n_features} but is {min_features}")
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
