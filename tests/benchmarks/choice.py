"""``make bench-choice``: does what the default method chooses beat what people use today?

For each table and seed 30 % of the rows are put aside; the others are to choose by, 2,500 at most
(5,000 to judge by). The model has the same fixed hyper-parameters for all. What a method has
chosen is refitted on all rows to choose by, and judged once on those put aside.

Two views. *Own size*: each method finds the size itself. *Equal size*: each ranking is cut at the
size that the method of ``--reference`` found, by default `auto`.

==================  ================================================  ==========================
method              rows that it looks at                             own size
==================  ================================================  ==========================
all, constant                                                         all features, none
auto                all, in nested folds                              found by itself
gbmo, afs_bm        the papers' 45, 30 and 10 %, in proportion        by the model validation
select_from_model   all                                               importances >= their mean
permutation         70 % to fit on, 30 % to shuffle                   losses that shuffling raises
rfecv               all, five folds                                   scikit-learn's RFECV
boruta              all                                               what it confirms, or ranks 1
==================  ================================================  ==========================

RFECV is scikit-learn's, ``step=0.1``, around the same base model with its importances and loss: it
takes a tenth of all features away at a time, which is fewer fits than ours, of a tenth of those
left. At equal size it is scikit-learn's RFE. AFS-BM and Boruta rank nothing and have no equal size.
Any other method of chaffinch can be named too; it is treated as `gbmo` is. A method that refuses a
table leaves its user with all features, and is counted so. A network has no importances: methods
that need them are left out there; its losses are means of three refits, as its seed matters.

Measures are over runs, a run being a table and a seed that all methods have been measured on.

- loss/all: loss by that of all features. Geometric mean, seeds of a table first, then tables. Where
  all features leave less than 5 % of a constant's loss, a quotient of two losses near 0 would
  outweigh all else: it is then 1 plus the share of skill lost. Skill is the loss of a constant
  minus the loss.
- worst: the highest of a table. harmed: share of runs with more than 1.05.
- skill lost: share of the runs with more than 5 % of skill lost, of those where all features beat
  a constant.
- kept: share of the features. stability: Nogueira's index over the seeds of a table, mean over the
  tables where it is defined (not where each seed kept all).
- CPU s: seconds of the process to choose the own size, fits of the base included; not the last
  refit. Mean over runs. refused: number of runs.
- difference: between the logarithms of loss/all in the same runs, as per cent. Intervals are by a
  bootstrap over tables, as seeds of one table are no independent evidence.

With ``--truth`` the tables are made up anew for each seed, of up to 20,000 rows, and it is known
which columns matter and which features are copies of them. *noise kept* is the share of the other
features that is kept, *true kept* the share of these columns of which a feature is.

Each run of a method is a line of ``bench-results/choice.jsonl``; what is there is not run again.

    python -m tests.benchmarks.choice [FOLDER] [--models lightgbm,mlp] [--seeds 0,1] [--summary]
        [--methods a,b] [--tables a,b] [--reference auto] [--truth]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.feature_selection import RFE, RFECV
from sklearn.model_selection import train_test_split

from chaffinch import InputError
from chaffinch.tasks.data.matrix import baseline_values
from chaffinch.tasks.data.splitting.splits import PARTS, Roles, fold_indices, split_around
from chaffinch.tasks.methods.baselines.rankings import scores_of
from chaffinch.tasks.methods.fitting import Recipe, recipe_of
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.selection.baselines.importances import select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.settings.method import kinds, method_of
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings
from chaffinch.tasks.statistics.ranks_and_stability import stability_of
from chaffinch.tasks.statistics.verdict import constant_prediction
from chaffinch.tasks.workers.interface import InProcess
from tests.benchmarks.choice_tables import as_rows, synthetic, tables, with_truth

RESULTS = Path("bench-results/choice.jsonl")
METHODS: tuple[str, ...] = (
    "auto",
    "gbmo",
    "afs_bm",
    "select_from_model",
    "permutation",
)
METHODS += ("rfecv", "boruta")
RIVALS = ("all", "gbmo", "select_from_model", "rfecv")
UNRANKED = ("afs_bm", "boruta")
OF_IMPORTANCES = ("select_from_model", "rfecv")
PARAMETERS: dict[str, dict[str, Any]] = {
    "lightgbm": {"n_estimators": 150, "num_leaves": 15, "learning_rate": 0.05},
    "xgboost": {
        "n_estimators": 150,
        "max_leaves": 15,
        "max_depth": 0,
        "grow_policy": "lossguide",
        "learning_rate": 0.05,
    },
}
REFITS = {"mlp": 3}
MOST_ROWS, MOST_TEST_ROWS = 2500, 5000
NEARLY_ZERO, TOO_MUCH = 0.05, 0.05
ROW = ["table", "seed"]

Ranking = Callable[[int], Any]  # the mask of a size
Case = tuple[str, Callable[[], "Bench"], np.ndarray | None]


class Base(BaseEstimator):
    """The base model, as far as scikit-learn's RFE asks for one."""

    def __init__(self, recipe: Recipe, n_classes: int) -> None:
        self.recipe, self.n_classes = recipe, n_classes

    def fit(self, X: Floats, y: Any) -> Base:
        names = tuple(f"x{j}" for j in range(X.shape[1]))
        schema = Schema(names, (0,) * len(names), self.n_classes)
        self.model_ = self.recipe.fit(Rows(X, y), schema)
        return self

    @property
    def feature_importances_(self) -> Floats:
        return select_from_model(self.model_)


