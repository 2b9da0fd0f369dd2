"""The report's tables: rows of text made from the content, strongest or most recent first.

Those of what a search found are in `search_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from chaffinch.tasks.reporting.content import MaskStep, ReportContent
from chaffinch.tasks.reporting.text import (
    NOTHING,
    as_used,
    flattened,
    listed,
    number,
    plain,
    purpose_of_each_part,
    share,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.bootstrap import difference_of

MOST_PROFILE_ROWS = 200
_LONG = 60

Kind = Literal["name", "text", "number"]

_PROFILE: dict[str, Kind] = {
    "role": "text",
    "type": "text",
    "missing": "number",
    "distinct": "number",
    "minimum": "number",
    "mean": "number",
    "maximum": "number",
    "standard_deviation": "number",
    "most_frequent": "name",
}


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    caption : str
        What it shows.
    columns : mapping
        Heading -> what its cells hold: a name, which may be long and breaks anywhere, other text,
        or a number. The first column names the row.
    rows : sequence of sequence of str
        Cells, one per column.
    marked : int or None
        Position of the row that stands out.
    """

    caption: str
    columns: Mapping[str, Kind]
    rows: Sequence[Sequence[str]]
    marked: int | None = None

    @property
    def is_long(self) -> bool:
        """Whether the table is better opened on demand."""
        return len(self.rows) > _LONG


def losses_by_part(content: ReportContent) -> Table:
    """Return the losses of both final models on each part."""
    rows_of = content.contract["dataset"]["rows_by_part"]
    purpose = purpose_of_each_part(content)
    rows = [
        (
            _words(part),
            number(rows_of[part]),
            number(losses["all_features"]),
            number(losses["selected"]),
            number(difference_of(losses["selected"], losses["all_features"]), "+"),
            purpose.get(part, NOTHING),
        )
        for part, losses in content.contract["losses"].items()
    ]
    columns: dict[str, Kind] = {
        "Part": "text",
        "Rows": "number",
        "All features": "number",
        "Selected": "number",
        "Difference": "number",
        "Used for": "text",
    }
    test = next((i for i, row in enumerate(rows) if row[0] == "test"), None)
    caption = f"Losses of the two final models ({loss_in_words(content.contract['loss'])})"
    return Table(caption, columns, rows, test)


def kept_features(content: ReportContent) -> Table:
    """Return the kept features, those that the model can spare least first."""
    asked = set(content.contract["settings"].get("columns", {}).get("keep", ()))
    heading, figures = _figures(content)
    rows = []
    for feature in sorted(content.contract["features"], key=_latest_first):
        name, step = feature["name"], feature["step"]
        outlasts = "outlasts the path" if content.scores is None else "ranked first"
        stays = "kept as asked" if name in asked else outlasts
        rows.append(
            (
                name,
                _type(feature),
                plain(feature["baseline"]),
                stays if step is None else number(step),
                number(figures.get(name)),
            )
        )
    columns: dict[str, Kind] = {
        "Feature": "name",
        "Type": "text",
        "Baseline": "name",
        "Step": "number",
        heading: "number",
    }
    caption = f"Kept features ({number(len(rows))})"
    return _without_steps(content, Table(caption, columns, rows), 3)


def dropped_features(content: ReportContent) -> Table:
    """Return the dropped columns, those that came closest to being kept first."""
    heading, figures = _figures(content)
    dropped = content.contract["dropped"]
    removed = sorted((d for d in dropped if d.get("step") is not None), key=_latest_first)
    others = [d for d in dropped if d.get("step") is None]
    rows = [
        (d["name"], d["reason"], number(d.get("step")), number(figures.get(d["name"])))
        for d in [*removed, *others]
    ]
    columns: dict[str, Kind] = {
        "Column": "name",
        "Reason": "text",
        "Step": "number",
        heading: "number",
    }
    caption = f"Dropped columns ({number(len(rows))})"
    return _without_steps(content, Table(caption, columns, rows), 2)


def profile(content: ReportContent) -> Table:
    """Return what is in each column of the table, for the first columns of a wide one."""
    rows = [
        (str(column.get("name")), *(plain(column.get(key)) for key in _PROFILE))
        for column in content.profile[:MOST_PROFILE_ROWS]
    ]
    columns: dict[str, Kind] = {"Column": "name"}
    columns |= {_words(key).capitalize(): kind for key, kind in _PROFILE.items()}
    return Table(f"Columns of the table ({number(len(content.profile))})", columns, rows)


