"""How right the time left is, at a tenth, a quarter and a half of a run: JSON lines, and a summary.

Twenty runs of synthetic tables of other shapes, models and methods than those that the estimate was
made with. A figure is the time left that a user reads over the time that was left.
"""

import json
import warnings

import numpy as np
import pandas as pd

import chaffinch
from chaffinch.tasks.pipeline.progress import STEPS, RunProgress

SHARES = (0.1, 0.25, 0.5)
RUNS = [
    (rows, columns, model, method)
    for rows, columns in ((6_000, 25), (3_000, 150), (20_000, 12), (1_500, 400))
    for model, method in (
        ("lightgbm", "auto"),
        ("lightgbm", "gbmo"),
        ("xgboost", "auto"),
        ("linear", "auto"),
        ("lightgbm", "rfecv"),
    )
]


class Recorder(RunProgress):
    """Progress that records the time left at each change."""

    def __init__(self) -> None:
        super().__init__(STEPS)
        self.seen: list[tuple[float, float | None]] = []

    def on_change(self) -> None:
        self.seen.append((self.clock() - self._started, self.seconds_left))


def table(n_rows: int, n_columns: int) -> pd.DataFrame:
    """Return columns of noise, and a target of the first five and their products."""
    random = np.random.default_rng([n_rows, n_columns])
    X = random.normal(size=(n_rows, n_columns))
    y = X[:, :5].sum(axis=1) + X[:, 0] * X[:, 1] + random.normal(size=n_rows)
    return pd.DataFrame(X).add_prefix("x").assign(y=y)


def main() -> None:
    """Print a line for each run, and the share of figures within a factor of two."""
    figures = []
    for rows, columns, model, method in RUNS:
        progress = Recorder()
        with warnings.catch_warnings(action="ignore"):
            chaffinch.select(
                table(rows, columns), "y", model=model, method=method, verbose=progress
            )
        (seconds, _) = progress.seen[-1]
        row = {"rows": rows, "columns": columns, "model": model, "method": method}
        ratios = {}
        for share in SHARES:
            at, left = max(
                (one for one in progress.seen if one[0] <= share * seconds),
                default=(0.0, None),
                key=lambda one: one[0],
            )
            ratios[str(share)] = None if left is None else round(left / (seconds - at), 2)
        figures += [*ratios.values()]
        print(json.dumps({**row, "seconds": round(seconds, 1), **ratios}), flush=True)
    known = [figure for figure in figures if figure is not None]
    within = sum(0.5 <= figure <= 2 for figure in known)
    n_unknown = len(figures) - len(known)
    print(f"{within} of {len(known)} figures within a factor of two; {n_unknown} unknown")


if __name__ == "__main__":
    main()
