"""The report's sections on what changed since the former run, and since the last promotion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from chaffinch.storage.column_names import quoted_with_reasons
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.section import (
    BarsBeside,
    Block,
    Code,
    Command,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import (
    NOTHING,
    counted,
    interval,
    interval_of_share,
    number,
    share,
    shorten_list,
)
from chaffinch.tasks.selection.losses import loss_in_words

_CAME = {"left": "Left", "returned": "Returned", "new": "New"}


def lines_of_changes(changes: Mapping[str, Any]) -> list[str]:
    lines = [changes["sentence"]]
    lines += [f"  Left: {change['feature']} ({change['reason']})" for change in changes["gone"]]
    for change in changes["changes"]:
        line = f"  {_CAME[change['change']]}: {change['feature']}"
        if change["difference"] is not None:
            line += f", which changes the test loss by {_measured(change)}"
        lines.append(line)
    return lines


def since_the_former_run(content: ReportContent) -> Iterator[Block]:
    """Return the changes of a reselection; empty for another method."""
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
    yield table_of_refitted_sets(changes)
    if changes["changes"] or changes["gone"]:
        yield note(
            "The mask-validation difference, and what it is at most, decided; of a feature that "
            "left, it is that of all which had left until then in its round, together. The test "
            "difference is the new set’s loss less that of the new set with this one change "
            "undone; below zero the change is for the better. Each interval is for itself: of "
            "many, some miss."
        )
        yield folded(table_of_changes(changes))
    yield folded(trials(content.trials or ()), is_open=False)


def table_of_changes(changes: Mapping[str, Any]) -> Table:
    """Return the features that left or came in, with their differences of loss."""
    rows = [
        (change["feature"], "left", change["reason"], *[NOTHING] * 3) for change in changes["gone"]
    ]
    for change in changes["changes"]:
        trial, difference = change["mask_validation"], number(change["difference"], "+")
        decided = ("kept as asked", NOTHING)
        if trial is not None:
            decided = number(trial["difference"], "+"), number(trial["highest"], "+")
        rows.append(
            (
                change["feature"],
                change["change"],
                *decided,
                difference,
                interval(change["interval"]),
            )
        )
    figures = ("Mask-validation difference", "At most", "Test difference")
    columns: dict[str, Kind] = {"Feature": "name", "Change": "text", **numbers(*figures)}
    columns |= numbers(f"{changes['confidence']:.0%} interval")
    return Table("What changed", columns, rows)


def table_of_refitted_sets(changes: Mapping[str, Any]) -> Table:
    """Return the former set, the new set and all features, refitted on the newer rows."""
    against_all = {
        comparison["set"]: comparison
        for comparison in changes["comparisons"]
        if comparison["against"] == "all"
    }
    between = changes["comparisons"][0]
    rows = [
        (
            "all features" if name == "all" else name,
            number(figures["n_features"]),
            number(figures["test_loss"]),
            _measured(between) if name == "new" else NOTHING,
            NOTHING if name == "all" else _measured(against_all[name]),
        )
        for name, figures in changes["sets"].items()
    ]
    less = ("Less the former set's", "Less that of all features")
    columns: dict[str, Kind] = {"Set": "text", **numbers("Features", "Test loss", *less)}
    return Table("The sets, each refitted on the newer rows", columns, rows, 1)


def trials(trials_made: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            trial["feature"],
            trial["change"],
            number(trial["difference"], "+"),
            number(trial["highest"], "+"),
            "yes" if trial["is_made"] else "no",
        )
        for trial in trials_made
    ]
    columns: dict[str, Kind] = {"Feature": "name", "To": "text"}
    columns |= numbers("Mask-validation difference", "At most")
    return Table("What was tried", {**columns, "Done": "text"}, rows)


def _measured(comparison: Mapping[str, Any]) -> str:
    difference = number(comparison["difference"], "+")
    return (
        difference
        if comparison["interval"] is None
        else f"{difference} {interval(comparison['interval'])}"
    )


_NAMED_IN_BRIEF = 10


def summarise_promotion(promoted: Mapping[str, Any]) -> str:
    """Return what changed since the last promotion, in short sentences."""
    name = promoted["name"]
    under = f"as {name}" if name else "for this table"
    if promoted.get("damage"):
        return f"What is promoted {under} cannot be read: {promoted['damage']}."
    if promoted.get("target"):
        return f"What is promoted {under} predicts another target, {promoted['target']}."
    if promoted["run"] is None:
        return f"Nothing to compare with: nothing was promoted {under}."
    then, now = promoted["then"], promoted["now"]
    where = "on the same table" if promoted["is_same_table"] else "on other rows, not comparable"
    loss, before = (loss_in_words(run["loss_name"]) for run in (now, then))
    of_then = "" if loss == before else f" by {before}"
    is_and_was = f"{loss[0].upper()}{loss[1:]} is {number(now['loss'])} and was "
    is_and_was += f"{number(then['loss'])}{of_then}"
    sentences = [*_features_in_words(promoted), f"{is_and_was}, {where}"]
    if drift := promoted["drift"]:
        moved = shorten_list(moved_columns(drift), _NAMED_IN_BRIEF)
        none = f"none of {counted(len(drift), 'column')}"
        sentences.append(f"The distribution changed of {moved if moved_columns(drift) else none}")
    elif promoted["why_no_drift"]:
        sentences.append(f"Drift was not measured: {promoted['why_no_drift']}")
    sentences += _misfits_in_words(promoted)
    return " ".join(f"{sentence}." for sentence in sentences)


def _features_in_words(promoted: Mapping[str, Any]) -> list[str]:
    changes = {"Entered": promoted["entered"], "Left": promoted["left"]}
    named = {
        change: shorten_list(names, _NAMED_IN_BRIEF) for change, names in changes.items() if names
    }
    n_features = counted(promoted["now"]["n_features"], "feature")
    if not named:
        by_name = ", by name" * ("Gone" in promoted.get("misfits", {}))
        return [f"The same {n_features} as in use{by_name}"]
    before = number(promoted["then"]["n_features"])
    return [
        f"{n_features} in place of {before}",
        *(f"{change}: {names}" for change, names in named.items()),
    ]


def _misfits_in_words(promoted: Mapping[str, Any]) -> list[str]:
    """Return how the newer rows do not fit the promoted contract; runs before 0.2 say nothing."""
    misfits = promoted.get("misfits", {})
    return [f"{what}: {quoted_with_reasons(columns)}" for what, columns in misfits.items()]


def moved_columns(drift: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns whose distribution changed more than chance explains."""
    return [column["feature"] for column in drift if _has_moved(column)]


