"""`chaffinch.find_alternatives`: the search, if its package is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from chaffinch.storage.extras import require
from chaffinch.tasks.selection.alternatives import find
from chaffinch.tasks.selection.alternatives.result import Alternatives

_Arguments = ParamSpec("_Arguments")


def _with_its_package(
    search: Callable[_Arguments, Alternatives],
) -> Callable[_Arguments, Alternatives]:
    @wraps(search)
    def checked(*args: _Arguments.args, **options: _Arguments.kwargs) -> Alternatives:
        if options.get("search") == "simultaneous":
            require("ortools", "search simultaneous")
        return search(*args, **options)

    return checked


find_alternatives = _with_its_package(find.find_alternatives)
