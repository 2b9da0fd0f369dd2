"""Errors of the algorithms: ValueErrors with a remedy."""

_LONGEST = 200  # characters


def in_one_line(given: object) -> str:
    """Return a value as Python writes it, or its type if that is long; text is shortened.

    A table in place of a name would fill the screen.
    """
    written = repr(given)
    if len(written) <= _LONGEST and len(written.splitlines()) == 1:
        return written
    if isinstance(given, str):
        return f"{given[:_LONGEST]!r}..."
    return f"of type {type(given).__name__}"


class SettingError(ValueError):
    """A setting does not fit the others, or the rows; with a remedy.

    Parameters
    ----------
    what : str
        The problem.
    remedy : str
        What to set instead.
    otherwise : str
        Remedy if that setting cannot be changed; may be empty.
    """

    def __init__(self, what: str, remedy: str, otherwise: str) -> None:
        super().__init__(what, remedy, otherwise)  # the arguments, so that it can be pickled
        self.what, self.remedy, self.otherwise = what, remedy, otherwise

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class UnusableError(ValueError):
    """A model or a loss cannot be computed with this input: the user may choose another."""


class UnusableLossError(SettingError, UnusableError):
    """A loss cannot be computed with this input, with a remedy."""
