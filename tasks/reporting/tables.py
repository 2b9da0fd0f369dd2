"""The report's tables: rows of text made from the content, strongest or most recent first."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from chaffinch.tasks.reporting.content import MaskStep, ReportContent
from chaffinch.tasks.reporting.text import (
    NOTHING,
    as_used,
    flattened,
    listed,
    number,
    numbers_alike,
    plain,
    purpose_of_each_part,
    share,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.stage_titles import title_of
from chaffinch.tasks.statistics.bootstrap import difference_of
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.verdict import judged_on, part_in_words

MOST_ROWS = 200  # of a table whose other rows are in a file
_LONG = 60
_CONTRACT = "selection.json"

Kind = Literal["name", "text", "number", "mark"]


@dataclass(frozen=True)
class Table:
    """A table of text."""

    caption: str
    columns: Mapping[str, Kind]  # by heading; the first names the row, a "name" breaks anywhere
    rows: Sequence[Sequence[str]]
    marked: int | None = None  # position of the row that stands out
    file: str | None = None  # has all rows, so that a long table is cut

    @property
    def n_shown(self) -> int:
        return len(self.rows) if self.file is None else min(len(self.rows), MOST_ROWS)

    @property
    def is_long(self) -> bool:
        """Whether the table is better opened on demand."""
        return len(self.rows) > _LONG


def numbers(*headings: str) -> dict[str, Kind]:
    return dict.fromkeys(headings, "number")


class PartLosses(NamedTuple):
    """Losses of both final models on one part of the rows."""

    part: str
    n_rows: int
    all_features: float
    selected: float
    difference: float  # selected less all; 0 within rounding


def losses_of_parts(contract: Mapping[str, Any]) -> list[PartLosses]:
    """Return the table of losses that the report, the terminal and the Prefect UI show."""
    rows, table = contract["dataset"]["rows_by_part"], []
    for part, losses in contract["losses"].items():
        every, selected = losses["all_features"], losses["selected"]
        table.append(PartLosses(part, rows[part], every, selected, difference_of(selected, every)))
    return table


class MetricRow(NamedTuple):
    """A metric of the final models and of a constant, on the rows of the verdict."""

    name: str
    all_features: float
    selected: float
    constant: float
    difference: str  # selected less all; of an error in per cent of that with all features


DIFFERENCE_OF_METRICS = "Selected less all"  # each cell has its own unit


def metric_rows(contract: Mapping[str, Any]) -> list[MetricRow]:
    """Return the table of metrics that the report, the terminal and the Prefect UI show."""
    table = []
    for name, found in contract.get("metrics", {}).items():
        percent = found.get("difference_percent")
        difference = (
            number(found["difference"], "+") if percent is None else f"{number(percent, '+')} %"
        )
        every, selected, constant = found["all_features"], found["selected"], found["constant"]
        table.append(MetricRow(METRICS.get(name, name), every, selected, constant, difference))
    return table


def judged_part(contract: Mapping[str, Any]) -> str:
    return part_in_words(judged_on(contract))


def class_shares(contract: Mapping[str, Any]) -> str | None:
    """Return the shares of the classes in words; None for a regression."""
    shares = contract.get("class_shares")
    if not shares:
        return None
    each = listed(f"{name} ({share(of_class)})" for name, of_class in shares.items())
    return f"Classes of the {judged_part(contract)} rows: {each}."


_PROFILE: dict[str, Kind] = {
    **{"role": "text", "type": "text"},
    **numbers("missing", "distinct", "minimum", "mean", "maximum", "standard_deviation"),
    "most_frequent": "name",
}


def losses_by_part(content: ReportContent) -> Table:
    purpose = purpose_of_each_part(content)
    rows = [
        (
            part_in_words(one.part),
            number(one.n_rows),
            *numbers_alike(one.all_features, one.selected),
            number(one.difference, "+"),
            purpose.get(one.part, NOTHING),
        )
        for one in losses_of_parts(content.contract)
    ]
    part = judged_on(content.contract)
    judged = [*content.contract["losses"]].index(part)
    whose = "final models and those of the folds" if part == "out_of_fold" else "two final models"
    caption = f"Losses of the {whose} ({loss_in_words(content.contract['loss'])})"
    figures = numbers("Rows", "All features", "Selected", "Difference")
    return Table(caption, {"Part": "text", **figures, "Used for": "text"}, rows, judged)


def metrics(content: ReportContent) -> Table:
    columns = numbers("All features", "Selected", "Constant", DIFFERENCE_OF_METRICS)
    rows = [
        (name, *numbers_alike(*values), difference)
        for name, *values, difference in metric_rows(content.contract)
    ]
    caption = f"Metrics of the {judged_part(content.contract)} rows"
    return Table(caption, {"Metric": "text", **columns}, rows)


def kept_features(content: ReportContent) -> Table:
    """Return the kept features, those that the model can spare least first."""
    evidence = evidence_of(content)
    rows = [
        (
            one["name"],
            *(_figure(of.get(one["name"])) for of in evidence.values()),
            _type(one),
            plain(one["baseline"]),
        )
        for one in kept_in_order(content)
    ]
    columns: dict[str, Kind] = {"Feature": "name", **numbers(*evidence)}
    columns |= {"Type": "text", "Baseline": "name"}
    return Table(f"Kept features ({number(len(rows))})", columns, rows, file=_CONTRACT)


def dropped_features(content: ReportContent) -> Table:
    """Return the dropped columns, those that came closest to being kept first."""
    evidence = evidence_of(content)
    dropped = content.contract["dropped"]
    rank = ranks_of(content)
    removed = sorted(
        (d for d in dropped if d.get("step") is not None), key=lambda one: rank[one["name"]]
    )
    others = [d for d in dropped if d.get("step") is None]
    others.sort(key=lambda one: rank.get(one["name"], len(rank) + 1))
    rows = [
        (d["name"], *(_figure(of.get(d["name"])) for of in evidence.values()), d["reason"])
        for d in [*removed, *others]
    ]
    columns: dict[str, Kind] = {"Column": "name", **numbers(*evidence)}
    if others:
        columns["Reason"] = "text"
    else:  # the search removed all of them
        rows = [row[:-1] for row in rows]
    return Table(f"Dropped columns ({number(len(rows))})", columns, rows, file=_CONTRACT)


def dropped_candidates(content: ReportContent) -> list[str]:
    """Return the features that were searched and dropped, the closest to being kept first."""
    candidates = {*content.contract["candidates"]}
    return [row[0] for row in dropped_features(content).rows if row[0] in candidates]


def kept_as_csv(content: ReportContent) -> str:
    """Return the kept features with what the run knows of each, sorted by name."""
    evidence, text = dict(evidence_of(content)), io.StringIO()
    if content.explanation is not None:
        measured = content.explanation["importance"]["features"]
        evidence["Importance"] = {one["feature"]: one["rise"] for one in measured}
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["feature", "type", *(heading.lower() for heading in evidence)])
    for one in kept_in_order(content):
        name = one["name"]
        writer.writerow([name, one["type"], *(of.get(name) for of in evidence.values())])
    return text.getvalue()


def kept_in_order(content: ReportContent) -> list[Mapping[str, Any]]:
    """Return the kept features, most useful first; sorted by name if none is known."""
    rank = ranks_of(content)
    return sorted(content.contract["features"], key=lambda one: rank[one["name"]])


def ranks_of(content: ReportContent) -> dict[str, int]:
    """Return the rank of each candidate, as in the frame of the result."""
    contract = content.contract
    kept = {one["name"] for one in contract["features"]}
    step_of = {
        one["name"]: one["step"]
        for one in (*contract["features"], *contract["dropped"])
        if one.get("step") is not None
    }
    candidates = contract["candidates"]
    return rank_of_each(candidates, [name in kept for name in candidates], step_of, content.scores)


def evidence_of(content: ReportContent) -> dict[str, Mapping[str, Any]]:
    """Return what the run knows of single features: by heading, the figure of each."""
    evidence: dict[str, Mapping[str, Any]] = {}
    if content.has_steps:
        evidence["Rank"] = _ranks(content)
    if content.scores is not None:
        if not content.declared.score_is_place:
            evidence["Score" if content.searches is None else "Probability"] = content.scores
    elif content.has_steps:
        heading = "Loss once removed" if content.declared.refits else "Loss once masked"
        evidence[heading] = {feature: loss for _, feature, loss, _ in content.path}
    if (found := content.contract.get("stability")) is not None:
        shares, n_folds = found["share_of_folds"], found["n_folds"]
        evidence["Folds"] = {
            name: f"{round(each * n_folds)} of {n_folds}" for name, each in shares.items()
        }
    return evidence


def _ranks(content: ReportContent) -> dict[str, str]:
    """Return the rank of each candidate by when it leaves, 1 for the last."""
    contract = content.contract
    asked = set(contract["settings"].get("columns", {}).get("keep", ()))
    step_of = {
        one["name"]: one.get("step") for one in (*contract["features"], *contract["dropped"])
    }
    last = [name for name in contract["candidates"] if step_of.get(name) is None]
    first = "1" if len(last) == 1 else f"1 to {number(len(last))}"  # no step orders these
    ranks = {name: "kept as asked" if name in asked else first for name in last}
    of_removed = {name: rank for name, rank in ranks_of(content).items() if name not in ranks}
    return ranks | {name: number(rank) for name, rank in of_removed.items()}


def _figure(value: str | float | None) -> str:
    return value if isinstance(value, str) else number(value)


def profile(content: ReportContent) -> Table:
    rows = [
        (str(column.get("name")), *(plain(column.get(key)) for key in _PROFILE))
        for column in content.profile
    ]
    columns: dict[str, Kind] = {"Column": "name"}
    columns |= {_words(key).capitalize(): kind for key, kind in _PROFILE.items()}
    caption = f"Columns of the table ({number(len(rows))})"
    return Table(caption, columns, rows, file="profile.json")


def tuning(content: ReportContent) -> Table:
    losses = [candidate["loss"] for candidate in content.tuning]
    scored = [i for i, loss in enumerate(losses) if loss is not None]
    best = min(scored, key=lambda i: losses[i], default=None)
    rows = [
        (plain(candidate["parameters"]), number(loss), "chosen" if i == best else "")
        for i, (candidate, loss) in enumerate(zip(content.tuning, losses, strict=True))
    ]
    columns: dict[str, Kind] = {"Hyper-parameters": "name", **numbers("Cross-validated loss")}
    return Table("Hyper-parameters tried", {**columns, "Choice": "text"}, rows, best)


def origins(content: ReportContent) -> Table:
    contract = content.contract
    target, model = contract["target"], contract["model"]
    name, kind = model["name"], model["kind"]
    rows = [
        ("Dataset", contract["dataset"]["hash"]),
        ("Rows", number(contract["dataset"]["rows"])),
        ("Target", target["name"]),
        ("Task", target["task"]),
        ("Classes", plain(target["classes"])),
        ("Loss", contract["loss"]),
        ("Model", name if name == kind else f"{name} ({kind})"),
        ("Model parameters", plain(model["parameters"])),
        ("Seed", str(contract["seed"])),
    ]
    return Table("What the result was made from", {"What": "text", "Value": "name"}, rows)


def settings(content: ReportContent) -> Table:
    rows = list(flattened(as_used(content.contract["settings"])))
    return Table("Settings", {"Setting": "text", "Value": "name"}, rows)


def versions(content: ReportContent) -> Table:
    rows = list(content.contract["versions"].items())
    return Table("Versions", {"Package": "text", "Version": "text"}, rows)


def seconds(content: ReportContent) -> Table:
    """Return the duration of every stage before the report, and of all of them."""
    rows = [(title_of(stage), f"{taken:,.2f}") for stage, taken in content.seconds.items()]
    rows.append(("all of these", f"{sum(content.seconds.values()):,.2f}"))
    return Table("Seconds per stage", {"Stage": "text", "Seconds": "number"}, rows, len(rows) - 1)


def _type(feature: Mapping[str, Any]) -> str:
    categories = feature.get("categories")
    if not categories:
        return str(feature["type"])
    return f"{feature['type']} ({number(len(categories))} values)"


def _words(key: str) -> str:
    return key.replace("_", " ")


def candidate_sizes(content: ReportContent) -> Table:
    method = content.contract["settings"]["method"]
    is_slack, is_score = "slacks" in method, method.get("min_score") is not None
    is_penalty = method.get("penalties") is not None
    asked_for = "Slack" if is_slack else "Lowest score" if is_score else "Size asked for"
    asked_for = "Penalty" if is_penalty else asked_for
    written = number if is_slack or is_score or is_penalty else _size
    losses = [candidate["model_validation_loss"] for candidate in content.candidates]
    chosen = min(range(len(losses)), key=losses.__getitem__, default=None)
    rows = [
        (
            number(candidate["n_features"]),
            ", ".join(written(s) for s in candidate["settings"]) or NOTHING,
            number(candidate["model_validation_loss"]),
            "chosen" if i == chosen else "",
        )
        for i, candidate in enumerate(content.candidates)
    ]
    columns = numbers("Features", asked_for, "Model-validation loss")
    return Table("Candidate sizes", {**columns, "Choice": "text"}, rows, chosen)


def cross_validated(sizes: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (number(size["n_features"]), number(size["loss"]), number(size["standard_error"]))
        for size in sizes
    ]
    columns = numbers("Features", "Mean loss over the folds", "Standard error")
    return Table("Cross-validated sizes", columns, rows)


def sizes_of_the_curve(content: ReportContent) -> Table:
    """Return the sizes of a cross-fitted method, with their differences from all features."""
    sizes = content.sizes or ()
    chosen = [size["n_features"] for size in sizes].index(content.size_on_curve)
    rows = [
        (
            *(number(size[key]) for key in ("n_features", "loss")),
            number(size["difference"], "+"),
            number(size["standard_error"]),
            "chosen" if i == chosen else "",
        )
        for i, size in enumerate(sizes)
    ]
    columns = numbers("Features", "Mean loss", "Less that of all", "Its standard error")
    return Table("Numbers of features", {**columns, "Choice": "text"}, rows, chosen)


def masks_found(masks: Sequence[MaskStep]) -> Table:
    rows = [(number(step), number(size), number(loss)) for step, size, loss in masks]
    return Table("Masks found", numbers("Step", "Features", "Mask-validation loss"), rows)


def rounds_of_masking(rounds: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(number(one[key]) for key in ("slack", "round", "trained_loss")),
            *(number(len(one[key])) for key in ("tried", "rejected")),
            listed(one["removed"]),
            *(number(one[key]) for key in ("loss", "features_left")),
        )
        for one in rounds
    ]
    return Table(
        "Rounds of training and masking",
        {
            **numbers("Slack", "Round", "Loss once trained", "Tried", "Put back"),
            "Masked for good": "name",
            **numbers("Loss once masked", "Features left"),
        },
        rows,
    )


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
    is_sized = "n_features" in searches[0]
    rows = [
        (
            *(number(one[key]) for key in ("n_features" if is_sized else "penalty", "seed")),
            *(number(one[key][-1]) for key in ("iteration", "entropy", "stability")),
            *(number(value) for value in (one["features_left"][-1], one["held_out_loss"])),
        )
        for one in searches
    ]
    ends = numbers("Iterations", "Entropy", "Stability", "Features of at least 0.5")
    asked = numbers("Features asked for" if is_sized else "Penalty", "Seed")
    return Table("Searches", {**asked, **ends, **numbers("Mask-validation loss")}, rows)


def _size(asked: float) -> str:
    return number(asked) if isinstance(asked, int) else share(asked)


Name = TypeVar("Name", bound=Hashable)


def rank_of_each(
    candidates: Sequence[Name],
    kept: Sequence[bool],
    step_of: Mapping[Name, int],
    scores: Mapping[Name, float] | None,
) -> dict[Name, int]:
    """Return the rank of each candidate, from 1 for the most useful to d.

    The later the search removes a feature, the better its rank; what it never removes is best.
    Without steps, the higher score is better. Of features that these do not order, the kept ones
    come first, then those with the higher score, then those named first in `candidates`.
    """
    is_kept = dict(zip(candidates, kept, strict=True))

    def key(name: Name) -> tuple[float, bool, float]:
        score = -scores[name] if scores is not None else 0.0
        if step_of:
            return -step_of.get(name, math.inf), not is_kept[name], score
        return score, not is_kept[name], 0.0

    return {name: rank for rank, name in enumerate(sorted(candidates, key=key), 1)}