class Bench:
    """A table, a model and a seed: what methods may look at, and how their sets are judged."""

    def __init__(self, dev: Rows, test: Rows, schema: Schema, model: str, seed: int) -> None:
        self.dev, self.test = dev, test
        self.schema, self.seed = schema, seed
        parameters = PARAMETERS.get(model, {})
        if model == "lightgbm":  # its own 20 would leave a small table without a split
            parameters = {**parameters, "min_child_samples": min(20, max(1, len(self.dev) // 10))}
        asked = ModelSettings(name=model, parameters=parameters, tuning="none")
        self.settings = SelectionSettings(target="y", model=asked, seed=seed)
        self.recipe = recipe_of(self.settings)
        self.loss = resolve_loss(None, schema)
        constant = constant_prediction(
            self.loss, self.dev.y, None, len(self.test), schema.n_classes
        )
        self.loss_constant = self.loss(self.test.y, constant)
        self.loss_all = self.judged(np.ones(len(schema.features), bool))

    @classmethod
    def of_table(cls, X: pd.DataFrame, y: pd.Series, model: str, seed: int) -> Bench:
        """Put 30 % of the rows aside to judge by."""
        rows, schema = as_rows(X, y)
        inside, outside = parted(rows, seed)
        dev, test = rows.take(inside[:MOST_ROWS]), rows.take(outside[:MOST_TEST_ROWS])
        return cls(dev, test, schema, model, seed)

    def context(self, parts: dict[str, Any]) -> Problem:
        """Return what a method may look at, given the positions of the rows of each part."""

        def rows(*names: str) -> Rows:
            return self.dev.take(np.sort(np.concatenate([parts[name] for name in names])))

        train = rows("train")
        return Problem(
            settings=self.settings,
            schema=self.schema,
            recipe=self.recipe,
            base_model=cache(lambda: self.recipe.fit(train, self.schema)),
            baseline=baseline_values(train, self.schema, "mean"),
            keep=(),
            rows=rows,
            folds=lambda *names: fold_indices(Roles(rows(*names).y), self.settings),
            workers=InProcess(),
            on_progress=lambda *_: None,
            units=lambda *names: np.arange(len(rows(*names))),
        )

    def chosen(self, name: str) -> tuple[Mask, Ranking]:
        """Return a method's mask of its own size, and its masks of any size."""
        if name == "boruta":
            return self.boruta(), lambda _: None
        if name == "rfecv":
            return self.rfecv()
        if name == "select_from_model":
            scores = select_from_model(self.recipe.fit(self.dev, self.schema))
            return cut(scores, scores.mean())
        if name == "permutation":
            fitted, shuffled = parted(self.dev, self.seed + 1)
            parts = {"train": fitted, "mask_validation": shuffled}
            return cut(scores_of("permutation", self.context(parts)), np.nextafter(0, 1))
        splits = split_around(np.array([], np.int64), Roles(self.dev.y), self.settings)
        context = self.context({part: getattr(splits, part) for part in PARTS})
        method = method_of(name)
        result = method.search(context)
        masks = [candidate.mask for candidate in method.candidates(result)]
        train, rest = context.rows("train"), self.dev.take(splits.model_validation)
        losses = [self.refitted(mask, train, rest, self.recipe) for mask in masks]
        return masks[int(np.argmin(losses))], result.mask_of_size

    def rfecv(self) -> tuple[Mask, Ranking]:
        """Return what scikit-learn's RFECV keeps, and its RFE down to a size."""
        base = Base(self.recipe, self.schema.n_classes)

        def score(fitted: Base, X: Floats, y: Any) -> float:
            return -self.loss(y, fitted.model_.predict(X))

        folds = fold_indices(Roles(self.dev.y), self.settings)
        own = RFECV(base, step=0.1, cv=folds, scoring=score).fit(self.dev.X, self.dev.y)

        def down_to(size: int) -> Mask:
            rfe = RFE(base, n_features_to_select=size, step=0.1)
            return np.asarray(rfe.fit(self.dev.X, self.dev.y).support_)

        return np.asarray(own.support_), down_to

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

    def judged(self, mask: Mask) -> float:
        """Return the loss on the rows put aside."""
        n_refits = REFITS.get(self.recipe.name, 1)
        recipes = [replace(self.recipe, seed=1000 + n) for n in range(n_refits)]
        return float(np.mean([self.refitted(mask, self.dev, self.test, r) for r in recipes]))

    def refitted(self, mask: Mask, train: Rows, held_out: Rows, recipe: Recipe) -> float:
        model = recipe.fit(train.select(mask), self.schema.select(mask))
        return self.loss(held_out.y, model.predict(held_out.X[:, mask]))


def parted(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of 70 % of the rows and of the others, classes in proportion."""
    positions, stratify = np.arange(len(rows)), rows.y if rows.y.dtype.kind == "i" else None
    both = train_test_split(positions, test_size=0.3, random_state=seed, stratify=stratify)
    return both[0], both[1]


def cut(scores: Floats, lowest: float) -> tuple[Mask, Ranking]:
    """Return the features whose score is at least that, or the best, and the best of any size."""
    path = RankedPath.from_scores(scores)
    return path.best(path.size_at(lowest)), path.best


def measured(bench: Bench, name: str, sizes: list[int | None]) -> list[dict[str, Any]]:
    """Return what came of a method at sizes; None is its own."""
    masks: list[tuple[int | None, Mask]]
    refused, start = "", time.process_time()
    try:
        own, ranking = bench.chosen(name)
        seconds = time.process_time() - start
        masks = [(size, own if size is None else ranking(size)) for size in sizes]
    except InputError as error:
        refused, seconds = str(error), time.process_time() - start
        masks = [(size, np.ones(len(bench.schema.features), bool)) for size in sizes]
    return [
        {
            "method": name,
            "asked": size,
            "size": int(mask.sum()),
            "loss": bench.judged(mask),
            "loss_all": bench.loss_all,
            "loss_constant": bench.loss_constant,
            "seconds": seconds,
            "kept": np.flatnonzero(mask).tolist(),
            "refused": refused,
        }
        for size, mask in masks
    ]


def run(asked: argparse.Namespace) -> None:
    """Measure what is missing; the reference first, as others are cut at its size."""
    RESULTS.parent.mkdir(exist_ok=True)
    done = {key_of(line): line for line in kept()}
    names = sorted(asked.methods, key=lambda name: name != asked.reference)
    for model in asked.models:
        warm_up(model, names)
        for seed, (table, make, source) in cases(asked, model):
            bench: Bench | None = None
            size: int | None = None
            for name in names:
                if model == "mlp" and name in OF_IMPORTANCES:
                    continue
                cell = table, model, seed, name
                ranked = size is not None and name not in UNRANKED
                views: list[int | None] = [None, size] if ranked else [None]
                missing = [view for view in views if (*cell, view) not in done]
                if missing:
                    with single_thread(), warnings.catch_warnings(action="ignore"):
                        bench = bench or make()
                        lines = measured(bench, name, missing)
                    about = {"table": table, "model": model, "seed": seed}
                    about |= {"rows": len(bench.dev), "features": len(bench.schema.features)}
                    with RESULTS.open("a") as file:
                        for line in lines:
                            line |= {} if source is None else truth(source, line["kept"])
                            print(json.dumps({**about, **line}), file=file)
                            done[key_of({**about, **line})] = line
                if name == asked.reference:
                    size = done[*cell, None]["size"]
            print(f"{model}, seed {seed}: {table}", flush=True)


def cases(asked: argparse.Namespace, model: str) -> Iterator[tuple[int, Case]]:
    """Yield each seed, and the name of a table, what makes its bench, and its true features."""
    for seed in asked.seeds:
        if asked.truth:
            every: Iterator[Case] = (
                (name, partial(Bench, t.rows, t.test, t.schema, model, seed), t.source)
                for name, t in with_truth(seed)
            )
        else:
            every = (
                (name, partial(Bench.of_table, X, y, model, seed), None)
                for name, X, y in tables(asked.folder)
            )
        for case in every:
            if case[0] in (asked.tables or [case[0]]):
                yield seed, case


def truth(source: np.ndarray, chosen: list[int]) -> dict[str, float | None]:
    """Return the shares of the noise features, and of the columns that matter, that are kept."""
    is_kept = np.isin(np.arange(len(source)), chosen)
    noise, matter = source < 0, np.unique(source[source >= 0])
    return {
        "noise_kept": float(is_kept[noise].mean()) if noise.any() else None,
        "true_kept": float(np.isin(matter, source[is_kept]).mean()) if len(matter) else None,
    }


def warm_up(model: str, names: list[str]) -> None:
    """Let each method import and compile what it needs, which no table is to be charged with."""
    _, X, y = next(one for one in synthetic() if one[0] == "few_rows_classes")
    with single_thread(), warnings.catch_warnings(action="ignore"):
        bench = Bench.of_table(X.iloc[:, :5], y, model, 0)
        for name in names:
            if model != "mlp" or name not in OF_IMPORTANCES:
                measured(bench, name, [None])


def kept() -> list[dict[str, Any]]:
    """Return the lines there are."""
    unknown = {"noise_kept": None, "true_kept": None}
    lines = RESULTS.open() if RESULTS.is_file() else ()
    return [{**unknown, **json.loads(line)} for line in lines]


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("table", "model", "seed", "method", "asked"))


def ratio(loss: Any, loss_all: Any, loss_constant: Any) -> Any:
    """Return loss/all, or 1 plus the share of skill lost where the loss of all is almost 0."""
    skill_lost = (loss - loss_all) / (loss_constant - loss_all)
    return np.where(loss_all < NEARLY_ZERO * loss_constant, 1 + skill_lost, loss / loss_all)


def summary(asked: argparse.Namespace) -> None:
    """Print both views of all runs with each model."""
    every = pd.DataFrame(kept())
    has_truth = every["true_kept"].notna() | every["noise_kept"].notna()
    every = every[has_truth == asked.truth]
    if asked.tables:
        every = every[every["table"].isin(asked.tables)]
    for model in asked.models:
        of_model = every[(every["model"] == model) & every["seed"].isin(asked.seeds)]
        own = of_model[of_model["asked"].isna()]
        say(f"{model}, own size", own, asked.methods)
        reference = own[own["method"] == asked.reference]
        sizes = reference[[*ROW, "size"]].rename(columns={"size": "cut"})
        cut_there = of_model.merge(sizes, on=ROW).query("asked == cut")
        ranked = [name for name in asked.methods if name not in UNRANKED]
        say(f"{model}, equal size as {asked.reference}", pd.concat([reference, cut_there]), ranked)


def say(title: str, lines: pd.DataFrame, methods: list[str]) -> None:
    """Print what methods are worth over the runs that all of them have been measured on."""
    lines = lines[lines["method"].isin(methods)].drop_duplicates([*ROW, "method"], keep="last")
    names = [name for name in methods if name in set(lines["method"])]
    whole = lines[lines.groupby(ROW)["method"].transform("size") == len(names)]
    by_table = whole.groupby("table")
    if not names or by_table.ngroups < 2:
        print(f"\n{title}: fewer than 2 tables have been measured with all methods")
        return
    n_runs, n_seeds = len(whole.groupby(ROW)), whole["seed"].nunique()
    print(f"\n{title}: {by_table.ngroups} tables, {n_seeds} seeds, {n_runs} runs")
    bare = whole.drop_duplicates(ROW).assign(seconds=0.0, refused="")
    ends = [bare.assign(method="all", loss=bare["loss_all"], size=bare["features"])]
    ends += [bare.assign(method="constant", loss=bare["loss_constant"], size=0)]
    whole = pd.concat([*ends, whole], ignore_index=True)
    losses = whole["loss"], whole["loss_all"], whole["loss_constant"]
    whole["log_ratio"] = np.log(ratio(*losses))
    logs = whole.pivot_table(index="table", columns="method", values="log_ratio")
    head = "harmed  skill lost  kept  stability    CPU s  refused"
    print(f"{'method':18} loss/all  worst {'':22} {head}")
    for name in ("all", "constant", *names):
        of = whole[whole["method"] == name]
        skilled = of[of["loss_all"] < of["loss_constant"]]
        lost = skilled["loss"] - skilled["loss_all"]
        skill = skilled["loss_constant"] - skilled["loss_all"]
        share = (of["size"] / of["features"]).groupby(of["table"]).mean().mean()
        alike = stability(of) if name in names else float("nan")
        print(
            f"{name:18} {np.exp(logs[name].mean()):8.3f} {np.exp(logs[name].max()):6.2f} "
            f"{logs[name].idxmax():22.22} {(of['log_ratio'] > np.log(1 + TOO_MUCH)).mean():6.0%} "
            f"{(lost > TOO_MUCH * skill).mean():11.0%} {share:5.0%} {alike:10.2f} "
            f"{of['seconds'].mean():8.2f} {(of['refused'] != '').sum():8d}"
        )
    if whole["true_kept"].notna().any():
        shares = whole.groupby("method")[["noise_kept", "true_kept"]].mean()
        print("share of noise features kept, and of the columns that matter:")
        for name in names:
            print(f"{name:18} {shares['noise_kept'][name]:6.2f} {shares['true_kept'][name]:6.2f}")
    rivals = [name for name in RIVALS if name in logs]
    print("difference in % [95 % interval over tables] against:")
    print(f"{'':18}", *(f"{name:>24}" for name in rivals))
    for name in names:
        against = (interval(logs[name] - logs[rival]) for rival in rivals)
        print(f"{name:18}", *(f"{text:>24}" for text in against))
    print("loss/all by table:")
    print(f"{'':22}", *(f"{name[:10]:>10}" for name in names))
    for table, row in logs[names].iterrows():
        print(f"{table:22.22}", *(f"{value:10.3f}" for value in np.exp(row)))


def interval(of_tables: pd.Series) -> str:
    """Return the mean of logarithms (tables,) as per cent, with its interval by bootstrap."""
    values = of_tables.to_numpy()
    drawn = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(axis=1)
    ends = np.array([values.mean(), *np.quantile(drawn, (0.025, 0.975))])
    mean, low, high = 100 * np.expm1(ends)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def stability(lines: pd.DataFrame) -> float:
    """Return the mean over tables of how alike the sets of the seeds are."""
    values = []
    for _, of_table in lines.groupby("table"):
        chosen = np.zeros((len(of_table), of_table["features"].iloc[0]), bool)
        for mask, features in zip(chosen, of_table["kept"], strict=True):
            mask[features] = True
        found = stability_of(chosen)
        values += [] if found is None else [found.value]
    return float(np.mean(values)) if values else float("nan")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="What methods choose, and what that is worth.")
    several: Any = lambda text: text.split(",")  # noqa: E731
    numbers: Any = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--models", type=several, default=["lightgbm"])
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", type=several, default=[*METHODS])
    parser.add_argument("--tables", type=several, default=[])
    parser.add_argument("--reference", default="auto")
    parser.add_argument("--truth", action="store_true", help="made-up tables of known truth alone")
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    unknown = {*asked.methods, asked.reference} - {*kinds(), "boruta"}
    if unknown:
        parser.error(f"there is no method {', '.join(sorted(unknown))}")
    if not asked.summary:
        run(asked)
    summary(asked)


if __name__ == "__main__":
    main()
