"""Sets of features that are all shown to lose no more than the tolerance, at rising tau.

What is claimed at a tau is that each of its sets loses no more than the tolerance, as the verdict
has it. The claim is made where every set passes its own test at 5 %. It is false if a set loses
more, and that set then has passed its test, which happens in 5 % of cases at most: so the claim
needs no correction for the number of sets (an intersection-union test; Berger, Technometrics 24,
1982). The highest of the sets' bounds holds for all of them together for the same reason.

The taus are tested in an order that is fixed before, and the first claim that is not made ends the
sequence. A false claim is made only if the first false one of the sequence is, in 5 % of cases at
most: so the sequence needs no correction either (Maurer, Hothorn and Lehmacher, 1995).

Both hold for sets that were found without the rows that judge them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chaffinch.tasks.statistics.verdict import Judgement

_SHOWN = ("better", "as good with fewer columns")


@dataclass(frozen=True)
class Claim:
    """The sets of a tau, and the verdict on each against all features."""

    tau: float
    sets: tuple[Any, ...]
    judgements: tuple[Judgement, ...]

    @property
    def is_shown(self) -> bool:
        return all(judged.verdict in _SHOWN for judged in self.judgements)

    @property
    def share_lost_at_most(self) -> float | None:
        """Bound on what any of the sets loses; None where all features explain nothing."""
        bounds = [judged.share_lost_at_most for judged in self.judgements]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None


def share_lost(judged: Judgement, loss_of_all: float) -> float | None:
    """Return the share of what all features explain that a set loses; None if that is nothing."""
    if judged.constant_loss is None or judged.constant_loss <= loss_of_all:
        return None
    return judged.difference / (judged.constant_loss - loss_of_all)


def claims_in_order(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims up to the first that is not shown; later ones are not asked for."""
    tested: list[Claim] = []
    for claim in claims:
        tested.append(claim)
        if not claim.is_shown:
            break
    return tested
