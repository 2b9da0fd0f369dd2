"""A store over the nights, as sections for the terminal and as the page ``index.html``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import pairwise

from markupsafe import Markup

from chaffinch.storage.runs.promotions import Promotion
from chaffinch.tasks.reporting.page import SHARED, template
from chaffinch.tasks.reporting.section import (
    Block,
    Code,
    Figure,
    Kind,
    Pair,
    ReportOf,
    Section,
    Table,
    folded,
    note,
    numbers,
    paragraph,
    section,
)
from chaffinch.tasks.reporting.text import NOTHING, counted, number, shorten_list
from chaffinch.tasks.results.history import History, HistoryRow
from chaffinch.tasks.selection.losses import loss_in_words

_TEMPLATE = SHARED / "history.html"
_MOST_ROWS = 200  # of a table
_LAST = 30  # runs that a row of marks shows
_NAMED = 3  # columns in a cell
_NAMED_IN_USE = 20
_MONTH = timedelta(days=30)
_SVG = Markup(  # as wide as a phone, with letters of 12.5 pixels
    '<svg viewBox="0 0 360 170" style="min-width: 360px" role="img" aria-label="{}">'
    '<polyline points="{}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>'
    '<polyline points="{}" fill="none" stroke="var(--muted)" stroke-dasharray="4 3"/>'
    '<g fill="var(--accent)">{}</g><g font-size="12.5" fill="var(--muted)">'
    '<text x="56" y="26" text-anchor="end">{}</text>'
    '<text x="56" y="140" text-anchor="end">{}</text>'
    '<text x="64" y="164">{}</text><text x="338" y="164" text-anchor="end">{}</text></g></svg>'
)


def render_history(history: History) -> bytes:
    """Return the page of a store as HTML in UTF-8 that loads nothing; it links to reports."""
    sections = sections_of(history)
    page = template(_TEMPLATE).render(
        title=f"{history.store}: data sets over time",
        scope=_scope(history),
        contents=[(section.id, section.heading) for section in sections],
        sections=sections,
    )
    return page.encode()


def sections_of(history: History) -> list[Section]:
    """Return what needs a person, the data sets, and each data set over time."""
    over_time = history.data_sets.items()
    return [
        section("What needs a person", needs_a_person(history)),
        section("Data sets", data_sets(history)),
        *(section(name, _over_time(history, name, rows)) for name, rows in over_time),
    ]


def last_runs(history: History, name: str, most: int) -> Table:
    """Return the last runs of a data set, newest first, as the table of all of them has them."""
    table = _runs(history.data_sets[name])
    return replace(table, rows=table.rows[:most])


def _scope(history: History) -> str:
    n_needed = sum(bool(row.decision) for row in history.rows)
    n_open = sum(row.is_open for row in history.rows)
    times = sorted(row.created for row in history.rows if row.created)
    when = f", from {_day(times[0])} to {_day(times[-1])}" if times else ""
    return (
        f"{counted(len(history.rows), 'run')} of {counted(len(history.data_sets), 'data set')}"
        f"{when}. {counted(n_needed, 'run')} needed a decision of a person; "
        f"{counted(n_open, 'decision')} {'is' if n_open == 1 else 'are'} open."
    )


def needs_a_person(history: History) -> Iterator[Block]:
    """Return what is open, unfinished or cannot be read, and the decisions that were made."""
    finished = {row.data_set: row.created for row in history.rows if row.state == "finished"}
    rows = [
        (_moment(row.created), why, row.data_set, _name(row))
        for row in reversed(history.rows)
        if (why := _what_is_open(row, finished.get(row.data_set, "")))
    ]
    rows += [
        (NOTHING, f"What is promoted cannot be read: {why}", name, NOTHING)
        for name, why in history.damage.items()
    ]
    headings: dict[str, Kind] = {"Began (UTC)": "text", "Why": "why"}
    headings |= {"Data set": "text", "Run": "name"}
    if rows:
        yield _cut("Open", headings, rows)
        yield note(
            "A decision is open until a contract is promoted or rolled back; ",
            Code("chaffinch show RUN"),
            " has the figures. To continue an unfinished run, or after a refusal, give its command "
            "again; on a table that has changed that begins another run.",
        )
    else:
        yield paragraph("Nothing: no decision is open, and no run is to be continued.")
    decided = [
        (_moment(row.created), row.decision, row.data_set, _name(row))
        for row in reversed(history.rows)
        if row.decision and not row.is_open
    ]
    if decided:
        yield folded(_cut("Decisions that were made", headings, decided))


def _what_is_open(row: HistoryRow, last_finished: str) -> str:
    """Return what a person has to do about a run; nothing once a newer run has finished."""
    if row.state == "damaged":
        return f"It cannot be read: {row.problem}"
    if row.is_open:
        return f"It needs a decision: {row.decision}"
    if row.state == "finished" or row.created <= last_finished:
        return ""
    if row.state == "refused":
        return f"It was refused: {row.problem}"
    return "Unfinished: it waits, failed or is running"


def data_sets(history: History) -> Iterator[Block]:
    """Return what is in use for each data set, and its last finished run."""
    links = {row.run: _name(row) for row in history.rows}  # a promoted run may be removed
    rows = []
    for name, of_name in history.data_sets.items():
        in_use, result = [NOTHING] * 2, [NOTHING] * 5
        for entry in history.promotions.get(name, ())[-1:]:
            in_use = [links.get(entry.run, entry.run), _moment(entry.promoted)]
        for row in _finished(of_name)[-1:]:
            result = _result(row)
        n_needed = sum(bool(row.decision) for row in of_name)
        rows.append((name, *in_use, number(len(of_name)), number(n_needed), *result))
    headings: dict[str, Kind] = {"Data set": "text", "In use": "name"}
    headings |= numbers("Since (UTC)", "Runs", "Needed a decision", "Last run (UTC)")
    yield _cut("Data sets", {**headings, **_RESULT}, rows)


_RESULT: dict[str, Kind] = {"Verdict": "text", **numbers("Columns kept", "Loss", "Loss with all")}


def _result(row: HistoryRow) -> list[str]:
    return [
        _moment(row.created),
        row.verdict or NOTHING,
        f"{number(len(row.features))} of {number(row.candidates)}",
        number(row.loss_selected),
        number(row.loss_all_features),
    ]


def _over_time(history: History, name: str, rows: Sequence[HistoryRow]) -> Iterator[Block]:
    """Yield what is in use for a data set, its losses and columns over time, and its runs."""
    for entry in history.promotions.get(name, ())[-1:]:
        why = f": {entry.reason.removesuffix('.')}" if entry.reason else ""
        since = f", since {_moment(entry.promoted)} UTC, {entry.how}{why}"
        for row in _finished(rows):
            if row.run == entry.run:
                n = f"{number(len(row.features))} of {counted(row.candidates or 0, 'column')}"
                since += f". It keeps {n}: {shorten_list(row.features, _NAMED_IN_USE)}"
        yield paragraph("In use is the contract of ", Code(entry.run), f"{since}.")
    finished = _finished(rows)
    yield from _last_month(rows, finished, history.promotions.get(name, ()))
    # losses of another name or target are of another scale
    alike = [r for r in finished if (r.loss, r.target) == (finished[-1].loss, finished[-1].target)]
    if len(alike) > 1:
        loss = loss_in_words(alike[-1].loss or "")
        pairs = [(row.loss_selected or 0, row.loss_all_features or 0) for row in alike]
        losses = [*zip(*pairs, strict=True)]
        kept = [[len(row.features) for row in alike], [row.candidates or 0 for row in alike]]
        about = f"{loss[0].upper()}{loss[1:]} of {number(len(alike))} runs, each on its own rows: "
        about += "with the kept columns and, dashed, with all. Dots: runs that were put in use."
        of_losses = Figure(_chart(f"{name}, {loss}", alike, losses), about)
        of_columns = _chart(f"{name}, number of columns", alike, kept)
        yield Pair([of_losses, Figure(of_columns, "Columns kept and, dashed, all that took part.")])
    yield folded(_runs(rows))
    if (changing := _changing_columns(finished)).rows:
        yield folded(changing)
        yield note(
            f"Marks: the last {_LAST} finished runs, the newest last; filled where kept. A column "
            "that comes as another goes may be a near copy of it: ",
            Code("chaffinch why RUN COLUMN"),
            " says so.",
        )


def _last_month(
    rows: Sequence[HistoryRow], finished: Sequence[HistoryRow], promotions: Sequence[Promotion]
) -> Iterator[Block]:
    """Yield what changed in the month before the last finished run, or since the first one."""
    if len(finished) < 2:
        return
    last = finished[-1]
    before = [row for row in finished if _date(row) <= _date(last) - _MONTH]
    first = before[-1] if before else finished[0]
    came, went = _came_and_went(first, last)
    changes = [f"came: {shorten_list(came, _NAMED)}"] if came else []
    changes += [f"went: {shorten_list(went, _NAMED)}"] if went else []
    changes = changes or ["the kept columns are the same"]
    if (first.loss, first.target) == (last.loss, last.target):
        was, now = number(first.loss_selected), number(last.loss_selected)
        loss = f"the {loss_in_words(last.loss or '')} of the kept columns"
        changes.append(f"{loss} was {was} and is {now}, each on its own rows")
    if first.verdict != last.verdict:
        changes.append(f"the verdict was {first.verdict} and is {last.verdict}")
    if last.moved:
        moved = shorten_list(last.moved, _NAMED)
        changes.append(f"columns whose distribution moved since the promotion: {moved}")
    since = rows[list(rows).index(first) + bool(before) :]  # the first run of all counts itself
    changes.append(f"{counted(sum(bool(row.decision) for row in since), 'run')} needed a person")
    begin = since[0].created
    promoted = [
        (e.run, " (rollback)" * (e.how == "rollback")) for e in promotions if e.promoted > begin
    ]
    in_use = [*dict.fromkeys(map("".join, promoted))][-_NAMED:]
    changes += [f"put in use: {shorten_list(in_use, _NAMED)}"] if in_use else []
    yield paragraph(f"From {_day(first.created)} to {_day(last.created)}: {'; '.join(changes)}.")


def _came_and_went(before: HistoryRow | None, after: HistoryRow) -> tuple[list[str], list[str]]:
    """Return the columns that the later run alone keeps, and those that the earlier one does."""
    if before is None:
        return [], []
    came = [name for name in after.features if name not in before.features]
    return came, [name for name in before.features if name not in after.features]


def _runs(rows: Sequence[HistoryRow]) -> Table:
    """Return the runs of a data set, newest first, with what changed since the run before."""
    before = {after.run: first for first, after in pairwise(_finished(rows))}
    cells = []
    for row in reversed(rows):
        came, went = _came_and_went(before.get(row.run), row)
        needed = f"{row.decision}{' (open)' * row.is_open}" or (
            "cannot be read" * (row.state == "damaged")
        )
        result = [_moment(row.created), row.state, *[NOTHING] * 3]
        if row.state == "finished":
            result = _result(row)
        cells.append(
            (
                _name(row),
                *result,
                needed or NOTHING,
                _few(came),
                _few(went),
                NOTHING if row.moved is None else _few(row.moved),
                f"{_moment(row.promoted)}{', in use' * row.is_in_use}" if row.promoted else NOTHING,
            )
        )
    headings: dict[str, Kind] = {"Run": "name", "Began (UTC)": "number", **_RESULT}
    headings |= {"Decision needed": "why", "Came": "name", "Went": "name", "Moved": "name"}
    return _cut("Runs, newest first", {**headings, "Promoted (UTC)": "number"}, cells)


def _changing_columns(finished: Sequence[HistoryRow]) -> Table:
    """Return the columns that some runs keep and others do not, those that change most first."""
    kept = [set(row.features) for row in finished]
    held = {name: [name in of for of in kept] for name in sorted(set().union(*kept))}
    changes = {name: sum(a != b for a, b in pairwise(has)) for name, has in held.items()}
    rows = [
        (
            name,
            f"{number(sum(held[name]))} of {number(len(finished))}",
            number(changes[name]),
            "".join("\N{BLACK CIRCLE}" if is_kept else "\N{WHITE CIRCLE}" for is_kept in last),
        )
        for name in sorted(held, key=lambda name: -changes[name])
        if changes[name] and (last := held[name][-_LAST:])
    ]
    headings: dict[str, Kind] = {"Column": "name", **numbers("Kept in", "Changes")}
    return _cut("Columns that come and go", {**headings, "Last runs": "text"}, rows)


def _chart(label: str, rows: Sequence[HistoryRow], curves: Sequence[Sequence[float]]) -> Markup:
    """Draw two curves over runs, the second dashed, with dots where a run was put in use.

    By hand: matplotlib would take a tenth of a second for each data set.
    """
    low, high = (of(map(of, curves)) for of in (min, max))

    def place(run: int, value: float) -> tuple[str, str]:
        up = (value - low) / (high - low) if high > low else 0.5
        return f"{64 + 274 * run / (len(rows) - 1):.1f}", f"{140 - 118 * up:.1f}"

    points = [" ".join(",".join(place(i, y)) for i, y in enumerate(curve)) for curve in curves]
    dot = Markup('<circle cx="{}" cy="{}" r="3.5"/>')
    dots = [dot.format(*place(i, curves[0][i])) for i, row in enumerate(rows) if row.promoted]
    about = f"{label}, over {counted(len(rows), 'run')}, between {number(low)} and {number(high)}."
    return _SVG.format(
        *(about, *points, Markup("").join(dots), f"{high:.3g}", f"{low:.3g}"),
        *(_day(row.created) for row in (rows[0], rows[-1])),
    )


def _finished(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    return [row for row in rows if row.state == "finished"]


def _name(row: HistoryRow) -> str:
    return ReportOf(row.run) if row.state == "finished" else row.run or NOTHING


def _few(names: Sequence[str]) -> str:
    return shorten_list(names, _NAMED) if names else NOTHING


def _moment(time: str) -> str:
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M}" if time else NOTHING


def _date(row: HistoryRow) -> date:
    return datetime.fromisoformat(row.created).date()


def _day(time: str) -> str:
    return f"{datetime.fromisoformat(time):%-d %b %Y}"


def _cut(caption: str, headings: dict[str, Kind], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of the first rows; ``--json`` has all."""
    n, more = number(len(rows)), len(rows) > _MOST_ROWS
    shown = f" ({number(_MOST_ROWS)} of {n})" if more else f" ({n})"
    return Table(f"{caption}{shown}", headings, rows[:_MOST_ROWS], is_sortable=True)
