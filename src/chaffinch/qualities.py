"""What feature sets are worth, from a table or a trained model: for `find_alternatives`.

>>> import chaffinch
>>> quality = chaffinch.qualities.mutual_information(X, y)  # doctest: +SKIP
>>> chaffinch.find_alternatives(quality, k=5, n_alternatives=3, tau=0.5)  # doctest: +SKIP
"""

from chaffinch.tasks.api.qualities import (
    binned_mrmr,
    binned_mutual_information,
    cfs,
    fcbf,
    masked_loss,
    masked_loss_importance,
    model_gain,
    mrmr,
    mutual_information,
    permutation,
    relieff,
)
from chaffinch.tasks.selection.alternatives.hill_climbing import MaskedLossQuality, Wrapper
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate

__all__ = [
    "CFS",
    "FCBF",
    "MRMR",
    "MaskedLossQuality",
    "Univariate",
    "Wrapper",
    "binned_mrmr",
    "binned_mutual_information",
    "cfs",
    "fcbf",
    "masked_loss",
    "masked_loss_importance",
    "model_gain",
    "mrmr",
    "mutual_information",
    "permutation",
    "relieff",
]
