"""One cell: selection by every method inside an outer fold, and the score of each set outside."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.storage.errors import InputError
from chaffinch.tasks.comparing.library_warnings import collected_warnings, merged
from chaffinch.tasks.comparing.plan import NONE, RESULTS, Cell, Plan
from chaffinch.tasks.data.matrix import Roles
from chaffinch.tasks.data.outer_folds import RowsToSplit
from chaffinch.tasks.data.splits import Splits, fold_indices
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.errors import as_input_error
from chaffinch.tasks.methods.fitting import (
    Fold,
    Recipe,
    Tuner,
    baseline_of,
    loss_of,
    recipe_of,
    tune,
)
from chaffinch.tasks.methods.protocol import SearchContext, Seen, as_search
from chaffinch.tasks.methods.refits import Refit, refitted_loss
from chaffinch.tasks.pipeline.stage import no_progress
from chaffinch.tasks.selection.core import Mask, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.statistics.verdict import constant_prediction
from chaffinch.tasks.workers.interface import InProcess

_Chosen = tuple[int | None, Mask, float]  # requested size or None, mask, seconds


@dataclass(frozen=True)
class Loaded:
    """Rows of a table as inputs of a model, with their other roles."""

    rows: Rows
    roles: Roles


@dataclass(frozen=True)
class Compared:
    """Inputs that all cells share: the plan and the rows of every table."""

    plan: Plan
    tables: tuple[Loaded, ...]

    def splits(self, cell: Cell) -> Splits:
        """Return the split of a cell's rows; its test set is the outer fold."""
        roles = self.tables[cell.table].roles
        classes = self.plan.sources[cell.table].description.classes
        rows = RowsToSplit(roles.y, roles.groups, roles.times, classes)
        return self.plan.settings.outer_folds.splits(cell.fold, rows, self.plan.selection(cell))


@dataclass(frozen=True)
class Asked:
    """A cell and its methods without results."""

    cell: Cell
    methods: tuple[str, ...]


@dataclass(frozen=True)
class _Bench:
    """Inputs that the methods of a cell share."""

    schema: Schema
    recipe: Recipe
    loss: Loss
    rows: Rows
    splits: Splits
    sizes: tuple[int, ...]
    context: SearchContext

    def part(self, *names: str) -> Rows:
        """Return the rows of some sets."""
        return self.rows.take(np.concatenate([getattr(self.splits, name) for name in names]))

    def refit(self, fitted: Rows, judged: Rows) -> Refit:
        """Return the `Refit` with rows for fitting and rows for scoring."""
        return Refit(fitted, judged, self.schema, self.recipe, self.loss)


def measure(compared: Compared, asked: Asked) -> dict[str, dict[str, Any]]:
    """Return method -> its selected sets in a cell and their losses outside.

    The rows of the outer fold are used once for each set, after the selection. A method that cannot
    be used in the cell is recorded with its error; the other methods are not affected.
    """
    plan = compared.plan
    schema = plan.sources[asked.cell.table].description.schema
    results: dict[str, dict[str, Any]] = {}
    splits = compared.splits(asked.cell)
    about = {
        "loss_name": loss_of(plan.selection(asked.cell), schema).name,
        "n_total": len(schema.features),
        "n_train": len(splits.train) + len(splits.mask_validation) + len(splits.model_validation),
        "n_test": len(splits.test),
    }
    with collected_warnings() as of_all:
        try:
            with as_input_error():
                bench = _bench(compared, asked.cell, splits)
        except InputError as error:
            failed = {**about, "sets": [], "error": str(error)}
            return {name: {**failed, "warned": merged(of_all)} for name in asked.methods}
    for name in asked.methods:
        with collected_warnings() as of_method:
            try:
                with as_input_error():
                    results[name] = {**about, "sets": _sets(bench, name, plan), "error": None}
            except InputError as error:
                results[name] = {**about, "sets": [], "error": str(error)}
        results[name]["warned"] = merged(of_all, of_method)
    return results


