"""What an experiment is, and the tables of the user that some need: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from chaffinch.tasks.selection.core import Floats, Rows, Schema

Measured = dict[tuple[str, str], float]
Table = tuple[Floats, np.ndarray]
ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


@dataclass(frozen=True)
class Figure:
    """A number in a table of a paper; None where it printed none.

    `decimals` are the digits printed after the point, by default those of the number.
    `incomparable` is the reason, as a sentence, why ours cannot be compared with it.
    """

    row: str
    column: str
    published: float | None = None
    decimals: int | None = None
    incomparable: str | None = None


@dataclass(frozen=True)
class Experiment:
    """A published experiment that can be run with any seed.

    `measure` takes what `read` returns, which all seeds share, and a seed; it returns a number for
    the row and column of each figure. Where the paper draws without figures there are none here.
    `authors_seed` is that of the published run, where it is known.
    """

    title: str
    source: str
    measure: Callable[[Any, int], Measured]
    figures: tuple[Figure, ...] = ()
    read: Callable[[Path | None], Any] = lambda where: None
    authors_seed: int | None = None
    notes: tuple[str, ...] = ()


def split(rows: Rows, test_size: float, seed: int) -> tuple[Rows, Rows]:
    """Return two parts of the rows, by scikit-learn's random split."""
    X, X_other, y, y_other = train_test_split(
        rows.X, rows.y, test_size=test_size, random_state=seed
    )
    return Rows(X, y), Rows(X_other, y_other)


def schema_of(X: Floats, n_classes: int) -> Schema:
    d = X.shape[1]
    return Schema(tuple(map(str, range(d))), (0,) * d, n_classes)


def read_table(
    name: str, where: Path | None, *, n_features: int | None = None, target: str = "target"
) -> pd.DataFrame:
    """Return a table, from its file or its folder, with its target as the last column."""
    path = file_of(name, where)
    if path is None:
        raise SystemExit(f"there is no {name} at TABLE={where or ''}: {name}{'|'.join(ENDINGS)}")
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    else:
        table = pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
    if target not in table or n_features not in (None, len(table.columns) - 1):
        raise SystemExit(f"{path} must have {n_features or 'its'} features and a column {target!r}")
    return table[[*table.columns.drop(target), target]]


def read_tables(n_features: Mapping[str, int], where: Path | None) -> dict[str, pd.DataFrame]:
    """Return those tables that are there, by name."""
    there = [name for name in n_features if file_of(name, where) is not None]
    if not there:
        some = ", ".join(list(n_features)[:3])
        raise SystemExit(f"there is no table of the paper at TABLE={where or ''}, such as {some}")
    return {name: read_table(name, where, n_features=n_features[name]) for name in there}


def read_classes(name: str, where: Path | None, *, n_columns: int, n_classes: int = 2) -> Table:
    """Return X, shape (n, n_columns), and the position of each row's class.

    A feature of text becomes a column of 0 and 1 for each of its values, after all numbers.
    """
    # adult has a column that names the rows of its own test part
    table = read_table(name, where).drop(columns="split", errors="ignore")
    numbers = pd.get_dummies(table.drop(columns="target"), dtype=float)
    y, labels = pd.factorize(table["target"], sort=True)
    if (numbers.shape[1], len(labels)) != (n_columns, n_classes) or table.isna().any(axis=None):
        raise SystemExit(f"{name} must have {n_columns} columns, {n_classes} classes and no gaps")
    return numbers.to_numpy(dtype=np.float64), y.astype(np.int64)


def file_of(name: str, where: Path | None) -> Path | None:
    """Return the file of a table: `where` itself or one in that folder; None if there is none."""
    found = [] if where is None else [where] if where.is_file() else where.glob(f"{name}.*")
    return next((f for f in found if f.name.removeprefix(name) in ENDINGS), None)
