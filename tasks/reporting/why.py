"""Why each column of a table was kept, dropped or left out: a sentence, and the facts behind it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, TypeVar

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.text import bound_of_share, cut, interval, number

Name = TypeVar("Name", bound=Hashable)

_TYPES = {"float64": "number", "int64": "number", "bool": "boolean"}
_DISTRIBUTION = ("minimum", "mean", "maximum", "most_frequent", "counts")
_LONGEST = 40  # letters of a name in a sentence
_AS_ASKED = "left out as asked"  # the reason of the contract for columns on the drop list
_NO_USE = "of no use on held-out rows: it takes nothing off their loss, and masking it adds nothing"
_CHANGES = {
    "left": "it left the former set",
    "returned": "it returned to the former set",
    "new": "it is new, and came into the former set",
}
_NOTHING_OFF = "by its attribution, it takes nothing off the loss of held-out rows"


@dataclass(frozen=True)
class ColumnReason:
    """Why a column was kept, dropped or left out, with what the run knows of it."""

    column: str  # its name
    # kept, dropped (it took part in the search), left out (it did not), or another role: target
    state: str
    why: str  # one sentence
    type: str | None = None  # number, boolean, category, or that for which it was left out
    distinct: int | None = None  # values
    missing: float | None = None  # share of the rows
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    most_frequent: str | None = None  # category
    # Rows: of numbers in intervals of equal width from minimum to maximum, of categories and of
    # true and false the most frequent first; at most 12, the last of which are all others.
    counts: Sequence[int] | None = None
    association: float | None = None  # with the target, alone, from 0 to 1
    # The column that stands for its group of near copies: a kept one, or else that of best rank.
    group: str | None = None
    rank: int | None = None  # among the features that took part, from 1 for the most useful
    share_of_folds: float | None = None  # that keep it
    # Of a kept column, what the model explains less without it alone, at most, as a share of what
    # it explains beyond a constant; and by how much the loss rises, with its interval. The column
    # is masked, or models are fitted without it (`price_columns`): "masking" or "refits".
    price_by: str | None = None
    price: float | None = None
    # columns that the price is of, itself among them: a group of which all or none are kept
    price_together: Sequence[str] | None = None
    loss_rise: float | None = None
    loss_rise_interval: Sequence[float] | None = None

    def known(self) -> dict[str, Any]:
        """Return the fields that are known, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def price_in_words(self) -> str:
        """What a kept column costs; empty where it was not measured."""
        if self.loss_rise is None:
            return ""
        ends = f" {interval(self.loss_rise_interval)}" if self.loss_rise_interval else ""
        its, it = "Its", "it"
        if self.price_together:
            its, it = "Their", f"{quoted(self.price_together)}, which go together,"
        by_refits = self.price_by == "refits"
        how = f"models fitted without {it} change" if by_refits else f"masking {it} changes"
        rise = f"{how} the loss by {number(self.loss_rise, '+')}{ends}."
        if self.price is None:
            return f"{rise[0].upper()}{rise[1:]}"
        bound = bound_of_share(self.price)
        return f"{its} price is at most {bound} of what the model explains: {rise}"


def columns_of(content: ReportContent) -> list[ColumnReason]:
    """Return every column of the table: kept and dropped ones by rank, then those left out."""
    contract, known = content.contract, _Known(content)
    rank, kept = known.rank, contract.types
    profile = {str(row["name"]): row for row in content.profile}
    shares = {} if contract.stability is None else contract.stability.share_of_folds
    with_target = (content.explanation or {}).get("with_target", {}).get("associations", {})
    by_rank = sorted(rank, key=lambda name: rank[name])
    states = {name: ("kept", known.why_kept(name)) for name in by_rank if name in kept}
    states |= {n: ("dropped", known.why_dropped(n)) for n in by_rank if n not in kept}
    for column in contract.dropped:
        if column.name not in states:
            why = "it is on the drop list"
            if column.reason != _AS_ASKED:
                why = f"left out before the search: {column.reason}"
            states[column.name] = "left out", why
    for name, row in profile.items():
        if name not in states:
            states[name] = str(row["role"]), f"it is the {row['role']} column"
    return [
        ColumnReason(
            name,
            state,
            f"{why[0].upper()}{why[1:]}.",
            **_profile(profile.get(name, {})),
            association=with_target.get(name),
            group=known.group(name),
            rank=rank.get(name) if known.has_order else None,
            share_of_folds=shares.get(name),
            **known.price(name),
        )
        for name, (state, why) in states.items()
    ]


