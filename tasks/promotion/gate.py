"""The gate: whether a new contract replaces the promoted contract, or a person decides.

A set is promoted without a person if it is better and harmless. Better: it has that verdict against
the promoted set. Harmless: few features change, none of them is a leak, no new column takes away
most of the error, and the last promotion was not rolled back. If a set is not better, the promoted
set stays without a decision. It stays also where the new set is as good with fewer columns: sets
would change with the rows of each night, and lose up to the tolerance each time.

Every night is one more chance to be wrong. The probability of calling a set better that is not is
at most 0.05 / 365 a night, and so at most 5 % a year: Bonferroni's inequality, which holds also
where a table shares rows with those of the nights before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chaffinch.storage.column_names import quoted, quoted_with_reasons
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.promotion.difference import Difference, LossDifference, taken_in_words
from chaffinch.tasks.reporting.text import interval, number, share
from chaffinch.tasks.settings.execution import PromotionSettings
from chaffinch.tasks.statistics.bootstrap import Interval
from chaffinch.tasks.statistics.verdict import (
    CONFIDENCE,
    FEWEST_UNITS,
    share_in_words,
    too_few_units,
)

# Promote the new contract; keep the promoted contract; a person decides.
Outcome = Literal["promote", "keep", "wait"]

_NIGHTS = 365
GATE_CONFIDENCE = 1 - 2 * (1 - CONFIDENCE) / _NIGHTS  # of an interval of two ends


@dataclass(frozen=True)
class Decision:
    """Decision about a run, and its reason in a sentence."""

    outcome: Outcome
    reason: str


def decide(
    difference: Difference | None,
    last: Promotion | None,
    settings: PromotionSettings,
    leaks: Sequence[str] = (),
) -> Decision:
    """Return whether the new contract of a difference replaces the promoted contract.

    The losses of the difference have `GATE_CONFIDENCE`. `leaks` are those of the new set.
    """
    # A first set with a column that is not known in time would have an unbeatable loss.
    if last is None:
        first = "nothing was promoted yet, and all later contracts are measured against the first."
        return Decision("wait", "; ".join(filter(None, [rests_on_leaks(leaks), first])))
    if difference is None:
        return Decision("wait", f"the promoted contract, of {last.run}, cannot be read.")
    if misfit := _misfit(difference):
        return Decision("wait", f"{misfit}.")
    # the promoted set holds them, whether it stays or not
    if begun := [name for name in difference.new_leaks if name not in difference.gained]:
        return Decision("wait", f"{_leaks(begun)}; on the promoted rows that was not so.")
    if difference.explains_less:
        return Decision("wait", f"{difference.explains_less}.")
    if difference.is_same:
        return Decision("keep", "the run keeps the same features.")
    loss = difference.loss
    if loss is None:
        return Decision("wait", f"the loss cannot be compared: {difference.why_no_loss}.")
    if loss.interval is None or loss.units < FEWEST_UNITS:
        return Decision("wait", f"{too_few_units(loss.units)}.")
    gain = _gain(loss, loss.interval, is_smaller=difference.n_after < difference.n_before)
    if gain.outcome == "keep":
        return gain
    if not (harms := "; ".join(_harms(difference, last, settings))):
        return gain
    # beside a leak, the loss shows nothing
    passes = "." if difference.leaks or loss.halved_by else f"; else it would pass: {gain.reason}"
    return Decision("wait", f"{harms}{passes}")


def why_undecided(
    contract: Contract, difference: Difference | None, decision: Decision | None = None
) -> str:
    """Return why a run of a data set in production needs a person's decision, or "".

    `difference` is that to the promoted contract, which is None where nothing is promoted;
    `decision` that of the gate, None without any.
    """
    if difference is not None and (misfit := _misfit(difference)):
        return "; ".join(filter(None, [misfit, rests_on_leaks(contract.comparison.leaks)]))
    if contract.comparison.is_nothing_to_select_from:
        less = "" if difference is None else difference.explains_less
        nothing = "no model is shown to predict better than a constant"
        return "; ".join(filter(None, [nothing, less]))
    if decision is not None:
        return decision.reason.rstrip(".") if decision.outcome == "wait" else ""
    if difference is not None and difference.explains_less:
        return difference.explains_less
    leaks = tuple(contract.comparison.leaks)
    if difference is not None and difference.is_same:
        leaks = difference.new_leaks
    if difference is not None and not leaks:
        if difference.loss is not None and (taken := taken_in_words(difference.loss)):
            return taken
        if lacking := too_few_units(contract.comparison.units):
            return f"{lacking[0].lower()}{lacking[1:]}"
    return rests_on_leaks(leaks)


def rests_on_leaks(leaks: Sequence[str]) -> str:
    """Return that a set rests on leaks, in words; empty without any."""
    return f"the selection rests on {quoted(leaks)}, which may be a leak" if leaks else ""


def _leaks(leaks: Sequence[str]) -> str:
    predicts = "predicts" if len(leaks) == 1 else "predict"
    return f"{quoted(leaks)} alone {predicts} the target, and may not be known before it is"


def _misfit(difference: Difference) -> str:
    """Return how the newer rows do not fit the promoted contract; empty if they do."""
    columns = "columns of the promoted contract have"
    if not difference.gone and difference.target_change:
        return f"the target {difference.target_change}"
    for what, reasons in {
        "features of the promoted set are gone from the newer rows": difference.gone,
        f"{columns} lost most of their values": difference.emptied,
        f"{columns} another scale, perhaps another unit": difference.rescaled,
        f"{columns} categories that it does not know": difference.unseen,
    }.items():
        if reasons:
            return f"{what}: {quoted_with_reasons(reasons)}"
    return ""


def _gain(loss: LossDifference, ends: Interval, *, is_smaller: bool) -> Decision:
    measured = (
        f"difference {number(loss.difference, '+')}, "
        f"{100 * loss.confidence:.4g}% interval {interval(ends)}"
    )
    if loss.share_lost_at_most is not None and is_smaller:
        share_lost = share_in_words(
            loss.share_lost_at_most, loss.tolerance, "the promoted set explains", loss.confidence
        )
        measured += f"; it {share_lost}"
    if loss.verdict == "better":
        return Decision("promote", f"its loss is lower: {measured}.")
    why = "nothing shows that the new set is better"
    if loss.verdict == "as good with fewer columns":
        why = "the new set is as good with fewer columns, but only a better one is promoted "
        why += "without a person"
    elif loss.verdict == "worse":
        why = "the new set's loss is higher"
    elif ends[1] < 0:
        why = "nothing shows that the new set beats a constant"
    elif is_smaller:
        why = "nothing shows that the new set, though smaller, is as good"
    return Decision("keep", f"{why}: {measured}.")


def _harms(difference: Difference, last: Promotion, settings: PromotionSettings) -> Iterator[str]:
    """Yield reasons against a change without a person."""
    if difference.leaks:
        yield _leaks(difference.leaks)
    elif difference.loss is not None and (taken := taken_in_words(difference.loss)):
        yield taken
    if difference.share_changed > settings.most_changed:
        yield (
            f"{share(round(difference.share_changed, 3))} of the features change, of "
            f"{share(settings.most_changed)} that may"
        )
    if last.how == "rollback":
        yield "the last promotion was taken back, and no run was promoted since"
