"""The story as a whole: the same to the last byte whoever computes, and never told twice."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources import source_of
from chaffinch.tasks.methods import fitting
from chaffinch.tasks.pipeline.progress import no_progress
from chaffinch.tasks.pipeline.run import check, select_features
from chaffinch.tasks.pipeline.search import choose_mask, optimise_mask, train_base_model
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.settings import identity
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers import distributed_masked_loss

pytestmark = pytest.mark.usefixtures("undrawn")
QUICK = {"name": "lightgbm", "tuning": "none", "parameters": {"n_estimators": 20}}
HERE = Path(__file__).parents[3]
TABLES = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes, "wine": load_wine}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, load in TABLES.items():
        load(as_frame=True).frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> Run:
    """A run on the wines, in a store of its own that is only read."""
    return run(folder / "wine.csv", tmp_path_factory.mktemp("store"))


def run(
    source: Path, store: Path, *, cluster: str = "none", workers: int | None = None, **settings
) -> Run:
    settings = {"model": QUICK, "method": "gbmo", **settings}
    return select_features(
        source_of(source),
        SelectionSettings(target="target", **settings),
        ExecutionSettings(store=store, cluster=cluster, workers=workers),
        on_progress=settings.pop("on_progress", no_progress),
    )


def contract(run: Run) -> bytes:
    return (run.folder / "selection.json").read_bytes()


@pytest.mark.xdist_group("dask")
@pytest.mark.parametrize(
    ("table", "model", "few", "method"),
    [
        ("breast_cancer", "lightgbm", {"n_estimators": 20}, "gbmo"),
        ("wine", "mlp", {"max_iter": 50}, "auto"),
    ],
)
@pytest.mark.e2e
def test_the_contract_is_the_same_whoever_computes(
    folder, tmp_path, table: str, model: str, few: dict, method: str, monkeypatch
) -> None:
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_STEP", -1.0)
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_BATCH", -1.0)
    source = folder / f"{table}.csv"
    model = {"name": model, "folds": 3, "parameters": few}
    settings = {"method": method, "model": model, "seed": 5}
    here = run(source, tmp_path / "none", **settings)
    there = run(source, tmp_path / "local", cluster="local", workers=3, **settings)
    for name in ("selection.json", "elimination.parquet", "splits.parquet", "explanation.json"):
        assert (there.folder / name).read_bytes() == (here.folder / name).read_bytes()


def test_so_is_a_ranking_whose_features_are_shared_out(folder, tmp_path, scheduler) -> None:
    settings = {"model": QUICK, "method": "permutation", "seed": 5}
    source = folder / "wine.csv"
    here = run(source, tmp_path / "none", **settings)
    there = run(source, tmp_path / "shared", cluster=scheduler, **settings)
    for name in ("selection.json", "elimination.parquet"):
        assert (there.folder / name).read_bytes() == (here.folder / name).read_bytes()


def test_the_contract_names_no_time_no_path_and_no_machine(folder, finished) -> None:
    text = contract(finished).decode()
    assert str(finished.folder.parent) not in text
    assert str(folder) not in text
    assert not {"seconds", "created", "cluster", "workers", "store"} & set(json.loads(text))


def manifests(store: Path) -> dict[str, tuple[int, bytes]]:
    """Return each finished stage's manifest, and when it was written."""
    found = store.glob("runs/*/stages/*.json")
    return {path.stem: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


TUNED = {"name": "lightgbm", "tuning": "small", "folds": 3}  # 12 fits


def tuned_run(source: Path, store: Path, monkeypatch, stop_after=None, *, cluster="none", seed=0):
    """Return a run, how far its tuning was at each step, and how many fits this process made."""
    seen: list[int] = []
    fits: list[object] = []
    fold_loss = fitting._fold_loss

    def count(*asked: object) -> float:
        fits.append(asked)
        return fold_loss(*asked)

    def on_progress(step: str, done: int, total: int) -> None:
        if step == "train_base_model" and total > 1:
            seen.append(done)
            if done == stop_after:
                raise KeyboardInterrupt

    execution = ExecutionSettings(store=store, cluster=cluster)
    settings = SelectionSettings(target="target", model=TUNED, method="gbmo", seed=seed)
    made = None
    with monkeypatch.context() as patch:
        if cluster == "none":
            patch.setattr(fitting, "_fold_loss", count)
        try:
            made = select_features(source_of(source), settings, execution, on_progress=on_progress)
        except KeyboardInterrupt:
            assert stop_after is not None
    return made, seen, len(fits)


def same_products(one: Run, another: Run) -> None:
    """Refuse two runs unless the base model, the search and the selection are the same bytes."""
    names = ["selection.json", "elimination.parquet", "base_model/model.txt"]
    assert [(one.folder / name).read_bytes() for name in names] == [
        (another.folder / name).read_bytes() for name in names
    ]


def test_a_stopped_tuning_repeats_no_fit(folder, tmp_path, monkeypatch) -> None:
    source, store = folder / "wine.csv", tmp_path / "store"
    assert tuned_run(source, store, monkeypatch, 3) == (None, [1, 2, 3], 3)
    assert tuned_run(source, store, monkeypatch, 6) == (None, [3, 4, 5, 6], 3)
    resumed, seen, n_fits = tuned_run(source, store, monkeypatch)
    assert (seen, n_fits) == ([*range(6, 13)], 6)
    assert not (resumed.folder / "checkpoints").exists()
    clean, _, n_fits = tuned_run(source, tmp_path / "clean", monkeypatch)
    assert n_fits == 12
    same_products(resumed, clean)


def test_but_makes_all_for_other_settings_rows_or_versions_or_if_what_is_kept_is_damaged(
    folder, tmp_path, monkeypatch, caplog
) -> None:
    source, store = tmp_path / "wine.csv", tmp_path / "store"
    rows = (folder / "wine.csv").read_text().splitlines()
    source.write_text("\n".join(rows))
    tuned_run(source, store, monkeypatch, 3)
    assert tuned_run(source, store, monkeypatch, 1, seed=1)[2] == 1
    with monkeypatch.context() as patch:
        patch.setattr(identity, "_installed", lambda name: "0")
        assert tuned_run(source, store, monkeypatch, 1)[2] == 1
    kept = max(store.glob("runs/*/checkpoints/*/*/fits.json"), key=lambda one: one.stat().st_size)
    kept.write_bytes(kept.read_bytes().replace(b"0.", b"1.", 1))
    assert tuned_run(source, store, monkeypatch, 1)[1:] == ([1], 1)
    assert "fits.json cannot be used, so its work starts again: it is damaged" in caplog.text
    source.write_text("\n".join(rows[:-1]))
    assert tuned_run(source, store, monkeypatch, 1)[1:] == ([1], 1)


TUNING_KILLED = """
import os, signal, sys
from chaffinch.tasks.methods import fitting
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.storage.sources import source_of
from tests.tasks.pipeline.test_same_bytes import TUNED

fitting._SHARE = float("inf")  # these fits take no longer than it takes to keep them

def on_progress(step, done, total):
    if (step, done) == ("train_base_model", 5):
        os.kill(os.getpid(), signal.SIGKILL)

select_features(
    source_of(sys.argv[1]),
    SelectionSettings(target="target", model=TUNED, method="gbmo"),
    ExecutionSettings(store=sys.argv[2], cluster="local"),
    on_progress=on_progress,
)
"""


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_a_killed_tuning_repeats_no_fit(folder, tmp_path, monkeypatch) -> None:
    source, store = folder / "wine.csv", tmp_path / "store"
    command = [sys.executable, "-c", TUNING_KILLED, str(source), str(store)]
    killed = subprocess.run(command, cwd=HERE, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    resumed, seen, _ = tuned_run(source, store, monkeypatch, cluster="local")
    assert seen == [*range(5, 13)]
    same_products(resumed, tuned_run(source, tmp_path / "clean", monkeypatch)[0])


def test_other_settings_are_another_run(folder, finished, tmp_path) -> None:
    store = tmp_path / "store"
    shutil.copytree(finished.folder.parents[1], store)
    names = {finished.name} | {
        run(folder / "wine.csv", store, **settings).name
        for settings in ({"seed": 1}, {"method": "flbmo"}, {"baseline": "zero"})
    }
    assert len(names) == 4
    assert {r.name for r in Store.find(store).runs()} == names


def test_one_table_in_two_files_is_one_dataset(folder, finished, tmp_path) -> None:
    copy, store = tmp_path / "renamed.tsv", tmp_path / "store"
    copy.write_text((folder / "wine.csv").read_text().replace(",", "\t"))
    shutil.copytree(finished.folder.parents[1], store)
    assert contract(run(copy, store)) == contract(finished)
    assert len(list((store / "datasets").glob("*/table.parquet"))) == 1


def test_a_check_leaves_only_what_the_run_finds_done(folder, tmp_path) -> None:
    settings = SelectionSettings(target="target", model=QUICK, method="gbmo")
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    check(source_of(folder / "wine.csv"), settings, execution)
    assert set(manifests(tmp_path)) == {"describe"}
    before = manifests(tmp_path)
    run(folder / "wine.csv", tmp_path)
    assert manifests(tmp_path)["describe"] == before["describe"]


@pytest.mark.parametrize("method", ["gbmo", {"kind": "auto", "validation": "holdout"}])
def test_the_test_rows_play_no_part_in_the_choice(folder, tmp_path, method) -> None:
    """Nonsense in the features of the test rows changes the verdict's figures, not the mask."""
    first = run(folder / "wine.csv", tmp_path / "a", method=method)
    parts = pq.read_table(first.folder / "splits.parquet")["part"].to_pylist()
    dataset = next((tmp_path / "a" / "datasets").glob("*/table.parquet"))
    is_test = np.array([part == "test" for part in parts])
    assert is_test.any()

    class Scrambled:
        """The same dataset with the features of the test rows set to nonsense."""

        def __init__(self, inner: Dataset) -> None:
            self.inner = inner
            self.hash, self.n_rows = "scrambled", inner.n_rows
            self.columns, self.path = inner.columns, inner.path

        def read(self, columns=None):
            table = self.inner.read(columns)
            return pa.table(
                {
                    name: pa.array(np.where(is_test, 1e6, table[name].to_numpy()))
                    if table[name].type == pa.float64()
                    else table[name]
                    for name in table.column_names
                }
            )

    hash_ = json.loads((dataset.parent / "dataset.json").read_text())["hash"]
    inner = Dataset.open(tmp_path / "a" / "datasets", hash_)
    settings = SelectionSettings(target="target", model=QUICK, method=method)
    scrambled = SelectionRun(settings, Scrambled(inner))
    scrambled.records = {r.stage: r for r in first.records() if r.stage in ("describe", "split")}
    for step in (train_base_model, optimise_mask, choose_mask):
        step(scrambled)
    kept = [f["name"] for f in json.loads(contract(first))["features"]]
    names = json.loads(contract(first))["candidates"]
    assert [n for n, keep in zip(names, scrambled.mask, strict=True) if keep] == kept


def test_a_masked_feature_takes_the_value_that_was_asked_for(folder, tmp_path) -> None:
    asked = run(folder / "wine.csv", tmp_path, baseline={"alcohol": 14.5})
    said = {f["name"]: f["baseline"] for f in json.loads(contract(asked))["features"]}
    trained = next(r for r in asked.records() if r.stage == "train_base_model")
    names = json.loads(contract(asked))["candidates"]
    values = dict(zip(names, trained.result["baseline"], strict=True))
    assert values["alcohol"] == 14.5
    assert values["ash"] == pytest.approx(2.37, abs=0.1)  # the mean of the table is 2.367
    assert all(values[name] == said[name] for name in said)
