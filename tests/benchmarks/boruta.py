"""``make bench-boruta``: what `boruta` confirms beside the package Boruta 0.4.3, table by table.

Both have the same forest and 50 rounds; the package tests without its own correction of false
discoveries (``two_step=False``), as the paper does. Columns of shuffled values stand beside those
of a table of scikit-learn. Install the package first: ``pip install Boruta==0.4.3``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from boruta import BorutaPy
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import chaffinch
from chaffinch.methods import Boruta

SEEDS, ROUNDS = range(3), 50
FOREST = {"max_depth": 5, "n_estimators": 100, "n_jobs": 1}


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    for load in (datasets.load_breast_cancer, datasets.load_wine, datasets.load_diabetes):
        X, y = load(return_X_y=True)
        yield load.__name__, np.column_stack([X, random.permuted(X, axis=0)]), y
    yield "make_friedman1", *datasets.make_friedman1(400, 20, noise=1.0, random_state=0)
    options = {"n_informative": 6, "n_redundant": 4, "shuffle": False, "random_state": 0}
    yield "make_classification", *datasets.make_classification(500, 25, **options)


def main() -> None:
    for name, X, y in tables():
        is_class = len(np.unique(y)) < 20
        kind = RandomForestClassifier if is_class else RandomForestRegressor
        table = pd.DataFrame(X, columns=[f"{j:03}" for j in range(X.shape[1])])
        differ, sizes = [], []
        for seed in SEEDS:
            method = Boruta(rounds=ROUNDS)
            shares = (97, 1, 1, 1)  # nearly all rows to the search
            found = chaffinch.select(
                table,
                y,
                method=method,
                model=kind(**FOREST),
                seed=seed,
                settings={"shares": shares},
            )
            forest = kind(**FOREST)
            package = BorutaPy(
                forest, n_estimators=100, max_iter=ROUNDS + 1, two_step=False, random_state=seed
            )
            theirs = {*table.columns[package.fit(X, y).support_]}
            differ.append(len(theirs ^ {*found.features}))
            sizes.append(f"{len(found.features)}/{len(theirs)}")
        print(f"{name}: {X.shape[1]} columns, ours/theirs {sizes}, decided otherwise {differ}")


if __name__ == "__main__":
    main()
