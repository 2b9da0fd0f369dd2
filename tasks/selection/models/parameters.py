"""Hyper-parameters: what a model takes, within which limits, and what is said of the rest."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Parameters: TypeAlias = Mapping[str, JSON]

ONE_THREAD = "is fixed at one thread, so that results do not depend on the machine; leave it out"
SEEDED = "comes from the seed of the run; set that instead"
FROM_TARGET = "follows from the target; leave it out"
QUIET = "is fixed, models are trained quietly; leave it out"
_MOST_NAMED = 12  # of the names that a message lists


class Limit(NamedTuple):
    """What a value must be, in words and as a test."""

    words: str
    accepts: Callable[[JSON], bool]


def whole(low: int, high: int = 2**31 - 1) -> Limit:
    """Return the limit of a whole number in low..high."""

    def accepts(value: JSON) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return Limit(f"a whole number in {low}..{high}", accepts)


def real(low: float = -math.inf, high: float = math.inf, *, above_low: bool = False) -> Limit:
    """Return the limit of a finite number in [low, high], or in (low, high] if `above_low`."""

    def accepts(value: JSON) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return math.isfinite(value) and low <= value <= high and not (above_low and value == low)

    bounds = [f"{'above' if above_low else 'at least'} {low:g}"] if low > -math.inf else []
    bounds += [f"at most {high:g}"] if high < math.inf else []
    return Limit(" ".join(["a number", " and ".join(bounds)]).strip(), accepts)


def choice(*values: str) -> Limit:
    """Return the limit of one of several words."""
    return Limit("one of " + ", ".join(values), lambda value: value in values)


FLAG = Limit("true or false", lambda value: isinstance(value, bool))


def check_parameters(
    model: str, given: Parameters, known: Mapping[str, Limit], refused: Mapping[str, str]
) -> None:
    """Raise unless a model takes every parameter given.

    Parameters
    ----------
    model : str
        Its name, for the message.
    given : mapping of str to JSON
        What a person asks for.
    known : mapping of str to Limit
        What the model takes.
    refused : mapping of str to str
        What the model's library would take but this project does not, with the reason.

    Raises
    ------
    ValueError
        If a parameter is refused, unknown or outside its limit.
    """
    for name, value in given.items():
        if name in refused:
            raise ValueError(f"{model} parameter {name!r} {refused[name]}")
        if name not in known:
            raise ValueError(f"{model} has no parameter {name!r}; {nearest(name, known)}")
        if not known[name].accepts(value):
            raise ValueError(
                f"{model} parameter {name!r} must be {known[name].words} but is {value!r}"
            )


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a remedy for a misspelt name: the nearest known ones.

    Where none is near it is `otherwise`, by default the first few of them.
    """
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(by_lower_case[n] for n in near) + "?"
    if otherwise:
        return otherwise
    names = list(by_lower_case.values())
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "known are " + ", ".join(names[:_MOST_NAMED]) + more


def combinations(**values: Sequence[JSON]) -> list[dict[str, JSON]]:
    """Return every combination of the values given per parameter, the last varying fastest."""
    return [
        dict(zip(values, candidate, strict=True))
        for candidate in itertools.product(*values.values())
    ]
