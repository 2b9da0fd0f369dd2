"""The report's section on alternative feature sets, and what is said of them elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.reporting.certified_sets import certified_blocks, marks_of_sets
from chaffinch.tasks.reporting.charts import (
    CURVES,
    MARKERS,
    MUTED,
    PAPER,
    REFERENCE,
    figure_of,
    legend_above,
    markup,
    plain_ticks,
)
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.section import (
    Block,
    Code,
    Figure,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import NOTHING, counted, interval, listed, number, share
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.alternatives import CLIMBED, GREEDY
from chaffinch.tasks.statistics.verdict import judged_on, part_in_words, too_few_units

if TYPE_CHECKING:
    from markupsafe import Markup


_ROUNDING = 1e-9  # as a share of a bound: the tolerance for a set called optimal


def alternatives_of(content: ReportContent) -> Iterator[Block]:
    """Return the alternatives; empty where none were requested."""
    alternatives = content.alternatives
    if alternatives is None:
        return
    if alternatives["sets"]:
        yield from _sets(content, alternatives)
    else:
        yield paragraph(explain_no_alternatives(alternatives))
    if why := why_worthless(alternatives):
        yield note(f"{why}.")
    if (chart := price_chart(alternatives)) is not None:
        yield Figure(chart, price_caption(alternatives))
    if "certified" in alternatives:
        copies = alternatives.get("near_copies") or {}
        yield from certified_blocks(alternatives["certified"], judged_on(alternatives), copies)


def _sets(content: ReportContent, alternatives: Mapping[str, Any]) -> Iterator[Block]:
    contract, settings = content.contract, alternatives["settings"]
    loss = f"{loss_in_words(contract.loss)}, lower is better"
    losses = f"test loss is that of a model refitted on the set alone, {loss}"
    if judged_on(alternatives) == "out_of_fold":
        losses = (
            "out-of-fold loss is that of models refitted on the set alone without each fold, "
            f"{loss}. The rows that judge took part in finding every set here, the chosen one too, "
            "which flatters all these losses: compare them with each other, not with the verdict"
        )
    undecided = why_undecided(alternatives, contract.comparison.units)
    counted_copies = ", near copies not counted" if alternatives.get("near_copies") else ""
    alone = " The chosen set is none of them." if settings.get("together") else ""
    decided = undecided or "An interval that holds zero says that the chosen set need not be better"
    yield paragraph(
        f"Sets of as many features as were chosen{counted_copies}, any two of which differ by a "
        f"tau of at least {number(settings['tau'])} ({settings['dissimilarity'].capitalize()})."
        f"{alone} Quality is by ",
        Code(settings["quality"]),
        ", higher is better, and comes from rows that were used for choosing; the "
        f"{losses}. {decided}.",
    )
    yield table_of_sets(alternatives, contract.judged_losses.selected)
    copies = alternatives.get("near_copies") or {}
    yield folded(marks_of_sets("Features of each set", features_of_each(alternatives), copies))
    if known := near_copies_in_words(alternatives):
        yield note(f"{known}.")
    if of_all := joint_proof(alternatives):
        yield note(f"{of_all}.")
    if n_missing := n_requested(settings) - len(alternatives["sets"]):
        yield note(
            f"{n_missing} of the sets asked for {'is' if n_missing == 1 else 'are'} not there: "
            f"{why_missing(alternatives)}. {suggest_remedies(alternatives)}"
        )
    yield folded(overlaps(alternatives), is_open=True)


def summarise_alternatives(alternatives: Mapping[str, Any]) -> str:
    """Return the number of alternatives, and why there are fewer than requested."""
    settings, n_found = alternatives["settings"], len(alternatives["sets"])
    tau, quality = settings["tau"], settings["quality"]
    text = f"{counted(n_found, 'alternative')}, tau {tau:g}, by {quality}"
    if n_found < (n_asked := n_requested(settings)):
        were = "was" if n_asked == 1 else "were"
        text += f"; {n_asked} {were} asked for, but {why_missing(alternatives)}"
    return f"{text}."


def n_requested(settings: Mapping[str, Any]) -> int:
    """Return how many sets the settings ask for; with together, one more."""
    return int(settings["number"] + settings.get("together", False))


def table_of_sets(alternatives: Mapping[str, Any], chosen_loss: float) -> Table:
    """Return the sets side by side, the chosen set first.

    `chosen_loss` is for runs of earlier releases, which judged all sets alike.
    """
    quality = number(alternatives["chosen"]["quality"])
    loss = number(alternatives["chosen"].get("test_loss", chosen_loss))
    rows = [("chosen", quality, NOTHING, loss, NOTHING, NOTHING)]
    rows += [
        (
            number(place),
            number(alternative["quality"]),
            proof(alternatives, alternative) or NOTHING,
            number(alternative["test_loss"]),
            number(alternative["difference"], "+"),
            interval(alternative["interval"]),
        )
        for place, alternative in enumerate(alternatives["sets"], start=1)
    ]
    columns: dict[str, Kind] = {"Set": "text", "Quality": "number", "Proof": "text"}
    ends = f"{alternatives['confidence']:.0%} interval"
    part = part_in_words(judged_on(alternatives)).capitalize()
    columns |= numbers(f"{part} loss", "Less the chosen set's", ends)
    return Table("The sets", columns, rows, 0)


def proof(alternatives: Mapping[str, Any], alternative: Mapping[str, Any]) -> str:
    """Return the proof that a set is the best; empty where the quality of the worst set counts."""
    if _counts_worst_set(alternatives):
        return ""
    if _is_simultaneous(alternatives):
        # there may be better ones next to the chosen set alone
        proven, best = "the best together with the others", "the best together with the others"
    else:
        proven, best = "the best there is", "the best"
    return (
        proven
        if alternative["status"] == "optimal"
        else _unproven(alternative["quality"], alternative["bound"], best)
    )


def joint_proof(alternatives: Mapping[str, Any]) -> str:
    """Return the proof that all sets together are the best; empty for a sequential search."""
    if not alternatives["sets"]:
        return ""
    is_proven, bound = alternatives["status"] == "optimal", alternatives.get("bound")
    qualities = [alternative["quality"] for alternative in alternatives["sets"]]
    if _counts_worst_set(alternatives):
        if is_proven:
            return "The worst of them is the best that it can be: proven"
        return f"The worst of them is {_unproven(min(qualities), bound, 'the best it can be')}"
    if not _is_simultaneous(alternatives):
        return ""
    if is_proven:
        return "No other such sets are worth more in all: proven"
    known = _unproven(math.fsum(qualities), bound, "the best there can be")
    return f"All together they are {known}"


def near_copies_in_words(alternatives: Mapping[str, Any]) -> str:
    """Return which features of the sets stand for near copies of theirs; empty where none does."""
    shown = {*chain.from_iterable(features_of_each(alternatives).values())}
    copies = alternatives.get("near_copies") or {}
    pairs = [f"{name!r} for {quoted(copies[name])}" for name in copies if name in shown]
    if not pairs:
        return ""
    return f"Near copies count as one feature, so that one stands for all: {listed(pairs, 5)}"


def why_undecided(alternatives: Mapping[str, Any], n_units: int) -> str:
    """Return that there are too few units for the intervals; empty where there are enough."""
    lacking = too_few_units(n_units)
    if not (lacking and alternatives["sets"]):
        return ""
    # a single unit has no interval
    has_intervals = any(alternative["interval"] is not None for alternative in alternatives["sets"])
    what = "intervals" if has_intervals else "differences"
    return f"{lacking}, so that these {what} decide nothing"


def _counts_worst_set(alternatives: Mapping[str, Any]) -> bool:
    return bool(alternatives["settings"]["aggregate"] == "min")


def _is_simultaneous(alternatives: Mapping[str, Any]) -> bool:
    settings = alternatives["settings"]
    return settings.get("search", "sequential") != "sequential" and n_requested(settings) > 1


def _unproven(quality: float, bound: float | None, best: str) -> str:
    """Return how far a quality is below its upper bound."""
    if bound is None:
        return "not proven best"
    if _equals_bound(quality, bound):
        return f"{best}, but for rounding"
    if quality >= 0 and bound > 0:
        return f"at most {share((bound - quality) / bound)} short of {best}"
    return f"at most {number(bound - quality)} short of {best}"


def _equals_bound(quality: float, bound: float | None) -> bool:
    """Return whether a quality equals its upper bound, up to rounding."""
    return bound is not None and bound - quality <= _ROUNDING * abs(bound)


def why_worthless(alternatives: Mapping[str, Any]) -> str:
    """Return why the chosen set has no quality; empty if it has a quality."""
    if alternatives["chosen"]["quality"] is not None:
        return ""
    quality, why = alternatives["settings"]["quality"], "it is one that it does not allow"
    if quality == "fcbf":
        why = "one of its features makes another redundant, which it allows in no set"
    return f"By {quality} the chosen set has no quality: {why}"


def features_of_each(alternatives: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the features of each set by its name, the chosen set first."""
    others = {
        number(i): alternative["features"]
        for i, alternative in enumerate(alternatives["sets"], start=1)
    }
    return {"chosen": alternatives["chosen"]["features"], **others}


