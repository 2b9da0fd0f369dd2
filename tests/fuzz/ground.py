"""What cases begin with: a store with finished runs, files of each kind, everything compiled."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ModelSettings
from chaffinch.storage.files import sealed
from tests.fuzz.values import Place
from tests.made_up import good_table

CHEAP: dict[str, dict[str, Any]] = {
    "lightgbm": {"n_estimators": 5, "min_child_samples": 3},
    "xgboost": {"n_estimators": 5},
    "mlp": {"max_iter": 5, "hidden_layer_sizes": [4]},
    "linear": {},
    "DecisionTreeClassifier": {"max_depth": 3},
    "LogisticRegression": {},
}
# Each warms up what a forked process would otherwise load or compile anew.
_WARM: Sequence[dict[str, Any]] = (
    {"method": "dfs"},
    {"method": "mission"},
    {"method": "afs_bm"},
    {"method": "robust_elimination"},
    {"method": {"kind": "pefs", "hidden_layer_sizes": [3], "most_sweeps": 1}},
    {"method": "tree_shap"},
    {"method": "mrmr", "n_features": 2, "alternatives": 1},
)


@dataclass(frozen=True)
class Ground:
    """What is made once.

    Attributes
    ----------
    store : Path
        Where the runs are.
    runs : dict of str to str
        Run by the name of its model, or by what else is special about it.
    files : Path
        ``table.csv``, ``table.parquet``, ``shuffled.parquet`` and ``descent/``.
    """

    store: Path
    runs: dict[str, str]
    files: Path

    def contract(self, kind: str) -> dict[str, Any]:
        """Return what a run's ``selection.json`` holds."""
        return dict(json.loads((self.run(kind) / "selection.json").read_bytes()))

    def run(self, kind: str) -> Path:
        """Return a run's folder."""
        return self.store / "runs" / self.runs[kind]

    def copied(self, place: Place, *kinds: str) -> Path:
        """Copy the store, with these runs alone; return where it is."""
        place.store.mkdir()
        shutil.copy2(self.store / "store.json", place.store)
        shutil.copytree(self.store / "datasets", place.store / "datasets")
        for kind in kinds:
            run = self.run(kind)
            shutil.copytree(run, place.store / "runs" / run.name)
        return place.store


def cheap(name: str, **more: Any) -> ModelSettings:
    """Return settings by which a model is fitted in milliseconds."""
    settings = {"tuning": "none", "folds": 2, "parameters": CHEAP.get(name, {})} | more
    return ModelSettings(name=name, **settings)


def table(n_rows: int = 120) -> pd.DataFrame:
    """Return the table of the runs: numbers, a category and a target of classes."""
    return good_table(n_rows)


def of_days(n_rows: int = 120) -> pd.DataFrame:
    """Return a table of two series in time order, with a target of numbers."""
    found = good_table(n_rows).drop(columns=["churned", "noise_2"])
    numbers = found["age"].fillna(0) + np.arange(n_rows) % 7
    return found.assign(day=np.arange(n_rows) // 2, shop=np.arange(n_rows) % 2, sold=numbers)


@cache
def ground() -> Ground:
    """Make it, in a folder that the program removes."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    store, files = folder / "store", folder / "files"
    files.mkdir()
    runs = {
        name: chaffinch.select(table(), "churned", model=cheap(name), store=store).run
        for name in CHEAP
    }
    numbers = {"model": cheap("lightgbm"), "store": store}
    history = {"time": "day", "series": "shop", "lags": [1], "rolling": [2], "scale": "series"}
    runs["history"] = chaffinch.select(of_days(), "sold", **numbers, **history).run
    runs["alternatives"] = chaffinch.select(
        table(), "churned", method="mrmr", n_features=2, alternatives=1, **numbers
    ).run
    runs["reselected"] = chaffinch.reselect(runs["xgboost"], table(150)[30:], store=store).run
    chaffinch.promote(runs["xgboost"], name="orders", store=store)
    for asked in _WARM:
        try:
            chaffinch.select(table(), "churned", model=cheap("lightgbm"), **asked)
        except chaffinch.InputError:
            pass  # warm all the same
    table().to_csv(files / "table.csv", index=False)
    table().to_parquet(files / "table.parquet")
    rows = np.random.default_rng(0).normal(size=(300, 5)).round(3)
    frame = pd.DataFrame(rows, columns=list("abcde")).assign(y=rows[:, 0] - rows[:, 3])
    frame.to_parquet(files / "rows.parquet")
    chaffinch.shuffle_parquet(files / "rows.parquet", files / "shuffled.parquet", target="y")
    return Ground(store, runs, files)


def resealed(run: Path, stage: str, change: dict[str, bytes]) -> None:
    """Replace files of a run, and make the manifest of their stage anew as a writer would."""
    manifest = run / "stages" / f"{stage}.json"
    content = json.loads(manifest.read_bytes())
    for name, data in change.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)
        content["files"][name] = sha256(data).hexdigest()
    content.pop("sha256", None)
    manifest.write_bytes(sealed(content))
