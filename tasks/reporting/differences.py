"""What differs between two contracts, in lines for a terminal and for the Prefect UI."""

from __future__ import annotations

from chaffinch.tasks.comparison import FEWEST_UNITS
from chaffinch.tasks.differences import Difference
from chaffinch.tasks.feature_drift import FeatureDrift
from chaffinch.tasks.kept_run import LossDifference
from chaffinch.tasks.reporting.wording import interval, listed, number, share, visible
from chaffinch.tasks.selection.losses import loss_in_words

_MOST_MOVED = 5


def lines_of_difference(found: Difference) -> list[str]:
    """Return what differs in lines of plain text.

    Parameters
    ----------
    found : Difference
        Of two contracts.
    """
    lines = [_of_features(found)]
    lines += [f"  Gone: {visible(name)} ({why})" for name, why in found.gone.items()]
    lines += [
        f"  {visible(name)} alone tells the target; make sure that it is known before the target is"
        for name in found.telling
    ]
    if found.loss is not None:
        lines.append(_of_loss(found, found.loss))
    elif not found.is_same:
        lines.append(f"What that does to the loss cannot be said: {found.why_no_loss}.")
    moved = sorted(found.drift, key=_distance, reverse=True)[:_MOST_MOVED]
    if moved and not _distance(moved[0]):
        lines.append("No feature of either moved between the tables.")
    elif moved:
        lines.append(
            "Moved most between the tables (0 not at all, 1 no value in common): "
            f"{', '.join(map(_of_drift, moved))}."
        )
    elif found.why_no_drift:
        lines.append(f"How the features moved cannot be said: {found.why_no_drift}.")
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
    said = (
        f"Refitted on the newer rows, the test loss ({loss_in_words(loss.name)}) is "
        f"{number(loss.after)} with the new {_counted(found.n_after)} against "
        f"{number(loss.before)} with {rest if found.gone else f'the former {found.n_before}'}; "
        f"difference {number(loss.difference, '+')}, {loss.confidence:.0%} interval "
        f"{interval(loss.interval)}"
    )
    if loss.units < FEWEST_UNITS:
        return (
            f"{said}, which decides nothing: it is made of {loss.units} rows, groups or blocks of "
            f"time, and {FEWEST_UNITS} are needed."
        )
    return f"{said}."


def _distance(one: FeatureDrift) -> float:
    values = 0.0 if one.distance is None else one.distance
    return max(values, abs(one.missing_after - one.missing_before))


def _of_drift(one: FeatureDrift) -> str:
    said = f"{visible(one.feature)} {number(one.distance and round(one.distance, 3))}"
    before, after = (round(value, 3) for value in (one.missing_before, one.missing_after))
    return said if before == after else f"{said} (missing {share(before)}, now {share(after)})"


def _counted(amount: int) -> str:
    return f"{number(amount)} {'feature' if amount == 1 else 'features'}"
