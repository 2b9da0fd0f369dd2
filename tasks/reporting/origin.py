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


def data(content: ReportContent) -> Iterator[Block]:
    if made := made_of_earlier_rows(content.contract.settings):
        yield note(made)
    yield folded(profile(content), is_open=False)


def how_tuned(content: ReportContent) -> Iterator[Block]:
    yield folded(tuning(content))


def how_to_repeat_it(content: ReportContent) -> Iterator[Block]:
    yield origins(content)
    yield folded(settings(content), is_open=False)
    yield folded(versions(content), is_open=False)


def time(content: ReportContent) -> Iterator[Block]:
    yield seconds(content)


_PROFILE: dict[str, Kind] = {
    **{"role": "text", "type": "text"},
    **numbers("missing", "distinct", "minimum", "mean", "maximum", "standard_deviation"),
    "most_frequent": "name",
}


def profile(content: ReportContent) -> Table:
    rows = [
        (str(column.get("name")), *(plain(column.get(key)) for key in _PROFILE))
        for column in content.profile
    ]
    columns: dict[str, Kind] = {"Column": "name"}
    columns |= {_words(key).capitalize(): kind for key, kind in _PROFILE.items()}
    asked = content.contract.settings
    is_made = asked.get("history") or asked["columns"].get("dates") == "parts"
    made = ", with what is made of them" if is_made else ""
    caption = f"Columns of the table{made} ({number(len(rows))})"
    return Table(caption, columns, rows, file="profile.json", is_sortable=True)


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
    return Table("What the result was made from", {"What": "text", "Value": "name"}, rows)


def settings(content: ReportContent) -> Table:
    rows = list(flattened(as_used(content.contract.settings)))
    return Table("Settings", {"Setting": "text", "Value": "name"}, rows)


def versions(content: ReportContent) -> Table:
    rows = list(content.contract.versions.items())
    return Table("Versions", {"Package": "text", "Version": "text"}, rows)


def seconds(content: ReportContent) -> Table:
    """Return the duration of every stage before the report, and of all of them."""
    rows = [(title_of(stage), f"{taken:,.2f}") for stage, taken in content.seconds.items()]
    rows.append(("all of these", f"{sum(content.seconds.values()):,.2f}"))
    return Table("Seconds per stage", {"Stage": "text", "Seconds": "number"}, rows, len(rows) - 1)


def _words(key: str) -> str:
    return key.replace("_", " ")
