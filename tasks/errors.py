"""What can go wrong while others compute, and what the mathematics refuses."""

from collections.abc import Iterator
from contextlib import contextmanager

from chaffinch.storage.errors import InputError


class WorkersError(RuntimeError):
    """The workers could not finish: they died again and again, or the scheduler went away."""


@contextmanager
def said_to_the_user(about: str = "") -> Iterator[None]:
    """Let a ValueError inside, which the mathematics raises, be one that the user can mend.

    Parameters
    ----------
    about : str
        What the sentence begins with.

    Raises
    ------
    InputError
        With the first line of any ValueError; what follows it is for programmers.
    """
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        first, *_ = [*filter(None, map(str.strip, str(error).splitlines())), "no reason given"]
        raise InputError(about + first) from error
