"""What differs between two contracts, in lines for a terminal and for the Prefect UI."""

from __future__ import annotations

from chaffinch.tasks.promotion.difference import Difference
from chaffinch.tasks.promotion.stored_run import LossDifference
from chaffinch.tasks.reporting.text import interval, listed, number, share, visible
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.drift import FeatureDrift
from chaffinch.tasks.statistics.verdict import FEWEST_UNITS

_MOST_MOVED = 5


def lines_of_difference(found: Difference) -> list[str]:
    """Return what differs in lines of plain text."""
    lines = [_of_features(found)]
    lines += [f"  Gone: {visible(name)} ({why})" for name, why in found.gone.items()]
    lines += [
        f"  {visible(name)} alone predicts the target; make sure that it is known before the "
        "target is"
        for name in found.telling
    ]
    if found.loss is not None:
        lines.append(_of_loss(found, found.loss))
    elif not found.is_same:
        lines.append(f"What that does to the loss is not known: {found.why_no_loss}.")
    moved = sorted(found.drift, key=_distance, reverse=True)[:_MOST_MOVED]
    if moved and not _distance(moved[0]):
        lines.append("No feature of either moved between the tables.")
    elif moved:
        lines.append(
            "Moved most between the tables (from 0, not at all, to 1: every number above all those "
            "before, or below, or no category in common): "
            f"{', '.join(map(_of_drift, moved))}."
        )
    elif found.why_no_drift:
        lines.append(f"How the features moved is not known: {found.why_no_drift}.")
    return lines


def _of_features(found: Difference) -> str:
    if not (found.gained or found.lost):
        return f"Both keep the same {_counted(found.n_after)}."
    changed = len(found.gained) + len(found.lost)
    either = found.n_before + len(found.gained)
    return (
        f"Gained: {listed(map(visible, found.gained))}. Lost: {listed(map(visible, found.lost))}. "
        f"Changed: {number(changed)} of the {_counted(either)} of either, "
        f"{share(round(found.share_changed, 3))}."
    )


def _of_loss(found: Difference, loss: LossDifference) -> str:
    rest = f"what is left of the former {number(found.n_before)}"
    text = (
        f"Refitted on the newer rows, the test loss ({loss_in_words(loss.name)}) is "
        f"{number(loss.after)} with the new {_counted(found.n_after)} against "
        f"{number(loss.before)} with {rest if found.gone else f'the former {found.n_before}'}; "
        f"difference {number(loss.difference, '+')}, "
    ) + (
        "of one unit there is no interval"
        if loss.interval is None
        else f"{loss.confidence:.0%} interval {interval(loss.interval)}"
    )
    if loss.units < FEWEST_UNITS:
        return (
            f"{text}, which decides nothing: it is made of {loss.units} rows, groups or blocks of "
            f"time, and {FEWEST_UNITS} are needed."
        )
    return f"{text}."


def _distance(one: FeatureDrift) -> float:
    values = 0.0 if one.distance is None else one.distance
    return max(values, abs(one.missing_after - one.missing_before))


def _of_drift(one: FeatureDrift) -> str:
    about = []
    if one.missing_before != one.missing_after:
        about.append(f"missing {share(one.missing_before)}, now {share(one.missing_after)}")
    if min(one.values_before, one.values_after) < FEWEST_UNITS:
        about.append(f"of {number(one.values_before)} values, now {number(one.values_after)}")
    text = f"{visible(one.feature)} {_how_far(one.distance)}"
    return f"{text} ({'; '.join(about)})" if about else text


def _how_far(distance: float | None) -> str:
    """Return a distance to three digits; 0 and 1 mean something, and nothing is rounded to them."""
    if distance is None or distance in (0, 1):
        return number(distance)
    if distance < 0.001:
        return "under 0.001"
    return "over 0.999" if distance > 0.999 else number(round(distance, 3))


def _counted(amount: int) -> str:
    return f"{number(amount)} {'feature' if amount == 1 else 'features'}"