def _has_moved(column: Mapping[str, Any]) -> bool:
    has_other_values = column["by_chance"] is not None and column["distance"] > column["by_chance"]
    missing = abs(column["missing_after"] - column["missing_before"])
    return bool(has_other_values or missing > column["missing_by_chance"])


def since_promotion(content: ReportContent) -> Iterator[Block]:
    """Return how a run differs from the promoted run; empty where nothing is promoted."""
    promoted = content.promoted
    if promoted is None or promoted["run"] is None:
        return
    when = datetime.fromisoformat(promoted["promoted"])
    same = "The losses are of different rows, so they do not show which set is better."
    if promoted["is_same_table"]:
        same = "Both runs have the same table, but the rows that judge may differ."
    changes = [(name, "entered") for name in promoted["entered"]]
    changes += [(name, "left") for name in promoted["left"]]
    refits = " This refits the former set and compares both on the same rows:" if changes else ""
    yield paragraph(
        "When this report was written, run ",
        Code(promoted["run"]),
        " was in use as ",
        Code(promoted["name"]),
        f"; it was promoted on {when:%-d %B %Y, %H:%M} UTC. {same}{refits}",
    )
    if changes:
        yield Command(f"chaffinch diff {promoted['run']} {content.run}")
    then, now = promoted["then"], promoted["now"]
    figures = [
        ("Features", *(number(run["n_features"]) for run in (then, now))),
        ("Rows of the table", *(number(run["rows"]) for run in (then, now))),
        *(
            (f"Loss ({loss_in_words(run['loss_name'])})", *cells)
            for run, cells in _loss_rows(then, now)
        ),
        (
            "Share of a constant's loss that is explained",
            *(interval_of_share(run["explained"]) for run in (then, now)),
        ),
    ]
    yield Table("Then and now", {"Figure": "text", **numbers("Promoted run", "This run")}, figures)
    if not changes:
        yield paragraph("Both keep features of the same names.")
    yield from _then_and_now(dict(changes), promoted.get("rises"), then["loss_name"])
    for misfit in _misfits_in_words(promoted):
        yield paragraph(f"{misfit}.")
    if promoted["drift"]:
        yield folded(_drift_table(promoted["drift"]))
        yield note(
            "Distance of the distributions in both tables, of values that are not missing: "
            "Kolmogorov-Smirnov for numbers, total variation for categories; 0 where they are the "
            "same, 1 where they do not overlap. A column moved beyond chance if its distance, or "
            "the change of its missing values, is larger than in 95\N{NO-BREAK SPACE}% of "
            "comparisons of unchanged columns, all of these together, if rows are independent."
        )
    elif promoted["why_no_drift"]:
        yield note(f"How columns moved was not measured: {promoted['why_no_drift']}.")


