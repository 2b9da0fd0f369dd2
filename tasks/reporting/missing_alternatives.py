"""Why there are fewer alternatives than were asked for, and what makes room, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaffinch.tasks.alternative_settings import CLIMBED
from chaffinch.tasks.reporting.wording import counted, number

_REMEDIES = {
    "lower_tau": "a lower tau",
    "fewer_alternatives": "fewer alternatives",
    "sequential": "the sequential search",
    "fewer_kept": "fewer features to keep in every set",
    "fewer_features": "fewer chosen features",
    "another_quality": "another quality",
}
_LONGER = (
    "That proves nothing; give it a longer time limit: --alternatives-time-limit, or time_limit of "
    "AlternativeSettings."
)


def why_missing(alternatives: Mapping[str, Any]) -> str:
    """Return why there are fewer sets than were asked for.

    Parameters
    ----------
    alternatives : mapping
        As in ``alternatives.json``.
    """
    if alternatives["status"] == "infeasible":
        return _proven(alternatives)
    which = "no further one" if alternatives["sets"] else "none"
    if alternatives["settings"]["quality"] in CLIMBED:
        return f"{which} was found before the time was over, or on the way of the climb"
    return f"{which} was found before the time was over"


def what_makes_room(alternatives: Mapping[str, Any]) -> str:
    """Return in a sentence what would make room for more sets; nothing where nothing is known.

    Parameters
    ----------
    alternatives : mapping
        As in ``alternatives.json``.
    """
    if alternatives["status"] != "infeasible":
        return _LONGER
    remedies = [_REMEDIES[remedy] for remedy in _missing(alternatives)["remedies"]]
    if not remedies:
        return ""
    *others, last = remedies
    said = f"{', '.join(others)} or {last}" if others else last
    return f"{said[0].upper()}{said[1:]} makes room."


def nothing_found(alternatives: Mapping[str, Any]) -> str:
    """Return the sentences that stand for the sets where there is none.

    Parameters
    ----------
    alternatives : mapping
        As in ``alternatives.json``.
    """
    size, tau = len(alternatives["chosen"]["features"]), number(alternatives["settings"]["tau"])
    different = f"differs from the chosen one by a tau of {tau}"
    if alternatives["status"] != "infeasible":
        said = f"No set of {counted(size, 'feature')} was found that {different}: "
        said += f"{why_missing(alternatives)}."
    elif _missing(alternatives)["reason"] == "tau":
        said = f"There is no set of {counted(size, 'feature')} that {different}."
    else:
        said = f"There are no alternatives: {why_missing(alternatives)}."
    return f"{said} {what_makes_room(alternatives)}".strip()


def _proven(alternatives: Mapping[str, Any]) -> str:
    """Return why it is proven that there are no more sets."""
    is_first, size = not alternatives["sets"], len(alternatives["chosen"]["features"])
    other = f"no {'other' if is_first else 'further'} possible set of {counted(size, 'feature')}"
    reasons = {
        "tau": "no set differs that much from the chosen one"
        if is_first
        else "no further set differs that much from all before it",
        "at_once": f"there are no {number(alternatives['settings']['number'])} sets at once that "
        "differ that much from the chosen one and each other",
        "redundant": f"{other} is free of redundant pairs, which fcbf asks for",
        "all_features": "the chosen set has all features",
        "all_kept": "all chosen features are to be kept in every set",
        "no_more": f"there is {other}",
    }
    return reasons[_missing(alternatives)["reason"]]


def _missing(alternatives: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return reason and remedies; of runs from before these were kept, what is true of any."""
    asked = alternatives["settings"]
    is_at_once = asked["search"] == "simultaneous" and asked["number"] > 1
    plain: dict[str, Any] = {"reason": "at_once" if is_at_once else "tau", "remedies": []}
    return alternatives.get("missing") or plain
