"""GBMO, Tables 3 to 6: test log loss and number of features on sonar, of a network and LightGBM."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from chaffinch.tasks.reproducing.experiment import Experiment, Figure, Measured
from chaffinch.tasks.reproducing.protocol import LIGHTGBM_GRID, Grid, Learner, Parts, results
from chaffinch.tasks.reproducing.user_tables import read_user_table
from chaffinch.tasks.selection.vocabulary import Rows

_SLACKS = (0.00025, 0.001, 0.01, 0.05)
_SIZES = (10, 12, 15, 30)  # a sixth, a fifth, a quarter and a half of 60
_LOSS, _SIZE = "test log loss", "features"
_CUTS = (0.45, 0.75, 0.85)
_BY_NETWORK = {
    "All features": (0.1677, 60),
    "MI": (0.2097, 10),
    "CC": (0.1795, 12),
    "GBMO": (0.1411, 45),
    "FLBMO": (0.1466, 10),
}
_BY_TREES = {
    "All features": (0.4563, 60),
    "MI": (0.4957, 10),
    "CC": (0.4687, 30),
    "RFE": (0.4944, 12),
    "GBMO": (0.3974, 16),
    "FLBMO": (0.4301, 30),
}


def cut(table: pd.DataFrame, seed: int) -> Parts:
    """Shuffle the rows, cut them 45 : 30 : 10 : 15, and scale by the range of the first part.

    Parameters
    ----------
    table : DataFrame
        With the labels, of two kinds, in its last column.
    seed : int
        Of the shuffling, which is pandas's.
    """
    shuffled = table.sample(frac=1, random_state=seed)
    X = shuffled.iloc[:, :-1].to_numpy(dtype=np.float64)
    y = pd.factorize(shuffled.iloc[:, -1], sort=True)[0].astype(np.int64)
    bounds = [0, *(int(share * len(X)) for share in _CUTS), len(X)]
    low, high = X[: bounds[1]].min(axis=0), X[: bounds[1]].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return Parts(*(Rows(X[start:end], y[start:end]) for start, end in pairwise(bounds)))


def by_trees() -> Learner:
    """Return LightGBM with the paper's grid."""

    def estimator(**parameters: Any) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_jobs=1, verbose=-1, **parameters)

    return Learner(
        estimator, {**LIGHTGBM_GRID, "n_estimators": [10, 20]}, "neg_log_loss", "log_loss"
    )


def by_network(seed: int) -> Learner:
    """Return scikit-learn's network with the paper's grid."""

    def estimator(**parameters: Any) -> Any:
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(random_state=seed, **parameters)

    grid: Grid = {
        "hidden_layer_sizes": [(20,), (40,), (10,), (20, 10)],
        "activation": ["relu", "logistic"],
        "alpha": [0.0001, 0.001, 0.01],
        "learning_rate_init": [0.001, 0.01],
    }
    return Learner(estimator, grid, "neg_log_loss", "log_loss")


def _measure(table: pd.DataFrame, seed: int, *, with_trees: bool) -> Measured:
    learner = by_trees() if with_trees else by_network(seed)
    measured: dict[tuple[str, str], float] = {}
    for method, chosen in results(
        learner, cut(table, seed), seed, slacks=_SLACKS, sizes=_SIZES, with_rfe=with_trees
    ):
        measured[method, _LOSS] = chosen.test_loss
        measured[method, _SIZE] = int(chosen.mask.sum())
    return measured


def _experiment(
    tables: str,
    model: str,
    published: dict[str, tuple[float, int]],
    other_measure: str | None = None,
) -> Experiment:
    first, second = tables.split("-")
    return Experiment(
        name=f"gbmo-tables-{tables}-sonar",
        source="Binary Feature Mask Optimization for Feature Selection, arXiv 2401.12644, "
        f"Tables {first} and {second}",
        figures=tuple(
            figure
            for method, (loss, size) in published.items()
            for figure in (
                Figure(method, _LOSS, loss, incomparable=other_measure),
                Figure(method, _SIZE, size),
            )
        ),
        read=partial(read_user_table, "sonar", n_features=60),
        measures=(partial(_measure, with_trees=model == "LightGBM"),),
        authors_seed=None,
        notes=("Every seed shuffles the rows and tunes anew; 31 or 32 rows are for the test.",),
    )


BY_NETWORK = _experiment(
    "3-5",
    "a network",
    _BY_NETWORK,
    "what the paper prints as log loss is the mean squared error of a regressor on 0 and 1.",
)
BY_TREES = _experiment("4-6", "LightGBM", _BY_TREES)
