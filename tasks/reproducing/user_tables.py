"""Tables of published experiments, from a folder of the user's: nothing is fetched."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.selection.vocabulary import Floats

_ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
_TARGET = "target"


def read_user_table(
    name: str, folder: Path | None, *, n_features: int, left_out: Collection[str] = ()
) -> pd.DataFrame:
    """Return a table with its column ``target`` moved to the end.

    Parameters
    ----------
    name : str
        Of the table: a file of this name, as Parquet, CSV or TSV (plain or gz).
    folder : Path or None
        Where to look for it.
    n_features : int
        How many columns it must have beside the target.
    left_out : collection of str
        Columns that it may have besides, and that are no features.

    Raises
    ------
    InputError
        If no folder is given, the file is not in it, or it has other columns.
    """
    endings = ", ".join(_ENDINGS)
    if folder is None:
        raise InputError(f"this needs the table {name}; name the folder that holds it with --data")
    path = _file_of(name, folder)
    if path is None:
        raise InputError(f"there is no {name} in {folder}; it must end in one of {endings}")
    table = _read(path).drop(columns=list(left_out), errors="ignore")
    if _TARGET not in table or len(table.columns) != n_features + 1:
        raise InputError(
            f"{path} must have {n_features} features and a column {_TARGET!r} but has the columns "
            f"{', '.join(map(str, table.columns[:3]))}, ..., {len(table.columns)} in all"
        )
    return table[[*table.columns.drop(_TARGET), _TARGET]]


def read_numbers_and_classes(
    name: str,
    folder: Path | None,
    *,
    n_features: int,
    n_columns: int,
    n_classes: int,
    left_out: Collection[str] = (),
) -> tuple[Floats, NDArray[np.int64]]:
    """Return X, shape (n, n_columns), and the classes' positions y, shape (n,), of a table.

    A feature of text is a column of 0 and 1 for each of its values, after all numbers.

    Parameters
    ----------
    name, folder, n_features, left_out
        See `read_user_table`, for the errors as well.
    n_columns : int
        How many columns of numbers the features must make.
    n_classes : int
        How many classes the target must have.

    Raises
    ------
    InputError
        If the features make other columns, a value is missing, or there are other classes.
    """
    table = read_user_table(name, folder, n_features=n_features, left_out=left_out)
    n_missing = int(table.isna().any(axis=1).sum())
    if n_missing:
        raise InputError(f"{name} must lack no value but does so in {n_missing} rows; drop them")
    numbers = pd.get_dummies(table.drop(columns=_TARGET), dtype=float)
    y, labels = pd.factorize(table[_TARGET], sort=True)
    for n_found, n_wanted, what in (
        (numbers.shape[1], n_columns, "columns, its text one-hot,"),
        (len(labels), n_classes, f"classes in {_TARGET!r}"),
    ):
        if n_found != n_wanted:
            raise InputError(
                f"{name} must have {n_wanted} {what} but has {n_found}; give the paper's table"
            )
    return numbers.to_numpy(dtype=np.float64), y.astype(np.int64)


def read_those_there(n_features: Mapping[str, int], folder: Path | None) -> dict[str, pd.DataFrame]:
    """Return those of many tables that a folder holds, each with ``target`` at its end.

    Parameters
    ----------
    n_features : mapping of str to int
        How many columns each table has beside the target, by its name.
    folder : Path or None
        See `read_user_table`, for the errors as well.

    Raises
    ------
    InputError
        If the folder holds none of them.
    """
    some = ", ".join(list(n_features)[:3])
    if folder is None:
        raise InputError(f"this needs tables such as {some}; name their folder with --data")
    there = [name for name in n_features if _file_of(name, folder) is not None]
    if not there:
        raise InputError(
            f"there is none of the {len(n_features)} tables of the paper in {folder}, such as "
            f"{some}; each must end in one of {', '.join(_ENDINGS)}"
        )
    return {name: read_user_table(name, folder, n_features=n_features[name]) for name in there}


def _file_of(name: str, folder: Path) -> Path | None:
    files = (folder / f"{name}{ending}" for ending in _ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
