"""Prefix of log lines: the run, stage and data set they belong to."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from chaffinch.errors import printable

_SECRET = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)")
_MARK = "chaffinch_context"

_about: ContextVar[Mapping[str, str]] = ContextVar("about")


@contextmanager
def logging_about(**about: str) -> Iterator[None]:
    """Add fields to the prefix of each log line in the block."""
    token = _about.set({**_about.get({}), **about})
    try:
        yield
    finally:
        _about.reset(token)


class ContextFilter(logging.Filter):
    """Filter for a handler: adds the prefix to each line, and hides passwords in addresses.

    ``run=orders-gbmo-lightgbm-1a2b dataset=625ca62ed1be060c stage=split: message``, and the same as
    attributes of the record. Non-printable characters are escaped: a record is a single line.
    Records of Prefect have no prefix: its UI shows their run and task.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, _MARK):
            about = _about.get({})
            setattr(record, _MARK, True)
            for name in ("run", "stage", "dataset"):
                setattr(record, name, about.get(name))
            is_prefect = record.name.startswith("prefect.")
            prefix = "" if is_prefect else " ".join(f"{name}={about[name]}" for name in about)
            message = _SECRET.sub(r"\1***", record.getMessage())
            record.msg, record.args = printable(f"{prefix}: {message}" if prefix else message), ()
        return True
