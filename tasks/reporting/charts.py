"""The report's charts, as SVG that takes its colours and its type from the page around it."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.errors import printable
from chaffinch.tasks.reporting.section import Bars, BarsBeside
from chaffinch.tasks.reporting.text import cut, interval, number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from chaffinch.tasks.selection.core import Floats

# Matplotlib draws in placeholder colours, which become CSS variables, so that one drawing serves
# light and dark.

INK, MUTED, RULE, ACCENT, PAPER = "#000001", "#000002", "#000003", "#000004", "#000005"
CURVES = tuple(f"#00001{place}" for place in range(1, 7))  # of a chart, with their markers
MARKERS = "osD^vP"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    ACCENT: "var(--accent)",
    PAPER: "var(--paper)",
    **{color: f"var(--curve{place})" for place, color in enumerate(CURVES, 1)},
}
_TEXT = 10  # size of all text in a chart, in units of its viewBox
_LEAST_TEXT = 12.5  # pixels on a screen
DASHED: Any = (0, (4, 3))
REFERENCE: Any = {"color": INK, "linewidth": 1, "linestyle": DASHED}
HOLLOW: Any = {"markerfacecolor": PAPER, "markeredgecolor": ACCENT}
FILLED: Any = {"markerfacecolor": ACCENT, "markeredgecolor": PAPER}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": _TEXT,
    "axes.titlesize": _TEXT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}
_STYLE_SHEET = Path(__file__).parent / "templates" / "style.html"
_TAG, _PLACEHOLDER = re.compile(r"<[^>]*>"), re.compile("|".join(_VARIABLES))
_COLOUR = re.compile(r"--(\w+): (#\w+);")
_DIGITS = re.compile(r"(\d\.\d\d)\d+")
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_MOST_ON_A_LINEAR_AXIS = 100
_NARROW = 5  # times the fewest; a narrower range has hardly a round number to tick by logarithm


@contextmanager
def figure_of(name: str, width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure in our style, without the user's matplotlibrc."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # the salt makes identifiers reproducible, and differ between the charts of a page
    with style.context(["default", _STYLE, {"svg.hashsalt": name}]):
        yield Figure(figsize=(width, height))


def drawing_of(figure: Figure) -> str:
    """Return a figure as a file of SVG, in placeholder colours."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    file = io.StringIO()
    FigureCanvasSVG(figure)
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # the browser has letters that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        # a figure with an engine of its own is drawn once more, for nothing, before it is saved
        ConstrainedLayoutEngine().execute(figure)
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return file.getvalue()


def markup(figure: Figure, label: str) -> Markup:
    """Return a figure as an SVG element in the page's own colours; the label describes it."""
    from markupsafe import Markup, escape

    drawing = drawing_of(figure)
    _, _, body = drawing[drawing.index("<svg") :].partition(">")
    # two digits behind the point are finer than any screen, and half of the bytes
    body = _TAG.sub(lambda tag: _DIGITS.sub(r"\1", tag[0]), body)
    # groups carry names such as "axes_1", which two charts would share and nothing refers to
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    # inside of tags alone: a text may hold what looks like a colour
    body = _TAG.sub(lambda tag: _PLACEHOLDER.sub(lambda match: _VARIABLES[match[0]], tag[0]), body)
    view_box = re.search(r'viewBox="[^"]*"', drawing)
    if view_box is None:
        raise RuntimeError("matplotlib wrote an SVG without a viewBox")
    # a narrow screen scrolls a chart sideways rather than shrink its text
    width = round(_LEAST_TEXT / _TEXT * float(view_box[0].split()[2]))
    style = f'style="min-width: {width}px"'
    head = f'<svg {view_box[0]} {style} role="img" aria-label="{escape(label)}">'
    # S704: all text in the drawing was escaped by matplotlib, the label just now
    return Markup(head + body)  # noqa: S704


def standing_alone(drawing: Markup) -> bytes:
    """Return the element from `markup` as a file, on paper and in the report's light colours."""
    light = _STYLE_SHEET.read_text().partition("@media")[0]
    colours = dict(_COLOUR.findall(light))
    body = re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], drawing)
    head, _, rest = body.partition(">")
    head = re.sub(r' style="[^"]*"', "", head)  # its width is the viewer's to choose
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    box = _VIEW_BOX.search(head)
    if box is None:
        raise ValueError("a drawing must be an SVG element with a viewBox but is none")
    size = f'width="{box[1]}" height="{box[2]}"'
    paper = f'<rect width="100%" height="100%" fill="{colours["paper"]}"/>'
    return f"{head} {spaces} {size}>{paper}{rest}".encode()


