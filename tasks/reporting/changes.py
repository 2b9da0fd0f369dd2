"""What a reselection changed, in lines for a terminal and in the report's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaffinch.tasks.reporting.tables import Kind, Table
from chaffinch.tasks.reporting.wording import NOTHING, interval, number

_CAME = {"left": "Left", "returned": "Returned", "new": "New"}


def lines_of_changes(changes: Mapping[str, Any]) -> list[str]:
    """Return what changed in lines of plain text, the verdict first.

    Parameters
    ----------
    changes : mapping
        As in ``changes.json``.
    """
    lines = [changes["sentence"]]
    lines += [f"  Left: {one['feature']} ({one['reason']})" for one in changes["gone"]]
    for one in changes["changes"]:
        said = f"  {_CAME[one['change']]}: {one['feature']}"
        if one["difference"] is not None:
            said += f", which changes the test loss by {_measured(one)}"
        lines.append(said)
    return lines


def each_change(changes: Mapping[str, Any]) -> Table:
    """Return a row for each feature that left or came in."""
    rows = [(one["feature"], "left", one["reason"], *[NOTHING] * 3) for one in changes["gone"]]
    for one in changes["changes"]:
        seen = one["mask_validation"]
        rows.append(
            (
                one["feature"],
                one["change"],
                "kept as asked" if seen is None else number(seen["difference"], "+"),
                NOTHING if seen is None else number(seen["highest"], "+"),
                number(one["difference"], "+") if one["difference"] is not None else NOTHING,
                interval(one["interval"]),
            )
        )
    columns: dict[str, Kind] = {
        "Feature": "name",
        "Change": "text",
        "Mask-validation difference": "number",
        "At most": "number",
        "Test difference": "number",
        f"{changes['confidence']:.0%} interval": "number",
    }
    return Table("What changed", columns, rows)


def each_set(changes: Mapping[str, Any]) -> Table:
    """Return the former set, the new one and all features, refitted on the newer rows."""
    against = {one["set"]: one for one in changes["comparisons"] if one["against"] == "all"}
    between = changes["comparisons"][0]
    rows = [
        (
            {"all": "all features"}.get(name, name),
            number(one["n_features"]),
            number(one["test_loss"]),
            _measured(between) if name == "new" else NOTHING,
            NOTHING if name == "all" else _measured(against[name]),
        )
        for name, one in changes["sets"].items()
    ]
    columns: dict[str, Kind] = {
        "Set": "text",
        "Features": "number",
        "Test loss": "number",
        "Less the former set's": "number",
        "Less that of all features": "number",
    }
    return Table("The sets, each refitted on the newer rows", columns, rows, 1)


def trials(tried: Sequence[Mapping[str, Any]]) -> Table:
    """Return all that a reselection tried, in its order."""
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
    columns: dict[str, Kind] = {
        "Feature": "name",
        "To": "text",
        "Mask-validation difference": "number",
        "At most": "number",
        "Done": "text",
    }
    return Table("What was tried", columns, rows)


def _measured(one: Mapping[str, Any]) -> str:
    difference = number(one["difference"], "+")
    return difference if one["interval"] is None else f"{difference} {interval(one['interval'])}"
