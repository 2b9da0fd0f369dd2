"""Warnings of a table's quality, and their refusal by a strict run."""

import sys
import warnings
from collections.abc import Mapping, Sequence

from chaffinch.errors import StrictError


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


def refuse_warnings(warnings: Sequence[str], *, strict: bool) -> None:
    """Raise StrictError if the run is strict and there are warnings."""
    if strict and warnings:
        raise StrictError(warnings)
