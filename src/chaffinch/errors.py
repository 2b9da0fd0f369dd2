"""Errors that a user can resolve: one line with what is wrong, the value and the remedy.

Every room may raise them::

    ChaffinchError
      InputError              a ValueError: a table, a column, a setting or a run name
        StrictError           there are warnings, and the run is strict
        UnreachableError      a service, such as a storage or a database, does not answer
      StorageError            an OSError: the store cannot be read or written
        LaterReleaseError     a file of a later release
      TableTooLargeError      a MemoryError
      WorkersError            a RuntimeError: the workers could not finish

`NotCovered` is none that a user sees: an engine declines a model, and the next engine is tried.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import log10

# A thread that cannot be started lacks memory for its stack.
_OUT_OF_MEMORY = (
    *("bad_alloc", "bad allocation", "allocate memory", "CUDA out of memory"),
    *("malloc of size", "realloc of size", "Failed to launch worker thread"),
)
_LONGEST, _BEGIN, _END = 1500, 1000, 400  # characters of a message: what is wrong, and the remedy
_LONGEST_VALUE = 200  # characters
_MOST_BITS = 200


class ChaffinchError(Exception):
    """An error that a user can resolve.

    Its text is one printable line, even if it quotes a library or a path.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class InputError(ChaffinchError, ValueError):
    """Invalid input: a table, a column, a setting or a run name.

    The command line exits with code 2 and prints one line, without a traceback.

    Parameters
    ----------
    message : str
        The problem, with its remedy where that is the same for every kind of run.
    hint : str, optional
        The setting to change. A reselection has few settings and gives a hint of its own.
    how : str, optional
        How to change the rows, before the hint.

    Attributes
    ----------
    column : str or None
        The column of the table that is wrong.
    may_drop : bool
        Whether the column could be left out instead; the text then offers that.
    """

    column: str | None = None
    may_drop = False

    def __init__(self, message: str, hint: str = "", *, how: str = "") -> None:
        super().__init__(*filter(None, [message, hint]))
        self.message, self.hint, self.how = message, hint, how

    def __str__(self) -> str:
        return self.in_words(lambda column: f"drop=[{column!r}]")

    def in_words(self, drop: Callable[[str], str]) -> str:
        """Return the error in one line; `drop` returns what leaves a column out, by its name."""
        leave_out = f"or leave the column out ({drop(str(self.column))})" if self.may_drop else ""
        remedies = ", ".join(filter(None, [self.how, self.hint, leave_out]))
        return one_line("; ".join(filter(None, [self.message, remedies])))


class StrictError(InputError):
    """There are warnings about the table, and the run is strict.

    `are_shown` says that the command line has shown the warnings before.
    """

    def __init__(self, warnings: Sequence[str], *, are_shown: bool = False) -> None:
        self.count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
        super().__init__(f"strict refuses {self.count}: {'; '.join(warnings)}")
        self.args = (tuple(warnings),)  # what pickle makes it from
        self.warnings, self.are_shown = tuple(warnings), are_shown


class UnreachableError(InputError):
    """The storage or database of a source, or a service of an export, does not answer.

    It may answer later, so flows try again.

    The command line exits with code 1 and prints one line, without a traceback.
    """


class StorageError(ChaffinchError, OSError):
    """The store cannot be read or written: a full disk, a damaged or missing file.

    The command line exits with code 1 and prints one line, without a traceback.
    """


class LaterReleaseError(StorageError):
    """A file was written by a later release; update this one."""


class TableTooLargeError(ChaffinchError, MemoryError):
    """A run on a table needs more memory than there is, found before the table is read.

    The command line exits with code 4 and prints one line, without a traceback.
    """


class WorkersError(ChaffinchError, RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""


class NotCovered(Exception):  # noqa: N818 - it steers, it is not shown
    """An engine does not support this model; the message gives the reason."""


@contextmanager
def about_column(name: str) -> Iterator[None]:
    """Note in an InputError of the block that it is about a column."""
    try:
        yield
    except InputError as error:
        error.column = name
        raise


@contextmanager
def as_input_error(about: str = "") -> Iterator[None]:
    """Raise a ValueError of a library in the block as an InputError with its first line."""
    try:
        yield
    except InputError as error:
        if not about:
            raise
        raise InputError(about + error.message, error.hint) from error
    except ValueError as error:
        raise_if_out_of_memory(error)  # an XGBoostError is a ValueError
        first, *_ = [*filter(None, map(str.strip, str(error).splitlines())), "no reason given"]
        raise InputError(about + first.rstrip(":")) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out; C++ libraries raise their own errors for it."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def raise_if_out_of_memory(error: BaseException) -> None:
    """Raise an error of a library as MemoryError if memory ran out."""
    if is_out_of_memory(error):
        raise MemoryError(str(error)) from error


def printable(text: str) -> str:
    """Return text with line breaks and control characters escaped, as in Python."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(message: object) -> str:
    """Return a message as one printable line; a long one is cut in the middle."""
    line = printable(" ".join(filter(None, map(str.strip, str(message).splitlines()))))
    return line if len(line) <= _LONGEST else f"{line[:_BEGIN]} ... {line[-_END:]}"


def short_repr(value: object) -> str:
    """Return a value's repr, text shortened; its type if it is long, or rows of a table."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # which may have no repr
        return f"a whole number of about {round(value.bit_length() * log10(2))} digits"
    rows = value if isinstance(value, list | tuple) else ()
    is_table = getattr(value, "ndim", 0) or any(
        isinstance(row, dict | list | tuple) for row in rows
    )
    written = "" if is_table else repr(value)
    if len(written) <= _LONGEST_VALUE and len(written.splitlines()) == 1:
        return written
    if isinstance(value, str):
        return f"{value[:_LONGEST_VALUE]!r}..."
    return f"of type {type(value).__name__}"
