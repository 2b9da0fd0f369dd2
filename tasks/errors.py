"""What can go wrong while others compute, and what the mathematics refuses."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chaffinch.storage.errors import InputError, MendableError, is_out_of_memory
from chaffinch.tasks.selection.errors import SettingError

# what is left where a reselection can set nothing that would help
ANEW = "select anew without a former run"


class WorkersError(RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""


class StrictError(InputError):
    """There are warnings about the table, and the run is strict."""

    def __init__(self, warnings: Sequence[str]) -> None:
        super().__init__(tuple(warnings))  # what it is made of, so that it can be sent
        self.warnings = tuple(warnings)

    @property
    def count(self) -> str:
        """How many warnings, in words."""
        return f"{len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}"

    def __str__(self) -> str:
        """Return the line that a person sees."""
        return f"strict: {self.count}, so nothing was trained: {'; '.join(self.warnings)}"


def refuse_warnings(warnings: Sequence[str], *, strict: bool) -> None:
    """Raise StrictError if the run is strict and there are warnings."""
    if strict and warnings:
        raise StrictError(warnings)


@contextmanager
def as_input_error(about: str = "") -> Iterator[None]:
    """Let a ValueError inside, which the mathematics raises, be one that the user can mend."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        if is_out_of_memory(error):  # an XGBoostError is a ValueError
            raise MemoryError(str(error)) from error
        if isinstance(error, SettingError):
            raise mendable(error, about) from error
        first, *_ = [*filter(None, map(str.strip, str(error).splitlines())), "no reason given"]
        raise InputError(about + first) from error


def mendable(error: SettingError, about: str = "") -> MendableError:
    """Return what the mathematics refuses as what a user can mend, by rows alone as well."""
    by_rows = ", or ".join(filter(None, [error.otherwise, ANEW]))
    return MendableError(about + error.what, error.remedy, by_rows)
