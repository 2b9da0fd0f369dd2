"""Scores of features drawn: a chart of the report, and a picture where features are pixels."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.storage.errors import InputError, printable
from chaffinch.storage.files import file_to_write, path_from, write_file
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.reporting.charts import ACCENT, MUTED, figure_of, markup, scale_sizes
from chaffinch.tasks.reporting.text import number
from chaffinch.tasks.selection.input_checks import check_no_mask

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_BARS = 30
_LONGEST_NAME = 50
_MOST_DRAWN = 1e280  # axes and labels of larger floats overflow
_ENDINGS = (".png", ".svg", ".pdf")
_INCHES = 5.0


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
            for is_kept, color, said in ((True, ACCENT, "kept"), (False, MUTED, "left out")):
                one = chosen == is_kept
                size = 4.5 if is_kept else 3
                axes.plot(places[one], values[one], "o", color=color, markersize=size, label=said)
            scale_sizes(axes, places, "features by their score, highest first")
            axes.set_ylabel(score_name)
            axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
            axes.grid(axis="y")
            axes.legend(loc="upper right")
        return markup(figure, label)


def draw_scores(
    scores: ArrayLike,
    path: str | Path,
    *,
    shape: tuple[int, int],
    kept: ArrayLike | None = None,
) -> Path:
    """Draw the scores of features that are the pixels of an image, as a picture.

    Parameters
    ----------
    scores : array, shape (d,)
        Of the pixels, row by row; what is not finite stays blank.
    path : path
        The file to write, which ends in .png, .svg or .pdf.
    shape : (int, int)
        Rows and columns of the image, d pixels in all.
    kept : array of bool, shape (d,), optional
        Pixels to mark.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    InputError
        If there are not as many scores as pixels, any is masked, or the ending is another.
    StorageError
        If the device is full or fails.

    Notes
    -----
    Figure 3 of Sheth and Fusi, AISTATS 2020.

    Examples
    --------
    >>> found = chaffinch.differentiable_selection(X, y, n_features=50)  # doctest: +SKIP
    >>> chaffinch.draw_scores(found.kept, "digits.png", shape=(28, 28))  # doctest: +SKIP
    """
    with said_to_the_user():
        remedy = "fill them with a value of yours, as by"
        check_no_mask("scores", scores, f"{remedy} scores.filled(0.0)")
        check_no_mask("kept", kept, f"{remedy} kept.filled(False)")
    values, destination = np.asarray(scores, dtype=np.float64), path_from(path, "picture")
    marks = np.zeros(values.shape, dtype=bool) if kept is None else np.asarray(kept, dtype=bool)
    for name, given in (("scores", values), ("kept", marks)):
        if given.shape != (shape[0] * shape[1],):
            raise InputError(
                f"{name} must have shape ({shape[0] * shape[1]},), one for each of "
                f"{shape[0]} x {shape[1]} pixels, but has {given.shape}"
            )
    if destination.suffix not in _ENDINGS:
        raise InputError(f"a picture must end in {', '.join(_ENDINGS)} but is {destination.name}")
    file = file_to_write(destination, "picture")
    from matplotlib import style
    from matplotlib.figure import Figure

    grid = np.ma.masked_invalid(values.reshape(shape))
    with style.context(["default", {"svg.hashsalt": "scores"}]):
        figure = Figure(
            figsize=(_INCHES * 1.2, _INCHES * shape[0] / shape[1]), layout="constrained"
        )
        axes = figure.add_subplot()
        image = axes.imshow(grid, cmap="cividis", interpolation="nearest")
        axes.plot(*np.nonzero(marks.reshape(shape))[::-1], "s", color="#c8102e", markersize=2.5)
        axes.set_xticks([])
        axes.set_yticks([])
        figure.colorbar(image, ax=axes, label="score")
        drawn = io.BytesIO()
        no_date = {"CreationDate": None} if destination.suffix == ".pdf" else {"Date": None}
        metadata = None if destination.suffix == ".png" else no_date
        figure.savefig(drawn, format=destination.suffix[1:], metadata=metadata, dpi=150)
    write_file(file, drawn.getvalue())
    return destination
