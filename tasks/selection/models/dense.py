"""Networks and linear models in a common form: an encoding, layers and a link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats

Activation = Literal["identity", "relu", "logistic", "tanh"]
Link = Literal["identity", "logistic", "softmax"]


@dataclass(frozen=True)
class DenseModel:
    """A model as an encoding, layers, and a link from the last layer to the prediction.

    A linear model has no hidden layer. An engine checks this form against the model's own
    predictions before it uses it.
    """

    encode: Callable[[Floats], Floats]  # X (n, d) -> (n, width), each row by itself
    feature_of_column: NDArray[np.int64]  # (width,): the only feature that each column depends on
    weights: tuple[Floats, ...]  # (fan_in, fan_out)
    biases: tuple[Floats, ...]  # (fan_out,)
    activation: Activation  # of the hidden layers
    link: Link  # logistic: of the second of two classes
    classes: NDArray[np.int64]  # that the outputs stand for; empty for regression
    location: float = 0.0  # a value is location + scale x output
    scale: float = 1.0
