"""HTML of results for notebooks: a heading, sentences, and tables by pandas."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from chaffinch.tasks.reporting.text import NOTHING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_ROWS = 20


def as_html(
    title: str,
    sentences: Sequence[str],
    *tables: pd.DataFrame,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    most_rows: int | None = _MOST_ROWS,
) -> str:
    """Return a result as HTML; tables of more than `most_rows` have their first and last rows."""
    shown = [
        table.to_html(index=False, max_rows=most_rows, border=0, na_rep=NOTHING) for table in tables
    ]
    words = [f"<p>{escape(sentence)}</p>" for sentence in sentences]
    for kind, texts in (("Warning", warnings), ("Note", notes)):
        words += [f"<p><strong>{kind}:</strong> {escape(text)}</p>" for text in texts]
    return "\n".join([f"<h4>{escape(title)}</h4>", *words, *shown])


def draw_curve(curve: pd.DataFrame, n_kept: int, loss_name: str, ax: Axes | None) -> Axes:
    """Draw the loss against the number of features; return the axes."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    if ax is None:
        _, ax = plt.subplots()
    sizes, losses = curve["n_features"], curve["loss"]
    ax.plot(sizes, losses, marker="o", markersize=3)
    if "standard_error" in curve:
        error = curve["standard_error"]
        ax.fill_between(sizes, losses - error, losses + error, alpha=0.2)
    ax.axvline(n_kept, linestyle="--", color="0.5", label=f"{n_kept} kept")
    ax.set_xlabel("Number of features")
    ax.set_ylabel(loss_name)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return ax
