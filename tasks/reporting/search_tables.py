"""The report's tables of what a search found, and what was chosen from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaffinch.tasks.reporting.content import MaskStep, ReportContent
from chaffinch.tasks.reporting.tables import Kind, Table
from chaffinch.tasks.reporting.wording import NOTHING, listed, number, share


def candidate_sizes(content: ReportContent) -> Table:
    """Return the sizes that stood for choice."""
    method = content.contract["settings"]["method"]
    is_slack, is_score = content.method in ("gbmo", "afs_bm"), method.get("min_score") is not None
    is_penalty = method.get("penalties") is not None
    asked_for = "Slack" if is_slack else "Lowest score" if is_score else "Size asked for"
    asked_for = "Penalty" if is_penalty else asked_for
    said = number if is_slack or is_score or is_penalty else _size
    chosen = _lowest([candidate["model_validation_loss"] for candidate in content.candidates])
    rows = [
        (
            number(candidate["n_features"]),
            ", ".join(said(s) for s in candidate["settings"]) or NOTHING,
            number(candidate["model_validation_loss"]),
            "chosen" if i == chosen else "",
        )
        for i, candidate in enumerate(content.candidates)
    ]
    columns: dict[str, Kind] = {
        "Features": "number",
        asked_for: "number",
        "Model-validation loss": "number",
        "Choice": "text",
    }
    return Table("Candidate sizes", columns, rows, chosen)


def cross_validated(sizes: Sequence[Mapping[str, Any]]) -> Table:
    """Return what the folds say of each size."""
    rows = [
        (number(size["n_features"]), number(size["loss"]), number(size["standard_error"]))
        for size in sizes
    ]
    columns: dict[str, Kind] = {
        "Features": "number",
        "Mean loss over the folds": "number",
        "Standard error": "number",
    }
    return Table("Cross-validated sizes", columns, rows)


def masks_found(masks: Sequence[MaskStep]) -> Table:
    """Return the masks that a search found, in its order."""
    rows = [(number(step), number(size), number(loss)) for step, size, loss in masks]
    columns: dict[str, Kind] = {
        "Step": "number",
        "Features": "number",
        "Mask-validation loss": "number",
    }
    return Table("Masks found", columns, rows)


def rounds_of_masking(rounds: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rounds of a search that trains and masks in turn, slack by slack."""
    rows = [
        (
            number(one["slack"]),
            number(one["round"]),
            number(one["trained_loss"]),
            number(len(one["tried"])),
            number(len(one["rejected"])),
            listed(one["removed"]),
            number(one["loss"]),
            number(one["features_left"]),
        )
        for one in rounds
    ]
    columns: dict[str, Kind] = {
        "Slack": "number",
        "Round": "number",
        "Loss once trained": "number",
        "Tried": "number",
        "Put back": "number",
        "Masked for good": "name",
        "Loss once masked": "number",
        "Features left": "number",
    }
    return Table("Rounds of training and masking", columns, rows)


def forced_by_the_limit(rounds: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what was masked for the limit on the number of features alone; None if nothing was."""
    forced = [
        f"{name} (slack {number(one['slack'])}, round {number(one['round'])})"
        for one in rounds
        for name in one["removed"]
        if name in one["rejected"] or name not in one["tried"]
    ]
    return listed(forced) if forced else None


def searches_by_probabilities(searches: Sequence[Mapping[str, Any]]) -> Table:
    """Return where each search by probabilities ended."""
    is_sized = "n_features" in searches[0]
    rows = [
        (
            number(one["n_features"] if is_sized else one["penalty"]),
            number(one["seed"]),
            number(one["iteration"][-1]),
            number(one["entropy"][-1]),
            number(one["stability"][-1]),
            number(one["features_left"][-1]),
            number(one["held_out_loss"]),
        )
        for one in searches
    ]
    columns: dict[str, Kind] = {
        "Features asked for" if is_sized else "Penalty": "number",
        "Seed": "number",
        "Iterations": "number",
        "Entropy": "number",
        "Stability": "number",
        "Features of at least 0.5": "number",
        "Mask-validation loss": "number",
    }
    return Table("Searches", columns, rows)


def _lowest(losses: Sequence[float]) -> int | None:
    """Return the first of the lowest losses, as the choice does; None if there are none."""
    return min(range(len(losses)), key=losses.__getitem__, default=None)


def _size(asked: float) -> str:
    return number(asked) if isinstance(asked, int) else share(asked)
