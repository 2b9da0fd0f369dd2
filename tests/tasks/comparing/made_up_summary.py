"""Short ways to the summary of made-up results, and what is made up for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.tasks.comparing.summary import Outcome, TableSummary, summarise
from chaffinch.tasks.comparing.wording import name_of
from tests.tasks.comparing.made_up_results import table_of

THREE = ("gbmo", "anova_f", "mrmr")
CLEAR = {"gbmo": -0.1, "anova_f": 0.1}


def outcomes(table: TableSummary) -> dict[str, Outcome]:
    return {name_of(o.contender, table.contenders): o for o in table.outcomes}


def only(results: pa.Table) -> TableSummary:
    (table,) = summarise(results).tables
    return table


def with_constant(rows: list[dict[str, Any]], excess: float, noise: float = 0.0) -> pa.Table:
    """The rows with a constant whose loss is as much above that with all features."""
    rng = np.random.default_rng(7)
    of_all = [row for row in rows if row["method"] == "all"]
    constant = [{**row, "method": "none", "features": []} for row in of_all]
    for row in constant:
        row["loss"] += excess + rng.normal(0, noise)
    return table_of([*rows, *constant])
