"""What cases begin with: a store with runs, files, and everything imported and compiled."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import ModelSettings
from chaffinch.storage.files import sealed
from tests.synthetic import good_table

CHEAP: dict[str, dict[str, Any]] = {
    "lightgbm": {"n_estimators": 5, "min_child_samples": 3},
    "xgboost": {"n_estimators": 5},
    "catboost": {"iterations": 5},
    "mlp": {"max_iter": 5, "hidden_layer_sizes": [4]},
    "linear": {},
    "DecisionTreeClassifier": {"max_depth": 3},
    "LogisticRegression": {},
}
_PEFS = {"kind": "pefs", "hidden_layer_sizes": [3], "most_sweeps": 1}
_made: list[Ground] = []


@dataclass(frozen=True)
class Ground:
    """A store, its runs by model or by what is special, and files of tables."""

    store: Path
    runs: dict[str, str]
    files: Path

    def run(self, kind: str) -> Path:
        """Return a run's folder."""
        return self.store / "runs" / self.runs[kind]

    def contract(self, kind: str) -> dict[str, Any]:
        """Return a run's feature contract."""
        return dict(json.loads((self.run(kind) / "selection.json").read_bytes()))

    def copied(self, place: Path, *kinds: str) -> Path:
        """Copy the store with these runs alone; return where it is."""
        store = place / "store"
        shutil.copytree(self.store, store, ignore=shutil.ignore_patterns("runs"))
        for kind in dict.fromkeys(kinds):
            shutil.copytree(self.run(kind), store / "runs" / self.runs[kind])
        return store


def cheap(name: str) -> ModelSettings:
    """Return settings by which a model is fitted in milliseconds."""
    return ModelSettings(name=name, tuning="none", folds=3, parameters=CHEAP.get(name, {}))


def table(n_rows: int = 120) -> pd.DataFrame:
    """Return the table of the runs: numbers, a category and a target of classes."""
    return good_table(n_rows)


def of_days(n_rows: int = 120) -> pd.DataFrame:
    """Return a table of two series in time order, with a target of numbers."""
    found = good_table(n_rows).drop(columns=["churned", "noise_2"])
    sold = found["age"].fillna(0) + np.arange(n_rows) % 7
    return found.assign(day=np.arange(n_rows) // 2, shop=np.arange(n_rows) % 2, sold=sold)


def ground(folder: Path | None = None) -> Ground:
    """Return what there is, made in the folder that the program gives first."""
    if folder is not None:
        _made.append(_ground(folder / "ground"))
    return _made[-1]


def _ground(folder: Path) -> Ground:
    store, files = folder / "store", folder / "files"
    files.mkdir(parents=True)
    quick: dict[str, Any] = {"model": cheap("lightgbm"), "store": store}
    runs = {n: chaffinch.select(table(), "churned", model=cheap(n), store=store).run for n in CHEAP}
    history = {"series": "shop", "lags": [1], "rolling": [2]}
    asked: dict[str, Any] = {"time": "day", "history": history}
    runs["history"] = chaffinch.select(of_days(), "sold", **asked, **quick).run
    asked = {"method": "mrmr", "n_features": 2, "alternatives": 1}
    runs["alternatives"] = chaffinch.select(table(), "churned", **asked, **quick).run
    runs["reselected"] = chaffinch.reselect(runs["xgboost"], table(150)[30:], store=store).run
    chaffinch.promote(runs["xgboost"], name="orders", store=store)
    for method in ("dfs", "mission", "afs_bm", "tree_shap", _PEFS):
        with suppress(chaffinch.InputError):  # warm all the same
            chaffinch.select(table(), "churned", method=method, model=cheap("lightgbm"))
    table().to_csv(files / "table.csv", index=False)
    return Ground(store, runs, files)


def resealed(run: Path, stage: str, name: str, data: bytes) -> None:
    """Replace a file of a run, and make the manifest of its stage again as its writer would."""
    manifest = run / "stages" / f"{stage}.json"
    (run / name).write_bytes(data)
    content = json.loads(manifest.read_bytes())
    del content["sha256"]
    content["files"][name] = sha256(data).hexdigest()
    manifest.write_bytes(sealed(content))
