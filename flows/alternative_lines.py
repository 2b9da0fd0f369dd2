"""What a terminal says of the sets that were found besides the chosen one."""

from collections.abc import Iterator
from typing import Any

from chaffinch.tasks.reporting.alternatives import (
    proof,
    proof_of_all,
    why_undecided,
    why_worthless,
)
from chaffinch.tasks.reporting.missing_alternatives import what_makes_room, why_missing
from chaffinch.tasks.reporting.wording import counted, interval, listed, number

NAMES_SHOWN = 40


def lines_of_alternatives(found: dict[str, Any], loss_name: str, n_units: int) -> Iterator[str]:
    """Yield what there is and what is lacking, two lines for each set, and if they decide nothing.

    Parameters
    ----------
    found : dict
        As in ``alternatives.json``.
    loss_name : str
        In words.
    n_units : int
        Rows, groups or blocks of time of the test part.
    """
    asked = found["settings"]
    n_found, n_asked = len(found["sets"]), asked["number"]
    said = f"{counted(n_found, 'alternative')}, tau {asked['tau']:g}, by {asked['quality']}"
    if n_found < n_asked:
        were = "was" if n_asked == 1 else "were"
        said += f"; {n_asked} {were} asked for, but {why_missing(found)}"
    yield f"{said}{':' if n_found else '.'}"
    if n_found < n_asked and (room := what_makes_room(found)):
        yield f"  {room}"
    for known in filter(None, (proof_of_all(found), why_worthless(found))):
        yield f"  {known}."
    for place, one in enumerate(found["sets"], start=1):
        difference = number(one["difference"], "+")
        if one["interval"] is not None:
            difference += f" {interval(one['interval'])}"
        known = proof(found, one)
        yield (
            f"  {place}. test {loss_name} {one['test_loss']:.4g}, {difference} "
            f"to the chosen; quality {one['quality']:.4g}"
            f"{known and f', {known}'}"
        )
        where = " (the report and --json list all)" if len(one["features"]) > NAMES_SHOWN else ""
        yield f"     {listed(one['features'], NAMES_SHOWN)}{where}"
    if undecided := why_undecided(found, n_units):
        yield f"  {undecided}."
