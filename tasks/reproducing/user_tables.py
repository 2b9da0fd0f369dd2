"""Tables of published experiments, from a folder of the user's: nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from chaffinch.storage.errors import InputError

_ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
_TARGET = "target"


def read_user_table(name: str, folder: Path | None, *, n_features: int) -> pd.DataFrame:
    """Return a table with its column ``target`` moved to the end.

    Parameters
    ----------
    name : str
        Of the table: a file of this name, as Parquet, CSV or TSV (plain or gz).
    folder : Path or None
        Where to look for it.
    n_features : int
        How many columns it must have beside the target.

    Raises
    ------
    InputError
        If no folder is given, the file is not in it, or it has other columns.
    """
    endings = ", ".join(_ENDINGS)
    if folder is None:
        raise InputError(f"this needs the table {name}; name the folder that holds it with --data")
    found = [folder / f"{name}{ending}" for ending in _ENDINGS]
    path = next((file for file in found if file.is_file()), None)
    if path is None:
        raise InputError(f"there is no {name} in {folder}; it must end in one of {endings}")
    table = _read(path)
    if _TARGET not in table or len(table.columns) != n_features + 1:
        raise InputError(
            f"{path} must have {n_features} features and a column {_TARGET!r} but has the columns "
            f"{', '.join(map(str, table.columns[:3]))}, ..., {len(table.columns)} in all"
        )
    return table[[*table.columns.drop(_TARGET), _TARGET]]


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
