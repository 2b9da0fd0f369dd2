"""``make bench-choice``: does the set that robust elimination chooses beat what people use today?

For each table and seed 30 % of the rows are put aside. Every method looks at the others alone:
those that need rows held out part them 70 to 30, those that do not are given all of them. (In a
comparison, and in a run, a ranking sees the training part only, which would flatter the rest.) The
base model is tuned once on these rows; refits on the chosen columns have its hyper-parameters, and
are judged once on what was put aside. Sizes: a half, a quarter and an eighth of the features.

Rows of a table are 2,500 to choose by and 5,000 to judge by at most. Intervals come of a bootstrap
over tables, as seeds of one table are no independent evidence. AFS-BM, Boruta and robust
elimination find a size themselves: their sets are compared with all features, and with those of the
same size that the others would keep.

    python -m tests.benchmarks.choice FOLDER [MODEL ...] [--seeds 0,1,2] [--methods a,b]

Runs are kept in ``bench-results/choice.jsonl``; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chaffinch.tasks.data.matrix import baseline_values
from chaffinch.tasks.data.splits import fold_indices
from chaffinch.tasks.methods.fitting import Recipe, Tuner, recipe_of, tune
from chaffinch.tasks.methods.protocol import SearchContext, as_search
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath
from chaffinch.tasks.selection.core import Mask, Rows, Schema, mask_of_size
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings
from chaffinch.tasks.workers.interface import InProcess

RESULTS = Path("bench-results/choice.jsonl")
ENDINGS = (".parquet", ".csv.gz", ".tsv.gz", ".csv", ".tsv")
RULE = "robust_elimination"
HELD_OUT = ("gbmo", "permutation", "afs_bm")
RANKED = (RULE, "gbmo", "select_from_model", "rfe", "permutation", "tree_shap", "mrmr")
RANKED += ("mutual_information",)
OF_TREES = ("select_from_model", "rfe", "tree_shap")  # a network has no importances
METHODS = (*RANKED, "afs_bm", "boruta")
OWN_SIZED = (RULE, "afs_bm", "boruta")
SHARES = (1 / 2, 1 / 4, 1 / 8)
FEWEST_ROWS, MOST_ROWS, MOST_TEST_ROWS, MOST_FEATURES = 50, 2500, 5000, 5000
TARGETS = ("target", "y")


def from_folder(folder: Path) -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Yield the tables of a folder that have a target, rows enough, and are not too wide."""
    for path in sorted(folder.iterdir()):
        if not path.name.endswith(ENDINGS):
            continue
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, sep="\t" if ".tsv" in path.suffixes else ",")
        target = next((name for name in TARGETS if name in table), None)
        if target is None or len(table) < FEWEST_ROWS or len(table.columns) > MOST_FEATURES:
            continue
        yield path.name.split(".")[0], table.drop(columns=target), table[target]


def from_scikit_learn() -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Yield the tables that scikit-learn bundles, but for those in the folder."""
    from sklearn.datasets import load_diabetes, load_digits, load_wine

    for load in (load_diabetes, load_digits, load_wine):
        X, y = load(return_X_y=True, as_frame=True)
        yield load.__name__.removeprefix("load_"), X, y


def as_rows(table: pd.DataFrame, target: pd.Series) -> tuple[Rows, Schema]:
    """Return a table with text as the place of a value in its order."""
    X = table.apply(lambda c: c if c.dtype.kind in "iufb" else pd.factorize(c, sort=True)[0])
    matrix = X.to_numpy(np.float64)
    matrix = matrix[:, np.nanstd(matrix, axis=0) > 0]
    is_class = target.dtype.kind not in "f" and target.nunique() <= 20
    y = pd.factorize(target, sort=True)[0].astype(np.int64) if is_class else target.to_numpy(float)
    names = tuple(f"x{j}" for j in range(matrix.shape[1]))
    n_classes = len(np.unique(y)) if is_class else 0
    return Rows(matrix, y), Schema(names, (0,) * len(names), n_classes)


def parted(rows: Rows, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows in two parts, classes in proportion."""
    from sklearn.model_selection import train_test_split

    stratify = rows.y if rows.y.dtype.kind == "i" else None
    return train_test_split(
        np.arange(len(rows)), test_size=share, random_state=seed, stratify=stratify
    )


