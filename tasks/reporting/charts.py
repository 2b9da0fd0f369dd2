"""The report's charts, as SVG that takes its colours and its type from the page.

Matplotlib draws them in placeholder colours, which become CSS variables, so that one drawing
serves light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.reporting.wording import interval, number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from chaffinch.tasks.selection.vocabulary import Floats

_INK, _MUTED, _RULE, _ACCENT, _PAPER = "#000001", "#000002", "#000003", "#000004", "#000005"
_VARIABLES = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _RULE: "var(--rule)",
    _ACCENT: "var(--accent)",
    _PAPER: "var(--paper)",
}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": _RULE,
    "xtick.labelcolor": _MUTED,
    "ytick.color": _RULE,
    "ytick.labelcolor": _MUTED,
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}
_MOST_ON_A_LINEAR_AXIS = 100
_MOST_DOTS = 60
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
    with _figure("elimination", 9.0, 4.3) as figure:
        axes = figure.add_subplot()
        marker = "o" if len(x) <= _MOST_DOTS else ""
        axes.plot(x, y, color=_ACCENT, marker=marker, markersize=3, label="loss on the way down")
        axes.axhline(
            losses[0],
            color=_INK,
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
                markerfacecolor=_PAPER,
                markeredgecolor=_ACCENT,
                markeredgewidth=1.6,
                label="candidate sizes",
            )
        axes.axvline(chosen, color=_ACCENT, linewidth=1, alpha=0.5)
        axes.plot(
            [chosen],
            [at[chosen]],
            "o",
            markersize=9,
            markerfacecolor=_ACCENT,
            markeredgecolor=_PAPER,
            label=f"chosen: {number(chosen)}",
        )
        _scale_sizes(axes, x)
        top = highest_shown(y, [at[size] for size in (sizes[0], chosen, *candidates)])
        if top is not None:
            axes.set_ylim(top=top)
            axes.annotate(
                f"\N{UPWARDS ARROW} up to {number(float(np.nanmax(y)))}",
                (float(x[np.argmax(y > top)]), top),
                xytext=(9, -2),
                textcoords="offset points",
                va="top",
                color=_MUTED,
            )
        axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        axes.set_ylabel(loss_name, parse_math=False)
        axes.grid(axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, handlelength=1.8)
        return _markup(figure, label)


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
    with _figure("interval", 9.0, 1.15) as figure:
        axes = figure.add_subplot()
        axes.axvline(0, color=_INK, linewidth=1)
        axes.plot(ends, [0, 0], color=_ACCENT, linewidth=5, solid_capstyle="butt")
        axes.plot([difference], [0], "o", markersize=10, color=_ACCENT, markeredgecolor=_PAPER)
        axes.set_xlim(-reach, reach)
        axes.set_ylim(-1, 1.6)
        axes.text(-reach, 1.1, "\N{LEFTWARDS ARROW} selected features do better", color=_MUTED)
        axes.text(
            reach, 1.1, "all features do better \N{RIGHTWARDS ARROW}", color=_MUTED, ha="right"
        )
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12), "+"))
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        return _markup(figure, label)


def _scale_sizes(axes: Axes, sizes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    most, fewest = int(sizes.max()), int(sizes.min())
    if most > _MOST_ON_A_LINEAR_AXIS:
        axes.set_xscale("log")
        axes.set_xlabel("features left (logarithmic)")
        axes.set_xlim(fewest / 1.1, most * 1.1)
        ticks = [n * 10**e for e in range(7) for n in (1, 2, 5)]
        axes.set_xticks([n for n in ticks if fewest <= n <= most])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlabel("features left")
        axes.set_xlim(fewest - 0.75, most + 0.75)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))


@contextmanager
def _figure(name: str, width: float, height: float) -> Iterator[Figure]:
    """Give a figure in inches, in our style whatever the user's matplotlibrc says."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # the salt makes identifiers reproducible, and differ between the charts of one page
    with style.context(["default", _STYLE, {"svg.hashsalt": name}]):
        yield Figure(figsize=(width, height), layout="constrained")


def _markup(figure: Figure, label: str) -> Markup:
    from markupsafe import Markup, escape

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    drawing = file.getvalue()
    _, _, body = drawing[drawing.index("<svg") :].partition(">")
    # groups carry names such as "axes_1", which two charts would share and nothing refers to
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    for placeholder, variable in _VARIABLES.items():
        body = body.replace(placeholder, variable)
    view_box = re.search(r'viewBox="[^"]*"', drawing)
    if view_box is None:
        raise RuntimeError("matplotlib wrote an SVG without a viewBox")
    head = f'<svg {view_box[0]} role="img" aria-label="{escape(label)}">'
    # S704: all text in the drawing was escaped by matplotlib, the label just now
    return Markup(head + body)  # noqa: S704
