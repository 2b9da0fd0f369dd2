"""Which run, stage and data set a log line is about, said in front of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from chaffinch.storage.errors import printable

_SECRET = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)")
_MARK = "chaffinch_context"

_about: ContextVar[Mapping[str, str]] = ContextVar("about")


@contextmanager
def logging_about(**about: str) -> Iterator[None]:
    """Say of each line that is logged in the block what it is about."""
    token = _about.set({**_about.get({}), **about})
    try:
        yield
    finally:
        _about.reset(token)


class ContextFilter(logging.Filter):
    """For a handler: puts what a line is about in front of it, and hides passwords in addresses.

    ``run=orders-gbmo-lightgbm-1a2b dataset=625ca62ed1be060c stage=split: message``, and the same as
    attributes of the record. What is not printable is escaped, so that each is one line.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record, once, and let it through."""
        if not hasattr(record, _MARK):
            about = _about.get({})
            setattr(record, _MARK, True)
            for name in ("run", "stage", "dataset"):
                setattr(record, name, about.get(name))
            told = " ".join(f"{name}={about[name]}" for name in about)
            message = _SECRET.sub(r"\1***", record.getMessage())
            record.msg, record.args = printable(f"{told}: {message}" if told else message), ()
        return True
