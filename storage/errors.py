"""The errors a user can mend: one line that names the limit, the value and the remedy."""


class InputError(ValueError):
    """What was given cannot be used: a table, a column, a setting, a run name.

    The command line answers it with exit code 2 and its one line, without a traceback.
    """

    def __str__(self) -> str:
        """Return the message in one line, whatever it quotes."""
        return _in_one_line(super().__str__())


def _in_one_line(text: str) -> str:
    return " ".join(filter(None, map(str.strip, text.splitlines())))


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
        return _in_one_line(f"{self.what}; {self.remedy}")

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
        return f"column {self.name!r} is of type {self.kind}, which is no feature; drop it"


class StorageError(OSError):
    """The store cannot take or give back what it should: a full disk, a damaged or missing file.

    The command line answers it with exit code 1 and its one line, without a traceback.
    """

    def __str__(self) -> str:
        """Return the message in one line, whatever it quotes."""
        return _in_one_line(super().__str__())


class LaterReleaseError(StorageError):
    """A file was written by a later release; this one is to be updated."""
