"""Short ways to the summary of made-up results, and what is made up for it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.tasks.comparing.plan import Contender, Planned
from chaffinch.tasks.comparing.summary import Outcome, Summary, TableSummary
from chaffinch.tasks.comparing.summary import summarise as of_planned
from chaffinch.tasks.comparing.text import name_of
from tests.tasks.comparing.synthetic_results import table_of

THREE = ("gbmo", "anova_f", "mrmr")
CLEAR = {"gbmo": -0.1, "anova_f": 0.1}


def summarise(
    results: pa.Table,
    planned: Planned | None = None,
    leaks: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Summary:
    """The summary of results, where every contender that occurs was planned for every cell."""
    rows = results.to_pylist()
    if planned is None:
        seeds, folds = (sorted({row[name] for row in rows}) for name in ("seed", "fold"))
        models = tuple(sorted({row["model"] for row in rows}))
        planned = Planned({}, models, tuple(product(seeds, folds)), 0.02, leaks)
    contenders = {table: {Contender("all", None), *c} for table, c in planned.contenders.items()}
    for row in sorted(rows, key=lambda row: row["table"]):
        of_table = contenders.setdefault(row["table"], {Contender("all", None)})
        if row["method"] != "none":
            of_table.add(Contender(row["method"], row["size"]))
    in_order = {
        table: tuple(sorted(c, key=lambda one: (one.method != "all", one.method, one.size or 0)))
        for table, c in contenders.items()
    }
    return of_planned(results, replace(planned, contenders=in_order), (), ())


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
