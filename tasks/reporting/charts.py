"""The report's charts: the elimination curve and the interval of the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.reporting.drawing import (
    ACCENT,
    INK,
    MUTED,
    PAPER,
    figure_of,
    markup,
    scale_sizes,
)
from chaffinch.tasks.reporting.wording import interval, number

if TYPE_CHECKING:
    from markupsafe import Markup

    from chaffinch.tasks.selection.vocabulary import Floats

_MOST_DOTS = 60
_MARGIN = 0.05  # of what is shown, below the lowest loss
_HEADROOM = 4.0  # times the span of the losses that matter


def elimination_chart(
    sizes: Sequence[int],
    losses: Sequence[float],
    *,
    candidates: Sequence[int],
    chosen: int,
    loss_name: str,
) -> Markup:
    """Draw the loss against the number of features left.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of features, from all of them down; the first is the unmasked model's.
    losses : sequence of float
        Loss at each size.
    candidates : sequence of int
        Sizes that stood for choice, each on the path.
    chosen : int
        The size that was chosen, on the path.
    loss_name : str
        Label of the loss axis.
    """
    x, y = np.array(sizes), np.array(losses, dtype=float)
    label = (
        f"Elimination curve: {loss_name} against the number of features left, from "
        f"{number(sizes[0])} features with a loss of {number(losses[0])} down to "
        f"{number(sizes[-1])} with {number(losses[-1])}; {number(chosen)} were chosen."
    )
    with figure_of("elimination", 9.0, 4.3) as figure:
        axes = figure.add_subplot()
        marker = "o" if len(x) <= _MOST_DOTS else ""
        axes.plot(x, y, color=ACCENT, marker=marker, markersize=3, label="loss on the way down")
        axes.axhline(
            losses[0],
            color=INK,
            linewidth=1,
            linestyle=(0, (4, 3)),
            label=f"all features: {number(losses[0])}",
        )
        at = dict(zip(sizes, losses, strict=True))
        others = [size for size in candidates if size != chosen]
        if others:
            axes.plot(
                others,
                [at[size] for size in others],
                "o",
                markersize=8,
                markerfacecolor=PAPER,
                markeredgecolor=ACCENT,
                markeredgewidth=1.6,
                label="candidate sizes",
            )
        axes.axvline(chosen, color=ACCENT, linewidth=1, alpha=0.5)
        axes.plot(
            [chosen],
            [at[chosen]],
            "o",
            markersize=9,
            markerfacecolor=ACCENT,
            markeredgecolor=PAPER,
            label=f"chosen: {number(chosen)}",
        )
        scale_sizes(axes, x, "features left")
        top = highest_shown(y, [at[size] for size in (sizes[0], chosen, *candidates)])
        if top is not None:
            lowest = float(np.nanmin(y))
            axes.set_ylim(lowest - _MARGIN * (top - lowest), top)
            axes.annotate(
                f"\N{UPWARDS ARROW} up to {number(float(np.nanmax(y)))}",
                (float(x[np.argmax(y > top)]), top),
                xytext=(9, -2),
                textcoords="offset points",
                va="top",
                color=MUTED,
            )
        axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        axes.set_ylabel(loss_name, parse_math=False)
        axes.grid(axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, handlelength=1.8)
        return markup(figure, label)


def highest_shown(losses: Floats, that_matter: Sequence[float]) -> float | None:
    """Return where the loss axis ends, or None for all of it.

    With few features left the loss can be many times what it is elsewhere, and would press the
    part where the choice is made into a flat line.

    Parameters
    ----------
    losses : ndarray, shape (n,)
        The curve.
    that_matter : sequence of float
        Losses that must be told apart.
    """
    finite = losses[np.isfinite(losses)]
    shown = [loss for loss in that_matter if np.isfinite(loss)]
    if not len(finite) or not shown:
        return None
    lowest = float(finite.min())
    span = max(shown) - lowest
    top = lowest + _HEADROOM * span
    return top if span > 0 and finite.max() > top else None


def interval_chart(difference: float, ends: Sequence[float], confidence: float) -> Markup:
    """Draw the difference of the test losses with its interval, about a line at zero.

    Parameters
    ----------
    difference : float
        Loss with the selected features less loss with all.
    ends : (float, float)
        Of the interval.
    confidence : float in 0..1
        Of the interval.
    """
    label = (
        f"Difference of the test losses: {number(difference, '+')}, "
        f"{confidence:.0%} interval {interval(ends)}; below zero the selected features do better."
    )
    reach = 1.15 * max(abs(value) for value in (difference, *ends)) or 1.0
    with figure_of("interval", 9.0, 1.15) as figure:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1)
        axes.plot(ends, [0, 0], color=ACCENT, linewidth=5, solid_capstyle="butt")
        axes.plot([difference], [0], "o", markersize=10, color=ACCENT, markeredgecolor=PAPER)
        axes.set_xlim(-reach, reach)
        axes.set_ylim(-1, 1.6)
        axes.text(-reach, 1.1, "\N{LEFTWARDS ARROW} selected features do better", color=MUTED)
        axes.text(
            reach, 1.1, "all features do better \N{RIGHTWARDS ARROW}", color=MUTED, ha="right"
        )
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12), "+"))
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        return markup(figure, label)
