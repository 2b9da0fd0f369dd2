"""Tables of the benchmarks of what a method chooses: of a folder, of scikit-learn, made up.

Of those `with_truth` it is known which features matter, and each seed draws them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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

N_COLUMNS, N_TEST_ROWS = 57, 5000

Table = tuple[str, pd.DataFrame, pd.Series]


@dataclass(frozen=True)
class TrueTable:
    """Rows to choose by and to judge by, and the column that each feature is, or is a copy of.

    `source`, shape (d,), is -1 for features that tell nothing of the target.
    """

    rows: Rows
    test: Rows
    schema: Schema
    source: np.ndarray


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


def with_truth(seed: int) -> Iterator[tuple[str, TrueTable]]:
    """Yield tables of which it is known which features matter."""
    for n_rows, n_levels, is_coded in (
        (1000, 65, False),
        (2000, 2, False),
        (2000, 10, False),
        (2000, 65, False),
        (5000, 65, False),
        (5000, 65, True),
        (5000, 300, False),
        (10_000, 500, False),
        (20_000, 65, False),
    ):
        name = f"messy_{n_rows}_{n_levels}{'_coded' if is_coded else ''}"
        make = partial(messy, n_levels=n_levels, is_coded=is_coded)
        yield name, drawn(make, n_rows, seed)
    for make, n_rows in (
        (correlated, 600),
        (all_matter, 1000),
        (none_matter, 800),
        (interacting, 2000),
        (few_rows, 150),
        (dominated, 2000),
    ):
        yield make.__name__, drawn(make, n_rows, seed)


Made = tuple[np.ndarray, np.ndarray, list[int], list[int]]  # X, y, sources, numbers of categories


def drawn(make: Callable[[np.random.Generator, int], Made], n_rows: int, seed: int) -> TrueTable:
    """Return a made-up table with its columns shuffled, and more rows of it to judge by."""
    random = np.random.default_rng([seed, n_rows])
    X, y, source, n_categories = make(random, n_rows + N_TEST_ROWS)
    order = random.permutation(X.shape[1])
    names = tuple(f"x{j}" for j in range(len(order)))
    n_classes = 0 if y.dtype.kind == "f" else 2
    schema = Schema(names, tuple(n_categories[j] for j in order), n_classes)
    rows = Rows(np.ascontiguousarray(X[:, order]), y)
    chosen_by, judged_by = rows.take(slice(n_rows)), rows.take(slice(n_rows, None))
    return TrueTable(chosen_by, judged_by, schema, np.array(source)[order])


def messy(random: np.random.Generator, n: int, n_levels: int, is_coded: bool) -> Made:
    """Six columns that matter, near copies of five, and noise: of it eight categories."""
    numbers = random.normal(size=(n, 4))
    levels = [random.integers(0, 6, n), random.integers(0, 12, n)]
    effects = [0.8 * random.normal(size=6), 0.6 * random.normal(size=12)]
    score = numbers @ [0.9, 0.7, -0.6, 0] + 0.5 * np.abs(numbers[:, 3])
    score += sum(effect[level] for effect, level in zip(effects, levels, strict=True)) - 0.4
    columns, source = [*numbers.T, *levels], [*range(6)]
    n_categories = [0, 0, 0, 0, 6, 12]
    for j in range(4):
        for deviation in (0.01, 0.03):
            columns.append(numbers[:, j] + deviation * random.normal(size=n))
            source.append(j)
            n_categories.append(0)
    columns.append((levels[0] * 7 + 3) % 6)
    source.append(4)
    n_categories.append(6)
    of_noise = [max(2, round(n_levels * share)) for share in np.linspace(0.9, 1.1, 8)]
    while len(columns) + len(of_noise) < N_COLUMNS:
        of_noise.append(0 if len(of_noise) % 3 else 4)
    for k in of_noise:
        columns.append(random.integers(0, k, n) if k else random.normal(size=n))
        source.append(-1)
        n_categories.append(k)
    X = np.column_stack(columns).astype(np.float64)
    return X, draws(random, score), source, [0] * len(source) if is_coded else n_categories


def correlated(random: np.random.Generator, n: int) -> Made:
    """Eight factors, each seen five times with noise; four matter."""
    factors = random.normal(size=(n, 8))
    X = np.repeat(factors, 5, axis=1) + 0.4 * random.normal(size=(n, 40))
    source = [j if j < 4 else -1 for j in range(8) for _ in range(5)]
    return X, factors[:, :4].sum(axis=1) + random.normal(size=n), source, [0] * 40


def all_matter(random: np.random.Generator, n: int) -> Made:
    """Fifteen features that matter equally."""
    X = random.normal(size=(n, 15))
    return X, draws(random, X.sum(axis=1) / 2), [*range(15)], [0] * 15


def none_matter(random: np.random.Generator, n: int) -> Made:
    """Twenty-five features that tell nothing."""
    return random.normal(size=(n, 25)), random.integers(0, 2, n), [-1] * 25, [0] * 25


def interacting(random: np.random.Generator, n: int) -> Made:
    """Two features that matter by the sign of their product alone, and a weak one."""
    X = random.normal(size=(n, 20))
    score = 2.5 * np.sign(X[:, 0] * X[:, 1]) + 0.5 * X[:, 2]
    return X, draws(random, score), [0, 1, 2, *[-1] * 17], [0] * 20


def few_rows(random: np.random.Generator, n: int) -> Made:
    """Five features of forty matter."""
    X = random.normal(size=(n, 40))
    y = X[:, :5] @ [1.5, 1.2, 1, 0.8, 0.6] + random.normal(size=n)
    return X, y, [*range(5), *[-1] * 35], [0] * 40


def dominated(random: np.random.Generator, n: int) -> Made:
    """A feature outweighs six others that matter."""
    X = random.normal(size=(n, 30))
    y = 6 * X[:, 0] + 0.8 * X[:, 1:7].sum(axis=1) + random.normal(size=n)
    return X, y, [*range(7), *[-1] * 23], [0] * 30


def draws(random: np.random.Generator, score: np.ndarray) -> np.ndarray:
    """Return classes 0 and 1, of which 1 has the logit `score`."""
    return (random.random(len(score)) < 1 / (1 + np.exp(-score))).astype(np.int64)
