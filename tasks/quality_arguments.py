"""What `chaffinch.qualities` is given beside a table or a model, checked before any work."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from chaffinch.storage.errors import InputError
from chaffinch.tasks.given_rows import rows_and_schema
from chaffinch.tasks.selection.errors import in_one_line
from chaffinch.tasks.selection.rivals.binned import FEWEST_BINS
from chaffinch.tasks.selection.vocabulary import Rows, Schema, Task

_LARGEST_SEED = 2**32 - 1


def checked_seed(seed: Any) -> int:
    """Return a seed; InputError if it is none that everything random takes."""
    if not _is_whole(seed) or not 0 <= seed <= _LARGEST_SEED:
        raise InputError(
            f"seed must be a whole number in 0..{_LARGEST_SEED} but is {in_one_line(seed)}"
        )
    return int(seed)


def check_processes(processes: Any) -> None:
    """Refuse what is no number of processes with InputError."""
    if not _is_whole(processes):
        raise InputError(f"processes must be a whole number but is {in_one_line(processes)}")
    if processes < 1:
        raise InputError(f"processes must be at least 1 but is {processes}")


def check_engine(engine: Any) -> None:
    """Refuse what does not answer as a `MaskedLoss` does with InputError."""
    asked = (getattr(engine, name, None) for name in ("mask", "loss", "without_each"))
    if not callable(engine) or any(one is None for one in asked):
        raise InputError(
            f"engine must be what chaffinch.masked_loss returns but is a {type(engine).__name__}; "
            "give chaffinch.masked_loss(model, X, y, loss=...)"
        )


def read_for_bins(X: Any, y: Any, task: Task | None, bins: int | None) -> tuple[Rows, Schema]:
    """Return the same as `rows_and_schema`; InputError if numbers are not parted into so many."""
    if bins is not None and (not _is_whole(bins) or bins < FEWEST_BINS):
        raise InputError(
            f"bins must be a whole number of at least {FEWEST_BINS} but is {in_one_line(bins)}"
        )
    return rows_and_schema(X, y, task)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