def plain_ticks(axis: Axis, sign: str = "") -> None:
    """Write the numbers of an axis as everywhere in a report."""
    axis.set_major_formatter(lambda value, _: number(round(value, 12), sign))


def legend_above(axes: Axes, n_columns: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=n_columns, handlelength=1.8)


def scale_sizes(
    axes: Axes, sizes: Floats | NDArray[np.int64], label: str, most_ticks: int = 12
) -> None:
    """Scale the x axis to whole numbers of features, by logarithm where they reach far."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    most, fewest = int(sizes.max()), int(sizes.min())
    if most > max(_MOST_ON_A_LINEAR_AXIS, _NARROW * fewest):
        axes.set_xscale("log")
        axes.set_xlabel(f"{label} (logarithmic)")
        axes.set_xlim(fewest / 1.1, most * 1.1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            ticks = [n * 10**e for e in range(7) for n in steps if fewest <= n * 10**e <= most]
            if len(ticks) <= most_ticks:
                break
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlabel(label)
        axes.set_xlim(fewest - 0.75, most + 0.75)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=most_ticks))
    axes.xaxis.set_major_formatter(lambda value, _: number(round(value)))


_MOST_DOTS = 60
_MARGIN = 0.05  # of what is shown, below the lowest loss
_HEADROOM = 4.0  # times the span of the losses that matter


def elimination_chart(
    sizes: Sequence[int],
    losses: Sequence[float],
    *,
    candidates: Sequence[int],
    chosen: int | None,
    loss_name: str,
    margins: Sequence[float] | None = None,
) -> Markup:
    """Draw the loss against the number of features left.

    `chosen` is None if the chosen set is not on the curve. With `margins`, the loss is the mean of
    held-out rows, in a band of these half-widths.
    """
    x, y = np.array(sizes), np.array(losses, dtype=float)
    curve = "Elimination" if margins is None else "Trade-off"
    label = (
        f"{curve} curve: {loss_name} against the number of features left, from "
        f"{number(sizes[0])} features with a loss of {number(losses[0])} down to "
        f"{number(sizes[-1])} with {number(losses[-1])}"
    )
    label += "." if chosen is None else f"; {number(chosen)} were chosen."
    with figure_of("elimination", 9.0, 4.3) as figure:
        axes = figure.add_subplot()
        marker = "o" if len(x) <= _MOST_DOTS else ""
        name, reach = "loss on the way down", np.zeros(len(y))
        if margins is not None:
            name, reach = "mean loss", np.array(margins)
            axes.fill_between(x, y - reach, y + reach, color=ACCENT, alpha=0.15, linewidth=0)
        axes.plot(x, y, color=ACCENT, marker=marker, markersize=3, label=name)
        axes.axhline(losses[0], **REFERENCE, label=f"all features: {number(losses[0])}")
        at = dict(zip(sizes, losses, strict=True))
        if others := [size for size in candidates if size != chosen]:
            theirs = [at[size] for size in others]
            hollow = {**HOLLOW, "markersize": 8, "markeredgewidth": 1.6}
            axes.plot(others, theirs, "o", **hollow, label="candidate sizes")
        if chosen is not None:
            axes.axvline(chosen, color=ACCENT, linewidth=1, alpha=0.5)
            name = f"chosen: {number(chosen)}"
            axes.plot([chosen], [at[chosen]], "o", **FILLED, markersize=9, label=name)
        scale_sizes(axes, x, "features left")
        matter = np.isin(x, [sizes[0], *candidates, *([] if chosen is None else [chosen])])
        top = highest_shown(y, (y + reach)[matter].tolist())
        if top is not None:
            lowest = float(np.nanmin(y - reach))
            axes.set_ylim(lowest - _MARGIN * (top - lowest), top)
            highest, where = number(float(np.nanmax(y))), (float(x[np.argmax(y > top)]), top)
            beside: Any = {"xytext": (9, -2), "textcoords": "offset points", "va": "top"}
            axes.annotate(f"\N{UPWARDS ARROW} up to {highest}", where, color=MUTED, **beside)
        plain_ticks(axes.yaxis)
        axes.set_ylabel(loss_name, parse_math=False)
        axes.grid(axis="y")
        legend_above(axes, 4)
        return markup(figure, label)


def highest_shown(losses: Floats, that_matter: Sequence[float]) -> float | None:
    """Return where the loss axis ends, or None for all of it."""
    # With few features left the loss can be many times what it is elsewhere, and would press the
    # part where the choice is made into a flat line.
    finite = losses[np.isfinite(losses)]
    shown = [loss for loss in that_matter if np.isfinite(loss)]
    if not len(finite) or not shown:
        return None
    lowest = float(finite.min())
    span = max(shown) - lowest
    top = lowest + _HEADROOM * span
    return top if span > 0 and finite.max() > top else None


def interval_chart(difference: float, ends: Sequence[float], confidence: float) -> Markup:
    """Draw the difference of the losses with its interval, about a line at zero."""
    label = (
        f"Difference of the losses: {number(difference, '+')}, "
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
        right = "all features do better \N{RIGHTWARDS ARROW}"
        axes.text(reach, 1.1, right, color=MUTED, ha="right")
        plain_ticks(axes.xaxis, "+")
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        return markup(figure, label)


_MOST_NAMES = 40  # more names overlap
_LONGEST = 28  # letters of a name
_ROW = 0.32  # inches
_BAR = 0.7  # of a row
_STEP, _TALLEST = 6, 18  # width and height of a small bar
_WIDEST = 72  # of two bars, one above the other; the style has it as well


def bars_of(cell: Bars | BarsBeside) -> Markup:
    """Return the small bars of a cell as an SVG element: paths, as a page has hundreds of them."""
    from markupsafe import Markup

    if isinstance(cell, BarsBeside):  # their figures are in the row
        bar = Markup('<path class="{}" d="M0 {}h{}"/>')
        wide = {"then": (4, cell.then), "now": (13, cell.now)}
        drawn = [bar.format(c, y, math.ceil(_WIDEST * s)) for c, (y, s) in wide.items() if s > 0]
        return Markup('<svg class="beside" aria-hidden="true">{}</svg>').format(
            Markup().join(drawn)
        )
    most = max(cell.counts)
    tall = [math.ceil(_TALLEST * count / most) for count in cell.counts]  # no count looks like 0
    path = "".join(f"V{_TALLEST - height}h{_STEP - 1}V{_TALLEST}h1" for height in tall)
    svg = Markup(
        '<svg class="bars" width="{}" height="{}" role="img" aria-label="{}"><path d="{}"/></svg>'
    )
    return svg.format(_STEP * len(tall), _TALLEST, cell.label, f"M0 {_TALLEST}{path}")


def held_by_sets(sets: Mapping[str, Collection[str]]) -> dict[str, tuple[bool, ...]]:
    """Return for each feature which sets have it; what most have comes first."""
    members = [*map(set, sets.values())]
    features = dict.fromkeys(name for of_set in sets.values() for name in of_set)
    held = {name: tuple(name in of_set for of_set in members) for name in features}
    return dict(sorted(held.items(), key=lambda row: (-sum(row[1]), [not has for has in row[1]])))


def overlap_chart(sets: Mapping[str, Collection[str]]) -> Markup:
    """Draw which of all their features each set has; what most have stands first."""
    held = held_by_sets(sets)
    features = list(held)
    in_all = sum(map(all, held.values()))
    counts = ", ".join(f"{name} {number(len(members))}" for name, members in sets.items())
    label = (
        f"Features of {number(len(sets))} sets ({counts}): {number(len(features))} different "
        f"ones, {number(in_all)} of them in every set."
    )
    are_named = len(features) <= _MOST_NAMES
    with figure_of("overlap", 9.0, 0.7 + _ROW * len(sets) + (1.1 if are_named else 0)) as figure:
        axes = figure.add_subplot()
        for row, is_in in enumerate(zip(*(held[name] for name in features), strict=True)):
            axes.broken_barh(_stretches(is_in), (row - _BAR / 2, _BAR), facecolor=ACCENT)
        rows = [f"{name}, {number(len(members))} features" for name, members in sets.items()]
        axes.set_yticks(range(len(sets)), rows, parse_math=False)
        axes.set_ylim(len(sets) - 0.5, -0.5)
        axes.set_xlim(0, len(features))
        if are_named:
            places = [place + 0.5 for place in range(len(features))]
            names = [cut(name, _LONGEST) for name in features]
            axes.set_xticks(places, names, rotation=45, ha="right", parse_math=False)
        else:
            axes.set_xticks([])
        title = f"{number(len(features))} features, {number(in_all)} of them in every set"
        axes.set_title(title, loc="left", fontsize=10)
        return markup(figure, label)


def _stretches(is_in: Collection[bool]) -> list[tuple[float, float]]:
    """Return the start and width of each unbroken stretch of true values, from the left."""
    stretches: list[tuple[float, float]] = []
    start = 0
    for has, run in groupby(is_in):
        length = len(list(run))
        if has:
            stretches.append((start, length))
        start += length
    return stretches


def settling_chart(searches: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Draw mean entropy and stability against the iterations, a pair of curves for each search."""
    if not searches:
        return None
    longest = max(search["iteration"][-1] for search in searches)
    label = (
        f"Mean entropy of the probabilities and stability of the mask, for {len(searches)} "
        f"search{'es' * (len(searches) > 1)} of up to {number(longest)} iterations."
    )
    with figure_of("settling", 9.0, 3.2) as figure:
        axes = figure.add_subplot()
        for position, search in enumerate(searches):
            curves = {"entropy": ("mean entropy, bits", ACCENT, "-")}
            curves["stability"] = "stability", INK, DASHED
            for key, (name, color, line) in curves.items():
                style: Any = {"color": color, "linestyle": line, "alpha": 0.7}
                axes.plot(search["iteration"], search[key], **style, label="" if position else name)
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("iterations")
        plain_ticks(axes.xaxis)
        axes.grid(axis="y")
        legend_above(axes, 2)
        return markup(figure, label)


