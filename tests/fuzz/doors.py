"""Objects that are given where a table, a target or rows of a role are expected."""

from __future__ import annotations

import logging
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
from scipy import sparse

import chaffinch
from tests.fuzz.ground import cheap
from tests.fuzz.tables import OBJECTS, PANDAS, POOLS
from tests.fuzz.values import NOT_TEXT, Broken, Case, Draws, often, pick, shown, some

_HIDDEN = 987654.3125  # a cell of every table; no log may have it
_N_ROWS = 60


def _lazy(table: pd.DataFrame) -> Any:
    import polars as pl

    return pl.from_pandas(table).lazy()


# fmt: off
_AS_TABLE: dict[str, Callable[[pd.DataFrame], Any]] = {
    "frame": lambda t: t, "series": lambda t: t["a"], "records": lambda t: t.to_dict("records"),
    "lists by name": lambda t: t.to_dict("list"), "nested lists": lambda t: t.to_numpy().tolist(),
    "ragged lists": lambda _: [[1.0, 2.0], [1.0]] * (_N_ROWS // 2), "array": lambda t: t.to_numpy(),
    "one dimension": lambda t: t["a"].to_numpy(), "a number": lambda _: np.array(1.0),
    "three dimensions": lambda _: np.zeros((_N_ROWS, 2, 2)), "records of numpy": lambda t:
    t.to_records(index=False), "masked": lambda t: np.ma.array(t.to_numpy(), mask=t.to_numpy() > 1),
    "sparse frame": lambda t: t.astype(pd.SparseDtype(float, 0.0)), "lazy": _lazy,
    "sparse": lambda t: sparse.csr_array(t.to_numpy()), "data set": lambda t:
    pyarrow.dataset.dataset(pa.Table.from_pandas(t)), "list of tables": lambda t: [t, t],
    "groups": lambda t: t.groupby("b"), "index": lambda t: t.index, "no rows": lambda t: t[:0],
    "no columns": lambda t: t[[]], "twice": lambda t: pd.concat([t, t], axis=1),
    "levels": lambda t: t.set_axis(pd.MultiIndex.from_product([["u"], t.columns]), axis=1),
    "generator": lambda t: (row for row in t.to_numpy()), "nothing": lambda _: None,
    "whole": lambda t: t.astype(int), "arrow": pa.Table.from_pandas,
}
_AS_VALUES: dict[str, Callable[[Any], Any]] = {
    "as they are": lambda v: v, "series": pd.Series, "frame": lambda v: pd.Series(v).to_frame(),
    "array": lambda v: pd.Series(v).to_numpy(), "arrow": pa.array, "list": list, "short": lambda v:
    list(v)[:5], "two columns": lambda v: pd.DataFrame({"p": v, "q": v}), "set": lambda _: {1, 2},
    "generator": lambda v: (value for value in v), "column": lambda v:
    pd.Series(v).to_numpy().reshape(-1, 1), "category": lambda v: pd.Series(v, dtype="category"),
    "another index": lambda v: pd.Series(v, index=range(len(v), 0, -1)), "dict": lambda v:
    dict(enumerate(v)), "sparse": lambda v: sparse.csr_array(np.asarray(v).reshape(-1, 1)),
}
# fmt: on


def _values(draws: Draws) -> tuple[Any, str]:
    """Return values of rows in a container, and what they are."""
    pools: dict[str, list[Any]] = POOLS | OBJECTS
    kind, how = pick(draws, [*pools, *PANDAS, *["classes"] * 20]), pick(draws, [*_AS_VALUES])
    pool = [0, 1] if kind == "classes" else pools.get(kind) or PANDAS[kind]
    values: Any = [pick(draws, pool) for _ in range(_N_ROWS)]
    try:
        if kind in PANDAS:
            values = pd.Series(values, dtype=kind)
        values = _AS_VALUES[how](values)
    except Exception:  # noqa: BLE001 - what a library cannot hold
        how = "as they are"
    return values, f"{kind}, {how}"


def draw(draws: Draws, place: Path) -> Case:
    """Draw a selection by `select` or `FeatureSelector` of objects, some of them no tables."""
    table = pd.DataFrame(draws.normal(size=(_N_ROWS, 3)), columns=["a", "b", "c"])
    table.loc[5, "a"] = _HIDDEN
    kind = pick(draws, [*_AS_TABLE, *["frame"] * 12])
    X = _AS_TABLE[kind](table)
    y, said = (np.arange(_N_ROWS) % 2, "classes") if often(draws, 0.4) else _values(draws)
    given: dict[str, Any] = {"model": cheap("linear"), "method": pick(draws, ["gbmo", "mrmr"])}
    names = ["sample_weight", "groups", "time", "split"]
    roles = {name: _values(draws) for name in some(draws, names, 1)}
    door = pick(draws, ["select", "FeatureSelector"])
    loss = pick(draws, [None] * 6 + ["r2", "log_loss", "roc_auc", "squared_error", "x"])
    if often(draws, 0.15):
        target = pick(draws, [*NOT_TEXT, ["a", "b"], "absent"])
        y, said = target, repr(target)

    def do() -> None:
        log, root = StringIO(), logging.getLogger()
        handler, level = logging.StreamHandler(log), root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            if door == "select":
                chaffinch.select(X, y, loss=loss, **given)
            else:
                rows = {name: values for name, (values, _) in roles.items()}
                chaffinch.FeatureSelector(**given, loss=loss).fit(X, y, **rows)
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            if str(_HIDDEN) in log.getvalue():
                raise Broken(f"a cell in a log: {log.getvalue()[:300]!r}")

    by = ", ".join(f"{name} {what}" for name, (_, what) in roles.items())
    return Case(f"{door}({kind}, {said}; {by}; {shown(given)}, loss={loss!r})", do)
