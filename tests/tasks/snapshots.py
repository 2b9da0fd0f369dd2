"""Texts that are kept as a whole and reviewed where they change, in place of pinned sentences."""

import os
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path

FOLDER = Path(__file__).with_name("snapshots")
IS_WRITTEN = os.environ.get("CHAFFINCH_SNAPSHOTS") == "write"  # and reviewed before a commit


def check_snapshot(name: str, lines: Iterable[str]) -> None:
    """Compare lines with those that are kept under a name."""
    path, text = _path(name), "".join(f"{line.rstrip()}\n" for line in lines)
    if IS_WRITTEN:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def check_sentence(name: str, case: object, said: object) -> None:
    """Compare what is said in a case, which is one line, with what is kept of it under a name.

    To write a file without cases that are gone, remove it before.
    """
    assert str(said).isprintable()
    path = _path(name)
    kept = sentences_of(name) if path.exists() or not IS_WRITTEN else {}
    if IS_WRITTEN:
        kept[str(case)] = str(said)
        check_snapshot(name, (f"{one} -> {words}" for one, words in kept.items()))
    assert str(said) == kept.get(str(case))


def sentences_of(name: str) -> dict[str, str]:
    """Return what is said in each case that is kept under a name."""
    lines = _path(name).read_text(encoding="utf-8").splitlines()
    return dict(line.split(" -> ", 1) for line in lines)


def _path(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.txt"


def changes_of(lines: Iterable[str], plain: Iterable[str]) -> list[str]:
    """Return the lines that others than the plain ones have (+), and which they lack (-)."""
    changes = unified_diff([*plain], [*lines], n=0, lineterm="")
    return [line for line in changes if not line.startswith(("---", "+++", "@@"))]
