"""The chart of how the probabilities of a search settled: entropy and stability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chaffinch.tasks.reporting.drawing import ACCENT, INK, figure_of, markup
from chaffinch.tasks.reporting.wording import number

if TYPE_CHECKING:
    from markupsafe import Markup


def settling_chart(searches: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Draw mean entropy and stability against the iterations, a pair of curves for each search.

    Parameters
    ----------
    searches : sequence of mapping
        `ReportContent.searches_made`.

    Returns
    -------
    Markup or None
        None where there are none.
    """
    if not searches:
        return None
    longest = max(one["iteration"][-1] for one in searches)
    label = (
        f"Mean entropy of the probabilities and stability of the mask, for {len(searches)} "
        f"search{'es' * (len(searches) > 1)} of up to {number(longest)} iterations."
    )
    with figure_of("settling", 9.0, 3.2) as figure:
        axes = figure.add_subplot()
        for position, one in enumerate(searches):
            entropy, stability = ("mean entropy, bits", "stability") if not position else ("", "")
            axes.plot(one["iteration"], one["entropy"], color=ACCENT, alpha=0.7, label=entropy)
            axes.plot(
                one["iteration"],
                one["stability"],
                color=INK,
                alpha=0.7,
                linestyle=(0, (4, 3)),
                label=stability,
            )
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("iterations")
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        axes.grid(axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, handlelength=1.8)
        return markup(figure, label)
