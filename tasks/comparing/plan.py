"""Which cells a comparison has, and what each of them depends on.

A cell is a table, a model, a seed and an outer fold: all methods meet in it, on the same rows and
after the same tuning. Its results are kept under a key of everything they depend on, so that they
are found again by a comparison that was killed, and by another one that has more methods, models or
seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaffinch.storage.tables import Dataset
from chaffinch.tasks.checking import TableDescription
from chaffinch.tasks.comparing.planned import Planned, planned
from chaffinch.tasks.comparing.results import ALL, NONE
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.settings import Method, ModelSettings, SelectionSettings
from chaffinch.tasks.stage import digest, identity


def number_of(size: int | float, n_features: int) -> int:
    """Return a number of features, or a share of all, as a number."""
    return size if isinstance(size, int) else max(1, round(size * n_features))


@dataclass(frozen=True)
class Source:
    """A table that has been read, typed and found fit.

    Attributes
    ----------
    label : str
        What a person calls it.
    dataset : Dataset
        Where its rows are.
    description : TableDescription
        What its columns are for.
    """

    label: str
    dataset: Dataset
    description: TableDescription


@dataclass(frozen=True)
class Cell:
    """A table and a model by their numbers, a seed, and an outer fold from 0."""

    table: int
    model: int
    seed: int
    fold: int


@dataclass(frozen=True)
class Plan:
    """What is compared, on what."""

    settings: ComparisonSettings
    sources: tuple[Source, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods; first those that every other has to beat."""
        return (ALL, NONE, *(method.kind for method in self.settings.methods))

    @property
    def cells(self) -> list[Cell]:
        """Every cell; those with the same seed and fold follow each other.

        So a comparison that runs out of time has compared everything on some folds.
        """
        s = self.settings
        return [
            Cell(table, model, seed, fold)
            for seed in range(s.n_seeds)
            for fold in range(s.folds)
            for table in range(len(self.sources))
            for model in range(len(s.models))
        ]

    @property
    def planned(self) -> Planned:
        """What there is to be by the end, as the results name it."""
        sizes = {source.label: self.sizes(i) for i, source in enumerate(self.sources)}
        return planned(self.settings, sizes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the tables, each with the table's name."""
        return tuple(
            f"{source.label}: {warning}"
            for source in self.sources
            for warning in source.description.warnings
        )

    def sizes(self, table: int) -> tuple[int, ...]:
        """Return the numbers of features that methods are asked for on a table, each once."""
        n_features = len(self.sources[table].description.features)
        return tuple(sorted({number_of(size, n_features) for size in self.settings.sizes}))

    def method(self, name: str) -> Method | None:
        """Return a method by its name; None for what the others have to beat."""
        return next((m for m in self.settings.methods if m.kind == name), None)

    def model(self, cell: Cell) -> ModelSettings:
        """Return a cell's model."""
        return self.settings.models[cell.model]

    def selection(self, cell: Cell, name: str = ALL) -> SelectionSettings:
        """Return the settings of one selection."""
        return self.settings.selection(self.model(cell), cell.seed, self.method(name))

    def key(self, cell: Cell, name: str) -> str:
        """Return the digest of everything that a method's result in a cell depends on."""
        return digest(
            {
                "selection": identity(
                    self.selection(cell, name), self.sources[cell.table].dataset.hash
                ),
                "reference": name if name in (ALL, NONE) else None,
                "fold": [cell.fold, self.settings.folds],
                "sizes": list(self.settings.sizes),
            }
        )
