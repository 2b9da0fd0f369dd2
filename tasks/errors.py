"""Errors of workers, of strict runs, of the algorithms as errors of the input; and warnings."""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from chaffinch.storage.errors import InputError, is_out_of_memory
from chaffinch.tasks.selection.errors import SettingError


class WorkersError(RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""


class DataQualityWarning(UserWarning):
    """Something in a table makes its results doubtful: a leak, copies, columns left out.

    `chaffinch.select` and its like give one for each entry of ``result.warnings``. Turn them into
    errors by ``warnings.simplefilter("error", chaffinch.DataQualityWarning)``.
    """


# Frames of these packages are between a user's call and a warning.
_INNER = ("chaffinch", "sklearn", "joblib", "contextlib")


def warn_of_data(texts: Sequence[str]) -> None:
    """Give data-quality warnings by `warnings.warn`, at the line of the user's call."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _package(frame.f_globals) in _INNER:
        frame, level = frame.f_back, level + 1
    for text in texts:
        warnings.warn(text, DataQualityWarning, stacklevel=level)


def _package(names: Mapping[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


class StrictError(InputError):
    """There are warnings about the table, and the run is strict."""

    def __init__(self, warnings: Sequence[str]) -> None:
        self.count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
        super().__init__(f"strict: {self.count}, so nothing was trained: {'; '.join(warnings)}")
        self.args = (tuple(warnings),)  # what pickle makes it from
        self.warnings = tuple(warnings)


def refuse_warnings(warnings: Sequence[str], *, strict: bool) -> None:
    """Raise StrictError if the run is strict and there are warnings."""
    if strict and warnings:
        raise StrictError(warnings)


@contextmanager
def as_input_error(about: str = "") -> Iterator[None]:
    """Raise a ValueError of the block, which the algorithms raise, as an InputError."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        if is_out_of_memory(error):  # an XGBoostError is a ValueError
            raise MemoryError(str(error)) from error
        if isinstance(error, SettingError):
            raise InputError(about + error.message, error.hint) from error
        first, *_ = [*filter(None, map(str.strip, str(error).splitlines())), "no reason given"]
        raise InputError(about + first.rstrip(":")) from error
