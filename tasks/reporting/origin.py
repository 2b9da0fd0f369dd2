"""The report's sections on what a result was made from: data, tuning, settings, versions, time."""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.section import (
    Block,
    Bullets,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import as_used, flattened, made_of_earlier_rows, number, plain
from chaffinch.tasks.settings.stage_titles import title_of


def warnings(content: ReportContent) -> Iterator[Block]:
    yield Bullets("warnings", content.warnings) if content.warnings else paragraph("None.")
    for text in content.contract.notes:
        yield note(f"{text[:1].upper()}{text[1:]}.")


_PROFILE: dict[str, Kind] = {
    **{"role": "text", "type": "text"},
    **numbers("missing", "distinct", "minimum", "mean", "maximum", "standard_deviation"),
    "most_frequent": "name",
}


def data(content: ReportContent) -> Iterator[Block]:
    settings = content.contract.settings
    if made := made_of_earlier_rows(settings):
        yield note(made)
    rows = [
        (str(column.get("name")), *(plain(column.get(key)) for key in _PROFILE))
        for column in content.profile
    ]
    columns: dict[str, Kind] = {"Column": "name"}
    columns |= {key.replace("_", " ").capitalize(): kind for key, kind in _PROFILE.items()}
    is_made = settings.get("history") or settings["columns"].get("dates") == "parts"
    made = ", with what is made of them" if is_made else ""
    caption = f"Columns of the table{made} ({number(len(rows))})"
    table = Table(caption, columns, rows, file="profile.json", is_sortable=True)
    yield folded(table, is_open=False)


def how_tuned(content: ReportContent) -> Iterator[Block]:
    losses = [candidate["loss"] for candidate in content.tuning]
    scored = [i for i, loss in enumerate(losses) if loss is not None]
    best = min(scored, key=lambda i: losses[i], default=None)
    rows = [
        (plain(candidate["parameters"]), number(loss), "chosen" if i == best else "")
        for i, (candidate, loss) in enumerate(zip(content.tuning, losses, strict=True))
    ]
    columns: dict[str, Kind] = {"Hyper-parameters": "name", **numbers("Cross-validated loss")}
    yield folded(Table("Hyper-parameters tried", {**columns, "Choice": "text"}, rows, best))


def how_to_repeat_it(content: ReportContent) -> Iterator[Block]:
    contract = content.contract
    dataset, target, model = contract.dataset, contract.target, contract.model
    rows = [
        ("Dataset", dataset.hash),
        ("Rows", number(dataset.rows)),
        ("Target", target.name),
        ("Task", target.task),
        ("Classes", plain(target.classes)),
        ("Loss", contract.loss),
        ("Model", model.name if model.name == model.kind else f"{model.name} ({model.kind})"),
        ("Model parameters", plain(model.parameters)),
        ("Seed", str(contract.seed)),
    ]
    yield Table("What the result was made from", {"What": "text", "Value": "name"}, rows)
    settings = list(flattened(as_used(contract.settings)))
    columns: dict[str, Kind] = {"Setting": "text", "Value": "name"}
    yield folded(Table("Settings", columns, settings), is_open=False)
    versions, columns = list(contract.versions.items()), {"Package": "text", "Version": "text"}
    yield folded(Table("Versions", columns, versions), is_open=False)


def time(content: ReportContent) -> Iterator[Block]:
    """Yield the duration of every stage before the report, and of all of them."""
    rows = [(title_of(stage), f"{taken:,.2f}") for stage, taken in content.seconds.items()]
    rows.append(("all of these", f"{sum(content.seconds.values()):,.2f}"))
    columns: dict[str, Kind] = {"Stage": "text", "Seconds": "number"}
    yield Table("Seconds per stage", columns, rows, len(rows) - 1)
