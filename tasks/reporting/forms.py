"""The forms of a report: an HTML page, Markdown for tickets, JSON for programs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.page import SHARED, Report, report_of, template
from chaffinch.tasks.reporting.section import (
    Block,
    Bullets,
    Code,
    Command,
    Definitions,
    Figure,
    Folded,
    Link,
    Pair,
    Paragraph,
    Subheading,
    Table,
    text_of,
)
from chaffinch.tasks.reporting.text import cut, number, visible

_TEMPLATE = SHARED / "report.html"
_MOST_BYTES = 200_000  # of a download inside of the page
_MOST_ROWS, _LONGEST_CELL = 20, 160  # of a table in Markdown: forges refuse texts over 64 kB
_JSON_VERSION = 2  # of report.json; the first had null for what is not known of a column
_BEGIN, _END = "<!-- decision -->", "<!-- /decision -->"  # text of a report has no such signs


def render_report(content: ReportContent) -> bytes:
    """Return the report as an HTML file; equal content, equal bytes."""
    return as_html(report_of(content))


def as_html(report: Report) -> bytes:
    """Return a report as an HTML file in UTF-8 that loads nothing."""
    downloads = {
        label: (name, f"data:{kind};base64,{base64.b64encode(data).decode()}")
        for label, (name, kind, data) in report.files.items()
        if len(data) <= _MOST_BYTES
    }
    contents = [(section.id, section.heading) for section in report.sections]
    page = template(_TEMPLATE).render(**vars(report), downloads=downloads, contents=contents)
    return page.encode()


def as_json(report: Report) -> bytes:
    """Return a report as JSON; its tables have the rows that the page shows.

    The format is in storage/README.md.
    """
    summary = [(text_of(label), text_of(text)) for label, text in report.summary]
    return _in_lines(
        {
            "format_version": _JSON_VERSION,
            "format": "chaffinch report",
            **{name: getattr(report, name) for name in ("run", "title", "made_from", "verdict")},
            "needs_decision": None,
            "sentences": list(report.sentences),
            "figures": [
                {"name": name, "selected": kept, "all_features": of_all}
                for name, kept, of_all in report.tiles
            ],
            "summary": [{"label": label, "text": text} for label, text in summary],
            "change": None if report.change is None else text_of(report.change),
            "columns": [column.known() for column in report.columns],
            "sections": [
                {
                    "heading": section.heading,
                    "blocks": [made for block in section.blocks for made in _as_json(block)],
                }
                for section in report.sections
            ],
        }
    )


def _in_lines(fields: Mapping[str, Any]) -> bytes:
    """Return JSON without spaces: a line for each field, and for each object in a list of them."""
    write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

    def written(value: Any) -> str:
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            return write(value)
        return "[\n{}\n]".format(",\n".join(map(write, value)))

    lines = ",\n".join(f"{write(name)}:{written(value)}" for name, value in fields.items())
    return f"{{\n{lines}\n}}\n".encode()


def _as_json(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Pair(figures):
            for figure in figures:
                yield from _as_json(figure)
        case Folded(table):
            yield from _as_json(table)
        case Table(caption, columns, rows):
            yield {
                "kind": block.kind,
                "caption": caption,
                "columns": list(columns),
                "rows": [list(row) for row in rows[: block.n_shown]],
                "n_rows": len(rows),
            }
        case Paragraph(parts, is_note):
            yield {"kind": "note" if is_note else block.kind, "text": text_of(parts)}
        case Figure(_, caption):
            yield {"kind": block.kind, "caption": caption}
        case Definitions(terms):
            yield {"kind": block.kind, "terms": dict(terms)}
        case Bullets(_, texts):
            yield {"kind": block.kind, "texts": list(texts)}
        case Subheading(name, more):
            yield {"kind": block.kind, "text": f"{name}{more}"}
        case Command(text):
            yield {"kind": block.kind, "text": text}


def as_markdown(report: Report) -> bytes:
    """Return a report as Markdown, without charts, and with the first rows of its tables."""
    figures = [(name, kept, of_all) for name, kept, of_all in report.tiles]
    lines = [
        f"# {literal(report.title)}",
        f"{literal(report.made_from)}. Run `{report.run}`.",
        f"**Verdict: {report.verdict}.**",
        f"{_BEGIN}{_END}",
        *map(literal, report.sentences),
        *_in_markdown(
            Table("", {"Figure": "text", "Kept features": "number", "": "text"}, figures)
        ),
        _inline(report.about_the_figures),
        *(f"**{_inline(label)}.** {_inline(text)}" for label, text in report.summary),
        *([] if report.change is None else [_inline(report.change)]),
    ]
    for section in report.sections:
        lines += [f"## {section.heading}"]
        lines += [text for block in section.blocks for text in _in_markdown(block)]
    return ("\n\n".join(filter(None, lines)) + "\n").encode()


def _in_markdown(block: Block) -> Iterator[str]:
    match block:
        case Pair(figures):
            for figure in figures:
                yield from _in_markdown(figure)
        case Folded(table):
            yield f"<details><summary>{escape(visible(table.caption))}</summary>"
            yield from _in_markdown(table)
            yield "</details>"
        case Table(_, columns, rows):
            shown = [
                [literal(cut(cell, _LONGEST_CELL)) for cell in row]
                for row in [list(columns), *rows[:_MOST_ROWS]]
            ]
            shown.insert(1, ["---:" if kind == "number" else "---" for kind in columns.values()])
            yield "\n".join(f"| {' | '.join(cells)} |" for cells in shown)
            if len(rows) > _MOST_ROWS:
                yield f"and {number(len(rows) - _MOST_ROWS)} more"
        case Paragraph(parts):
            yield _inline(parts)
        case Figure(_, caption):
            yield f"Chart, in `report.html`: {literal(caption)}" if caption else ""
        case Definitions(terms):
            yield "\n".join(f"- **{literal(term)}** {literal(terms[term])}" for term in terms)
        case Bullets(_, texts):
            yield "\n".join(f"- {literal(text)}" for text in texts)
        case Subheading(name, more):
            yield f"### {literal(f'{name}{more}')}"
        case Command(text):
            yield f"    {visible(text)}"


def with_decision(name: str, form: bytes, run: str, reason: str) -> bytes:
    """Return a form of a report, by its file's name, that says why its run needed a decision.

    It says nothing of that if the reason is empty.
    """
    if name.endswith(".json"):
        return _in_lines({**json.loads(form), "needs_decision": reason or None})
    first = "A person has to decide."
    second = f" When it ended, this run needed a decision: {reason}. "
    command, third = f"chaffinch show {run}", " says whether it still does."
    sentence = f"**{first}**{literal(second)}`{command}`{third}"
    if name.endswith(".html"):
        sentence = (
            f"<p><strong>{first}</strong>{escape(visible(second))}<code>{escape(command)}</code>"
            f"{third}</p>"
        )
    before, is_there, rest = form.decode().partition(_BEGIN)
    if not is_there:  # of an earlier writer
        return form
    return f"{before}{_BEGIN}{sentence if reason else ''}{_END}{rest.partition(_END)[2]}".encode()


def literal(text: str) -> str:
    """Escape text for Markdown, on one line: column names may contain anything."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", visible(text))


def _inline(parts: Sequence[str | Link]) -> str:
    return "".join(
        f"`{part}`" if isinstance(part, Code) and "`" not in part else literal(text_of([part]))
        for part in parts
    )