def _then_and_now(
    changes: Mapping[str, str], rises: Mapping[str, Mapping[str, float]] | None, loss: str
) -> Iterator[Block]:
    """Yield the features that changed; with the importance of each kept one, where it is known."""
    if not rises:
        if changes:
            caption = f"Features that changed ({number(len(changes))})"
            columns: dict[str, Kind] = {"Feature": "name", "Change": "text"}
            yield folded(Table(caption, columns, [*changes.items()], file="selection.json"))
        return
    then, now = rises["then"], rises["now"]
    names = dict.fromkeys([*now, *then, *changes])
    most = {name: max(0.0, then.get(name, 0.0), now.get(name, 0.0)) for name in names}
    longest, rows = max(most.values()) or 1.0, []
    for name in sorted(names, key=lambda name: -most[name]):
        was, is_now = then.get(name), now.get(name)
        rise = None if was is None or is_now is None else is_now - was
        change = changes.get(name) or number(rise, "+")
        shares = (max(0.0, figure or 0.0) / longest for figure in (was, is_now))
        rows.append((name, BarsBeside(change, *shares), number(was), number(is_now)))
    caption = f"Importance then and now ({number(len(rows))})"
    columns = {"Feature": "name", "Change": "text", **numbers("Promoted run", "This run")}
    yield folded(Table(caption, columns, rows, file="explanation.json", is_sortable=True))
    yield note(
        f"Importance is by how much the loss ({loss_in_words(loss)}) rises without the "
        "feature, each run on its own rows. The upper bar is the promoted run, the lower one this "
        "run."
    )


def _loss_rows(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], tuple[str, str]]]:
    if then["loss_name"] == now["loss_name"]:
        return [(now, (number(then["loss"]), number(now["loss"])))]
    return [(then, (number(then["loss"]), NOTHING)), (now, (NOTHING, number(now["loss"])))]


def _drift_table(drift: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            column["feature"],
            "moved" if _has_moved(column) else "",
            NOTHING if column["distance"] is None else number(round(column["distance"], 3)),
            NOTHING if column["by_chance"] is None else number(round(column["by_chance"], 3)),
            share(round(column["missing_before"], 4)),
            share(round(column["missing_after"], 4)),
        )
        for column in drift
    ]
    columns: dict[str, Kind] = {"Column": "name", "Beyond chance": "text"}
    columns |= numbers("Distance", "By chance up to", "Missing then", "Missing now")
    title = f"Drift of {counted(len(rows), 'column')}: kept then or now, or the target"
    return Table(title, columns, rows)
