"""``make bench-certified``: do certified sets lose no more than the tolerance?

Tables are made up, so that the truth can be measured: models refitted on each certified set, and on
all features, predict 20,000 new rows of the same distribution. A certificate is false if any of its
sets loses more than the tolerated 2 % of what all features explain there beyond a constant.

Tables: *alike* has 2 to 4 causes, of which 8 to 16 features are mixtures with more or less noise,
and up to 6 features of no use, with 300 to 3,000 rows: many sets of a few features tell nearly all.
*larger* has the same tables, and six features in each certified set, whatever is chosen.
*limit* has 4 causes, each in one exact feature and one with noise, and 6 features of no use; of two
sets of 4 features one has to differ from the exact features, and the noise is such that it then
loses 2 % at least, on average over such tables. So every certificate of *limit* is one too many,
and false where the models of the table do lose more on the new rows.

Half of the tables have a test part, a third of the rows; of the others folds certify.

    python -m tests.benchmarks.certified [--trials 300] [--cases alike,larger,limit]
        [--quality permutation] [--first 0] [--summary]

Each trial is a line of ``bench-results/certified.jsonl``; what is there is not run again. With
``--tables FOLDER`` the tables of ``INDEX.csv`` in the folder are shown instead.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import beta

import chaffinch
from chaffinch import AlternativeSettings, ModelSettings
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import Rows, Schema

RESULTS = Path("bench-results/certified.jsonl")
CASES, VALIDATIONS = ("alike", "larger", "limit"), ("folds", "test")
N_NEW, TOLERANCE = 20_000, 0.02
_N_CAUSES, _N_USELESS = 4, 6  # of limit
_SIZE_OF_LARGER = 6


def alike(n_rows: int, random: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of mixtures of a few causes, and new rows of the same."""
    n_causes, n_mixed = random.integers(2, 5), random.integers(8, 17)
    n_useless = random.integers(0, 7)
    effects = random.uniform(0.5, 1.5, n_causes)
    mixtures = random.normal(size=(n_causes, n_mixed))
    noise = random.uniform(0, 0.3) * random.uniform(0.5, 1.5, n_mixed)
    error = random.uniform(0.5, 2)

    def rows(n: int) -> pd.DataFrame:
        causes = random.normal(size=(n, n_causes))
        X = causes @ mixtures + noise * random.normal(size=(n, n_mixed))
        X = np.hstack([X, random.normal(size=(n, n_useless))])
        y = causes @ effects + error * random.normal(size=n)
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)

    return rows(n_rows), rows(N_NEW)


def limit(
    n_rows: int, n_fitted: int, random: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table whose every set but one loses the tolerance or more, on average."""
    d = 2 * _N_CAUSES + _N_USELESS

    def too_much(added: float) -> float:
        """Return how much more a set loses than the tolerance, if its noisy feature adds this."""
        of_all = 1 + (d + 1) / n_fitted  # a least-squares fit of p numbers adds p / n
        of_set = (1 + added) * (1 + (_N_CAUSES + 1) / n_fitted)
        constant = (1 + _N_CAUSES) * (1 + 1 / n_fitted)
        return of_set - of_all - TOLERANCE * (constant - of_all)

    share = brentq(too_much, 0, 1)  # of a cause that its noisy feature lacks
    noise = np.sqrt(share / (1 - share))

    def rows(n: int) -> pd.DataFrame:
        causes = random.normal(size=(n, _N_CAUSES))
        noisy = causes + noise * random.normal(size=causes.shape)
        X = np.hstack([causes, noisy, random.normal(size=(n, _N_USELESS))])
        y = causes.sum(axis=1) + random.normal(size=n)
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(y=y)

    return rows(n_rows), rows(N_NEW)


def trial(case: str, validation: str, quality: str, number: int) -> dict[str, Any]:
    random = np.random.default_rng([number, case == "limit", validation == "test"])
    n_rows = int(np.exp(random.uniform(np.log(300), np.log(3000))))
    n_fitted = n_rows * 2 // 3 if validation == "test" else n_rows
    n_sets = 1
    options: dict[str, Any] = {}
    if case != "limit":
        table, new = alike(n_rows, random)
        n_sets = int(random.integers(1, 4))
    else:
        table, new = limit(n_rows, n_fitted, random)
        options["method"] = chaffinch.methods.Auto(n_features=_N_CAUSES, exactly=True)
    data = table
    if validation == "test":
        n_train = n_fitted * 4 // 5
        parts = ["train"] * n_train + ["validation"] * (n_fitted - n_train)
        data = table.assign(part=parts + ["test"] * (n_rows - n_fitted))
        options["columns"] = {"split": "part"}
    result = chaffinch.select(
        data,
        "y",
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(
            number=n_sets,
            quality=quality,
            certified=True,
            certified_size=_SIZE_OF_LARGER if case == "larger" else None,
        ),
        **options,
    )
    assert result.alternatives is not None
    found = result.alternatives["certified"]
    losses = [share_lost(table[:n_fitted], new, one["features"]) for one in found["sets"]]
    return {
        "case": case,
        "validation": validation,
        "quality": quality,
        "trial": number,
        "rows": n_rows,
        "n_sets": n_sets,
        "size": len(result.features),
        "is_shown": found["is_shown"],
        "tau": found["tau"],
        "lost": losses,
        "bounds": [one["share_lost_at_most"] for one in found["sets"]],
    }


def share_lost(table: pd.DataFrame, new: pd.DataFrame, features: list[str]) -> float:
    """Return the share that a set loses of what all features explain of new rows."""

    def loss(names: list[str]) -> float:
        rows = Rows(table[names].to_numpy(), table["y"].to_numpy())
        model = models.fit("linear", rows, Schema(tuple(names), (0,) * len(names)), {}, seed=0)
        return float(np.square(model.predict(new[names].to_numpy()) - new["y"]).mean())

    of_all = loss([name for name in table if name.startswith("x")])
    constant = float(np.square(table["y"].mean() - new["y"]).mean())
    return (loss(features) - of_all) / (constant - of_all)


def summary() -> None:
    cells = defaultdict(list)
    for line in map(json.loads, RESULTS.read_text().splitlines()):
        cells[tuple(line[key] for key in ("case", "quality", "validation"))].append(line)
    print(f"{'':38}{'tables':>7}{'certified':>11}{'false':>7}{'at most':>9}{'mean tau':>10}")
    for (case, quality, validation), lines in sorted(cells.items()):
        shown = [line for line in lines if line["is_shown"]]
        n_false = sum(max(line["lost"]) > TOLERANCE for line in shown)
        most = beta.ppf(0.95, n_false + 1, len(lines) - n_false)  # of all tables
        taus = f"{np.mean([line['tau'] for line in shown]):.2f}" if shown else ""
        print(
            f"{case:8}{quality:18}{validation:12}  {len(lines):7}{len(shown):11}"
            f"{n_false:7}{most:9.1%}{taus:>10}"
        )


def left(asked: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    done = set()
    if RESULTS.exists():
        lines = map(json.loads, RESULTS.read_text().splitlines())
        done = {tuple(line[key] for key in ("case", "quality", "trial")) for line in lines}
    for case in asked.cases.split(","):
        for number in range(asked.first, asked.first + asked.trials):
            if (case, asked.quality, number) not in done:
                yield case, VALIDATIONS[number % 2], asked.quality, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--quality", default="permutation")
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    for key in [] if asked.summary else left(asked):
        line = json.dumps(trial(*key))
        with RESULTS.open("a") as file:
            file.write(line + "\n")
    summary()


if __name__ == "__main__":
    main()
