"""Values and bytes that programs rarely expect, drawn by every family of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Draws = np.random.Generator


class Broken(Exception):  # noqa: N818 - what a case finds is no error of the program's own
    """A promise that the product did not keep, in words."""


@dataclass(frozen=True)
class Case:
    """One call of the product.

    Attributes
    ----------
    what : str
        The call and its input, for a person.
    do : callable
        Makes the call and checks what it returns.
    command : bool
        Whether it is a command line, which may print.
    """

    what: str
    do: Callable[[], Any]
    command: bool = False


@dataclass(frozen=True)
class Place:
    """The folders of one case."""

    folder: Path

    @property
    def given(self) -> Path:
        """Where the case puts its input; nobody may change it."""
        return self.folder / "in"

    @property
    def store(self) -> Path:
        """A store, which a case may copy into."""
        return self.folder / "store"

    @property
    def made(self) -> Path:
        """Where a case lets the product write."""
        return self.folder / "made"


NAMES = [
    "a b", "a,b", 'a"b', "a'b", "a\nb", "a\r\nb", "a\tb", "a\0b", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "\x9b2J", "x" * 300, "", " ", "  a", "ü", "日本語", "\u202eabc", "a\u2028b",
    "\ud800", "__index_level_0__", "y", "1", "-1", "1e5", "NaN", "None", "true", "a.b", "a[0]",
    "{a}", "{0}", "%s", "%(a)s", "a:b", "<script>alert(1)</script>", "$x", "=1+1", "../x", "a/b",
    "e\u0301", "é", "\ufeffa", "🙂" * 50, "select", "constant", "feature", "step", "loss", ";",
]  # fmt: skip
NOT_TEXT = [5, -1, 2.5, float("nan"), None, True, ("a", 1), b"a", np.int64(7), 10**30]
NUMBERS = [
    0, 1, 2, 3, -1, -0.0, 0.5, 1.5, 50, 1e-320, 1e30, 1e300, -1e308, 2**31, 2**53 + 1, 2**63,
    2**64, 10**30, -(10**30), float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
JSON_VALUES = [
    None, True, False, "", " ", "x", "0", "1", "0.5", "nan", "y", "a\nb", "\x1b[2J", "x" * 5000,
    [], {}, [[]], [None], ["y"], ["y", "y"], [1, 2], [0.5], [-1], {"a": 1}, {"name": "y"},
    {"kind": "gbmo"}, [{"name": "y"}], *NUMBERS,
]  # fmt: skip


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
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def damaged(draws: Draws, data: bytes) -> tuple[bytes, str]:
    """Return bytes with one to three damages, and what was done."""
    done = []
    for _ in range(int(draws.integers(1, 4))):
        data, how = pick(draws, _DAMAGES)(draws, data)
        done.append(how)
    return data, ", ".join(done)


def _flipped(draws: Draws, data: bytes) -> tuple[bytes, str]:
    content = bytearray(data)
    at = [
        int(draws.integers(len(data))) for _ in range(pick(draws, [1, 1, 1, 3, 20]) if data else 0)
    ]
    for place in at:
        content[place] = int(draws.integers(256))
    return bytes(content), f"other bytes at {at}"


def _cut(draws: Draws, data: bytes) -> tuple[bytes, str]:
    length = int(draws.integers(len(data) + 1)) if often(draws, 0.8) else pick(draws, [0, 1, 4, 8])
    return data[:length], f"cut to {length} bytes"


def _without(draws: Draws, data: bytes) -> tuple[bytes, str]:
    first = int(draws.integers(len(data) + 1))
    length = pick(draws, [1, 2, 10, 100])
    return data[:first] + data[first + length :], f"{length} bytes removed at {first}"


def _inserted(draws: Draws, data: bytes) -> tuple[bytes, str]:
    first = int(draws.integers(len(data) + 1))
    junk = pick(draws, [b"\0", b"\xff\xfe", b'"', b"\n\n", b"\r", b",,,", b"\xed\xa0\x80", b"\x1b[31m",
                        b"-1", b"9" * 400, b"nan", b"PAR1", draws.bytes(64)])  # fmt: skip
    return data[:first] + junk + data[first:], f"{shown(junk, 40)} inserted at {first}"


def _repeated(draws: Draws, data: bytes) -> tuple[bytes, str]:
    first = int(draws.integers(len(data) + 1))
    part = data[first : first + pick(draws, [1, 30, 300])]
    return data[:first] + part + data[first:], f"{len(part)} bytes repeated at {first}"


def _junk(draws: Draws, data: bytes) -> tuple[bytes, str]:
    return draws.bytes(int(draws.integers(1, 2000))), "replaced by random bytes"


_DAMAGES = [_flipped] * 5 + [_cut] * 2 + [_without, _inserted, _repeated] * 2 + [_junk]
