"""What `chaffinch.probabilistic_selection` returns: features, probabilities, and a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.searched_table import SearchedTable
from chaffinch.tasks.selection.pefs.found import Sweep, stability
from chaffinch.tasks.selection.pefs.predicting import SharedModule, SharedNetwork
from chaffinch.tasks.selection.pefs.search import check_count
from chaffinch.tasks.selection.vocabulary import Floats, Mask


@dataclass(frozen=True, eq=False)
class ProbabilisticSelection:
    """What a search found.

    Attributes
    ----------
    features : tuple of str
        Kept features, in the table's order.
    mask : ndarray of bool, shape (M,)
        Which those are.
    probabilities : ndarray of float64, shape (M,)
        Of each feature.
    sweeps : tuple of Sweep
        How these came about.
    imputed : tuple of str
        Features whose missing values were taken for their baseline.
    """

    features: tuple[str, ...]
    mask: Mask
    probabilities: Floats
    sweeps: tuple[Sweep, ...] = field(repr=False)
    imputed: tuple[str, ...]
    _searched: SearchedTable = field(repr=False)
    _network: SharedNetwork | SharedModule = field(repr=False)
    _seed: int = field(repr=False)

    @property
    def trajectory(self) -> pd.DataFrame:
        """A row per sweep: iteration, loss, penalty, entropy, stability, n_features."""
        return pd.DataFrame(
            {
                "iteration": one.iteration,
                "loss": one.loss,
                "penalty": one.penalty,
                "entropy": one.entropy,
                "stability": stability(self.sweeps[: n + 1]),
                "n_features": int(one.mask.sum()),
            }
            for n, one in enumerate(self.sweeps)
        )

    def predict(self, X: Any) -> Floats:
        """Predict with the network under the mask: values (K,), or probabilities of the classes.

        Parameters
        ----------
        X : array of numbers (K, M) or pandas.DataFrame
            A frame is read by the names of the kept features, if the table that was searched was
            one; other columns are not looked at. A category that was not there in the search
            counts as missing, unless just one was that means the same. Anything else is read by
            position, and holds numbers.

        Raises
        ------
        InputError
            If a kept feature is missing, of another type or infinite, a number is beyond
            -1e30..1e30, or a network of your own returns what is not finite.

        Warns
        -----
        UserWarning
            If nearly all the values of a category are new.
        """
        matrix = self._searched.matrix(X, self.mask)
        with said_to_the_user():
            return self._network.predict(matrix, self.mask)

    def predict_averaged(self, X: Any, n_samples: int = 20) -> Floats:
        """Predict on the mean over masks drawn by the probabilities; it may use every feature.

        Parameters
        ----------
        X
            See `predict`; it must have every feature.
        n_samples : int, at least 1
            How many masks.

        Raises
        ------
        InputError
            As `predict`, or if `n_samples` is no such number.

        Warns
        -----
        UserWarning
            See `predict`.
        """
        with said_to_the_user():
            check_count("n_samples", n_samples, 1)
        matrix = self._searched.matrix(X, np.ones_like(self.mask))
        with said_to_the_user():
            return self._network.predict_averaged(matrix, self.probabilities, n_samples, self._seed)
