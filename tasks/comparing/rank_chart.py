"""The critical difference diagram (Demsar 2006): mean ranks, and bars that join those alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaffinch.tasks.comparing.ranking import Ranking
from chaffinch.tasks.comparing.wording import cut, sizes_of
from chaffinch.tasks.reporting.drawing import ACCENT, INK, MUTED, PAPER, figure_of, markup
from chaffinch.tasks.reporting.wording import number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

_WIDTH = 9.0
_LINE = 0.27  # inches to a line of names or a bar
_LONGEST_NAME = 28


def rank_chart(ranking: Ranking, name: str) -> Markup:
    """Draw a ranking, the best on the left.

    Parameters
    ----------
    ranking : Ranking
        Of two methods or more.
    name : str
        Of the chart; no two of one page may share it.
    """
    n_methods = len(ranking.methods)
    n_lines = -(-n_methods // 2)
    bars = len(ranking.groups)
    above = 2.2 if ranking.critical_difference else 1.0
    below = 0.6 + 0.55 * bars + n_lines
    sizes = sizes_of(ranking)
    label = f"Mean ranks with {ranking.model}{f', {sizes}' if sizes else ''}: " + ", ".join(
        f"{method} {number(rank)}"
        for method, rank in zip(ranking.methods, ranking.mean_ranks, strict=True)
    )
    with figure_of(name, _WIDTH, _LINE * (above + below) + 0.1) as figure:
        axes = figure.add_subplot()
        axes.set_axis_off()
        width = n_methods - 1
        axes.set_xlim(1 - 0.5 * width, n_methods + 0.5 * width)
        axes.set_ylim(-below, above)
        _draw_axis(axes, n_methods)
        for place, (first, last) in enumerate(ranking.groups):
            y = -0.5 - 0.55 * place
            ends = ranking.mean_ranks[first], ranking.mean_ranks[last]
            margin = 0.006 * width
            axes.plot(
                [ends[0] - margin, ends[1] + margin],
                [y, y],
                color=ACCENT,
                linewidth=4,
                solid_capstyle="butt",
            )
        _draw_names(axes, ranking, n_lines, start=0.6 + 0.55 * bars)
        if ranking.critical_difference:
            _draw_difference(axes, ranking.critical_difference, n_methods)
        return markup(figure, label)


def _draw_axis(axes: Axes, n_methods: int) -> None:
    axes.plot([1, n_methods], [0, 0], color=INK, linewidth=1)
    for rank in range(1, n_methods + 1):
        axes.plot([rank, rank], [0, 0.2], color=INK, linewidth=1)
        axes.text(rank, 0.3, str(rank), color=MUTED, ha="center", va="bottom")


def _draw_names(axes: Axes, ranking: Ranking, n_lines: int, start: float) -> None:
    """Draw each name beside the axis, the better half left, with a line from its rank."""
    n_methods = len(ranking.methods)
    reach = 0.04 * (n_methods - 1)
    for place, (method, rank) in enumerate(zip(ranking.methods, ranking.mean_ranks, strict=True)):
        is_left = place < n_lines
        line = place if is_left else n_methods - 1 - place
        y = -start - line - 0.4
        side = 1 - reach if is_left else n_methods + reach
        axes.plot([rank, rank, side], [0, y, y], color=INK, linewidth=0.8)
        axes.plot([rank], [0], "o", color=ACCENT, markersize=6, markeredgecolor=PAPER)
        named = cut(method, _LONGEST_NAME)
        said = f"{named}  {rank:.2f}" if is_left else f"{rank:.2f}  {named}"
        axes.text(
            side - reach / 4 if is_left else side + reach / 4,
            y,
            said,
            ha="right" if is_left else "left",
            va="center_baseline",
            parse_math=False,
        )


def _draw_difference(axes: Axes, difference: float, n_methods: int) -> None:
    """Draw how long the critical difference is, or that it is longer than the axis."""
    y = 1.5
    end = min(1 + difference, float(n_methods))
    axes.plot([1, end], [y, y], color=MUTED, linewidth=1.2, marker="|", markersize=7)
    longer = ", longer than the axis" if 1 + difference > n_methods else ""
    axes.text(
        end + 0.02 * (n_methods - 1),
        y,
        f"critical difference {number(difference)}{longer}",
        color=MUTED,
        va="center_baseline",
    )
