"""The experiments that can be reproduced, by name."""

from __future__ import annotations

from chaffinch.storage.errors import InputError
from chaffinch.tasks.reproducing import dfs_figure_2, pefs_figure_1
from chaffinch.tasks.reproducing.afs_bm_synthetic import BY_LIGHTGBM, BY_XGBOOST
from chaffinch.tasks.reproducing.alternatives import FIGURE_5, TABLES_3_5_6
from chaffinch.tasks.reproducing.experiment import Experiment
from chaffinch.tasks.reproducing.gbmo_sonar import BY_NETWORK, BY_TREES
from chaffinch.tasks.reproducing.gbmo_synthetic import TABLE_2
from chaffinch.tasks.reproducing.pefs_digits import DIGITS
from chaffinch.tasks.selection.errors import in_one_line

_ALL = (
    *(TABLE_2, BY_NETWORK, BY_TREES, BY_LIGHTGBM, BY_XGBOOST, TABLES_3_5_6, FIGURE_5),
    *pefs_figure_1.EXPERIMENTS,
    DIGITS,
    *dfs_figure_2.EXPERIMENTS,
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiment_named(name: str) -> Experiment:
    """Return an experiment.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise InputError(
            f"table must be one of {', '.join(EXPERIMENTS)} but is {in_one_line(name)}"
        )
    return EXPERIMENTS[name]
