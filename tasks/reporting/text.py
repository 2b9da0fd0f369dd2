"""How numbers, settings and losses are put into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from chaffinch.tasks.contract import Contract
from chaffinch.tasks.data.lag_features import made_names
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.columns import HistorySettings

NOTHING = "\N{EN DASH}"
_LONGEST_LIST, _LONGEST_IN_BRIEF = 30, 40
_MOST_LEAKS = 3  # of a verdict in a few words
_PICTURES = {code: 0x2400 + code for code in range(32)} | {127: 0x2421}


def number(value: float | None, sign: str = "") -> str:
    """Return a number to four significant digits, thousands separated."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return f"{value:{sign}}"
    if isinstance(value, int) or 999.95 <= abs(value) < 1e15:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.4g}"


def numbers_alike(*values: float) -> list[str]:
    """Return numbers of a unit to four digits of the largest, with as many decimals each.

    Where that would leave a number fewer than two digits, each has four of its own.
    """
    sizes = [abs(value) for value in values if value]
    if not sizes or not all(map(math.isfinite, sizes)) or max(sizes) >= 999.95:
        return list(map(number, values))
    decimals = 3 - math.floor(math.log10(max(sizes)))
    if min(sizes) < 10 ** (1 - decimals):
        return list(map(number, values))
    return [f"{value:.{decimals}f}" for value in values]


def counted(amount: int, noun: str) -> str:
    """Return an amount with its noun, such as ``2 sets``; the plural takes an s."""
    return f"{number(amount)} {noun}{'' if amount == 1 else 's'}"


def interval(ends: Iterable[float] | None) -> str:
    """Return an interval of signed numbers; a dash where there is none, as of a single unit."""
    if ends is None:
        return NOTHING
    return f"[{', '.join(number(end, '+') for end in ends)}]"


def share(value: float) -> str:
    return f"{number(round(100 * value, 10))} %"


def rounded_share(value: float | None) -> str:
    """Return a share to a hundredth of a per cent; None and NaN are nothing."""
    return NOTHING if value is None or math.isnan(value) else share(round(value, 4))


def interval_of_share(ends: Iterable[float] | None) -> str:
    """Return both ends to a tenth of a per cent; a dash where there is no interval."""
    return NOTHING if ends is None else " to ".join(share(round(end, 3)) for end in ends)


def bound_of_share(value: float | None) -> str:
    """Return an upper bound of a share lost, at least 0, to a hundredth of a per cent upwards."""
    if value is None or math.isnan(value):
        return NOTHING
    return share(math.ceil(round(1e4 * max(value, 0.0), 6)) / 1e4)


