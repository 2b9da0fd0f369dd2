"""How an exact engine declines a model."""

from __future__ import annotations

from typing import Any

from chaffinch.tasks.selection.models.own_classes import own_name, replaced_methods


class NotCovered(Exception):  # noqa: N818 - it steers, it is not shown
    """An engine does not hold for this model; the message says what it lacks, as a reason."""


def check_own(thing: Any, package: str, library: str) -> None:
    """Raise NotCovered unless an object behaves as its library wrote it; see `own_name`.

    Parameters
    ----------
    thing, package
        See `own_name`.
    library : str
        What the package is called.
    """
    if own_name(thing, package):
        return
    name, replaced = type(thing).__name__, replaced_methods(thing)
    if replaced:
        raise NotCovered(f"the {name}'s own {replaced[0]} was replaced")
    raise NotCovered(f"{name} is no class of {library}'s own")
