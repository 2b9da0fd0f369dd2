"""A run that holds its rows in files has the results of one that holds them in memory."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from chaffinch.storage.sources import source_of
from chaffinch.tasks.data import stored_rows
from chaffinch.tasks.data.matrix import load_rows
from chaffinch.tasks.pipeline import explanation, memory, selection_run
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import Rows
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers with missing values, a category and two classes."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(800, 6)), columns=[f"x{j}" for j in range(6)])
    rows.loc[random.random(800) < 0.1, "x1"] = np.nan
    rows["shop"] = random.choice(["north", "south", "east"], 800)
    signal = rows.x0 + rows.x1.fillna(0) * rows.x2 + (rows.shop == "east")
    rows["y"] = (signal + random.normal(size=800) > 0).astype(int)
    path = tmp_path_factory.mktemp("tables") / "orders.parquet"
    rows.to_parquet(path)
    return path


def in_files(monkeypatch: pytest.MonkeyPatch, share: float = 0.0) -> None:
    monkeypatch.setattr(memory, "SHARE_IN_MEMORY", share)
    monkeypatch.setattr(stored_rows, "MOST_BYTES", 0)
    monkeypatch.setattr(stored_rows, "FEW_ROWS", 0)


def files_of_a_run(
    table: Path, store: Path, method: str, model: str, *, tuning: str = "small", **settings: int
) -> dict[str, bytes]:
    """Return the files of a run but for those that have its seconds in them."""
    quick = {"name": model, "tuning": tuning, "parameters": {"n_estimators": 5}, "folds": 3}
    asked = SelectionSettings(target="y", method=method, model=quick, **settings)
    run = select_features(source_of(table), asked, ExecutionSettings(store=store, cluster="none"))
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    found = {str(path.relative_to(run.folder)): path.read_bytes() for path in files}
    timed = ("run.json", "metrics.json", "report.", "stages/")
    return {name: content for name, content in found.items() if not name.startswith(timed)}


@pytest.mark.parametrize(
    ("method", "model"),
    [("auto", "lightgbm"), ("gbmo", "lightgbm"), ("tree_shap", "xgboost")],
)
def test_the_results_are_the_same_to_the_last_byte(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, model: str
) -> None:
    monkeypatch.setattr(explanation, "_MOST_ROWS", 200)  # fewer than there are
    of_memory = files_of_a_run(table, tmp_path / "memory", method, model)
    in_files(monkeypatch)
    of_files = files_of_a_run(table, tmp_path / "files", method, model)
    assert {"selection.json", "splits.parquet", "explanation.json"} < {*of_memory}
    assert any(name.startswith("model/") for name in of_memory)
    if method == "auto":  # of rows in files its base model is the final one, and not kept twice
        assert of_memory.pop("base_model/model.txt") == of_memory["all_features_model/model.txt"]
    assert of_files == of_memory
    (written,) = (tmp_path / "files" / "datasets").glob("*/table.parquet")
    assert {path.name for path in written.parent.iterdir()} == {"dataset.json", "table.parquet"}


def counts_of_loaded_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows of each load into memory."""
    counts: list[int] = []

    def load(*about: Any) -> Rows:
        counts.append(len(about[3]))
        return load_rows(*about)

    monkeypatch.setattr(selection_run, "load_rows", load)
    return counts


@pytest.mark.parametrize("method", ["auto", "gbmo"])
def test_a_search_on_some_of_the_rows_is_the_same_from_files_and_fits_final_models_on_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    random = np.random.default_rng(1)
    rows = pd.DataFrame(random.normal(size=(8000, 5)), columns=list("abcde"))
    rows["y"] = (rows.a + rows.b + random.normal(size=8000)).round(6)
    rows.to_parquet(table := tmp_path / "orders.parquet")

    def files(place: str, **settings: int) -> dict[str, bytes]:
        store = tmp_path / place
        return files_of_a_run(table, store, method, "lightgbm", tuning="none", **settings)

    of_memory, whole = files("memory", search_rows=1000), files("whole")
    in_files(monkeypatch)
    assert files("files", search_rows=1000) == of_memory
    monkeypatch.setattr(SelectionRun, "_search_is_in_memory", True)
    loaded = counts_of_loaded_rows(monkeypatch)
    assert files("search", search_rows=1000) == of_memory
    assert 0 < max(loaded) <= 1000  # the test part has 1,200
    contract = json.loads(of_memory["selection.json"])
    by_part = contract["dataset"]["rows_by_part"]
    assert (sum(by_part.values()) - by_part.get("out_of_fold", 0), "final" in by_part) == (8000, 1)
    assert "final" not in contract["losses"]
    if method == "auto":
        assert by_part == {"train": 1000, "final": 7000, "out_of_fold": 1000}
        every = "all_features_model/model.txt"
        assert of_memory[every] == whole[every]
    (report,) = (tmp_path / "memory").glob("runs/*/report.md")
    said = f"include {by_part['final']:,} that took no part in the search"
    assert said in report.read_text()


@pytest.mark.parametrize("method", ["anova_f", "dfs", "rfecv", "afs_bm"])
def test_a_method_that_needs_its_rows_in_memory_searches_on_some_of_those_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    X, y = np.random.default_rng(2).normal(size=(4000, 5)), np.arange(4000) % 2
    rows = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    rows["a"] += y
    rows.to_parquet(table := tmp_path / "orders.parquet")
    settings = {"tuning": "none", "search_rows": 1000}
    of_memory = files_of_a_run(table, tmp_path / "memory", method, "lightgbm", **settings)
    asked = SelectionSettings(target="y", method=method)
    free = int(memory.needed_memory(2000, 6, asked))  # enough for the search alone
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    in_files(monkeypatch, share=1.0)
    loaded = counts_of_loaded_rows(monkeypatch)
    assert files_of_a_run(table, tmp_path / "files", method, "lightgbm", **settings) == of_memory
    assert 0 < max(loaded) <= 1000
