"""When a search is to stop, proven or not."""

from __future__ import annotations

import time

GRACE = 0.25  # seconds after a deadline: sets that take a moment each are still found in them


def is_late(deadline: float | None, in_seconds: float = 0.0) -> bool:
    """Return whether a deadline on the clock of `time.monotonic` is over, or soon; None never."""
    return deadline is not None and time.monotonic() + in_seconds >= deadline


def is_far_too_late(deadline: float | None) -> bool:
    """Return whether even the time is over in which a late search still begins further sets."""
    return is_late(deadline, -GRACE)


def share_of_time(deadline: float | None, share: float) -> float | None:
    """Return when so much of the time that is left will be over; None if there is no end to it."""
    if deadline is None:
        return None
    now = time.monotonic()
    return now + share * (deadline - now)
