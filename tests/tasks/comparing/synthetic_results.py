"""Results of a comparison made on the spot, with differences of our choosing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.tasks.comparing.plan import RESULTS

CHOOSES = ("gbmo", "dfs")  # methods that choose their number of features


def synthetic_rows(
    *,
    tables: Sequence[str] = ("wine",),
    models: Sequence[str] = ("linear",),
    methods: Sequence[str] = ("gbmo",),
    sizes: Sequence[int] = (5,),
    differences: Mapping[str, float] | None = None,
    n_seeds: int = 3,
    n_folds: int = 5,
    n_total: int = 30,
    noise: float = 0.02,
) -> list[dict[str, Any]]:
    """Rows in which a method's loss differs from that with all features, on average, as said."""
    rng = np.random.default_rng(0)
    contenders = [("all", None)]
    for method in methods:
        contenders += [(method, size) for size in ((None,) if method in CHOOSES else sizes)]
    cells = [(s, f) for s in range(n_seeds) for f in range(n_folds)]
    rows = []
    for table in tables:
        for model in models:
            for seed, fold in cells:
                reference = 0.5 + rng.normal(0, 0.05)
                for method, size in contenders:
                    n = n_total if method == "all" else size or n_total // 3
                    change = (differences or {}).get(method, 0.0) + rng.normal(0, noise)
                    kept = sorted(rng.choice(n_total, n, replace=False).tolist())
                    rows.append(
                        {
                            "table": table,
                            "model": model,
                            "method": method,
                            "size": size,
                            "seed": seed,
                            "fold": fold,
                            "n_features": n,
                            "n_total": n_total,
                            "features": [f"x{i}" for i in kept],
                            "loss": reference + (0.0 if method == "all" else change),
                            "loss_name": "log_loss",
                            "n_train": 400,
                            "n_test": 100,
                            "selection_seconds": 0.0 if method == "all" else 1.5,
                            "training_seconds": 0.25,
                            "error": None,
                        }
                    )
    return rows


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=RESULTS)


def synthetic(**how: Any) -> pa.Table:
    return table_of(synthetic_rows(**how))


def failing(rows: Sequence[dict[str, Any]], which: Callable[[dict[str, Any]], bool], error: str):
    """The rows, of which those that `which` picks could not be computed."""
    return [{**row, "loss": None, "error": error} if which(row) else row for row in rows]
