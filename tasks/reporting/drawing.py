"""How charts are drawn: as SVG that takes its colours and its type from the page around it.

Matplotlib draws them in placeholder colours, which become CSS variables, so that one drawing
serves light and dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.tasks.reporting.wording import number

if TYPE_CHECKING:
    import numpy as np
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from chaffinch.tasks.selection.vocabulary import Floats

INK, MUTED, RULE, ACCENT, PAPER = "#000001", "#000002", "#000003", "#000004", "#000005"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    ACCENT: "var(--accent)",
    PAPER: "var(--paper)",
}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
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
_STYLE_SHEET = Path(__file__).parent / "style.html"
_COLOUR = re.compile(r"--(\w+): (#\w+);")
_DIGITS = re.compile(r"(\d\.\d\d)\d+")
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_MOST_ON_A_LINEAR_AXIS = 100
_NARROW = 5  # times the fewest; a narrower range has hardly a round number to tick by logarithm


@contextmanager
def figure_of(name: str, width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure in our style, whatever the user's matplotlibrc says.

    Parameters
    ----------
    name : str
        Of the chart; no two of one page may share it.
    width, height : float
        In inches.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    # the salt makes identifiers reproducible, and differ between the charts of one page
    with style.context(["default", _STYLE, {"svg.hashsalt": name}]):
        yield Figure(figsize=(width, height), layout="constrained")


def markup(figure: Figure, label: str) -> Markup:
    """Return a figure as an SVG element in the page's own colours.

    Parameters
    ----------
    figure : Figure
        Drawn in the colours of this file.
    label : str
        What it shows, for those who cannot see it.
    """
    from markupsafe import Markup, escape

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # the browser has letters that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    drawing = file.getvalue()
    _, _, body = drawing[drawing.index("<svg") :].partition(">")
    # groups carry names such as "axes_1", which two charts would share and nothing refers to
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    # inside of tags alone: a text may hold what looks like a colour
    body = re.sub(r"<[^>]*>", _in_the_page_s_colours, body)
    view_box = re.search(r'viewBox="[^"]*"', drawing)
    if view_box is None:
        raise RuntimeError("matplotlib wrote an SVG without a viewBox")
    head = f'<svg {view_box[0]} role="img" aria-label="{escape(label)}">'
    # S704: all text in the drawing was escaped by matplotlib, the label just now
    return Markup(head + body)  # noqa: S704


def standing_alone(drawing: Markup) -> bytes:
    """Return such an element as a file of its own, on paper and in the report's light colours.

    Parameters
    ----------
    drawing : Markup
        As `markup` gives it.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    light = _STYLE_SHEET.read_text().partition("@media")[0]
    colours = dict(_COLOUR.findall(light))
    # two digits behind the point are finer than any screen, and half of the bytes
    body = re.sub(r"<[^>]*>", lambda tag: _DIGITS.sub(r"\1", tag[0]), drawing)
    body = re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], body)
    head, _, rest = body.partition(">")
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    box = _VIEW_BOX.search(head)
    if box is None:
        raise ValueError("a drawing must be an SVG element with a viewBox but is none")
    size = f'width="{box[1]}" height="{box[2]}"'
    paper = f'<rect width="100%" height="100%" fill="{colours["paper"]}"/>'
    return f"{head} {spaces} {size}>{paper}{rest}".encode()


def _in_the_page_s_colours(tag: re.Match[str]) -> str:
    coloured = tag[0]
    for placeholder, variable in _VARIABLES.items():
        coloured = coloured.replace(placeholder, variable)
    return coloured


def scale_sizes(
    axes: Axes, sizes: Floats | NDArray[np.int64], label: str, most_ticks: int = 12
) -> None:
    """Scale the x axis to whole numbers of features, by logarithm where they reach far.

    Parameters
    ----------
    axes : Axes
        Where they are drawn.
    sizes : ndarray, shape (n,)
        Numbers of features, at least one of them.
    label : str
        Of the axis.
    most_ticks : int
        What there is room for.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
