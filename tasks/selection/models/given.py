"""Trained models that come from outside: they predict in their own way, and are never stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.tasks.selection.models.checks import check_matrix
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Schema


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model of which nothing but its predictions is known.

    Attributes
    ----------
    kind : str
        What to call it.
    schema : Schema
        The features of the table that it is asked about.
    own : callable
        Takes X (n, d) to its own prediction, of the shapes of `predict`.
    used_features : ndarray of bool, shape (d,)
        See `Predictor`.
    """

    kind: str
    schema: Schema
    own: Callable[[Floats], Any]
    used_features: Mask

    def predict(self, X: Floats) -> Floats:
        """Predict every row of X (n, d): values (n,), or probabilities (n, n_classes).

        Raises
        ------
        ValueError
            If the prediction has another shape.
        """
        check_matrix(X, self.schema)
        prediction = np.asarray(self.own(X), dtype=np.float64)
        n_classes = self.schema.n_classes
        shape = (len(X), n_classes) if n_classes else (len(X),)
        if not n_classes and prediction.shape == (len(X), 1):
            prediction = prediction[:, 0]
        if prediction.shape != shape:
            raise ValueError(
                f"the model must predict an array of shape {shape} but predicts {prediction.shape}"
            )
        return prediction


@dataclass(frozen=True, eq=False)
class GivenModule(GivenModel):
    """A torch module.

    Attributes
    ----------
    module : torch.nn.Module
        In float64 and in evaluation mode; `own` is made of it.
    """

    module: Any
