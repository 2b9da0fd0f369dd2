"""One cell: selection by every method inside an outer fold, and the score of each set outside."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.errors import InputError, as_input_error
from chaffinch.tasks.comparing.library_warnings import collected_warnings
from chaffinch.tasks.comparing.plan import NONE, RESULTS, Cell, Plan
from chaffinch.tasks.data.splitting.splits import PARTS, Splits
from chaffinch.tasks.methods.protocol import Problem, feasible_candidates
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.search import (
    candidates_of,
    choose_mask,
    optimise_mask,
    train_base_model,
)
from chaffinch.tasks.pipeline.selection_run import LoadedTable, SelectionRun
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.search_result import Candidate
from chaffinch.tasks.statistics.metrics import metrics_of
from chaffinch.tasks.statistics.verdict import constant_prediction

_Chosen = tuple[int | None, Mask, float]  # requested size or None, mask, seconds


@dataclass(frozen=True)
class Compared:
    """Inputs that all cells share: the plan and the rows of every table."""

    plan: Plan
    tables: tuple[LoadedTable, ...]

    def splits(self, cell: Cell) -> Splits:
        """Return the split of a cell's rows; its test set is the outer fold."""
        roles = self.tables[cell.table].roles
        return self.plan.settings.outer_folds.splits(cell.fold, roles, self.plan.selection(cell))


CellRequest = tuple[Cell, tuple[str, ...]]  # a cell, and its methods without results


def measure(compared: Compared, request: CellRequest) -> dict[str, dict[str, Any]]:
    """Return method -> its selected sets in a cell and their losses outside.

    The rows of the outer fold are used once for each set, after the selection. A method that cannot
    be used in the cell is recorded with its error; the other methods are not affected.
    """
    (cell, methods), plan = request, compared.plan
    source, results = plan.sources[cell.table], dict[str, dict[str, Any]]()
    splits, loaded = compared.splits(cell), compared.tables[cell.table]
    run = SelectionRun(plan.selection(cell), source.dataset, loaded=loaded, custom=plan.custom)
    run.description, run.splits = source.description, splits
    about = {
        "loss_name": run.loss.name,
        "n_total": len(run.schema.features),
        "n_train": len(splits.train) + len(splits.mask_validation) + len(splits.model_validation),
        "n_test": len(splits.test),
    }
    with collected_warnings() as of_all:
        try:
            with as_input_error():
                train_base_model(run)
        except InputError as error:
            failed = {**about, "sets": [], "error": str(error)}
            return {name: {**failed, "warned": sorted(of_all)} for name in methods}
    for name in methods:
        with collected_warnings() as of_method:
            outcome: dict[str, Any]
            try:
                with as_input_error():
                    outcome = {"sets": _sets(run, name, cell, plan), "error": None}
            except InputError as error:
                outcome = {"sets": [], "error": str(error)}
        results[name] = {**about, **outcome, "warned": sorted(of_all | of_method)}
    return results


def _sets(run: SelectionRun, name: str, cell: Cell, plan: Plan) -> list[dict[str, Any]]:
    refit = run.refit(PARTS[:3], "test")  # all rows inside, so that only the sets differ
    if name == NONE:
        began = time.perf_counter()
        fitted, outside, n_classes = refit.train, refit.held_out, run.schema.n_classes
        constant = constant_prediction(run.loss, fitted.y, fitted.weight, len(outside), n_classes)
        return [_set(refit, constant, None, [], 0.0, time.perf_counter() - began)]
    judged: dict[bytes, tuple[Floats, float]] = {}
    sets = []
    for size, mask, seconds in _chosen(run, plan.method(name), plan.sizes(cell.table)):
        if mask.tobytes() not in judged:
            began = time.perf_counter()
            prediction = refit.prediction_of(refit.model(mask), mask)
            judged[mask.tobytes()] = prediction, time.perf_counter() - began
        prediction, training = judged[mask.tobytes()]
        features = [run.schema.features[j] for j in np.flatnonzero(mask)]
        sets.append(_set(refit, prediction, size, features, seconds, training))
    return sets


def _set(
    refit: Refit,
    prediction: Floats,
    size: int | None,
    features: list[str],
    selection: float,
    training: float,
) -> dict[str, Any]:
    outside = refit.held_out
    loss = refit.loss(outside.y, prediction, outside.weight)
    if not math.isfinite(loss):
        raise InputError(
            f"the loss on the rows outside is {loss}, as where they are few or of one class; "
            "choose another loss, or fewer outer folds"
        )
    return {
        "size": size,
        "features": features,
        "loss": loss,
        **metrics_of(outside.y, prediction, outside.weight),
        "selection_seconds": selection,
        "training_seconds": training,
    }


def _chosen(run: SelectionRun, method: Method | None, sizes: Sequence[int]) -> list[_Chosen]:
    """Return the size, mask and seconds of a method's own choice and of each requested size.

    Only the seconds of the own choice include the refits that choose between candidates.
    """
    if method is None:
        return [(None, np.ones(len(run.schema.features), dtype=bool), 0.0)]
    search = method.reaching(sizes)
    run, began = run.with_method(search), time.perf_counter()
    optimise_mask(run)
    searched = time.perf_counter() - began
    candidates = candidates_of(run)
    if len(candidates) > 1:
        choose_mask(run)
    own = run.mask if len(candidates) > 1 else candidates[0].mask
    chosen: list[_Chosen] = [(None, own, time.perf_counter() - began)]
    problem = run.problem("optimise_mask")
    sizes = sizes if search.traits.takes_sizes else ()
    of_sizes = search.of_sizes(run.search_result, sizes, problem, searched)
    return chosen + [(size, _feasible(mask, problem), seconds) for size, mask, seconds in of_sizes]


def _feasible(mask: Mask, problem: Problem) -> Mask:
    size = int(mask.sum())
    return feasible_candidates([Candidate(mask, [], at_most=size)], problem)[0].mask


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
    return [{**about, **scored, "n_features": len(scored["features"])} for scored in result["sets"]]
