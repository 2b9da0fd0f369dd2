"""``make bench-choice-cost``: CPU seconds of a whole selection beside what people use today.

- ``chaffinch.select`` with the method, and without tuning, against scikit-learn's RFECV.
- The method with ``validation="holdout"`` against SelectFromModel and a cross-validation of what
  that keeps: six fits.

The base of both sides is LightGBM with its own defaults, and one thread. scikit-learn's side gets
the rows that a selection does not put aside for its test. Both sides run in turn in one process,
and before the clock starts on a few rows; the ratio is that of the least seconds of each.

    python -m tests.benchmarks.choice_cost [FOLDER] [--method auto] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.model_selection import cross_val_score, train_test_split

import chaffinch
from chaffinch.tasks.selection.models.runtime import single_thread
from tests.benchmarks.choice_tables import from_folder, named

FOLDS, TEST_SHARE = 5, 0.15
BASE: dict[str, Any] = {"n_jobs": 1, "verbosity": -1, "importance_type": "gain", "random_state": 0}

Side = Callable[[pd.DataFrame, pd.Series], int]


def tables(folder: Path | None) -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Yield a wide table, one in the shape of spambase, and spambase if the folder has it."""
    X, y = make_classification(5000, 200, n_informative=20, random_state=0)
    yield named("made up", X, y)
    X, y = make_classification(4601, 57, n_informative=20, random_state=0)
    yield named("as spambase", np.maximum(X, 0), y)  # half of the cells are 0
    if folder:
        yield from (one for one in from_folder(folder) if one[0] == "spambase")


def rfecv(X: pd.DataFrame, y: pd.Series) -> int:
    """Return how many features RFECV keeps."""
    return int(RFECV(LGBMClassifier(**BASE), step=0.1, cv=FOLDS).fit(X, y).n_features_)


def from_model(X: pd.DataFrame, y: pd.Series) -> int:
    """Return how many features SelectFromModel keeps, whose score is then cross-validated."""
    kept = SelectFromModel(LGBMClassifier(**BASE)).set_output(transform="pandas").fit(X, y)
    chosen = kept.transform(X)
    cross_val_score(LGBMClassifier(**BASE), chosen, y, cv=FOLDS)
    return int(chosen.shape[1])


def selected(table: pd.DataFrame, method: Any) -> int:
    """Return how many features a whole selection keeps."""
    model = chaffinch.ModelSettings(name="lightgbm", tuning="none")
    return len(chaffinch.select(table, "target", method=method, model=model).features)


def both_sides(X: pd.DataFrame, y: pd.Series, method: Any, other: Side) -> list[tuple[float, int]]:
    """Return the CPU seconds of each side, and the number of features that it keeps."""
    table = X.assign(target=y)
    dev, _, y_dev, _ = train_test_split(X, y, test_size=TEST_SHARE, random_state=0, stratify=y)
    taken = []
    for side, given in ((selected, (table, method)), (other, (dev, y_dev))):
        start = time.process_time()
        kept = side(*given)
        taken.append((time.process_time() - start, kept))
    return taken


def main() -> None:
    """Print both sides of each pair, and their ratio."""
    parser = argparse.ArgumentParser(description="Cost of a selection beside scikit-learn's.")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--method", default="auto", help="another one is measured against RFECV")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    pairs = [(asked.method, asked.method, rfecv)]
    if asked.method == "auto":
        pairs.append(("auto, holdout", {"kind": "auto", "validation": "holdout"}, from_model))
    print(f"{'table':14} {'method':20} kept  CPU s   against        kept  CPU s   ratio")
    for name, X, y in tables(asked.folder):
        for what, method, other in pairs:
            with single_thread(), warnings.catch_warnings(action="ignore"):
                both_sides(X[::15], y[::15], method, other)
                runs = [both_sides(X, y, method, other) for _ in range(asked.repeats)]
            (ours, kept), (theirs, kept_there) = map(min, zip(*runs, strict=True))
            print(
                f"{name:14} {what:20} {kept:4d} {ours:6.2f}   {other.__name__:14} "
                f"{kept_there:4d} {theirs:6.2f} {ours / theirs:7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