class Bench:
    """A table, a model and a seed: what methods may look at, and how their sets are judged."""

    def __init__(self, rows: Rows, schema: Schema, model: str, seed: int) -> None:
        inside, outside = parted(rows, 0.3, seed)
        self.dev, self.test = rows.take(inside[:MOST_ROWS]), rows.take(outside[:MOST_TEST_ROWS])
        self.schema, self.seed = schema, seed
        self.settings = SelectionSettings(target="y", model=ModelSettings(name=model), seed=seed)
        self.loss = resolve_loss(None, schema)
        self.recipe = tune(
            recipe_of(self.settings),
            self.settings,
            self.dev,
            schema,
            lambda: fold_indices(self.dev.y, self.settings),
            InProcess(),
        ).recipe

    def material(self, name: str) -> SearchContext:
        """Return what a method may look at."""
        train, held_out = self.dev, self.dev
        if name in HELD_OUT:
            fitted, rest = parted(self.dev, 0.3, self.seed + 1)
            train, held_out = self.dev.take(fitted), self.dev.take(rest)
        parts = {("train",): train, ("mask_validation",): held_out}
        return SearchContext(
            schema=self.schema,
            recipe=self.recipe,
            tuner=Tuner(recipe_of(self.settings), self.settings),
            model=self.recipe.fit(train, self.schema),
            baseline=baseline_values(train, self.schema, "mean"),
            loss=self.loss,
            keep=(),
            seed=self.seed,
            rows=lambda *asked: parts.get(asked, self.dev),
            folds=lambda *_: fold_indices(self.dev.y, self.settings),
            workers=InProcess(),
            on_progress=lambda *_: None,
        )

    def masks(self, name: str) -> tuple[dict[int, Mask], Mask | None]:
        """Return a method's masks by size, and that of its own size if it finds one."""
        d = len(self.schema.features)
        if name == "all":
            return {d: np.ones(d, bool)}, None
        if name == "boruta":
            return {}, self.boruta()
        method = method_of(name)
        path = as_search(method).search(self.material(name))
        if name == "afs_bm":
            standing = [one.mask for one in as_search(method).candidates(path)]
            return {}, standing[int(np.argmin([self.inner_loss(mask) for mask in standing]))]
        masks = {size: mask_of_size(d, path.removed, size) for size in range(1, d + 1)}
        own = masks[path.best_size()] if isinstance(path, CrossValidatedPath) else None
        return masks, own

    def boruta(self) -> Mask:
        """Return what Boruta confirms: a forest's importances against those of shuffled columns."""
        from boruta import BorutaPy
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind = RandomForestClassifier if self.schema.n_classes else RandomForestRegressor
        forest = kind(max_depth=5, n_jobs=1, random_state=self.seed)
        found = BorutaPy(forest, n_estimators=100, max_iter=50, random_state=self.seed)
        found.fit(np.nan_to_num(self.dev.X), self.dev.y)
        mask = np.asarray(found.support_)
        return mask if mask.any() else np.asarray(found.ranking_ == found.ranking_.min())

    def inner_loss(self, mask: Mask) -> float:
        fitted, rest = parted(self.dev, 0.2, self.seed + 2)
        return self.refitted(mask, self.dev.take(fitted), self.dev.take(rest), self.recipe)

    def judged(self, mask: Mask) -> float:
        """Return the loss on the rows put aside, the mean of two refits with seeds of their own."""
        recipes = [replace(self.recipe, seed=1000 + n) for n in range(2)]
        return float(np.mean([self.refitted(mask, self.dev, self.test, r) for r in recipes]))

    def refitted(self, mask: Mask, train: Rows, held_out: Rows, recipe: Recipe) -> float:
        model = recipe.fit(train.select(mask), self.schema.select(mask))
        return float(self.loss(held_out.y, model.predict(held_out.X[:, mask])))


def measured(bench: Bench, name: str, own_sizes: set[int]) -> dict[str, Any]:
    """Return a method's losses by size, and what it took."""
    d = len(bench.schema.features)
    sizes = sorted({max(1, round(share * d)) for share in SHARES} | (own_sizes - {d}))
    start = time.process_time()
    masks, own = bench.masks(name)
    seconds = time.process_time() - start
    own_size = None if own is None else int(own.sum())
    if own is not None and name not in RANKED:
        masks = {int(own.sum()): own}
    asked = {*sizes, own_size} - {None} if name in RANKED else masks
    wanted = {size: masks[size] for size in sorted(asked)}
    return {
        "seconds": seconds,
        "own_size": own_size,
        "losses": {str(size): bench.judged(mask) for size, mask in wanted.items()},
        "kept": {str(size): np.flatnonzero(mask).tolist() for size, mask in wanted.items()},
    }


def run(folder: Path, models: list[str], seeds: list[int], methods: list[str]) -> None:
    """Measure what has not been measured yet."""
    RESULTS.parent.mkdir(exist_ok=True)
    done = {(r["table"], r["model"], r["seed"], r["method"]): r for r in kept()}
    tables = [*from_folder(folder), *from_scikit_learn()]
    for model, seed in ((model, seed) for seed in seeds for model in models):
        for table, X, y in tables:
            # Those that find their own size first: all others are asked for it as well.
            names = sorted(["all", *methods], key=lambda name: name in RANKED and name != RULE)
            if all((table, model, seed, name) in done for name in names):
                continue
            rows, schema = as_rows(X, y)
            with single_thread(), warnings.catch_warnings(action="ignore"):
                bench = Bench(rows, schema, model, seed)
                own: set[int] = set()
                for name in names:
                    row = done.get((table, model, seed, name))
                    if row is not None:
                        own |= {row["own_size"]} - {None}
                        continue
                    if model == "mlp" and name in OF_TREES:
                        continue
                    row = measured(bench, name, own)
                    own |= {row["own_size"]} - {None}
                    about = {"table": table, "model": model, "seed": seed, "method": name}
                    about |= {"rows": len(bench.dev), "features": len(schema.features)}
                    with RESULTS.open("a") as file:
                        print(json.dumps({**about, **row}), file=file)
            print(f"{model}, seed {seed}: {table} {len(bench.dev):,} x {len(schema.features)}")