def _profile(row: Mapping[str, Any]) -> dict[str, Any]:
    kind, n_rows = row.get("type"), row.get("rows")
    return {
        "type": _TYPES.get(str(kind), kind),
        "distinct": row.get("distinct"),
        "missing": row["missing"] / n_rows if n_rows else None,
        **{name: row.get(name) for name in _DISTRIBUTION},  # earlier releases had no counts
    }


def ranks_of(content: ReportContent) -> dict[str, int]:
    """Return the rank of each candidate, as in the frame of the result."""
    contract = content.contract
    kept = contract.types
    is_kept = [name in kept for name in contract.candidates]
    listed = contract.settings["columns"].get("keep", ())
    return rank_of_each(contract.candidates, is_kept, contract.steps, content.scores, listed)


def rank_of_each(
    candidates: Sequence[Name],
    kept: Sequence[bool],
    step_of: Mapping[Name, int],
    scores: Mapping[Name, float] | None,
    listed: Collection[Name] = (),
) -> dict[Name, int]:
    """Return the rank of each candidate, from 1 for the most useful to d.

    The later the search removes a feature, the better its rank; what it never removes is best.
    Without steps, the higher score is better. Of features that these do not order, the kept ones
    come first, then those with the higher score, then those named first in `candidates`. Those
    `listed` to be kept stand after the others that are kept, as nothing else keeps them.
    """
    is_kept = dict(zip(candidates, kept, strict=True))

    def key(name: Name) -> tuple[float, bool, float]:
        score = -scores[name] if scores is not None else 0.0
        if step_of:
            return -step_of.get(name, math.inf), not is_kept[name], score
        return score, not is_kept[name], 0.0

    ordered = sorted(candidates, key=key)
    free = [name for name in ordered if name not in listed]
    n = max((place for place, name in enumerate(free, 1) if is_kept[name]), default=0)
    ranked = [*free[:n], *(name for name in ordered if name in listed), *free[n:]]
    return {name: rank for rank, name in enumerate(ranked, 1)}


def _named(names: Sequence[str]) -> str:
    return quoted([cut(name, _LONGEST) for name in names])


