"""Errors that a user can resolve: one line with the limit, the value and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

# A thread that cannot be started lacks memory for its stack.
_OUT_OF_MEMORY = (
    *("bad_alloc", "bad allocation", "allocate memory", "CUDA out of memory"),
    *("malloc of size", "realloc of size", "Failed to launch worker thread"),
)
_LONGEST, _BEGIN, _END = 1500, 1000, 400  # characters of a message: what is wrong, and the remedy


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out; C++ libraries raise their own errors for it."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def printable(text: str) -> str:
    """Return text with line breaks and control characters escaped, as in Python."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_a_line(message: object) -> str:
    """Return a message as one printable line; a long one is cut in the middle."""
    line = printable(" ".join(filter(None, map(str.strip, str(message).splitlines()))))
    return line if len(line) <= _LONGEST else f"{line[:_BEGIN]} ... {line[-_END:]}"


class _InALine:
    """Mixin for errors: the text is one printable line, even if it quotes a library or a path."""

    def __str__(self) -> str:
        return in_a_line(super().__str__())


class TableTooLargeError(_InALine, MemoryError):
    """A run on a table needs more memory than there is, found before the table is read.

    The command line exits with code 4 and prints one line, without a traceback.
    """


def raise_if_out_of_memory(error: BaseException) -> None:
    """Raise an error of a reader as MemoryError if memory ran out: its file is not damaged."""
    if is_out_of_memory(error):
        raise MemoryError(str(error)) from error


class InputError(_InALine, ValueError):
    """Invalid input: a table, a column, a setting or a run name.

    The command line exits with code 2 and prints one line, without a traceback.

    Parameters
    ----------
    message : str
        The problem, with its remedy where that is the same for every kind of run.
    hint : str, optional
        The setting to change. A reselection has few settings and gives a hint of its own.

    Attributes
    ----------
    column : str or None
        The column of the table that is wrong.
    may_drop : bool
        Whether the column could be left out instead; the text then offers that.
    """

    column: str | None = None
    may_drop = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(*filter(None, [message, hint]))
        self.message, self.hint = message, hint

    def __str__(self) -> str:
        return self.in_words("drop=[{!r}]")

    def in_words(self, drop: str) -> str:
        """Return the error in one line; `drop` leaves a column out, with {} for its name."""
        leave_out = f"or leave the column out ({drop.format(self.column)})" if self.may_drop else ""
        remedies = ", ".join(filter(None, [self.hint, leave_out]))
        return in_a_line("; ".join(filter(None, [self.message, remedies])))


@contextmanager
def about_column(name: str) -> Iterator[None]:
    """Note in an InputError of the block that it is about a column."""
    try:
        yield
    except InputError as error:
        error.column = name
        raise


class StorageError(_InALine, OSError):
    """The store cannot be read or written: a full disk, a damaged or missing file.

    The command line exits with code 1 and prints one line, without a traceback.
    """


class LaterReleaseError(StorageError):
    """A file was written by a later release; update this one."""