def overlaps(alternatives: Mapping[str, Any]) -> Table:
    """Return how many features each two sets have in common."""
    sets = {name: set(features) for name, features in features_of_each(alternatives).items()}
    rows = [
        (name, *(number(len(features & other)) for other in sets.values()))
        for name, features in sets.items()
    ]
    return Table("Features in common", {"Set": "text", **numbers(*sets)}, rows)


def price_caption(alternatives: Mapping[str, Any]) -> str:
    """Return the caption of the price chart: what it shows, unproven points and why curves end."""
    prices, settings = alternatives["prices"], alternatives["settings"]
    most = max((len(price["qualities"]) for price in prices), default=0)
    of_sets = f"of the first {number(len(CURVES))} sets" if most > len(CURVES) else "of each set"
    text = f"What it costs to differ: the quality {of_sets} by tau, searched for in the same way. "
    text += (
        "The line marks the tau asked for. The chosen set was not found by this quality, so other "
        "sets can have a higher one."
    )
    taus = [number(price["tau"]) for price in prices if any(_are_unproven(settings, price))]
    if taus:
        text += f" An open point, as at a tau of {listed(taus)}, is "
        text += (
            "where the search stopped, there or at a higher tau: no exchange of features that it "
            "tried was better, or time was over. It is not proven best."
            if settings["quality"] in CLIMBED
            else "the best that was found, there or at a higher tau, before the search stopped, "
            "and not proven best."
        )
    drawn = min(n_requested(settings), len(CURVES))
    ends = [price for price in prices if len(price["qualities"]) < drawn]
    # of runs from before the status was kept, nothing is known
    if any(price.get("status") == "infeasible" for price in ends):
        none = "is no such set"
        if _is_simultaneous(alternatives):
            none = f"are no {number(n_requested(settings))} such sets at once"
        text += f" A curve ends where it is proven that there {none}."
    unproven = [number(price["tau"]) for price in ends if price.get("status") == "not_solved"]
    if unproven:
        text += f" At a tau of {listed(unproven)} the search ended before it had all sets, which "
        text += "proves nothing."
    return text


