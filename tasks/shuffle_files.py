"""`chaffinch shuffle`: files of a data engineer -> a table in random order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaffinch.storage.errors import InputError
from chaffinch.storage.shuffle import are_parquet, shuffle_parquet, shuffle_svmlight
from chaffinch.storage.shuffled_tables import ShuffledTable
from chaffinch.tasks.descent_settings import ShuffleSettings
from chaffinch.tasks.stage import OnProgress, tell_nobody

SHUFFLE = "shuffle_rows"
_PARQUET, _SVMLIGHT = "Parquet", "text in the format of svmlight"
_FOR = {
    _PARQUET: ("target", "drop", "sparse"),
    _SVMLIGHT: ("zero_based", "n_columns", "dtype"),
}


def shuffle_files(
    files: Sequence[str],
    path: str | Path,
    settings: ShuffleSettings,
    *,
    on_progress: OnProgress = tell_nobody,
) -> ShuffledTable:
    """Write files as a table in random order, by what their first bytes say they are.

    Parameters
    ----------
    files : sequence of str
        Paths to Parquet, files or folders, or to text in the format of svmlight, plain or .gz.
    path : path
        Where to write; what is there already is replaced, once all is written.
    settings : ShuffleSettings
    on_progress : callable, optional
        Called with the step's name, and 0 or 1 of 1.

    Raises
    ------
    InputError
        If a file or a row cannot be used, the files are of two formats, or a setting is missing or
        for the other format.
    StorageError
        If the device is full or fails.
    """
    parquet = are_parquet(files)
    if not parquet:
        _refuse_delimited(files)
    _check_for(_PARQUET if parquet else _SVMLIGHT, settings)
    on_progress(SHUFFLE, 0, 1)
    if parquet:
        table = shuffle_parquet(
            files,
            path,
            target=str(settings.target),
            drop=settings.drop,
            sparse=settings.sparse,
            seed=settings.seed,
            block_rows=settings.block_rows,
        )
    else:
        table = shuffle_svmlight(
            files,
            path,
            zero_based=bool(settings.zero_based),
            n_columns=settings.n_columns,
            dtype=settings.dtype or "float64",
            seed=settings.seed,
            block_rows=settings.block_rows,
        )
    on_progress(SHUFFLE, 1, 1)
    return table


def _refuse_delimited(files: Sequence[str]) -> None:
    """Refuse what by its name is CSV, which every other command reads."""
    for file in files:
        name = Path(file).name
        if Path(name.removesuffix(".gz")).suffix.lower() in (".csv", ".tsv"):
            raise InputError(
                f"{name} is delimited text by its name, but shuffle reads Parquet and {_SVMLIGHT}; "
                "write it as Parquet"
            )


def _check_for(form: str, settings: ShuffleSettings) -> None:
    """Refuse settings of the other format, and to guess what the files do not say."""
    if form == _PARQUET and settings.target is None:
        raise InputError(
            "target must be named, as the files are Parquet; name the column to predict, as in "
            "--target price"
        )
    if form == _SVMLIGHT and settings.zero_based is None:
        raise InputError(
            f"zero_based must be said, as {_SVMLIGHT} does not tell: give --zero-based where "
            "columns are counted from 0, or --one-based"
        )
    (other,) = set(_FOR) - {form}
    for name in _FOR[other]:
        if getattr(settings, name) != ShuffleSettings.model_fields[name].default:
            raise InputError(f"{name} is for {other} but the files are {form}; leave it out")
