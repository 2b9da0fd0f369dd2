"""The name of a data set: the rule for promotions, announcements and deployments."""

from __future__ import annotations

import re

from chaffinch.errors import InputError
from chaffinch.storage.files import LONGEST_STEM, check_name
from chaffinch.storage.sources.formats.file_name import without_endings
from chaffinch.storage.sources.source import Source

# names of sources in memory, and of the files that such a table is written to
_IN_MEMORY = re.compile(r"(DataFrame|Table)(-[0-9a-f]{16}\.arrow)?")


def name_of_written(source: Source, digest: str) -> str:
    """Return the name of the file of a table in memory, whose bytes have that SHA-256."""
    return f"{source.name}-{digest[:16]}.arrow"


def name_of_data_set(source: Source, name: str | None, remedy: str) -> str:
    """Return the name of the data set that a source belongs to."""
    if name is not None:
        return check_name(name, LONGEST_STEM)
    return name_of_table(source.name, remedy)


def name_of_table(label: str, remedy: str) -> str:
    """Return the name of a data set from `label`, the name of a source.

    Endings of formats are removed: ``orders.v2.csv.gz`` becomes ``orders.v2``. Characters except
    ASCII letters, digits, dots and dashes become underscores, none of them at either end, and the
    name is cut at 115. InputError, with `remedy`, for a table in memory, or its file in a store, or
    if nothing of its name is left.
    """
    name = as_name(without_endings(label))[:LONGEST_STEM]
    if _IN_MEMORY.fullmatch(label) or not name:
        raise InputError(
            f"the table, {label}, has no name that a data set could have; give one, as in {remedy}"
        )
    return name


def as_name(text: str) -> str:
    """Return the text with invalid characters replaced; may be empty."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("._-")


def other_name(name: str, what: str) -> str:
    """Return a name with a suffix for the difference, such as ``orders-churned``."""
    different = as_name(what)[:40] or "other"
    return f"{name[: LONGEST_STEM - 1 - len(different)]}-{different}"
