"""The chart of the features' scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.storage.errors import printable
from chaffinch.tasks.reporting.charts import ACCENT, MUTED, figure_of, markup, scale_sizes
from chaffinch.tasks.reporting.text import number

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_BARS = 30
_LONGEST_NAME = 50
_MOST_DRAWN = 1e280  # axes and labels of larger floats overflow


def score_chart(scores: Mapping[str, float], kept: Collection[str], score_name: str) -> Markup:
    """Draw the scores, highest first; those of kept features stand out.

    Notes
    -----
    Up to 30 features are bars with their names; more are a curve.
    """
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
            cut = [n if len(n) <= _LONGEST_NAME else f"{n[:_LONGEST_NAME]}..." for n in names]
            axes.set_yticks(places, [printable(name) for name in cut], parse_math=False)
            axes.set_ylim(len(names) + 0.6, 0.4)
            axes.set_xlabel(score_name)
            axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        else:
            for is_kept, color, legend in ((True, ACCENT, "kept"), (False, MUTED, "left out")):
                one = chosen == is_kept
                size = 4.5 if is_kept else 3
                axes.plot(places[one], values[one], "o", color=color, markersize=size, label=legend)
            scale_sizes(axes, places, "features by their score, highest first")
            axes.set_ylabel(score_name)
            axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
            axes.grid(axis="y")
            axes.legend(loc="upper right")
        return markup(figure, label)
