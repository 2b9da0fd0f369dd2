"""What a notebook shows of a comparison: HTML, a table of the summary, and its differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaffinch.errors import InputError
from chaffinch.tasks.comparing.summary import Summary, TableSummary
from chaffinch.tasks.comparing.text import heading_of, notes_of, sections_of, short_name_of
from chaffinch.tasks.results.notebook import as_html
from chaffinch.tasks.selection.losses import loss_in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_LONGEST_NAME = 30


def html_of(summary: Summary) -> str:
    """Return the tables and sentences of the terminal as HTML, then the warnings."""
    import pandas as pd

    parts = []
    for section in sections_of(summary):
        columns, *rows = section.rows
        table = pd.DataFrame(rows, columns=columns)
        parts.append(as_html(section.heading, section.sentences, table, most_rows=None))
    notes, warnings = notes_of(summary), [*summary.remarks, *summary.warnings]
    if notes or warnings:
        parts.append(as_html("Notes", notes, warnings=warnings))
    return "\n".join(parts)


def frame_of(summary: Summary) -> pd.DataFrame:
    """Return a row for each contender; see `ComparisonResult.to_frame`."""
    import pandas as pd

    rows = []
    for table in summary.tables:
        for outcome in table.outcomes:
            difference, stability = outcome.difference, outcome.stability
            low, high = (difference and difference.interval) or (None, None)
            rows.append(
                {
                    "table": table.table,
                    "model": table.model,
                    "method": outcome.contender.method,
                    "size": outcome.contender.size,
                    "n_features": outcome.n_features,
                    "loss": outcome.mean_loss,
                    "deviation": outcome.deviation,
                    "difference": difference and difference.mean,
                    "low": low,
                    "high": high,
                    "corrected_p": outcome.corrected_p,
                    "verdict": outcome.verdict,
                    "stability": stability and stability.value,
                    "selection_seconds": outcome.selection_seconds,
                    "training_seconds": outcome.training_seconds,
                    "n_cells": outcome.n_scored,
                }
            )
    frame = pd.DataFrame(rows)
    texts = ["table", "model", "method", "verdict"]
    return frame.astype(dict.fromkeys(frame.columns.difference([*texts, "n_cells"]), float))


def draw_differences(table: TableSummary, ax: Axes | None) -> Axes:
    """Draw the difference of each contender to all features; return the axes."""
    import matplotlib.pyplot as plt

    drawn = [(o.contender, o.difference) for o in table.rivals if o.difference]
    if not drawn:
        raise InputError(
            f"{heading_of(table)} has no difference to draw; compare a method that has losses in "
            "the same cells as all features"
        )
    if ax is None:
        size = (7, 1.5 + 0.3 * len(drawn))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.axvline(0, color="0.5", linestyle="--")
    for place, (_, difference) in enumerate(drawn):
        if difference.interval:
            ax.plot(difference.interval, [place, place], color="C0", linewidth=3, alpha=0.5)
        ax.plot(difference.mean, place, "o", color="C0")
    names = [short_name_of(contender, table.contenders, _LONGEST_NAME) for contender, _ in drawn]
    ax.set_yticks(range(len(drawn)), names, parse_math=False)
    ax.set_ylim(len(drawn) - 0.5, -0.5)  # the first on top
    ax.set_title(heading_of(table), parse_math=False)
    ax.set_xlabel(f"{loss_in_words(table.loss_name)} less that with all features (95 % interval)")
    return ax
