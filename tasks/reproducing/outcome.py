"""Published figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.reporting.wording import listed
from chaffinch.tasks.reproducing.experiment import Experiment, Figure, Measured
from chaffinch.tasks.reproducing.names import TITLES
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ReproducedFigure:
    """A published figure beside ours over seeds.

    Attributes
    ----------
    row, column : str
        Where it stands in the table.
    published : float or None
        What the paper printed; None where it printed nothing.
    mean : float
        Of ours over the seeds.
    deviation : float or None
        Of ours over the seeds, as a sample; None with a single seed, which has none.
    lowest, highest : float
        Of ours.
    at_authors_seed : float or None
        Ours with the seed of the published run; None where that is not known.
    share_below, share_equal : float or None
        Shares of the seeds that came out below the published figure, and at it as printed; None
        where nothing was printed or it cannot be compared.
    incomparable : str or None
        Why the published figure is none to hold ours against; None where it is.
    """

    row: str
    column: str
    published: float | None
    mean: float
    deviation: float | None
    lowest: float
    highest: float
    at_authors_seed: float | None
    share_below: float | None
    share_equal: float | None
    incomparable: str | None

    @property
    def is_inside(self) -> bool | None:
        """Whether the published figure lies between our lowest and highest; None if unknown."""
        if self.share_below is None or self.share_equal is None:
            return None
        return self.share_equal > 0 or 0 < self.share_below < 1


@dataclass(frozen=True)
class Reproduction:
    """What came out when a published experiment was run over seeds.

    Attributes
    ----------
    name, title, source : str
        Of the experiment.
    seeds : tuple of int
        That it was run with, besides the authors' own.
    authors_seed : int or None
        Of the published run, where it is known.
    figures : tuple of ReproducedFigure
        In the paper's order.
    notes : tuple of str
        What one should know to read them, and why some cannot be compared.
    by_seed : mapping of int to mapping of (row, column) to float
        What each seed gave.
    """

    name: str
    title: str
    source: str
    seeds: tuple[int, ...]
    authors_seed: int | None
    figures: tuple[ReproducedFigure, ...]
    notes: tuple[str, ...]
    by_seed: dict[int, Measured]

    @property
    def meaning(self) -> str:
        """What the figures are of, and what it means to be inside."""
        n = len(self.seeds)
        if n == 1:
            return (
                "Ours is of one seed, which has no deviation; inside: the same to the digits "
                "printed."
            )
        return (
            "Ours is the mean and the deviation over seeds; inside: between the lowest and "
            "highest. One seed more of ours would lie outside of those with a chance of at most 2 "
            f"in {n + 1}: less where seeds come to the same figure."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each figure."""
        import pandas as pd

        return pd.DataFrame([_as_row(figure) for figure in self.figures])

    def as_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "seeds": list(self.seeds),
            "authors_seed": self.authors_seed,
            "meaning": self.meaning,
            "figures": [_as_row(figure) for figure in self.figures],
            "by_seed": [
                {"seed": seed, "row": row, "column": column, "value": value}
                for seed, measured in self.by_seed.items()
                for (row, column), value in measured.items()
            ],
            "notes": list(self.notes),
        }


def beside(experiment: Experiment, by_seed: dict[int, Measured], n_seeds: int) -> Reproduction:
    """Return the published figures beside what seeds gave.

    Parameters
    ----------
    experiment : Experiment
    by_seed : dict of int to mapping
        What each of the seeds 0, 1, ..., n_seeds - 1 gave, and the authors' seed where known.
    n_seeds : int
    """
    seeds = tuple(range(n_seeds))
    authors = experiment.authors_seed
    return Reproduction(
        name=experiment.name,
        title=TITLES[experiment.name],
        source=experiment.source,
        seeds=seeds,
        authors_seed=authors,
        figures=tuple(
            _figure(
                figure,
                [float(by_seed[seed][figure.place]) for seed in seeds],
                None if authors is None else float(by_seed[authors][figure.place]),
            )
            for figure in experiment.figures
        ),
        notes=(*experiment.notes, *_incomparable(experiment)),
        by_seed=by_seed,
    )


def _figure(
    figure: Figure, values: Sequence[float], at_authors_seed: float | None
) -> ReproducedFigure:
    ours = np.array(values)
    share_below, share_equal = _shares(figure, ours)
    return ReproducedFigure(
        row=figure.row,
        column=figure.column,
        published=figure.published,
        mean=float(ours.mean()),
        deviation=float(ours.std(ddof=1)) if len(ours) > 1 else None,
        lowest=float(ours.min()),
        highest=float(ours.max()),
        at_authors_seed=at_authors_seed,
        share_below=share_below,
        share_equal=share_equal,
        incomparable=figure.incomparable,
    )


def _shares(figure: Figure, ours: Floats) -> tuple[float | None, float | None]:
    """Return the shares of ours below a published figure and at it; None without comparison."""
    published = figure.published
    if published is None or figure.incomparable is not None:
        return None, None
    rounding = _half_of_the_last_digit(published, figure.decimals)
    is_equal = np.abs(ours - published) <= rounding
    return float(((ours < published) & ~is_equal).mean()), float(is_equal.mean())


def _incomparable(experiment: Experiment) -> list[str]:
    """Return why figures cannot be compared, each reason once and with the columns it is of."""
    columns: dict[str, list[str]] = {}
    for figure in experiment.figures:
        if figure.incomparable is not None:
            of_reason = columns.setdefault(figure.incomparable, [])
            if figure.column not in of_reason:
                of_reason.append(figure.column)
    return [
        f"Inside is left blank for {listed(names)}: {reason}" for reason, names in columns.items()
    ]


def _half_of_the_last_digit(published: float, decimals: int | None) -> float:
    """Return half a unit of the last digit that was printed, by which a figure may be rounded."""
    if decimals is None:
        decimals = len(np.format_float_positional(published, trim="-").partition(".")[2])
    return 0.5 * 10.0**-decimals * (1 + 1e-9)


def _as_row(figure: ReproducedFigure) -> dict[str, Any]:
    return {**vars(figure), "is_inside": figure.is_inside}
