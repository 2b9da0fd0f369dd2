"""``make bench-published``: what our defaults of a paper's method choose beside the paper's form.

Tables of scikit-learn and made-up ones, LightGBM of 100 trees, untuned. Both forms judge by the
same 15 % of the rows: the loss of the selected features in the paper's form is divided by that
with our defaults. AFS-BM's form has other shares, so that its rows that judge differ; the losses
are divided by those of all features first. The interval resamples runs. Those of one table are
alike, so that it is rather too short.

    python -m tests.benchmarks.published METHOD [SEEDS]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_wine,
    make_classification,
    make_regression,
)

import chaffinch

LIGHTGBM = {"n_estimators": 100, "num_leaves": 15, "learning_rate": 0.05}
MODEL = chaffinch.ModelSettings(tuning="none", parameters=LIGHTGBM)
LOADERS = {
    "diabetes": load_diabetes,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "regression": partial(make_regression, 400, 40, n_informative=8, noise=40.0),
    "classes": partial(make_classification, 600, 40, n_informative=6, n_redundant=10),
}


def tables(seed: int) -> Iterator[tuple[str, Any, Any]]:
    for name, load in LOADERS.items():
        drawn = load(random_state=seed) if isinstance(load, partial) else load(return_X_y=True)
        yield name, pd.DataFrame(drawn[0]).add_prefix("x"), pd.Series(drawn[1], name="y")


def main() -> None:
    method, n_seeds = sys.argv[1], int((*sys.argv[2:], 5)[0])
    warnings.simplefilter("ignore")
    ratios: list[float] = []
    for seed in range(n_seeds):
        for name, X, y in tables(seed):
            relative, kept = [], []
            for as_published in (False, True):
                result = chaffinch.select(
                    X, y, method=method, model=MODEL, seed=seed,
                    settings={"as_published": as_published},
                )  # fmt: skip
                losses = result.losses["test"]
                relative.append(losses["selected"] / losses["all_features"])
                kept.append(len(result.features))
            ratios.append(relative[1] / relative[0])
            print(f"{name:14} seed {seed}  {kept[0]:3} {kept[1]:3}  {ratios[-1]:.3f}", flush=True)
    logs = np.log(ratios)
    means = np.random.default_rng(0).choice(logs, (10_000, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    print(f"{method}: published / default {np.exp(logs.mean()):.3f} [{low:.3f}, {high:.3f}]")
    print(f"of {len(ratios)} runs; below 1: {np.mean(np.array(ratios) < 1):.0%}")


if __name__ == "__main__":
    main()
