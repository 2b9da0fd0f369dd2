"""What a comparison was meant to measure, whatever of it is there by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from chaffinch.tasks.comparing.results import ALL
from chaffinch.tasks.comparing.settings import ComparisonSettings, takes_sizes

Cell = tuple[int, int]  # seed, fold


@dataclass(frozen=True)
class Contender:
    """A method, and the number of features it was asked for; None where it chose by itself."""

    method: str
    size: int | None

    @property
    def place(self) -> tuple[bool, str, int]:
        """What contenders are sorted by: all features, then by name, then by size."""
        return self.method != ALL, self.method, self.size or 0


@dataclass(frozen=True)
class Planned:
    """What was meant: each contender of a table, with each model, in each cell.

    Attributes
    ----------
    contenders : mapping of str to tuple of Contender
        By table; all features among them.
    models : tuple of str
        Their names.
    cells : tuple of (int, int)
        Every seed and outer fold.
    """

    contenders: Mapping[str, tuple[Contender, ...]]
    models: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every table with every model."""
        return list(product(self.contenders, self.models))

    def n_losses(self, table: str) -> int:
        """Return the number of losses that were meant to be on a table with one model."""
        return len(self.contenders[table]) * len(self.cells)


def planned(settings: ComparisonSettings, sizes: Mapping[str, Sequence[int]]) -> Planned:
    """Return what a comparison was meant to measure.

    Parameters
    ----------
    settings : ComparisonSettings
        What was asked for.
    sizes : mapping of str to sequence of int
        By table, the numbers of features that methods were asked for.
    """
    contenders = {
        table: (
            Contender(ALL, None),
            *(
                Contender(method.kind, size)
                for method in settings.methods
                for size in (None, *(of_table if takes_sizes(method) else ()))
            ),
        )
        for table, of_table in sizes.items()
    }
    models = tuple(model.name for model in settings.models)
    cells = tuple(product(range(settings.n_seeds), range(settings.folds)))
    return Planned(contenders, models, cells)