class _Known:
    """What a run knows of its candidates, by name, for the sentences on each."""

    def __init__(self, content: ReportContent) -> None:
        self._content, self._contract = content, content.contract
        self._explained = content.explanation or {}
        self.rank, self._steps = ranks_of(content), self._contract.steps
        self._keep = set(self._contract.settings["columns"].get("keep", ()))
        self._kept = self._contract.types
        self._copies = {name: group for group in content.near_copies for name in group}

    @property
    def has_order(self) -> bool:
        """Whether features were ordered, and not found as whole sets."""
        return self._content.has_steps and bool(self._steps or self._content.scores)

    def why_kept(self, name: str) -> str:
        if name in self._keep:
            return "it is on the keep list"
        parts = [self._change_of(name) or self._why_it_stays(name) or self._place(name)]
        if self._outlast_all > 1 and name not in self._steps:
            parts = ["the search ended before it left"]
        if copies := [other for other in self._copies.get(name, ()) if other not in self._kept]:
            are = "near copies" if len(copies) > 1 else "a near copy"
            parts.append(f"it stands for {_named(copies)}, {are} of it")
        return "; ".join(parts)

    def why_dropped(self, name: str) -> str:
        if kept := [other for other in self._copies.get(name, ()) if other in self._kept]:
            stand = "stands" if len(kept) == 1 else "stand"
            return f"near copy of {_named(kept)}, which {stand} for it"
        parts = [self._passed_over(name) or self._left_first(name) or self._why_it_left(name)]
        if (stand_in := self._stand_ins.get(name)) is not None:
            feature, association = stand_in
            parts.append(
                f"{_named([feature])}, which is kept, is like it (association {association:.2f})"
            )
        return "; ".join(parts)

    def group(self, name: str) -> str | None:
        """Return which near copy stands for a column, perhaps itself; None if it has no copies."""
        copies = self._copies.get(name, ())
        return min(copies, key=lambda n: (n not in self._kept, self.rank[n]), default=None)

    def price(self, name: str) -> dict[str, Any]:
        """Return the fields on the price of a column: a kept one that was measured has some."""
        measured = self._importance.get(name)
        if measured is None:
            return {}
        by_refits = self._explained["importance"].get("refitted", False)
        fields = {"price": "price", "loss_rise": "rise", "loss_rise_interval": "interval"}
        fields |= {"price_together": "together"}
        known = {field: measured.get(key) for field, key in fields.items()}
        return {"price_by": "refits" if by_refits else "masking", **known}

    def _passed_over(self, name: str) -> str:
        """Return that features of lower rank are kept, as constraints can have it; else empty."""
        if not self._content.is_constrained or self.rank[name] > self._last_kept:
            return ""
        return f"{self._rank(name)}; the constraints kept features of lower rank{self._cost(name)}"

    def _cost(self, name: str) -> str:
        """Return the share of the budget that a feature takes; empty if it takes none."""
        limits = self._contract.settings.get("constraints") or {}
        budget, costs = limits.get("budget"), {"it costs": limits.get("costs", {}).get(name, 0)}
        costs["its group costs"] = sum(
            group.get("cost", 0) for group in limits.get("groups", ()) if name in group["features"]
        )
        if budget is None:
            return ""
        said = [f"{what} {number(cost)}" for what, cost in costs.items() if cost]
        return f"; {' and '.join(said)} of a budget of {number(budget)}" if said else ""

    def _left_first(self, name: str) -> str:
        """Return why a feature left before those that are of use; empty if it did not."""
        groups = self._content.left_first
        reasons = {"of_no_use": _NO_USE, "near_copies": "", "nothing_off": _NOTHING_OFF}
        step, last = self._steps.get(name, math.inf), 0
        for group, reason in reasons.items():
            last += groups.get(group, 0)
            if step <= last:
                others = [other for other in self._copies.get(name, ()) if other != name]
                return reason or f"near copy of {_named(others)}, dropped as well"
        return ""

    def _why_it_left(self, name: str) -> str:
        if change := self._change_of(name):
            return change
        content, place = self._content, self._place(name)
        size, loses = self._loses_without(name)
        if size:
            if size == self._last_kept == content.n_kept:
                return f"{place} and {loses}"
            return f"{place}; the best {number(size)} {loses}"
        loss = self._losses.get(name)
        if loss is None or content.is_constrained:
            return place
        verb = "left" if content.traits.refits else "was masked"
        most = self._contract.settings["method"].get("n_features")
        limit = f"; the most asked for is {number(most)}" if most == content.n_kept else ""
        return (
            f"it {verb} at step {number(self._steps[name])} of the search, as what cost least: "
            f"the loss was then {number(loss)}{limit}"
        )

    def _why_it_stays(self, name: str) -> str:
        """Return what its absence costs; empty if that was not measured."""
        size, loses = self._loses_without(name)
        if size:
            return f"without it, the best {number(size)} {loses}"
        content, loss = self._content, self._losses.get(name)
        if loss is None or content.n_kept < content.n_candidates:
            return ""
        with_all = number(content.unmasked_loss)
        return (
            "all are kept; without it and those that left before it, the loss was "
            f"{number(loss)}, and {with_all} with all"
        )

    def _loses_without(self, name: str) -> tuple[int, str]:
        """Return a number of features that leaves one out, and what they lose at most.

        It is the largest that was measured, or that of the kept ones if they lose less; 0 where
        there is none.
        """
        below = self._sizes[: bisect_left(self._sizes, (self.rank[name],))]
        near = [*below[-1:], *(pair for pair in below if pair[0] == self._content.n_kept)]
        size, bound = min(near, key=lambda pair: pair[1], default=(0, 0.0))
        verb = "loses" if size == 1 else "lose"
        return size, f"{verb} at most {bound_of_share(bound)} of what all features explain"

    def _change_of(self, name: str) -> str:
        """Return how a reselection changed the former set by a feature; empty if it did not."""
        change = self._changes.get(name)
        if change is None or change["mask_validation"] is None:
            return ""
        by, most = (
            number(change["mask_validation"][key], "+") for key in ("difference", "highest")
        )
        measured = f"that changes the mask-validation loss by {by}, and at most by {most}"
        return f"{_CHANGES[change['change']]}: {measured}"

    def _place(self, name: str) -> str:
        """Return where a feature stands among those that took part, and how many are kept."""
        content = self._content
        if not self.has_order:
            chosen = f"the set of {number(content.n_kept)} features that {content.method} chose"
            place = f"it is {'' if name in self._kept else 'not '}in {chosen}"
            scores = content.scores
            return f"{place}; its probability is {number(scores[name])}" if scores else place
        rank = self._rank(name)
        lowest = self._contract.settings["method"].get("min_score")
        if lowest is not None and content.scores is not None:
            least = f"of which {number(lowest)} is the least to keep"
            rank = f"{rank}, {number(content.scores[name])}, {least}"
        if content.n_kept == content.n_candidates:
            return f"{rank}; all are kept"
        first = "the first " * (self._last_kept == content.n_kept)  # the keep list has others
        are = "is" if content.n_kept == 1 else "are"
        return f"{rank}; {first}{number(content.n_kept)} {are} kept{self._cost(name)}"

    def _rank(self, name: str) -> str:
        content = self._content
        by_score = content.scores is not None and not content.traits.score_is_place
        by_score &= not self._contract.settings["columns"].get("keep")
        n = number(content.n_candidates)
        return f"rank {number(self.rank[name])} of {n}{' by score' * by_score}"

    @cached_property
    def _sizes(self) -> list[tuple[int, float]]:
        """Numbers of features that were measured, ascending, each with what it loses at most."""
        if self._content.is_constrained:  # the features of a size are no beginning of the order
            return []
        sizes = self._content.sizes or ()
        priced = [s for s in sizes if s.get("share_lost_at_most") is not None]
        return sorted((size["n_features"], size["share_lost_at_most"]) for size in priced)

    @cached_property
    def _last_kept(self) -> int:
        return max(self.rank[name] for name in self._kept)

    @cached_property
    def _losses(self) -> dict[str, float]:
        return {name: loss for _, name, loss, _ in self._content.path if loss is not None}

    @cached_property
    def _importance(self) -> dict[str, Mapping[str, Any]]:
        features = self._explained.get("importance", {}).get("features", ())
        return {feature["feature"]: feature for feature in features}

    @cached_property
    def _stand_ins(self) -> dict[str, tuple[str, float]]:
        """The kept feature with the highest association with each dropped one."""
        pairs: Iterator[tuple[float, str, str]] = (
            (other["association"], group["feature"], other["feature"])
            for group in (self._explained.get("stand_ins") or {}).get("groups", ())
            for other in group["dropped"]
        )
        return {dropped: (kept, association) for association, kept, dropped in sorted(pairs)}

    @cached_property
    def _changes(self) -> dict[str, Mapping[str, Any]]:
        changes = (self._content.changes or {}).get("changes", ())
        return {change["feature"]: change for change in changes}

    @cached_property
    def _outlast_all(self) -> int:
        """Number of features that a search for single features never removes; 0 for others."""
        candidates = self._contract.candidates
        return sum(name not in self._steps for name in candidates) if self._steps else 0
