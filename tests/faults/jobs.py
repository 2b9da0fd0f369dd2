"""What is disturbed: runs of one made-up table, as a person starts them."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

TARGET = "yield"
_N_ROWS, _N_FEATURES = 800, 20

# Workers train a model for each fold in each of several stages, then refit candidates, price the
# alternatives and score them. Every stage but the last of them takes some tenths of a second.
OPTIONS = (
    *("--target", TARGET, "--tuning", "none"),
    *("--method", "rfe", "--n-features", "5", "--alternatives", "2"),
)

# The same as a form has them.
SETTINGS = {
    "target": TARGET,
    "method": {"kind": "rfe", "n_features": [5]},
    "model": {"name": "lightgbm", "tuning": "none"},
    "alternatives": {"number": 2},
}


def write_table(path: Path) -> Path:
    """Write a table of five features that predict the target and fifteen that do not."""
    random = np.random.default_rng(20)
    X = random.normal(size=(_N_ROWS, _N_FEATURES))
    y = 3 * X[:, 0] - 2 * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] + 0.3 * random.normal(size=_N_ROWS)
    header = ",".join([*(f"feature_{j}" for j in range(_N_FEATURES)), TARGET])
    np.savetxt(path, np.column_stack([X, y]), "%.5f", ",", header=header, comments="")
    return path


class Poisoned(DecisionTreeRegressor):
    """A tree that kills the worker that trains it, as long as there is a certain file.

    It spares the process of the run, which is no worker.
    """

    def __init__(self, poison: str = "", random_state: int | None = None) -> None:
        super().__init__(random_state=random_state)
        self.poison = poison

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Poisoned:
        """Train it, or die."""
        if multiprocessing.parent_process() is not None and Path(self.poison).exists():
            os._exit(1)
        return super().fit(X, y, sample_weight)


def command_line(*arguments: str) -> None:
    """Run a command of ``chaffinch``."""
    from chaffinch.flows.cli.main import main

    sys.argv = ["chaffinch", *arguments]
    main()


def given_model(table: str, store: str, cluster: str, poison: str) -> None:
    """Select with a model of one's own, which dies where `poison` is; error and code as usual."""
    import chaffinch
    from chaffinch.errors import WorkersError

    try:
        chaffinch.select(
            table,
            TARGET,
            method="rfe",
            n_features=5,
            alternatives=2,
            model=Poisoned(poison),
            cluster=cluster,
            store=store,
        )
    except (chaffinch.StorageError, WorkersError) as error:
        sys.exit(f"Error: {error}")