def tuning(content: ReportContent) -> Table:
    """Return the hyper-parameters that were tried."""
    losses = [candidate["loss"] for candidate in content.tuning]
    scored = [i for i, loss in enumerate(losses) if loss is not None]
    best = min(scored, key=lambda i: losses[i], default=None)
    rows = [
        (plain(candidate["parameters"]), number(loss), "chosen" if i == best else "")
        for i, (candidate, loss) in enumerate(zip(content.tuning, losses, strict=True))
    ]
    columns: dict[str, Kind] = {
        "Hyper-parameters": "name",
        "Cross-validated loss": "number",
        "Choice": "text",
    }
    return Table("Hyper-parameters tried", columns, rows, best)


def origins(content: ReportContent) -> Table:
    """Return what the result was made from."""
    contract = content.contract
    target, model = contract["target"], contract["model"]
    rows = [
        ("Dataset", contract["dataset"]["hash"]),
        ("Rows", number(contract["dataset"]["rows"])),
        ("Target", target["name"]),
        ("Task", target["task"]),
        ("Classes", plain(target["classes"])),
        ("Loss", contract["loss"]),
        ("Model", model["name"] if model["name"] == model["kind"] else _named(model)),
        ("Model parameters", plain(model["parameters"])),
        ("Seed", str(contract["seed"])),
    ]
    columns: dict[str, Kind] = {"What": "text", "Value": "name"}
    return Table("What the result was made from", columns, rows)


def settings(content: ReportContent) -> Table:
    """Return the settings by their dotted names."""
    rows = list(flattened(as_used(content.contract["settings"])))
    columns: dict[str, Kind] = {"Setting": "text", "Value": "name"}
    return Table("Settings", columns, rows)


def versions(content: ReportContent) -> Table:
    """Return the versions of everything that can change a number."""
    rows = list(content.contract["versions"].items())
    columns: dict[str, Kind] = {"Package": "text", "Version": "text"}
    return Table("Versions", columns, rows)


def seconds(content: ReportContent) -> Table:
    """Return the duration of every stage before the report, and of all of them."""
    rows = [(_words(stage), f"{taken:,.2f}") for stage, taken in content.seconds.items()]
    rows.append(("all of these", f"{sum(content.seconds.values()):,.2f}"))
    columns: dict[str, Kind] = {"Stage": "text", "Seconds": "number"}
    return Table("Seconds per stage", columns, rows, len(rows) - 1)


def _figures(content: ReportContent) -> tuple[str, Mapping[str, float | None]]:
    """Return what a feature stayed or left by, and the figure of each that has one."""
    if content.scores is not None:
        return "Score" if content.searches is None else "Probability", content.scores
    heading = "Loss once removed" if content.declared.refits else "Loss once masked"
    return heading, {feature: loss for _, feature, loss, _ in content.path}


def _without_steps(content: ReportContent, table: Table, n_columns: int) -> Table:
    """Return the first columns alone where no feature left at a step of its own."""
    if content.has_steps:
        return table
    if content.scores is not None:  # a probability, but no step
        columns = {name: kind for name, kind in table.columns.items() if name != "Step"}
        rows = [(*row[:n_columns], *row[n_columns + 1 :]) for row in table.rows]
        return Table(table.caption, columns, rows)
    columns = dict(islice(table.columns.items(), n_columns))
    return Table(table.caption, columns, [row[:n_columns] for row in table.rows])


def _latest_first(feature: Mapping[str, Any]) -> float:
    step = feature.get("step")
    return float("-inf") if step is None else -step


def _type(feature: Mapping[str, Any]) -> str:
    categories = feature.get("categories")
    if not categories:
        return str(feature["type"])
    return f"{feature['type']} ({number(len(categories))} values)"


def _named(model: Mapping[str, Any]) -> str:
    return f"{model['name']} ({model['kind']})"


def _words(key: str) -> str:
    return key.replace("_", " ")


def candidate_sizes(content: ReportContent) -> Table:
    """Return the sizes that stood for choice."""
    method = content.contract["settings"]["method"]
    is_slack, is_score = "slacks" in method, method.get("min_score") is not None
    is_penalty = method.get("penalties") is not None
    asked_for = "Slack" if is_slack else "Lowest score" if is_score else "Size asked for"
    asked_for = "Penalty" if is_penalty else asked_for
    written = number if is_slack or is_score or is_penalty else _size
    chosen = _lowest([candidate["model_validation_loss"] for candidate in content.candidates])
    rows = [
        (
            number(candidate["n_features"]),
            ", ".join(written(s) for s in candidate["settings"]) or NOTHING,
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
