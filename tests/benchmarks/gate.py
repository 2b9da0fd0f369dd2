"""``make bench-gate``: what does the promotion gate do in a year of nights?

Each night has new rows of one distribution: 20 columns, of which 8 matter for a number, and a
default selection by a linear model. A library of nights is drawn once; a year is 365 of them in a
random order, with the set of the night before them promoted. Two figures are measured:

- how many years change the promoted set, although nothing changed;
- how often a gain of 5 % of what all features explain is promoted within 10 nights: the promoted
  set lacks a column of that worth, and has the 7 others that matter.

The gate is that of `decide`, with its confidence and its share of features that may change; beside
it stand the interval of 95 %, and a gate that also promotes sets that are as good with fewer
columns. Intervals are Student's here, which those of the bootstrap equal for so many rows.

    python -m tests.benchmarks.gate [--rows 2000] [--nights 366] [--years 200]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from chaffinch.tasks.promotion.gate import GATE_CONFIDENCE
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.settings.execution import PromotionSettings
from chaffinch.tasks.settings.method import method_of
from tests.benchmarks.choice import Bench

RESULTS = Path("bench-results/gate.jsonl")
SHARES = np.array([0.41, 0.26, 0.15, 0.09, 0.05, 0.02, 0.015, 0.005])  # of what all explain
MISSING, N_COLUMNS, NOISE, TOLERANCE = 4, 20, 1.5, 0.02


def rows_of(n_rows: int, night: int) -> Rows:
    random = np.random.default_rng([n_rows, night])
    X = random.normal(size=(n_rows, N_COLUMNS))
    return Rows(X, X[:, : len(SHARES)] @ np.sqrt(SHARES) * 1.6 + NOISE * random.normal(size=n_rows))


class Night:
    """What a default selection found in a night's rows, and sets refitted on the same folds."""

    def __init__(self, n_rows: int, night: int) -> None:
        schema = Schema(tuple(f"x{j}" for j in range(N_COLUMNS)), (0,) * N_COLUMNS, 0)
        rows, every = rows_of(n_rows, night), np.arange(n_rows)
        bench = Bench(rows, rows, schema, "linear", 0)
        parts = {"train": every, "mask_validation": every[:0], "model_validation": every[:0]}
        method = method_of("auto")
        result = method.search(bench.context(parts))
        self.mask: Mask = method.candidates(result)[0].mask
        table, self.widen = result.out_of_fold, result.facts["widen"]
        held, fold = table["row"].to_numpy(), table["fold"].to_numpy()
        self._y, self._folds = rows.y[held], []
        X = np.column_stack([rows.X, np.ones(len(rows))])
        for number in np.unique(fold):
            fitted = np.setdiff1d(every, held[fold == number])
            normal = X[fitted].T @ X[fitted], X[fitted].T @ rows.y[fitted]
            self._folds.append((*normal, X[held[fold == number]], np.flatnonzero(fold == number)))
        self.losses = (table["selected"].to_numpy() - self._y) ** 2
        self.constant = (table["constant"].to_numpy() - self._y) ** 2

    def losses_of(self, mask: Mask) -> Floats:
        """Return the losses of least squares with the features of a mask, refitted by folds."""
        columns, predicted = np.append(np.flatnonzero(mask), N_COLUMNS), np.empty(len(self._y))
        for squares, products, X, at in self._folds:
            weights = np.linalg.solve(squares[np.ix_(columns, columns)], products[columns])
            predicted[at] = X[:, columns] @ weights
        return np.asarray((predicted - self._y) ** 2)

    def replaces(self, promoted: Mask, confidence: float, *, as_good: bool) -> bool:
        changed = (self.mask ^ promoted).sum() / (self.mask | promoted).sum()
        if not 0 < changed <= PromotionSettings().most_changed:
            return False
        before = self.losses_of(promoted)
        lost, n = self.losses - before, len(before)
        if self._bound(lost, stats.t.ppf((1 + confidence) / 2, n - 1)) < 0:
            return True
        beyond = lost - TOLERANCE * (self.constant - before)
        is_smaller = self.mask.sum() < promoted.sum()
        return as_good and is_smaller and self._bound(beyond, stats.t.ppf(confidence, n - 1)) <= 0

    def _bound(self, values: Floats, quantile: float) -> float:
        error = values.std(ddof=1) / np.sqrt(len(values))
        return float(values.mean() + self.widen * quantile * error)


def changes(nights: list[Night], promoted: Mask, confidence: float, *, as_good: bool) -> int:
    """Return how often the promoted set changes in these nights."""
    n_changes = 0
    for night in nights:
        if night.replaces(promoted, confidence, as_good=as_good):
            promoted, n_changes = night.mask, n_changes + 1
    return n_changes


def main() -> None:
    """Print a line for each gate."""
    parser = argparse.ArgumentParser()
    for name, default in (("rows", 2000), ("nights", 366), ("years", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    library = [Night(options.rows, night) for night in range(options.nights)]
    lacking: NDArray[np.bool_] = np.isin(np.arange(N_COLUMNS), np.delete(np.arange(8), MISSING))
    RESULTS.parent.mkdir(exist_ok=True)
    for confidence, as_good in ((GATE_CONFIDENCE, False), (GATE_CONFIDENCE, True), (0.95, True)):
        random = np.random.default_rng(0)
        orders = [random.permutation(len(library)) for _ in range(options.years)]
        years = [
            changes([library[i] for i in rest], library[first].mask, confidence, as_good=as_good)
            for first, *rest in orders
        ]
        gains = [
            any(library[i].replaces(lacking, confidence, as_good=as_good) for i in order[:10])
            for order in orders
        ]
        line = {
            "rows": options.rows,
            "confidence": round(confidence, 6),
            "as_good_is_promoted": as_good,
            "years": options.years,
            "years_with_a_change": float(np.mean(np.array(years) > 0)),
            "changes_a_year": float(np.mean(years)),
            "gain_promoted_within_10_nights": float(np.mean(gains)),
        }
        print(json.dumps(line), flush=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
