"""The errors a user can mend: one line that names the limit, the value and the remedy."""

_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "allocate memory", "CUDA out of memory")
_LONGEST, _BEGIN, _END = 1500, 1000, 400  # characters of a message: what is wrong, and the remedy


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out; libraries in C++ raise errors of their own then."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def printable(text: str) -> str:
    """Return text with all that breaks a line or moves a cursor escaped, as in Python."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_a_line(message: object) -> str:
    """Return a message as one printable line; the middle of a long one is left out."""
    line = printable(" ".join(filter(None, map(str.strip, str(message).splitlines()))))
    return line if len(line) <= _LONGEST else f"{line[:_BEGIN]} ... {line[-_END:]}"


class _InALine:
    """For an error: its text is one printable line, also where it quotes a library or a path."""

    def __str__(self) -> str:
        return in_a_line(super().__str__())


class InputError(_InALine, ValueError):
    """What was given cannot be used: a table, a column, a setting, a run name.

    The command line answers it with exit code 2 and its one line, without a traceback.
    """


class MendableError(InputError):
    """What cannot be, and is mended by a setting, or by other rows where nothing can be set.

    Parameters
    ----------
    what : str
        What cannot be.
    remedy : str
        What to set, or to do.
    by_rows : str
        What to do where nothing can be set.
    """

    def __init__(self, what: str, remedy: str, by_rows: str) -> None:
        super().__init__(what, remedy, by_rows)  # what it is made of, so that it can be sent
        self.what, self.remedy, self.by_rows = what, remedy, by_rows

    def __str__(self) -> str:
        """Return the line that a person sees."""
        return in_a_line(f"{self.what}; {self.remedy}")

    def by_rows_alone(self) -> InputError:
        """Return it where nothing but the rows is to be changed."""
        return InputError(f"{self.what}; {self.by_rows}")


class NoFeatureError(InputError):
    """A column is of a type that no feature can have, such as durations.

    Parameters
    ----------
    name : str
        Of the column.
    kind : str
        Its type.
    """

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name, kind)  # what it is made of, so that it can be sent
        self.name, self.kind = name, kind

    def __str__(self) -> str:
        """Return the line that a person sees."""
        return in_a_line(
            f"column {self.name!r} is of type {self.kind}, which is no feature; drop it"
        )


class StorageError(_InALine, OSError):
    """The store cannot take or give back what it should: a full disk, a damaged or missing file.

    The command line answers it with exit code 1 and its one line, without a traceback.
    """


class LaterReleaseError(StorageError):
    """A file was written by a later release; this one is to be updated."""