def _are_unproven(settings: Mapping[str, Any], price: Mapping[str, Any]) -> list[bool]:
    """Return for each set drawn at a tau whether a better set is possible, up to rounding.

    The simultaneous search has a single answer for all of its sets.
    """
    qualities = price["qualities"]
    n_drawn = min(len(qualities), len(CURVES))
    # runs from before bounds were kept have none
    if settings["search"] != "sequential":
        if price.get("status") != "feasible":
            return [False] * n_drawn
        total = min(qualities) if settings["aggregate"] == "min" else math.fsum(qualities)
        return [not _equals_bound(total, price.get("bound"))] * n_drawn
    bounds = price.get("bounds", [None] * len(qualities))
    return [
        status == "feasible" and not _equals_bound(quality, bound)
        for status, quality, bound in zip(
            price["statuses"][:n_drawn], qualities, bounds, strict=False
        )
    ]


def price_chart(alternatives: Mapping[str, Any]) -> Markup | None:
    """Draw the quality of each alternative against tau; None without alternatives."""
    prices: Sequence[Mapping[str, Any]] = alternatives["prices"]
    most = max((len(price["qualities"]) for price in prices), default=0)
    if not most:
        return None
    chosen, tau = alternatives["chosen"]["quality"], alternatives["settings"]["tau"]
    label = (
        f"Quality of each alternative against tau, from {number(prices[0]['tau'])} to "
        f"{number(prices[-1]['tau'])}; the chosen set "
        f"{'has none' if chosen is None else f'has {number(chosen)}'}."
    )
    with figure_of("price", 9.0, 3.6) as figure:
        axes = figure.add_subplot()
        if chosen is not None:
            axes.axhline(chosen, **REFERENCE, label=f"chosen set: {number(chosen)}")
        for place in range(min(most, len(CURVES))):
            there = [price for price in prices if len(price["qualities"]) > place]
            taus = [price["tau"] for price in there]
            worths = [price["qualities"][place] for price in there]
            are_open = [_are_unproven(alternatives["settings"], price)[place] for price in there]
            marker, color, proven = MARKERS[place], CURVES[place], [not is_ for is_ in are_open]
            line: Any = {"color": color, "markersize": 5, "markevery": proven}
            axes.plot(taus, worths, f"{marker}-", **line, label=f"set {place + 1}")
            hollow: Any = {"markersize": 5, "markerfacecolor": PAPER, "markeredgecolor": color}
            points = (list(compress(values, are_open)) for values in (taus, worths))
            axes.plot(*points, marker, **hollow)
        label = f"tau asked for: {number(tau)}"
        axes.axvline(tau, color=MUTED, linewidth=1, alpha=0.6, label=label)
        axes.set_xlim(0.05, 1.05)
        axes.set_xticks([price["tau"] for price in prices])
        axes.set_xlabel("tau, how far apart the sets are at least")
        axes.set_ylabel("quality")
        plain_ticks(axes.yaxis)
        axes.grid(axis="y")
        legend_above(axes, 7)
        return markup(figure, label)


