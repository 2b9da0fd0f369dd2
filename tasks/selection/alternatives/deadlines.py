"""When a search is to stop, proven or not."""

from __future__ import annotations

import time


def is_late(deadline: float | None) -> bool:
    """Return whether a deadline on the clock of `time.monotonic` is over; None never is."""
    return deadline is not None and time.monotonic() >= deadline
