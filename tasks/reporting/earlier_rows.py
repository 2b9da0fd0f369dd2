"""What a run made of earlier rows, and what it scaled, in words for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaffinch.tasks.history import made_names
from chaffinch.tasks.history_settings import HistorySettings
from chaffinch.tasks.reporting.wording import listed


def as_used(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings with the columns that history was made of, where none were named.

    Parameters
    ----------
    settings : mapping
        Of a selection, as in ``selection.json``.
    """
    history = settings.get("history")
    if history is None or history["columns"]:
        return settings
    return {**settings, "history": {**history, "columns": [settings["target"]]}}


def made_of_earlier_rows(settings: Mapping[str, Any]) -> str | None:
    """Return which features the run itself made; None where it made none."""
    history = as_used(settings).get("history")
    if history is None:
        return None
    asked = HistorySettings(**history)
    names = [name for column in asked.columns for name in made_names(column, asked)]
    return f"Made of earlier rows of {listed(asked.columns)}: {listed(names)}."


def on_scales(settings: Mapping[str, Any]) -> str | None:
    """Return what is on the scale of its series, the losses too; None where nothing is."""
    history = as_used(settings).get("history")
    if history is None or history.get("scale", "none") == "none":
        return None
    target = settings["target"]
    others = [name for name in history["columns"] if name != target]
    scaled = f"{target} and {listed(others)} are" if others else f"{target} is"
    return (
        f"The target {scaled} on each series' own scale, and so are the losses and "
        "predictions: less the mean that the series has in the training part, and divided by how "
        "far it reaches from that there."
    )