_REMEDIES = {
    "lower_tau": "a lower tau",
    "fewer_alternatives": "fewer alternatives",
    "sequential": "the sequential search",
    "fewer_kept": "fewer features to keep in every set",
    "fewer_features": "fewer chosen features",
    "another_quality": "another quality",
    "constraints": "looser constraints",
}
_LONGER = (
    "That proves nothing; give it a longer time limit: --alternatives-time-limit, or time_limit of "
    "AlternativeSettings."
)


def why_missing(alternatives: Mapping[str, Any]) -> str:
    """Return why there are fewer sets than requested."""
    if alternatives["status"] == "infeasible":
        return _explain_infeasible(alternatives)
    which = "no further one" if alternatives["sets"] else "none"
    if _is_greedy(alternatives):
        return f"{which} was found on the way of the greedy search, which proves nothing"
    if alternatives["settings"]["quality"] in CLIMBED:
        return f"{which} was found before the time was over, or on the way of the climb"
    return f"{which} was found before the time was over"


def _is_greedy(alternatives: Mapping[str, Any]) -> bool:
    return alternatives["settings"].get("search") in GREEDY


def suggest_remedies(alternatives: Mapping[str, Any]) -> str:
    """Return in a sentence what may make room for more sets; nothing where nothing is known."""
    if _is_greedy(alternatives):
        return "A lower tau, or another search, may find more."
    if alternatives["status"] != "infeasible":
        return _LONGER
    remedies = [_REMEDIES[remedy] for remedy in _missing(alternatives)["remedies"]]
    if not remedies:
        return ""
    *others, last = remedies
    text = f"{', '.join(others)} or {last}" if others else last
    return f"{text[0].upper()}{text[1:]} may make room."


def explain_no_alternatives(alternatives: Mapping[str, Any]) -> str:
    """Return why there is no alternative and what would help."""
    size, tau = _size(alternatives), number(alternatives["settings"]["tau"])
    different = f"differs from the chosen one by a tau of {tau}"
    if alternatives["status"] != "infeasible":
        text = f"No set of {counted(size, 'feature')} was found that {different}: "
        text += f"{why_missing(alternatives)}."
    elif _missing(alternatives)["reason"] == "tau":
        text = f"There is no set of {counted(size, 'feature')} that {different}."
    else:
        text = f"There are no alternatives: {why_missing(alternatives)}."
    return f"{text} {suggest_remedies(alternatives)}".strip()


def _explain_infeasible(alternatives: Mapping[str, Any]) -> str:
    """Return why no further set can exist."""
    is_first, size = not alternatives["sets"], _size(alternatives)
    settings = alternatives["settings"]
    all_features = "the chosen set has all features"
    if alternatives.get("near_copies"):
        all_features += " but near copies"
    other = f"no {'other' if is_first else 'further'} possible set of {counted(size, 'feature')}"
    reasons = {
        "tau": "no set differs that much from the chosen one"
        if is_first
        else "no further set differs that much from all before it",
        "at_once": f"there are no {number(n_requested(settings))} sets at once that differ that "
        f"much from {'' if settings.get('together') else 'the chosen one and '}each other",
        "redundant": f"{other} differs that much and is free of redundant pairs, which fcbf asks "
        "for",
        "all_features": all_features,
        "all_kept": "all chosen features are to be kept in every set",
        "no_more": f"there is {other}",
    }
    return reasons[_missing(alternatives)["reason"]]


def _size(alternatives: Mapping[str, Any]) -> int:
    """Return the number of chosen features, of which near copies count as one."""
    copies = {*chain.from_iterable((alternatives.get("near_copies") or {}).values())}
    return len({*alternatives["chosen"]["features"]} - copies)


def _missing(alternatives: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return reason and remedies; a general reason for runs that recorded none."""
    reason = "at_once" if _is_simultaneous(alternatives) else "tau"
    return alternatives.get("missing") or {"reason": reason, "remedies": []}
