"""What reports are made of: sections of paragraphs, figures, tables and definitions.

Sections are plain data. The pages set them as HTML, by templates/macros.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_ROWS = 200  # of a table whose other rows are in a file
_LONG = 60

Kind = Literal["name", "text", "why", "group", "number", "mark"]


class Code(str):
    """Text that is set as code."""


class Bars(str):
    """Text of a cell below small bars, whose heights are `counts`; `label` says what they show."""

    counts: Sequence[int]
    label: str

    def __new__(cls, text: str, counts: Sequence[int], label: str) -> Bars:
        made = super().__new__(cls, text)
        made.counts, made.label = counts, label
        return made


class BarsBeside(str):
    """Text of a cell below two bars, one above the other, of these shares of the longest."""

    then: float
    now: float

    def __new__(cls, text: str, then: float, now: float) -> BarsBeside:
        made = super().__new__(cls, text)
        made.then, made.now = then, now
        return made


class ReportOf(str):
    """The name of a run, in a table of a page in its store: it leads to the report."""


@dataclass(frozen=True)
class Link:
    """Text that leads to a section."""

    text: str
    heading: str


@dataclass(frozen=True)
class Paragraph:
    """Text, code and links that follow each other."""

    parts: tuple[str | Link, ...]
    is_note: bool = False
    kind: ClassVar = "paragraph"


def paragraph(*parts: str | Link) -> Paragraph:
    return Paragraph(parts)


def note(*parts: str | Link) -> Paragraph:
    """Return a paragraph in small type."""
    return Paragraph(parts, is_note=True)


def text_of(parts: Sequence[str | Link]) -> str:
    """Return the parts of a paragraph as plain text."""
    return "".join(part.text if isinstance(part, Link) else part for part in parts)


@dataclass(frozen=True)
class Command:
    """A command to copy."""

    text: str
    kind: ClassVar = "command"


@dataclass(frozen=True)
class Figure:
    """A chart as SVG, and what it shows."""

    chart: Markup
    caption: str
    kind: ClassVar = "figure"


@dataclass(frozen=True)
class Pair:
    """Figures beside each other."""

    figures: Sequence[Figure]
    kind: ClassVar = "pair"


@dataclass(frozen=True)
class Table:
    """A table of text."""

    caption: str
    columns: Mapping[str, Kind]  # by heading; the first names the row, a "name" breaks anywhere
    rows: Sequence[Sequence[str]]
    marked: int | None = None  # position of the row that stands out
    file: str | None = None  # has all rows, so that a long table is cut
    is_sortable: bool = False  # also filtered, on a page
    kind: ClassVar = "table"

    @property
    def n_shown(self) -> int:
        return len(self.rows) if self.file is None else min(len(self.rows), MOST_ROWS)


def numbers(*headings: str) -> dict[str, Kind]:
    return dict.fromkeys(headings, "number")


@dataclass(frozen=True)
class Folded:
    """A table that is opened on demand."""

    table: Table
    is_open: bool
    kind: ClassVar = "folded"


def folded(table: Table, *, is_open: bool | None = None) -> Folded:
    """Return a table to open on demand; by default it is open unless it is long."""
    return Folded(table, len(table.rows) <= _LONG if is_open is None else is_open)


@dataclass(frozen=True)
class Definitions:
    """Terms and what they mean; the definition continues a sentence that the term begins."""

    terms: Mapping[str, str]
    caption: str = ""  # if given, they are opened on demand
    kind: ClassVar = "definitions"


@dataclass(frozen=True)
class Bullets:
    """A list of warnings, or of other sentences."""

    style: Literal["warnings", "sentences"]
    texts: Iterable[str]
    kind: ClassVar = "bullets"


@dataclass(frozen=True)
class Subheading:
    """A heading inside of a section: a name, and what follows it."""

    name: str
    more: str = ""
    kind: ClassVar = "subheading"


Block = Paragraph | Command | Figure | Pair | Table | Folded | Definitions | Bullets | Subheading


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    heading: str
    blocks: tuple[Block, ...]

    @property
    def id(self) -> str:
        return anchor_of(self.heading)


def anchor_of(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def section(heading: str, blocks: Iterable[Block]) -> Section:
    return Section(heading, tuple(blocks))
