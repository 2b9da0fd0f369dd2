"""How numbers, settings and losses are put into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NOTHING = "\N{EN DASH}"
_LONGEST_LIST = 30
# Control characters would be lost or break a name; their pictures show that they are there.
_PICTURES = {code: 0x2400 + code for code in range(32)} | {127: 0x2421}


def number(value: float | None, sign: str = "") -> str:
    """Return a number to four significant digits, thousands separated.

    Parameters
    ----------
    value : float or None
        None becomes a dash.
    sign : "" or "+"
        "+" marks numbers above 0 as well.
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return f"{value:{sign}}"
    if isinstance(value, int) or 999.95 <= abs(value) < 1e15:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.4g}"


def counted(amount: int, thing: str) -> str:
    """Return how many there are of a thing whose plural takes an s."""
    return f"{number(amount)} {thing}" if amount == 1 else f"{number(amount)} {thing}s"


def interval(ends: Iterable[float] | None) -> str:
    """Return an interval of signed numbers; a dash where there is none, as of one unit."""
    if ends is None:
        return NOTHING
    return f"[{', '.join(number(end, '+') for end in ends)}]"


def share(value: float) -> str:
    """Return a number in 0..1 as per cent."""
    return f"{number(round(100 * value, 10))} %"


def plain(value: Any) -> str:
    """Return any setting, figure or label as text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return listed(f"{key} = {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return listed(plain(item) for item in value)
    return str(value)


def listed(texts: Iterable[str], longest: int = _LONGEST_LIST) -> str:
    """Return texts with commas between them; of a long list, the start and how many follow."""
    items = list(texts)
    if not items:
        return "none"
    more = len(items) - longest
    shown = ", ".join(items[:longest])
    return f"{shown} and {number(more)} more" if more > 0 else shown


def flattened(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as dotted names and text."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", plain(value)


def visible(text: str) -> str:
    """Return a text with pictures in place of its control characters."""
    return text.translate(_PICTURES)
