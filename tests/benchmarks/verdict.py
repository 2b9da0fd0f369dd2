"""``make bench-verdict``: how often is the verdict of a default selection wrong?

Tables are made up, so that the truth can be measured: both final models predict 20,000 new rows of
the same distribution. A verdict is wrong where it says

- better, and the selected features have no lower loss on the new rows,
- worse, and they have no higher loss,
- as good with fewer columns, and they lose more than the tolerated 2 % of what all features explain
  there beyond a constant.

Tables: *gain* has 4 features that matter and 26 that do not; *dense* has 15 that matter alike, so
that each one left out costs; *copies* has 5 that matter, each three times with a little noise;
*none* has 15 features and a target that depends on none. Rows are independent; or in groups of six
that share an effect, and most of each feature; or in time order, where noise and features depend on
the moment before (autocorrelation .5).

    python -m tests.benchmarks.verdict [--trials 300] [--cases gain,dense] [--rows 100,300,1000]
        [--order rows,groups,time] [--model linear] [--first 0] [--summary]

Each trial is a line of ``bench-results/verdict.jsonl``; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import Rows, Schema

RESULTS = Path("bench-results/verdict.jsonl")
CASES = ("gain", "dense", "copies", "none")
ORDERS = ("rows", "groups", "time")
N_NEW, GROUP, AUTOCORRELATION = 20_000, 6, 0.5
PARAMETERS: dict[str, dict[str, Any]] = {
    "linear": {},
    "lightgbm": {"n_estimators": 60, "num_leaves": 7, "min_child_samples": 5},
}
_TOLERANCE = 0.02


def draws(random: np.random.Generator, shape: tuple[int, ...], order: str) -> np.ndarray:
    """Return normal draws of variance 1 along the rows: independent, by group, or in time."""
    own = random.normal(size=shape)
    if order == "groups":
        shared = np.repeat(random.normal(size=(shape[0] // GROUP + 1, *shape[1:])), GROUP, axis=0)
        return np.sqrt(0.5) * (own + shared[: shape[0]])
    if order == "time":
        own[1:] *= np.sqrt(1 - AUTOCORRELATION**2)
        return lfilter([1.0], [1.0, -AUTOCORRELATION], own, axis=0)
    return own


def table_of(case: str, order: str, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
    n_features = 30 if case == "gain" else 15
    X = draws(random, (n_rows, n_features), order)
    if case == "copies":
        X = np.repeat(X[:, :5], 3, axis=1) + 0.2 * random.normal(size=X.shape)
    effect = {"gain": np.r_[np.ones(4), np.zeros(26)], "dense": np.full(15, 0.4)}
    effect |= {"copies": np.tile([0.8, 0, 0], 5), "none": np.zeros(15)}
    y = X @ effect[case] + 2 * draws(random, (n_rows,), order)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(n_features)]).assign(y=y)
    if order == "groups":
        table["group"] = np.arange(n_rows) // GROUP
    if order == "time":
        table["time"] = np.arange(n_rows)
    return table


def trial(case: str, order: str, n_rows: int, model: str, number: int) -> dict[str, Any]:
    random = np.random.default_rng([number, n_rows, CASES.index(case), ORDERS.index(order)])
    table, new = (table_of(case, order, n, random) for n in (n_rows, N_NEW))
    roles = {"groups": {"group": "group"}, "time": {"time": "time"}}.get(order, {})
    settings = ModelSettings(name=model, parameters=PARAMETERS[model], tuning="none")
    result = chaffinch.select(table, "y", model=settings, **roles)
    features = [name for name in table if name.startswith("x")]
    fitted = table[: result.contract["dataset"]["rows_by_part"]["train"]]  # in time the first
    rows = Rows(fitted[features].to_numpy(), fitted["y"].to_numpy())
    schema = Schema(tuple(features), (0,) * len(features))
    every = models.fit(model, rows, schema, PARAMETERS[model], seed=0)
    predicted = {
        "selected": result.model.predict(new),
        "all_features": every.predict(new[features].to_numpy()),
        "constant": fitted["y"].mean(),
    }
    losses = {name: float(np.square(made - new["y"]).mean()) for name, made in predicted.items()}
    comparison = result.contract["comparison"]
    return {
        "case": case,
        "order": order,
        "rows": n_rows,
        "model": model,
        "trial": number,
        "verdict": comparison["verdict"],
        "kept": len(result.features) / len(features),
        "difference": comparison["difference"],
        "interval": comparison["interval"],
        **losses,
    }


def is_wrong(line: Mapping[str, Any]) -> bool:
    lost = line["selected"] - line["all_features"]
    tolerated = _TOLERANCE * (line["constant"] - line["all_features"])
    return {
        "better": lost >= 0,
        "worse": lost <= 0,
        "as good with fewer columns": lost > tolerated,
    }.get(line["verdict"], False)


def summary() -> None:
    cells = defaultdict(list)
    for line in map(json.loads, RESULTS.read_text().splitlines()):
        cells[tuple(line[key] for key in ("model", "order", "case", "rows"))].append(line)
    words = ("better", "as good with fewer columns", "worse", "cannot tell")
    short = ("better", "as good", "worse", "cannot tell")
    print(f"{'':36}" + "".join(f"{word:>17}" for word in short) + f"{'kept':>8}{'loss/all':>10}")
    print("share of trials (and of trials where that is wrong), per cent")
    for cell in sorted(cells):
        lines = cells[cell]
        said = Counter(line["verdict"] for line in lines)
        wrong = Counter(line["verdict"] for line in lines if is_wrong(line))
        model, order, case, n_rows = cell
        row = f"{model:9}{order:7}{case:7}{n_rows:6}{len(lines):6}  "
        for word in words:
            share, of_wrong = (100 * count[word] / len(lines) for count in (said, wrong))
            row += f"{share:9.1f} ({of_wrong:4.1f})"
        kept = np.mean([line["kept"] for line in lines])
        ratio = np.exp(np.mean([np.log(x["selected"] / x["all_features"]) for x in lines]))
        print(f"{row}{kept:8.2f}{ratio:10.3f}")


def left(asked: argparse.Namespace) -> Iterator[tuple[str, str, int, str, int]]:
    done = set()
    if RESULTS.exists():
        keys = ("case", "order", "rows", "model", "trial")
        lines = map(json.loads, RESULTS.read_text().splitlines())
        done = {tuple(line[key] for key in keys) for line in lines}
    for order in asked.order.split(","):
        for n_rows in map(int, asked.rows.split(",")):
            for case in asked.cases.split(","):
                for number in range(asked.first, asked.first + asked.trials):
                    key = case, order, n_rows, asked.model, number
                    if key not in done:
                        yield key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rows", default="100,300,1000")
    parser.add_argument("--order", default=",".join(ORDERS))
    parser.add_argument("--model", default="linear", choices=PARAMETERS)
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