def plain(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return listed(f"{key} = {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return listed(plain(item) for item in value)
    return str(value)


def listed(texts: Iterable[str], longest: int = _LONGEST_LIST) -> str:
    """Return texts with commas between them; of a long list, the start and how many follow."""
    items = list(texts)
    if not items:
        return "none"
    more = len(items) - longest
    shown = ", ".join(items[:longest])
    return f"{shown} and {number(more)} more" if more > 0 else shown


def shorten_list(names: Iterable[str], most: int) -> str:
    """Return the first names, each cut to a line of a phone, and how many follow."""
    return listed([cut(name, _LONGEST_IN_BRIEF) for name in names], most)


def flattened(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as dotted names and text."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", plain(value)


def summarise_verdict(contract: Contract) -> str:
    """Return the verdict in a few words, for lists of runs."""
    comparison, kept, total = contract.comparison, len(contract.kept), len(contract.candidates)
    some = f"{number(kept)} of {counted(total, 'feature')}"
    if comparison.leaks:
        return f"Rests on a leak, {shorten_list(comparison.leaks, _MOST_LEAKS)}: kept {some}"
    if comparison.is_nothing_to_select_from:
        return f"Nothing to select from: no model is shown to beat a constant; kept {some}"
    if kept == total:
        return f"Kept {some}"
    losses = contract.judged_losses
    loss = f"{loss_in_words(contract.loss)} {number(losses.selected)}"
    against = f"{loss} against {number(losses.all_features)} with all"
    verdict = comparison.verdict
    if verdict == "cannot tell":
        return f"Cannot tell: {some}, {against}"
    return f"{verdict.removesuffix(' with fewer columns').capitalize()} with {some}: {against}"


def visible(text: str) -> str:
    """Return a text with pictures in place of its control characters."""
    return text.translate(_PICTURES)


def cut(text: str, longest: int) -> str:
    """Return a text on one line, cut to `longest` characters."""
    text = visible(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def as_used(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings with the columns that history was made of, where none were named."""
    history = settings.get("history")
    if history is None or history["columns"]:
        return settings
    return {**settings, "history": {**history, "columns": [settings["target"]]}}


def made_of_earlier_rows(settings: Mapping[str, Any]) -> str | None:
    """Return which features the run itself made; None where it made none."""
    history = as_used(settings).get("history")
    if history is None:
        return None
    lags = HistorySettings(**history)
    names = [name for column in lags.columns for name in made_names(column, lags)]
    return f"Made of earlier rows of {listed(lags.columns)}: {listed(names)}."


def costs_in_words(contract: Contract) -> str | None:
    """Return what the features cost, and what a unit saved costs in loss; None without costs."""
    costs = contract.costs
    if costs is None:
        return None
    most = contract.settings["constraints"]["budget"]
    budget = "" if most is None else f", with a budget of {number(most)}"
    sentence = f"The kept features cost {number(costs.kept)} of {number(costs.all)}{budget}"
    if costs.loss_per_cost_saved is None:
        return f"{sentence}."
    return f"{sentence}: {number(costs.loss_per_cost_saved, '+')} loss per unit of cost saved."


def title_of(content: ReportContent) -> str:
    return f"{content.data_set}: features that predict {content.contract.target.name}"


def made_from(content: ReportContent) -> str:
    """Return when, from what and how the result was made, in a sentence."""
    contract, words = content.contract, []
    if content.created:
        words.append(f"{datetime.fromisoformat(content.created):%-d %B %Y, %H:%M} UTC")
    rows = counted(contract.dataset.rows, "row")
    words.append(f"{rows} of {content.source}" if content.source else rows)
    words.append(f"method {content.method}, model {contract.model.name}")
    if contract.settings_file is not None:
        words.append(f"settings from {contract.settings_file.name}")
    return "; ".join(words)


_LITTLE = 0.4  # stability below which folds are said to agree little
_NEARLY_ALL = 0.9  # of the features, by the mean fold


def stability_in_words(contract: Contract) -> str | None:
    """Return how far the folds agree on the features; None where that is not defined."""
    stability = contract.stability
    if stability is None or stability.index is None:
        return None
    little = "The folds agree little: other rows would have led to another set."
    sentence = (
        f"Stability {number(round(stability.index, 2))} (Nogueira's index: 1 if all "
        f"{stability.n_folds} folds keep the same features, 0 as by chance)."
    )
    # of folds that keep nearly all, the index is that of the few left out
    n_kept = sum(stability.share_of_folds.values())
    is_nearly_all = n_kept > _NEARLY_ALL * len(contract.candidates)
    return f"{sentence} {little}" if stability.index < _LITTLE and not is_nearly_all else sentence


def how_stable(contract: Contract) -> str:
    """Return in a sentence how far the features depend on the rows."""
    stability = contract.stability
    if stability is not None and stability.index is None and stability.n_folds > 1:
        return f"All {stability.n_folds} folds keep the same features."
    return stability_in_words(contract) or (
        "The features come from one split of the rows; how far they depend on it was not measured."
    )


def explained_in_words(contract: Contract) -> str:
    """Return what the kept features explain, in a sentence; empty where it is not known."""
    comparison = contract.comparison
    if comparison.explained is None:
        return ""
    return (
        f"The kept features explain {interval_of_share(comparison.explained)} of a constant’s "
        f"loss, with {comparison.confidence:.0%} confidence."
    )
