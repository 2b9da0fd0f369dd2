"""Values, names and damages that every kind of case draws from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Draws = np.random.Generator


class Broken(Exception):  # noqa: N818 - a finding, not an error of the product
    """A promise that was not kept, in words; what is before the first colon groups them."""


@dataclass(frozen=True)
class Case:
    """A call in words, and the call; a command may print.

    It is drawn with a folder, of which ``in`` is for its input, which must stay as it is, ``store``
    for a store, and ``made`` for what else the product writes.
    """

    what: str
    do: Callable[[], Any]
    command: bool = False


# fmt: off
NAMES = [
    "a b", "a,b", 'a"b', "a'b", "a\nb", "a\r\nb", "a\tb", "a\0b", "\x1b[31mred\x1b[0m", "\x9b2J",
    "\x1b]0;title\x07", "x" * 300, "", " ", "  a", "ü", "日本語", "\u202eabc", "a\u2028b", "\ud800",
    "__index_level_0__", "y", "1", "-1", "1e5", "NaN", "None", "true", "a.b", "a[0]", "{a}", "{0}",
    "%s", "%(a)s", "a:b", "<script>alert(1)</script>", "$x", "=1+1", "../x", "a/b", "e\u0301", "é",
    "\ufeffa", "🙂" * 50, "select", "constant", "feature", "step", "loss", ";",
]
NOT_TEXT = [5, -1, 2.5, float("nan"), None, True, ("a", 1), b"a", np.int64(7), 10**30]
NUMBERS = [
    0, 1, 2, 3, -1, -0.0, 0.5, 1.5, 50, 1e-320, 1e30, 1e300, -1e308, 2**31, 2**53 + 1, 2**63, 2**64,
    10**30, -(10**30), float("nan"), float("inf"), float("-inf"),
]
JSON_VALUES = [
    None, True, False, "", " ", "x", "0", "1", "0.5", "nan", "y", "a\nb", "\x1b[2J", "x" * 5000,
    [], {}, [[]], [None], ["y"], ["y", "y"], [1, 2], [0.5], [-1], {"a": 1}, {"name": "y"},
    {"kind": "gbmo"}, [{"name": "y"}], *NUMBERS,
]
_JUNK = [b"\0", b"\xff\xfe", b'"', b"\n\n", b"\r", b",,,", b"\xed\xa0\x80", b"\x1b[31m", b"-1",
         b"9" * 400, b"nan", b"PAR1", bytes(range(200, 256))]
# fmt: on


def pick(draws: Draws, among: Sequence[Any]) -> Any:
    """Return one of several values as it is, which `Generator.choice` would convert."""
    return among[int(draws.integers(len(among)))]


def some(draws: Draws, among: Sequence[Any], most: int = 3) -> list[Any]:
    """Return up to so many of them, none twice."""
    number = min(int(draws.integers(most + 1)), len(among))
    return [among[i] for i in draws.choice(len(among), number, replace=False)] if number else []


def often(draws: Draws, share: float) -> bool:
    """Return true in this share of the draws."""
    return bool(draws.random() < share)


def shown(value: object, longest: int = 300) -> str:
    """Return a value for a person, cut."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def encodable(name: str) -> str:
    """Return a name that UTF-8 can hold."""
    return name.encode("utf-8", "replace").decode()


def damaged(draws: Draws, data: bytes) -> tuple[bytes, str]:
    """Return bytes with one to three damages, and what was done."""
    done = []
    for _ in range(int(draws.integers(1, 4))):
        how = pick(
            draws, ["flip"] * 5 + ["cut"] * 2 + ["remove", "insert", "repeat"] * 2 + ["junk"]
        )
        at = int(draws.integers(len(data) + 1))
        length = pick(draws, [1, 2, 10, 100, 300])
        if how == "flip" and data:
            places = [
                at % len(data),
                *draws.integers(len(data), size=pick(draws, [0, 0, 0, 2, 20])),
            ]
            changed = bytearray(data)
            for place in places:
                changed[place] = int(draws.integers(256))
            data = bytes(changed)
            how = f"flip at {[int(place) for place in places]}"
        elif how == "cut":
            data = data[: at if often(draws, 0.8) else length]
        elif how == "remove":
            data = data[:at] + data[at + length :]
        elif how == "repeat":
            data = data[: at + length] + data[at:]
        elif how == "insert":
            data = data[:at] + pick(draws, _JUNK) + data[at:]
        else:
            data = draws.bytes(length)
        done.append(f"{how} at {at} of {len(data)}")
    return data, ", ".join(done)
