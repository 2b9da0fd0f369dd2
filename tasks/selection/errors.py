"""Errors of the algorithms: ValueErrors with a remedy."""

_LONGEST = 200  # characters


def in_one_line(given: object) -> str:
    """Return a value's repr, text shortened; its type instead if it is long, or rows of a table."""
    rows = given if isinstance(given, list | tuple) else ()
    is_table = getattr(given, "ndim", 0) or any(
        isinstance(row, dict | list | tuple) for row in rows
    )
    written = "" if is_table else repr(given)
    if len(written) <= _LONGEST and len(written.splitlines()) == 1:
        return written
    if isinstance(given, str):
        return f"{given[:_LONGEST]!r}..."
    return f"of type {type(given).__name__}"


class SettingError(ValueError):
    """A setting does not fit the others, or the rows; the hint names the setting to change."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(*filter(None, [message, hint]))
        self.message, self.hint = message, hint

    def __str__(self) -> str:
        return "; ".join(filter(None, [self.message, self.hint]))


class UnusableError(SettingError):
    """A model or a loss cannot be computed with this input: the user may choose another."""