def _bench(compared: Compared, cell: Cell, splits: Splits) -> _Bench:
    """Tune and fit the base model of a cell."""
    table, settings = compared.tables[cell.table], compared.plan.selection(cell)
    description = compared.plan.sources[cell.table].description
    schema, rows = description.schema, table.rows
    train, loss = rows.take(splits.train), loss_of(settings, schema)

    def index(*parts: Seen) -> Index:
        return np.sort(np.concatenate([getattr(splits, part) for part in parts]))

    def folds(*parts: Seen) -> list[Fold]:
        inner = table.roles.take(index(*parts))
        return fold_indices(inner.y, settings, groups=inner.groups, times=inner.times)

    of_train = partial(folds, "train")
    recipe = tune(recipe_of(settings), settings, train, schema, of_train, InProcess()).recipe
    kept = settings.columns.keep
    context = SearchContext(
        schema=schema,
        recipe=recipe,
        tuner=Tuner(recipe_of(settings), settings),
        model=recipe.fit(train, schema),
        baseline=baseline_of(settings, train, description),
        loss=loss,
        keep=tuple(j for j, name in enumerate(schema.features) if name in kept),
        seed=cell.seed,
        rows=lambda *parts: rows.take(index(*parts)),
        folds=folds,
        workers=InProcess(),
        on_progress=partial(no_progress, "compare"),
        warnings=description.warnings,
    )
    sizes = compared.plan.sizes(cell.table)
    return _Bench(schema, recipe, loss, rows, splits, sizes, context)


def _sets(bench: _Bench, name: str, plan: Plan) -> list[dict[str, Any]]:
    """Return the sets of one method with their losses on the outer fold."""
    fitted, outside = bench.part("train", "mask_validation"), bench.part("test")
    if name == NONE:
        began = time.perf_counter()
        n_classes = bench.schema.n_classes
        constant = constant_prediction(bench.loss, fitted.y, fitted.weight, len(outside), n_classes)
        loss = bench.loss(outside.y, constant, outside.weight)
        return [_set(None, [], loss, 0.0, time.perf_counter() - began)]
    refit = bench.refit(fitted, outside)
    judged: dict[bytes, tuple[float, float]] = {}
    sets = []
    for size, mask, seconds in _chosen(bench, plan.method(name)):
        if mask.tobytes() not in judged:
            began = time.perf_counter()
            loss = refitted_loss(refit, mask)
            judged[mask.tobytes()] = loss, time.perf_counter() - began
        loss, training = judged[mask.tobytes()]
        features = [bench.schema.features[j] for j in np.flatnonzero(mask)]
        sets.append(_set(size, features, loss, seconds, training))
    return sets


def _set(
    size: int | None, features: list[str], loss: float, selection: float, training: float
) -> dict[str, Any]:
    """Return the record of a set; raise InputError if its loss is not finite."""
    if not math.isfinite(loss):
        raise InputError(
            f"the loss on the rows outside is {loss}, as where they are few or of one class; "
            "choose another loss, or fewer outer folds"
        )
    return {
        "size": size,
        "features": features,
        "loss": loss,
        "selection_seconds": selection,
        "training_seconds": training,
    }


def _chosen(bench: _Bench, method: Method | None) -> list[_Chosen]:
    """Return the size, mask and seconds of a method's own choice and of each requested size.

    Only the seconds of the own choice include the refits that choose between candidates.
    """
    if method is None:
        return [(None, np.ones(len(bench.schema.features), dtype=bool), 0.0)]
    method = as_search(method).reaching(bench.sizes)
    began = time.perf_counter()
    found = method.search(bench.context)
    searched = time.perf_counter() - began
    own = _own_choice(bench, [candidate.mask for candidate in method.candidates(found)])
    chosen: list[_Chosen] = [(None, own, time.perf_counter() - began)]
    sizes = bench.sizes if method.takes_sizes else ()
    return chosen + method.of_sizes(found, sizes, bench.context, searched)


def _own_choice(bench: _Bench, standing: list[Mask]) -> Mask:
    """Return the candidate mask with the lowest loss on the model-validation set."""
    if len(standing) == 1:
        return standing[0]
    refit = bench.refit(bench.part("train"), bench.part("model_validation"))
    losses = [refitted_loss(refit, mask) for mask in standing]
    return standing[int(np.argmin(np.nan_to_num(losses, nan=np.inf)))]


def as_table(plan: Plan, measured: Mapping[tuple[Cell, str], Mapping[str, Any]]) -> pa.Table:
    """Return the results as a table, in the order of the plan."""
    rows = [
        row
        for cell in plan.cells
        for name in plan.methods
        if (cell, name) in measured
        for row in _rows(plan, cell, name, measured[cell, name])
    ]
    return pa.Table.from_pylist(rows, schema=RESULTS)


def _rows(plan: Plan, cell: Cell, name: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    about = {
        "table": plan.sources[cell.table].label,
        "model": plan.model(cell).name,
        "method": name,
        "seed": cell.seed,
        "fold": cell.fold,
        **{key: result[key] for key in ("loss_name", "n_total", "n_train", "n_test")},
    }
    if result["error"] is not None:
        return [{**about, "features": [], "n_features": 0, "error": result["error"]}]
    return [{**about, **found, "n_features": len(found["features"])} for found in result["sets"]]
