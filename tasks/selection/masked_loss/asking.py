"""The losses of masking one more feature, for some features alone, as cheaply as an engine can.

A search by elimination needs all of them at every step, which is what `without_each` is made for. A
search that draws its candidates needs a few, and often but one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaffinch.tasks.selection.masked_loss.black_box import BlackBox
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.vocabulary import MaskedLoss

# What `without_each` takes is that of so many masks as features are kept: a forest and the Gram
# matrix of a line answer all features sooner than one mask, a network and a black box do not.
_BY_MASK = (BlackBox, NetworkMaskedLoss)


def losses_ahead(engine: MaskedLoss, waiting: Sequence[int], n_sure: int) -> dict[int, float]:
    """Return the loss of masking one more feature, for features that are about to be asked about.

    Parameters
    ----------
    engine : MaskedLoss
        The model under the present mask.
    waiting : sequence of int
        Kept features in the order in which they are to be asked about, at least one.
    n_sure : int, at least 1
        How many of them to ask about where each costs a mask of its own.

    Returns
    -------
    dict
        Feature -> loss: of the first `n_sure`, or of more where that costs nothing.
    """
    if not isinstance(engine, _BY_MASK):
        losses = engine.without_each()
        return {feature: float(losses[feature]) for feature in waiting}
    some = list(waiting[:n_sure])
    masks = np.repeat(engine.mask[np.newaxis], len(some), axis=0)
    masks[np.arange(len(some)), some] = False
    return dict(zip(some, engine(masks).tolist(), strict=True))