_MOST_BARS = 30
_LONGEST_SCORED = 50
_MOST_POINTS = 1000
_MOST_DRAWN = 1e280  # axes and labels of larger floats overflow


def score_chart(scores: Mapping[str, float], kept: Collection[str], score_name: str) -> Markup:
    """Draw the scores, highest first, as bars with names or a curve; kept features stand out."""
    finite = {name: score for name, score in scores.items() if np.isfinite(score)}
    names = sorted(finite, key=lambda name: -finite[name])
    values = np.clip([finite[n] for n in names], -_MOST_DRAWN, _MOST_DRAWN)
    chosen = np.array([n in kept for n in names])
    label = (
        f"{score_name.capitalize()} of {len(names)} features, highest first; "
        f"{int(chosen.sum())} of them are kept."
    )
    height = 0.9 + 0.22 * len(names) if len(names) <= _MOST_BARS else 3.2
    with figure_of("scores", 9.0, height) as figure:
        axes = figure.add_subplot()
        places = np.arange(1, len(names) + 1)
        if len(names) <= _MOST_BARS:
            axes.barh(places, values, color=np.where(chosen, ACCENT, MUTED).tolist(), height=0.7)
            cut = [n if len(n) <= _LONGEST_SCORED else f"{n[:_LONGEST_SCORED]}..." for n in names]
            axes.set_yticks(places, [printable(name) for name in cut], parse_math=False)
            axes.set_ylim(len(names) + 0.6, 0.4)
            axes.set_xlabel(score_name)
            plain_ticks(axes.xaxis)
        else:
            for is_kept, color, legend in ((True, ACCENT, "kept"), (False, MUTED, "left out")):
                group = chosen == is_kept
                shape = "o" if group.sum() <= _MOST_POINTS else "-"  # thousands make a large page
                style: Any = {"color": color, "markersize": 4.5 if is_kept else 3, "label": legend}
                axes.plot(places[group], values[group], shape, **style)
            scale_sizes(axes, places, "features by their score, highest first")
            axes.set_ylabel(score_name)
            plain_ticks(axes.yaxis)
            axes.grid(axis="y")
            axes.legend(loc="upper right")
        return markup(figure, label)
