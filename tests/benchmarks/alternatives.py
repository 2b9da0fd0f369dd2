"""``make bench-alternatives``: alternative feature sets, ours beside the author's package.

Both search the same instances, one after the other, in one process and one thread; seconds are
those of the CPU. Qualities are measured once and given to both. The author's package runs on every
``--stride``-th instance, with a limit of ``--limit`` seconds a set, where its own is 60: where it
runs into that, a ratio is a lower bound. Tables: those that the package's paper names, from a
folder given as the first argument; without one, tables that scikit-learn bundles.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import chaffinch

RESULTS = Path("bench-results/alternatives.jsonl")
TABLES = ("wdbc", "sonar", "ionosphere", "spambase", "clean1", "madelon")
ENDINGS = (".parquet", ".csv.gz", ".tsv.gz")
MOST_ROWS = 500  # the matrices of mutual information are not what is measured
SEARCHES = (("sequential", None), ("simultaneous", "sum"), ("simultaneous", "min"))
SIZES, N_ALTERNATIVES, TAUS = (5, 10), (1, 2, 3, 4, 5), (0.2, 0.4, 0.6, 0.8, 1.0)
QUALITIES = ("MI", "FCBF", "mRMR")
OUR_LIMIT, ITS_OWN_LIMIT = 10.0, 60.0


@dataclass(frozen=True)
class Instance:
    """One question to both."""

    table: str
    kind: str
    search: str
    aggregate: str | None
    k: int
    n_alternatives: int
    tau: float


def tables(folder: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield a name, X and y of each table."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    if folder is None:
        for load in (load_wine, load_breast_cancer, load_digits):
            X, y = load(return_X_y=True)
            yield load.__name__.removeprefix("load_"), X[:MOST_ROWS], y[:MOST_ROWS]
        return
    for name in TABLES:
        path = next(p for e in ENDINGS if (p := folder / f"{name}{e}").is_file())
        table = (
            pd.read_parquet(path)
            if path.suffix == ".parquet"
            else pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
        )
        rows = table.sample(min(MOST_ROWS, len(table)), random_state=0)
        yield name, rows.drop(columns="target").to_numpy(float), rows["target"].to_numpy()


def qualities(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return what both are given, by the paper's names."""
    information = chaffinch.qualities.mutual_information(X, y, task="classification")
    pairs = chaffinch.qualities.mrmr(X, y, task="classification", processes=4)
    return {
        "MI": information,
        "FCBF": chaffinch.qualities.FCBF(pairs.relevance, pairs.redundancy),
        "mRMR": pairs,
    }


def ours(quality: Any, one: Instance) -> dict[str, Any]:
    """Return the status, the worth and the CPU seconds of ours."""
    start = time.process_time()
    found = chaffinch.find_alternatives(
        quality,
        k=one.k,
        n_alternatives=one.n_alternatives,
        tau=one.tau,
        search=one.search,
        aggregate=one.aggregate,
        time_limit=OUR_LIMIT,
    )
    seconds = time.process_time() - start
    return {
        "status": found.status,
        "total": found.total,
        "gap": found.gap,
        "n_sets": len(found),
        "seconds": seconds,
    }


def warm_up() -> None:
    """Compile, or read from disk, whatever is compiled."""
    random = np.random.default_rng(0)
    relevance, redundancy = random.uniform(size=14), random.uniform(size=(14, 14)) / 4
    of_pairs = chaffinch.qualities.MRMR(relevance, redundancy)
    for quality, (search, aggregate) in product(
        (chaffinch.qualities.Univariate(relevance), of_pairs), SEARCHES
    ):
        for k, n_alternatives, tau in ((3, 1, 0.5), (4, 3, 0.5), (6, 4, 0.3)):
            ours(quality, Instance("", "", search, aggregate, k, n_alternatives, tau))


def authors(quality: Any, one: Instance, limit: float) -> dict[str, Any]:
    """Return the same of the author's package, stopped after `limit` seconds a set."""
    selector = _selector(quality, one.kind, limit)
    search = (
        selector.search_sequentially
        if one.search == "sequential"
        else selector.search_simultaneously
    )
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        found = search(
            k=one.k,
            num_alternatives=one.n_alternatives,
            tau=one.tau,
            objective_agg=one.aggregate or "sum",
        )
    seconds = time.process_time() - start
    codes = found["optimization_status"].tolist()
    status = "optimal" if set(codes) == {0} else "infeasible" if 2 in codes else "feasible"
    worths = found["train_objective"]
    total = worths.min() if one.aggregate == "min" else worths.sum()
    return {"status": status, "total": float(total), "seconds": seconds}


