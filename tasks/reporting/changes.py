"""The report's sections on what changed since the former run, and since the last promotion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.section import (
    Block,
    Code,
    Command,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
    section,
)
from chaffinch.tasks.reporting.text import NOTHING, counted, interval, number, share, shorten_list
from chaffinch.tasks.selection.losses import loss_in_words

_CAME = {"left": "Left", "returned": "Returned", "new": "New"}


def lines_of_changes(changes: Mapping[str, Any]) -> list[str]:
    lines = [changes["sentence"]]
    lines += [f"  Left: {one['feature']} ({one['reason']})" for one in changes["gone"]]
    for one in changes["changes"]:
        line = f"  {_CAME[one['change']]}: {one['feature']}"
        if one["difference"] is not None:
            line += f", which changes the test loss by {_measured(one)}"
        lines.append(line)
    return lines


@section("Since the former run")
def since_the_former_run(content: ReportContent) -> Iterator[Block]:
    """Return what a reselection changed; empty for another method."""
    changes = content.changes
    if changes is None:
        return
    former, loss = changes["former_run"], loss_in_words(content.contract.loss)
    yield paragraph(
        "The former set is that of ",
        Code(former) if former else "a contract that came by itself",
        f". All sets were refitted on the newer rows, and their test losses ({loss}, lower is "
        "better) are of the same rows, which chose nothing.",
    )
    yield each_set(changes)
    if changes["changes"] or changes["gone"]:
        yield note(
            "The mask-validation difference, and what it is at most, decided; of a feature that "
            "left, it is that of all which had left until then in its round, together. The test "
            "difference is the new set’s loss less that of the new set with this one change "
            "undone; below zero the change is for the better. Each interval is for itself: of "
            "many, some miss."
        )
        yield folded(each_change(changes))
    yield folded(trials(content.trials or ()), is_open=False)


def each_change(changes: Mapping[str, Any]) -> Table:
    """Return a row for each feature that left or came in."""
    rows = [(one["feature"], "left", one["reason"], *[NOTHING] * 3) for one in changes["gone"]]
    for one in changes["changes"]:
        seen, difference = one["mask_validation"], number(one["difference"], "+")
        decided = ("kept as asked", NOTHING)
        if seen is not None:
            decided = number(seen["difference"], "+"), number(seen["highest"], "+")
        rows.append(
            (one["feature"], one["change"], *decided, difference, interval(one["interval"]))
        )
    figures = ("Mask-validation difference", "At most", "Test difference")
    columns: dict[str, Kind] = {"Feature": "name", "Change": "text", **numbers(*figures)}
    columns |= numbers(f"{changes['confidence']:.0%} interval")
    return Table("What changed", columns, rows)


def each_set(changes: Mapping[str, Any]) -> Table:
    """Return the former set, the new one and all features, refitted on the newer rows."""
    against = {one["set"]: one for one in changes["comparisons"] if one["against"] == "all"}
    between = changes["comparisons"][0]
    rows = [
        (
            "all features" if name == "all" else name,
            number(one["n_features"]),
            number(one["test_loss"]),
            _measured(between) if name == "new" else NOTHING,
            NOTHING if name == "all" else _measured(against[name]),
        )
        for name, one in changes["sets"].items()
    ]
    less = ("Less the former set's", "Less that of all features")
    columns: dict[str, Kind] = {"Set": "text", **numbers("Features", "Test loss", *less)}
    return Table("The sets, each refitted on the newer rows", columns, rows, 1)


def trials(tried: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["feature"],
            one["change"],
            number(one["difference"], "+"),
            number(one["highest"], "+"),
            "yes" if one["is_made"] else "no",
        )
        for one in tried
    ]
    columns: dict[str, Kind] = {"Feature": "name", "To": "text"}
    columns |= numbers("Mask-validation difference", "At most")
    return Table("What was tried", {**columns, "Done": "text"}, rows)


def _measured(one: Mapping[str, Any]) -> str:
    difference = number(one["difference"], "+")
    return difference if one["interval"] is None else f"{difference} {interval(one['interval'])}"


_NAMED_IN_BRIEF = 10


def promotion_in_brief(found: Mapping[str, Any]) -> str:
    """Return what changed since the last promotion, in one or two sentences."""
    name = found["name"]
    under = f"as {name}" if name else "for this table"
    if found.get("damage"):
        return f"What is promoted {under} cannot be read: {found['damage']}."
    if found.get("target"):
        return f"What is promoted {under} predicts another target, {found['target']}."
    if found["run"] is None:
        return f"Nothing to compare with: nothing was promoted {under}."
    then, now = found["then"], found["now"]
    where = "on the same table" if found["is_same_table"] else "on other rows, not comparable"
    sentences = [*_features_in_words(found), f"{_losses_in_words(then, now)}, {where}"]
    if found["drift"]:
        sentences.append(_drift_in_words(found["drift"]))
    elif found["why_no_drift"]:
        sentences.append(f"Drift was not measured: {found['why_no_drift']}")
    return " ".join(f"{sentence}." for sentence in sentences)


def _features_in_words(found: Mapping[str, Any]) -> list[str]:
    changes = {"Entered": found["entered"], "Left": found["left"]}
    named = {
        change: shorten_list(names, _NAMED_IN_BRIEF) for change, names in changes.items() if names
    }
    n_features = counted(found["now"]["n_features"], "feature")
    if not named:
        return [f"The same {n_features} as in use"]
    before = number(found["then"]["n_features"])
    return [
        f"{n_features} in place of {before}",
        *(f"{change}: {names}" for change, names in named.items()),
    ]


def _losses_in_words(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    name, before = (loss_in_words(one["loss_name"]) for one in (now, then))
    of_then = "" if name == before else f" by {before}"
    return (
        f"{name[0].upper()}{name[1:]} is {number(now['loss'])} and was {number(then['loss'])}"
        f"{of_then}"
    )


def _drift_in_words(drift: Sequence[Mapping[str, Any]]) -> str:
    moved = [one["feature"] for one in drift if _has_moved(one)]
    if not moved:
        return f"The distribution changed of none of {counted(len(drift), 'column')}"
    return f"The distribution changed of {shorten_list(moved, _NAMED_IN_BRIEF)}"


def _has_moved(one: Mapping[str, Any]) -> bool:
    has_other_values = one["by_chance"] is not None and one["distance"] > one["by_chance"]
    missing = abs(one["missing_after"] - one["missing_before"])
    return bool(has_other_values or missing > one["missing_by_chance"])


@section("Since the last promotion")
def since_promotion(content: ReportContent) -> Iterator[Block]:
    """Return how a run differs from the promoted one; empty where nothing is promoted."""
    found = content.promoted
    if found is None or found["run"] is None:
        return
    promoted = datetime.fromisoformat(found["promoted"])
    same = "The losses are of different rows, so they do not show which set is better."
    if found["is_same_table"]:
        same = "Both runs have the same table, but the rows that judge may differ."
    yield paragraph(
        "When this report was written, run ",
        Code(found["run"]),
        " was in use as ",
        Code(found["name"]),
        f"; it was promoted on {promoted:%-d %B %Y, %H:%M} UTC. {same} This refits the former set "
        "and compares both on the same rows:",
    )
    yield Command(f"chaffinch diff {found['run']} {content.run}")
    then, now = found["then"], found["now"]
    figures = [
        ("Features", *(number(one["n_features"]) for one in (then, now))),
        ("Rows of the table", *(number(one["rows"]) for one in (then, now))),
        *(
            (f"Loss ({loss_in_words(one['loss_name'])})", *cells)
            for one, cells in _loss_rows(then, now)
        ),
    ]
    yield Table("Then and now", {"Figure": "text", **numbers("Promoted run", "This run")}, figures)
    changes = [(name, "entered") for name in found["entered"]]
    changes += [(name, "left") for name in found["left"]]
    if changes:
        caption = f"Features that changed ({number(len(changes))})"
        columns: dict[str, Kind] = {"Feature": "name", "Change": "text"}
        yield folded(Table(caption, columns, changes, file="selection.json"))
    else:
        yield paragraph("Both keep the same features.")
    if found["drift"]:
        yield folded(_drift_table(found["drift"]))
        yield note(
            "Distance of the distributions in both tables, of values that are not missing: "
            "Kolmogorov-Smirnov for numbers, total variation for categories; 0 where they are the "
            "same, 1 where they do not overlap. A column moved beyond chance if its distance, or "
            "the change of its missing values, is larger than in 95\N{NO-BREAK SPACE}% of "
            "comparisons of unchanged columns, all of these together, if rows are independent."
        )
    elif found["why_no_drift"]:
        yield note(f"How columns moved was not measured: {found['why_no_drift']}.")


def _loss_rows(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], tuple[str, str]]]:
    if then["loss_name"] == now["loss_name"]:
        return [(now, (number(then["loss"]), number(now["loss"])))]
    return [(then, (number(then["loss"]), NOTHING)), (now, (NOTHING, number(now["loss"])))]


def _drift_table(drift: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["feature"],
            "moved" if _has_moved(one) else "",
            NOTHING if one["distance"] is None else number(round(one["distance"], 3)),
            NOTHING if one["by_chance"] is None else number(round(one["by_chance"], 3)),
            share(round(one["missing_before"], 4)),
            share(round(one["missing_after"], 4)),
        )
        for one in drift
    ]
    columns: dict[str, Kind] = {"Feature": "name", "Beyond chance": "text"}
    columns |= numbers("Distance", "By chance up to", "Missing then", "Missing now")
    return Table(f"Drift of {counted(len(rows), 'column')} kept then or now", columns, rows)
