"""What the mathematics refuses: ValueErrors that say what may be done about it."""

_LONGEST = 200  # characters


def in_one_line(given: object) -> str:
    """Return a value as Python writes it, or its type where that is long; of text, the beginning.

    A table in place of a name would fill the screen that its error is read on.
    """
    written = repr(given)
    if len(written) <= _LONGEST and len(written.splitlines()) == 1:
        return written
    if isinstance(given, str):
        return f"{given[:_LONGEST]!r}..."
    return f"of type {type(given).__name__}"


class SettingError(ValueError):
    """A setting does not fit the others, or the rows, with what may be done about it.

    Parameters
    ----------
    what : str
        What does not fit.
    remedy : str
        What to set otherwise.
    otherwise : str
        What is left to do where that setting cannot be another; empty if nothing is.
    """

    def __init__(self, what: str, remedy: str, otherwise: str) -> None:
        super().__init__(what, remedy, otherwise)  # what it is made of, so that it can be sent
        self.what, self.remedy, self.otherwise = what, remedy, otherwise

    def __str__(self) -> str:
        """Return the line that a person sees."""
        return f"{self.what}; {self.remedy}"


class UnusableError(ValueError):
    """A model or a loss cannot go on with what it was given: the user may take another."""


class UnusableLossError(SettingError, UnusableError):
    """A loss cannot go on with what it was given, with what may be done about it."""
