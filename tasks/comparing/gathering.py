"""From what was measured in the cells to one table of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from chaffinch.tasks.comparing.plan import Cell, Plan
from chaffinch.tasks.comparing.results import RESULTS


def as_table(plan: Plan, measured: Mapping[tuple[Cell, str], Mapping[str, Any]]) -> pa.Table:
    """Return what was measured, in the order of the plan.

    Parameters
    ----------
    plan : Plan
        What was compared.
    measured : mapping
        By cell and method, what `cells.measure` gave.
    """
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