def kept() -> list[dict[str, Any]]:
    """Return the runs there are."""
    return [json.loads(line) for line in RESULTS.open()] if RESULTS.is_file() else []


def nogueira(sets: list[list[int]], d: int) -> float:
    """Return the stability of sets: 1 if equal, 0 if as alike as drawn at random."""
    chosen = np.zeros((len(sets), d))
    for row, features in zip(chosen, sets, strict=True):
        row[features] = 1
    share = chosen.sum(axis=1).mean() / d
    spread = chosen.var(axis=0, ddof=1).mean()
    return float("nan") if share in (0, 1) else 1 - spread / (share * (1 - share))


def say(model: str) -> None:
    """Print ranks, differences, stability and seconds of all runs with a model."""
    runs: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for r in kept():
        if r["model"] == model:
            runs[r["table"], r["seed"]][r["method"]] = r
    names = [n for n in RANKED if any(n in cell for cell in runs.values())]
    whole = {key: cell for key, cell in runs.items() if all(n in cell for n in names)}
    tables = sorted({table for table, _ in whole})
    print(f"\n{model}: {len(tables)} tables x {len({s for _, s in whole})} seeds")
    if len(tables) < 2:
        return
    ranks, against = defaultdict(list), {n: defaultdict(list) for n in names}
    for (table, _), cell in whole.items():
        d = cell[RULE]["features"]
        for size in sorted({str(max(1, round(share * d))) for share in SHARES}):
            losses = pd.Series({n: cell[n]["losses"][size] for n in names})
            for name, rank in losses.rank().items():
                ranks[name].append(rank)
                ratio = np.log(losses[RULE] / losses[name])
                against[name][table].append(100 * ratio)
    print(f"{'method':20} rank   rule against it, % [95 % interval over tables]  stability      s")
    for name in sorted(names, key=lambda n: np.mean(ranks[n])):
        print(
            f"{name:20} {np.mean(ranks[name]):.2f}   {interval(against[name]):38} "
            f"{stability(whole, tables, name):.2f} "
            f"{np.mean([cell[name]['seconds'] for cell in whole.values()]):12.2f}"
        )
    say_own_sizes(runs)
    print("by table, rule against SelectFromModel and RFE, %:")
    for table in tables if "rfe" in names else ():
        both = (np.mean(against[n][table]) for n in ("select_from_model", "rfe"))
        print(f"  {table:20.20}", *(f"{value:+6.1f}" for value in both))


def say_own_sizes(runs: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Print how sets of their own size do beside all features and those of other methods."""
    for name in OWN_SIZED:
        others: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        shares = defaultdict(list)
        for (table, _), cell in runs.items():
            if name not in cell:
                continue
            d, size = cell[name]["features"], str(cell[name]["own_size"])
            shares[table].append(100 * int(size) / d)
            for other in ("all", *RANKED):
                losses = cell.get(other, {"losses": {}})["losses"]
                beside = losses.get(str(d) if other == "all" else size)
                if other != name and beside is not None:
                    ratio = np.log(cell[name]["losses"][size] / beside)
                    others[other][table].append(100 * ratio)
        if len(shares) > 1:
            print(f"{name} at its own size, {interval(shares)} % of all: its loss against, %")
            for other, by_table in others.items():
                print(f"  {other:20} {interval(by_table)}, {len(by_table)} tables")


def interval(by_table: dict[str, list[float]]) -> str:
    """Return the mean over tables with its interval by bootstrap over tables."""
    means = np.array([np.mean(values) for values in by_table.values()])
    random = np.random.default_rng(0)
    drawn = random.choice(means, (10_000, len(means))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{means.mean():+.2f} [{low:+.2f}, {high:+.2f}], median {np.median(means):+.2f}"


def stability(whole: dict[tuple[str, int], Any], tables: list[str], name: str) -> float:
    """Return the mean over tables and sizes of how alike the sets of the seeds are."""
    values = []
    for table in tables:
        cells = [cell[name] for (of, _), cell in whole.items() if of == table]
        d = cells[0]["features"]
        for size in {str(max(1, round(share * d))) for share in SHARES} if len(cells) > 1 else ():
            values.append(nogueira([cell["kept"][size] for cell in cells], d))
    return float(np.nanmean(values)) if values else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=["lightgbm"])
    number = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("--seeds", type=number, default=[10, 11, 12])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=[*METHODS])
    asked = parser.parse_args()
    run(asked.folder, asked.models, asked.seeds, asked.methods)
    for model in asked.models:
        say(model)