def _selector(quality: Any, kind: str, limit: float) -> Any:
    import alfese
    from ortools.linear_solver import pywraplp

    def limited() -> Any:
        solver = pywraplp.Solver.CreateSolver("SCIP")
        solver.SetNumThreads(1)
        set_limit = solver.SetTimeLimit
        share = limit / ITS_OWN_LIMIT
        solver.SetTimeLimit = lambda milliseconds: set_limit(int(milliseconds * share))
        return solver

    alfese.alfese.AlternativeFeatureSelector.create_solver = staticmethod(limited)
    if kind == "MI":
        selector = alfese.ManualQualityUnivariateSelector()
        selector.set_data(q_train=quality.values.tolist())
        return selector
    relevance, redundancy = quality.relevance, [row.copy() for row in quality.redundancy]
    if kind == "mRMR":
        selector = alfese.MRMRSelector()
        selector._mi_target_train = selector._mi_target_test = relevance
        selector._mi_features_train = selector._mi_features_test = redundancy
    else:
        selector = alfese.FCBFSelector()
        selector._q_train = selector._q_test = relevance
        selector._mi_target, selector._mi_features = relevance, redundancy
    selector._n = len(relevance)
    return selector


def main() -> None:
    """Print statuses, seconds and ratios, and keep every instance."""
    asked_for = arguments()
    RESULTS.parent.mkdir(exist_ok=True)
    warm_up()
    by_kind: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    with RESULTS.open("w") as lines:
        for name, X, y in tables(asked_for.folder):
            print(f"{name}: {X.shape[0]} x {X.shape[1]}", flush=True)
            of_table = qualities(X, y)
            searches = [pair for pair in SEARCHES if pair[0] in asked_for.searches]
            asked = product(asked_for.qualities, searches, SIZES, N_ALTERNATIVES, TAUS)
            for place, (kind, (search, aggregate), k, n_alternatives, tau) in enumerate(asked):
                one = Instance(name, kind, search, aggregate, k, n_alternatives, tau)
                row = {**vars(one), "n": X.shape[1], "ours": ours(of_table[kind], one)}
                if place % asked_for.stride == 0:
                    row["authors"] = authors(of_table[kind], one, asked_for.limit)
                print(json.dumps(row), file=lines, flush=True)
                by_kind[kind, search, aggregate or ""].append(row)
    show(by_kind)
    print(f"Kept in {RESULTS}")


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--qualities", nargs="+", choices=QUALITIES, default=QUALITIES)
    searches = sorted({search for search, _ in SEARCHES})
    parser.add_argument("--searches", nargs="+", choices=searches, default=searches)
    parser.add_argument("--stride", type=int, default=61)
    parser.add_argument("--limit", type=float, default=5.0)
    return parser.parse_args()


def show(by_kind: dict[tuple[str, ...], list[dict[str, Any]]]) -> None:
    """Print a table like the paper's Tables 3 and 5, with ratios."""
    print(
        f"\n{'quality':8}{'search':14}{'':5}{'optimal':>9}{'infeas.':>9}{'feasible':>9}"
        f"{'mean s':>9}{'max s':>9}{'max s, k 5':>12}{'gap':>8}   {'author s':>9}{'ratio':>9}"
    )
    for (kind, search, aggregate), rows in sorted(by_kind.items()):
        statuses = [row["ours"]["status"] for row in rows]
        seconds = np.array([row["ours"]["seconds"] for row in rows])
        small = max(row["ours"]["seconds"] for row in rows if row["k"] == SIZES[0])
        shares = [statuses.count(s) / len(rows) for s in ("optimal", "infeasible", "feasible")]
        both = [row for row in rows if "authors" in row]
        of_author = sum(row["authors"]["seconds"] for row in both)
        ratio = of_author / max(1e-9, sum(row["ours"]["seconds"] for row in both))
        gap = max(r["ours"]["gap"] for r in rows if r["ours"]["n_sets"])
        print(
            f"{kind:8}{search:14}{aggregate:5}"
            + "".join(f"{share:9.1%}" for share in shares)
            + f"{seconds.mean():9.4f}{seconds.max():9.3f}{small:12.3f}{gap:8.2%}"
            + f"   {of_author / max(1, len(both)):9.2f}{ratio:8.0f}x"
        )


if __name__ == "__main__":
    main()
