"""The words of a reproduction: figures that a paper printed, and the run that they came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Place = tuple[str, str]
Measured = Mapping[Place, float]


@dataclass(frozen=True)
class Figure:
    """A number in a table.

    Attributes
    ----------
    row, column : str
        Where it stands.
    published : float or None
        What the paper printed there; None where it printed nothing and we measure all the same.
    decimals : int, optional
        Digits that it printed after the point, zeros among them; by default those of the number.
    incomparable : str, optional
        Why it is no figure to hold ours against, as a sentence, such as that its units are others.
    """

    row: str
    column: str
    published: float | None
    decimals: int | None = None
    incomparable: str | None = None

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.row, self.column


@dataclass(frozen=True)
class Experiment:
    """A published experiment that can be run again with any seed.

    Attributes
    ----------
    name : str
        What it is asked for by; see `chaffinch.tasks.reproducing.names`.
    source : str
        The paper and the tables.
    figures : tuple of Figure
        What is measured, in the paper's order.
    read : callable, (folder or None) -> Any
        Returns what all seeds have in common, such as a table from the user's folder; raises
        InputError where that is not there.
    measures : tuple of callable, (what was read, seed) -> mapping of (row, column) to float
        One run with one seed: together a figure for every place. Each is a part that workers can
        compute apart from the others, the longest first.
    authors_seed : int or None
        The seed of the published run, where it is known.
    notes : tuple of str
        What one should know to read the figures.
    """

    name: str
    source: str
    figures: tuple[Figure, ...]
    read: Callable[[Path | None], Any]
    measures: tuple[Callable[[Any, int], Measured], ...]
    authors_seed: int | None
    notes: tuple[str, ...] = ()


def nothing_to_read(folder: Path | None) -> None:
    """Return what all seeds have in common where each makes its own tables."""
