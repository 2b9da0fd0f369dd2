"""What the tables of a comparison, and the comparison itself, are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from chaffinch.storage.addresses import place_of
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import source_name
from chaffinch.tasks.comparing.plan import Plan, Source
from chaffinch.tasks.stage import digest, versions


def refuse_copies(read: Sequence[Source]) -> None:
    """Refuse tables of the same content: they are no independent evidence.

    Raises
    ------
    InputError
        Naming two that hold the same rows.
    """
    label_of: dict[str, str] = {}
    for source in read:
        other = label_of.setdefault(source.dataset.hash, source.label)
        if other != source.label:
            raise InputError(
                f"tables {other!r} and {source.label!r} hold the same rows; give one of them"
            )


def labels_of(sources: Sequence[Any]) -> list[str]:
    """Return what each table is called, by its file or its number.

    Raises
    ------
    InputError
        If there is no table, or two are called the same.
    """
    if not sources:
        raise InputError("there is no table to compare on; name one")
    labels = [_label(source_name(source)) for source in sources]
    in_memory = [i for i, source in enumerate(sources) if place_of(source) is None]
    if len(in_memory) > 1:  # these have no names
        for n, i in enumerate(in_memory, start=1):
            labels[i] = f"{labels[i]} {n}"
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"{labels.count(label)} tables are called {label!r}; rename them, since a report "
                "tells tables apart by their names"
            )
    return labels


def _label(name: str) -> str:
    """Return a file's name without the endings that say how it is written."""
    bare = re.sub(r"(\.(csv|tsv|txt|parquet|pq|gz))+$", "", name, flags=re.IGNORECASE)
    return bare.strip(".") or name


def name_of(plan: Plan) -> str:
    """Return the name of a comparison: what a person recognises, then what makes it this one."""
    sources = plan.sources
    words = [source.label for source in sources[:3]] + ["and_more"] * (len(sources) > 3)
    clean = (re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")[:30] for word in words)
    readable = "-".join(word or "table" for word in clean)
    same = {
        "tables": [(source.label, source.dataset.hash) for source in sources],
        "settings": plan.settings.model_dump(mode="json"),
        "versions": versions(),
    }
    return f"{readable}-{digest(same)[:10]}"
