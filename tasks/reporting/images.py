"""Charts of a finished run as images that stand alone, for whoever shows them outside a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from chaffinch.storage.runs import Run
from chaffinch.tasks.reporting.drawing import standing_alone
from chaffinch.tasks.reporting.overlap_chart import overlap_chart
from chaffinch.tasks.reporting.render import elimination_chart_of
from chaffinch.tasks.reporting.writing import content_of

if TYPE_CHECKING:
    from markupsafe import Markup


def elimination_image(run: Run) -> bytes | None:
    """Return the report's elimination curve as SVG; None where the method measures none.

    Parameters
    ----------
    run : Run
        A finished one.

    Raises
    ------
    StorageError
        If the run is damaged.
    """
    drawn: Markup | None = elimination_chart_of(content_of(run.name, run.records()))
    return None if drawn is None else standing_alone(drawn)


def overlap_image(sets: Mapping[str, Collection[str]]) -> bytes | None:
    """Return which features sets have in common as SVG; None where there is one set at most.

    Parameters
    ----------
    sets : mapping of str to collection of str
        The features of each set by its name.
    """
    return standing_alone(overlap_chart(sets)) if len(sets) > 1 and any(sets.values()) else None
