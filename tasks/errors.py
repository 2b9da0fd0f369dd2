"""Errors of workers, of strict runs, and of the algorithms as errors of the input."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chaffinch.storage.errors import InputError, is_out_of_memory
from chaffinch.tasks.selection.errors import SettingError


class WorkersError(RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""


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
