"""Tables of the benchmarks of what a method chooses: of a folder, of scikit-learn, made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from chaffinch.tasks.selection.core import Rows, Schema
from tests.synthetic import good_table

ENDINGS = (".parquet", ".csv.gz", ".tsv.gz", ".csv", ".tsv")
TARGETS = ("target", "y")
FEWEST_ROWS, MOST_FEATURES = 50, 5000
BUNDLED = ("iris", "wine", "breast_cancer", "digits", "diabetes")
ALSO_CALLED = {"breast_cancer": "wdbc"}

Table = tuple[str, pd.DataFrame, pd.Series]


def tables(folder: Path | None) -> Iterator[Table]:
    """Yield the tables of a folder, if there is one, those of scikit-learn, and those made up."""
    names = []
    for name, X, y in from_folder(folder) if folder else ():
        names.append(name)
        yield name, X, y
    for name in BUNDLED:
        if name not in names and ALSO_CALLED.get(name) not in names:
            X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
            yield name, X, y
    yield from synthetic()


def from_folder(folder: Path) -> Iterator[Table]:
    """Yield the tables of a folder that have a target, rows enough, and are not too wide."""
    for path in sorted(folder.iterdir()):
        if not path.name.endswith(ENDINGS):
            continue
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
        target = next((name for name in TARGETS if name in table), None)
        if target is None or len(table) < FEWEST_ROWS or len(table.columns) > MOST_FEATURES:
            continue
        yield path.name.split(".")[0], table.drop(columns=target), table[target]


def synthetic() -> Iterator[Table]:
    """Yield made-up tables, each to show where one kind of choice goes wrong."""
    random = np.random.default_rng(0)

    def noise(n_rows: int, n_features: int) -> np.ndarray:
        return random.normal(size=(n_rows, n_features))

    def classes(n_rows: int, n_features: int, n_informative: int, **more: Any) -> Any:
        given = {"n_redundant": 0, "random_state": 0, "flip_y": 0.05, **more}
        return datasets.make_classification(
            n_rows, n_features, n_informative=n_informative, **given
        )

    def numbers(n_rows: int, n_features: int, n_informative: int) -> Any:
        return datasets.make_regression(
            n_rows, n_features, n_informative=n_informative, noise=30, random_state=0
        )

    def friedman(number: int, n_noise: int) -> Any:
        make = getattr(datasets, f"make_friedman{number}")
        X, y = make(600, random_state=0)
        return np.hstack([X, noise(600, n_noise)]), y + 0.3 * y.std() * noise(600, 1)[:, 0]

    yield named("wide_redundant", *classes(400, 200, 6, n_redundant=60, n_repeated=20))
    yield named("redundant", *classes(800, 40, 5, n_redundant=25))
    yield named("few_rows_classes", *classes(90, 60, 5))
    yield named("few_rows_numbers", *numbers(80, 50, 6))
    yield named("hypercube", *classes(900, 100, 5, n_redundant=15, n_clusters_per_class=8))
    yield named("imbalanced", *classes(1200, 30, 6, weights=[0.93], flip_y=0.01))
    yield named("eight_classes", *classes(1000, 30, 8, n_classes=8, n_clusters_per_class=1))
    yield named("friedman_1", *friedman(1, 40))
    yield named("friedman_2", *friedman(2, 20))
    yield named("friedman_3", *friedman(3, 20))
    yield named("sparse_linear", *numbers(300, 150, 10))
    yield named("all_needed", *numbers(600, 20, 20))
    yield named("no_signal_classes", noise(500, 30), random.integers(0, 2, 500))
    yield named("no_signal_numbers", noise(500, 30), noise(500, 1)[:, 0])
    X = noise(1000, 20)
    yield named("interaction", X, (X[:, 0] * X[:, 1] + 0.3 * noise(1000, 1)[:, 0] > 0).astype(int))
    factors = noise(500, 8)
    X = np.repeat(factors, 6, axis=1) + 0.5 * noise(500, 48)
    yield named("copies", X, factors[:, :4].sum(axis=1) + noise(500, 1)[:, 0])
    X = noise(800, 60)
    yield named("many_weak", X, X[:, :30].sum(axis=1) + 6 * noise(800, 1)[:, 0])
    X = random.poisson(0.1, (600, 300)).astype(float)
    yield named("words", X, (X[:, :20].sum(axis=1) + 0.5 * noise(600, 1)[:, 0] > 2).astype(int))
    gaps = good_table(600)
    yield "gaps", gaps.drop(columns="churned"), gaps["churned"]


def named(name: str, X: np.ndarray, y: np.ndarray) -> Table:
    """Return a table with names of columns."""
    columns = [f"x{j}" for j in range(X.shape[1])]
    return name, pd.DataFrame(X, columns=columns), pd.Series(y, name="target")


def as_rows(table: pd.DataFrame, target: pd.Series) -> tuple[Rows, Schema]:
    """Return a table with text as the place of a value in its order, without constants."""
    X = table.apply(lambda c: c if c.dtype.kind in "iufb" else pd.factorize(c, sort=True)[0])
    matrix = X.to_numpy(np.float64)
    matrix = matrix[:, np.nanstd(matrix, axis=0) > 0]
    is_class = target.dtype.kind not in "f" and target.nunique() <= 20
    y = pd.factorize(target, sort=True)[0].astype(np.int64) if is_class else target.to_numpy(float)
    names = tuple(f"x{j}" for j in range(matrix.shape[1]))
    n_classes = len(np.unique(y)) if is_class else 0
    return Rows(matrix, y), Schema(names, (0,) * len(names), n_classes)
