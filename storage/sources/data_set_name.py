"""What a data set is called: in promotions, when newer rows are announced, and in what is served.

One rule for all of them, so that what is announced as `orders` is what was promoted as `orders`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from chaffinch.storage.errors import InputError
from chaffinch.storage.files import LONGEST_STEM, check_name
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.csv import TEXT_ENDINGS
from chaffinch.storage.sources.parquet import PARQUET_ENDINGS

_ENDINGS = (*TEXT_ENDINGS, ".gz", *PARQUET_ENDINGS)
_IN_MEMORY = ("DataFrame", "Table")  # names of sources in memory


def name_of_data_set(data: Any, name: str | None, remedy: str) -> str:
    """Return what the data set is called that a source belongs to."""
    if name is not None:
        return check_name(name, LONGEST_STEM)
    return name_of_table(source_of(data).name, remedy)


def name_of_table(label: str, remedy: str) -> str:
    """Return the name of a data set from that of a table.

    It is the last level of the path or key, or the table in the database, without the endings that
    say how it is read: ``orders.v2.csv.gz`` is ``orders.v2``, and the folder ``orders.parquet`` is
    ``orders``. Whatever is no letter or digit of ASCII, dot or dash becomes an underscore, none of
    these stands at an end, and what is over 115 is cut off.

    Parameters
    ----------
    label : str
        Name of a source.
    remedy : str
        How to give a name instead.

    Raises
    ------
    InputError
        If it is a table in memory, or nothing of its name is left.
    """
    name = label
    while Path(name).suffix.lower() in _ENDINGS:
        name = Path(name).stem
    name = as_name(name)[:LONGEST_STEM]
    if label in _IN_MEMORY or not name:
        raise InputError(
            f"the table, {label}, has no name that a data set could have; give one, as in {remedy}"
        )
    return name


def as_name(text: str) -> str:
    """Return the nearest to a text that can be a name; empty where nothing of it can."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("._-")


def other_name(name: str, what: str) -> str:
    """Return a name like another that tells what is different, such as ``orders-churned``."""
    different = as_name(what)[:40] or "other"
    return f"{name[: LONGEST_STEM - 1 - len(different)]}-{different}"
