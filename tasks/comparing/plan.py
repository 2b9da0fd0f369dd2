"""Cells of a comparison and the keys of their results.

A cell is a table, a model, a seed and an outer fold. All methods of a cell use the same rows and
the same tuning. The key of a result includes all its inputs, so that a killed comparison resumes,
and a comparison with more methods, models or seeds reuses the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter

import pyarrow as pa

from chaffinch.errors import InputError
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.sources import Source
from chaffinch.storage.sources.formats.file_name import without_endings
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.settings.identity import (
    NO_CUSTOM_OBJECTS,
    CustomObjects,
    digest,
    identity,
    versions,
)
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings
from chaffinch.tasks.statistics.metrics import METRICS

ALL, NONE = "all", "none"  # reference methods: every feature, and a constant

# The table of results: a row for each scored set of features.
RESULTS = pa.schema(
    [
        ("table", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),  # "all" keeps every feature, "none" predicts a constant
        ("size", pa.int64()),  # requested number of features; null is the method's own choice
        ("seed", pa.int64()),
        ("fold", pa.int64()),  # outer fold, from 0
        ("n_features", pa.int64()),  # number of kept features
        ("n_total", pa.int64()),  # number of all features
        ("features", pa.list_(pa.string())),  # kept features, sorted by name
        ("loss", pa.float64()),  # on the outer fold; lower is better
        ("loss_name", pa.string()),
        # Metrics of the outer fold; null where not of the task, or undefined.
        *((name, pa.float64()) for name in METRICS),
        ("n_train", pa.int64()),  # rows outside the outer fold; the final fit uses seven in eight
        ("n_test", pa.int64()),  # rows of the outer fold
        # Time from the tuned base model to the chosen set. Refits that choose a method's own size
        # count only for the seconds of that set. A search for all sizes counts for each size; PEFS
        # has a search for each size, which counts only for that size.
        ("selection_seconds", pa.float64()),
        ("training_seconds", pa.float64()),  # of the scored model
        ("error", pa.string()),  # of a method in this cell; then loss is null
    ]
)


SeedAndFold = tuple[int, int]  # seed, fold


@dataclass(frozen=True)
class Contender:
    """A method and its requested number of features; None for its own choice."""

    method: str
    size: int | None


@dataclass(frozen=True)
class Planned:
    """Planned measurements: each contender of a table, with each model, in each cell."""

    contenders: Mapping[str, tuple[Contender, ...]]  # by table; all features first
    models: tuple[str, ...]
    cells: tuple[SeedAndFold, ...]
    tolerance: float
    leaks: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of each table

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(product(self.contenders, self.models))

    def n_losses(self, table: str) -> int:
        """Return the planned number of losses on a table with a model."""
        return len(self.contenders[table]) * len(self.cells)


def planned(
    settings: ComparisonSettings,
    sizes: Mapping[str, Sequence[int]],
    leaks: Mapping[str, Sequence[str]],
) -> Planned:
    contenders = {
        table: (
            Contender(ALL, None),
            *(
                Contender(method.kind, size)
                for method in sorted(settings.methods, key=attrgetter("kind"))
                for size in (None, *(of_table if method.traits.takes_sizes else ()))
            ),
        )
        for table, of_table in sizes.items()
    }
    models = tuple(model.name for model in settings.models)
    cells = tuple(product(range(settings.n_seeds), range(settings.folds)))
    of_tables = {table: frozenset(names) for table, names in leaks.items()}
    return Planned(contenders, models, cells, settings.tolerance, of_tables)


def number_of(size: int | float, n_features: int) -> int:
    return size if isinstance(size, int) else max(1, round(size * n_features))


@dataclass(frozen=True)
class ComparedTable:
    """An ingested and checked table."""

    label: str  # name of the table in reports
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
    """Settings and tables of a comparison."""

    settings: ComparisonSettings
    sources: tuple[ComparedTable, ...]
    custom: CustomObjects = NO_CUSTOM_OBJECTS

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods, the references first."""
        return (ALL, NONE, *(method.kind for method in self.settings.methods))

    @property
    def cells(self) -> list[Cell]:
        """All cells by seed and fold, so that a time limit leaves complete folds of all tables."""
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
        """Planned measurements, with the names in the results."""
        sizes = {source.label: self.sizes(i) for i, source in enumerate(self.sources)}
        return planned(self.settings, sizes, self.leaks)

    @property
    def leaks(self) -> dict[str, list[str]]:
        """Features of each table that alone determine its target, but for those to keep."""
        return {source.label: list(source.description.leaks) for source in self.sources}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Data-quality warnings, each with the table's name."""
        return tuple(
            f"{source.label}: {warning}"
            for source in self.sources
            for warning in source.description.warnings
        )

    def sizes(self, table: int) -> tuple[int, ...]:
        n_features = len(self.sources[table].description.features)
        return tuple(sorted({number_of(size, n_features) for size in self.settings.sizes}))

    def method(self, name: str) -> Method | None:
        return next((m for m in self.settings.methods if m.kind == name), None)

    def model(self, cell: Cell) -> ModelSettings:
        return self.settings.models[cell.model]

    def selection(self, cell: Cell, name: str = ALL) -> SelectionSettings:
        return self.settings.selection(self.model(cell), cell.seed, self.method(name))

    def key(self, cell: Cell, name: str) -> str:
        """Return a digest of all inputs of a method's result in a cell."""
        dataset = self.sources[cell.table].dataset
        return digest(
            {
                "selection": identity(self.selection(cell, name), dataset.hash, self.custom),
                "reference": name if name in (ALL, NONE) else None,
                "fold": [cell.fold, self.settings.folds],
                "sizes": list(self.settings.sizes),
            }
        )


def refuse_copies(read: Sequence[ComparedTable]) -> None:
    """Raise InputError for tables of equal content, which are not independent evidence."""
    label_of: dict[str, str] = {}
    for source in read:
        other = label_of.setdefault(source.dataset.hash, source.label)
        if other != source.label:
            raise InputError(
                f"tables {other!r} and {source.label!r} hold the same rows; give one of them"
            )


def labels_of(sources: Sequence[Source]) -> list[str]:
    """Return the name of each table, from its file or its number."""
    if not sources:
        raise InputError("there is no table to compare on; name one")
    labels = [without_endings(source.name).strip(".") or source.name for source in sources]
    in_memory = [i for i, source in enumerate(sources) if source.address is None]
    if len(in_memory) > 1:  # tables in memory have no names
        for n, i in enumerate(in_memory, start=1):
            labels[i] = f"{labels[i]} {n}"
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"{labels.count(label)} tables are called {label!r}; rename them, since a report "
                "identifies tables by their names"
            )
    return labels


def name_of(plan: Plan) -> str:
    """Return the name of a comparison: the names of tables, then a hash."""
    sources = plan.sources
    words = [source.label for source in sources[:3]] + ["and_more"] * (len(sources) > 3)
    clean = (re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")[:30] for word in words)
    readable = "-".join(word or "table" for word in clean)
    same = {
        "tables": [(source.label, source.dataset.hash) for source in sources],
        "settings": plan.settings.model_dump(mode="json"),
        "versions": versions(),
        **plan.custom.digests,
    }
    return f"{readable}-{digest(same)[:10]}"
