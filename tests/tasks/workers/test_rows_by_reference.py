"""Rows in files on a cluster: the same contract whoever reads them; who cannot is refused."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

import chaffinch
from chaffinch.errors import InputError, StorageError
from chaffinch.storage.datasets.dataset import ingest
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.storage.sources import source_of
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.pipeline import memory
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import FittedModel, Mask, Rows, Schema
from chaffinch.tasks.workers import dask_map
from chaffinch.tasks.workers.dask_cluster import open_workers, workers_of
from chaffinch.tasks.workers.interface import InProcess, Needs, Workers
from tests.flows.cli.programs import eventually
from tests.object_storage import ObjectStorage
from tests.tasks.workers.rows_in_files import contract, needs

pytestmark = [
    pytest.mark.xdist_group("dask"),
    pytest.mark.usefixtures("undrawn", "rows_are_in_files"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(3000, 6)), columns=[f"x{j}" for j in range(6)])
    rows["shop"] = random.choice(["north", "south", "east"], len(rows))
    rows["y"] = (rows.x0 + rows.x1 * rows.x2 + (rows.shop == "east") > 0).astype(int)
    path = tmp_path_factory.mktemp("tables") / "orders.parquet"
    rows.to_parquet(path)
    return path


@pytest.mark.parametrize("method", ["auto", "gbmo", "tree_shap"])
def test_the_contract_is_that_of_one_process(
    table: Path, tmp_path: Path, scheduler: str, client: Client, method: str
) -> None:
    alone = contract(table, tmp_path / "alone", method)
    assert contract(table, tmp_path / "workers", method, scheduler) == alone
    assert contract(table, tmp_path / "client", method, client=client) == alone
    assert client.status == "running"
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as one:
        assert contract(table, tmp_path / "one", method, client=one) == alone


class AtOnce(InProcess):
    """Workers that are always idle: they fit what is begun before anybody asks for it."""

    n_threads = 3

    def as_done(self, function, shared, items):
        done = [*super().as_done(function, shared, items)]
        return (one for one in done)


@pytest.mark.parametrize("n_features", [None, 2])
def test_final_models_are_fitted_beside_the_search_and_not_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_features: int | None
) -> None:
    method = {"kind": "auto", "validation": "holdout", "n_features": n_features}
    alone = contract(table, tmp_path / "alone", method)
    fits: list[tuple[int, tuple[str, ...]]] = []
    fit = Recipe.fit

    def counted(recipe: Recipe, rows: Rows, schema: Schema) -> FittedModel:
        fits.append((len(rows), schema.features))
        return fit(recipe, rows, schema)

    @contextmanager
    def opened(*_: object) -> Iterator[Workers]:
        yield AtOnce()

    monkeypatch.setattr(memory, "open_workers", opened)
    monkeypatch.setattr(Recipe, "fit", counted)
    left: list[Mask] = []  # to fit once the search is over
    monkeypatch.setattr(
        SelectionRun, "fit", lambda _, __, ___, masks, *____: left.extend(masks) or []
    )
    assert contract(table, tmp_path / "beside", method, "local") == alone
    largest = [features for n_rows, features in fits if n_rows == max(fits)[0]]
    assert len(set(largest)) == len(largest)
    assert left == []


def test_with_a_store_in_object_storage_workers_read_its_cache(
    table: Path,
    tmp_path: Path,
    scheduler: str,
    s3: ObjectStorage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "cache"))
    alone = contract(table, tmp_path / "alone", "gbmo")
    assert contract(table, "s3://shop/by-reference", "gbmo", scheduler) == alone
    assert len([*tmp_path.glob("cache/**/table.parquet")]) == 1


@pytest.mark.e2e
def test_a_worker_that_dies_while_it_reads_changes_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = contract(table, tmp_path / "alone", "auto")
    died: list[int] = []

    @contextmanager
    def opened(_: str, __: int | None, needs: Needs) -> Iterator[Workers]:
        with open_workers("local", 2, needs) as workers:
            assert isinstance(workers, dask_map.OverDask)
            (pid, *_others) = workers.client.run(os.getpid).values()

            def kill() -> None:
                eventually(lambda: any((tmp_path / "killed").rglob("rows/*.bits")), 60)
                os.kill(pid, signal.SIGKILL)
                died.append(pid)

            threading.Thread(target=kill, daemon=True).start()
            yield workers

    monkeypatch.setattr(memory, "open_workers", opened)
    assert contract(table, tmp_path / "killed", "auto", "local") == alone
    assert died


def test_a_worker_that_does_not_see_the_store_is_refused_before_any_work(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "dataset.json").write_text("{}")
    whole = hashlib.sha256(b"{}").hexdigest()
    with workers_of(client, needs(files=(SharedFile(tmp_path / "dataset.json", whole),))):
        pass
    for name, digest, said in (
        ("dataset.json", "another", "is damaged, or of another run"),
        ("missing.json", whole, "is not there; put the store in a folder that all workers see"),
    ):
        file = SharedFile(tmp_path / name, digest)
        with (
            pytest.raises(
                InputError, match=rf"cannot read the rows of this run: {file.path} {said}"
            ),
            workers_of(client, needs(files=(file,))),
        ):
            pytest.fail("it was opened")


def memory_of_worker(client: Client) -> int:
    (limit,) = client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit).values()
    return limit


def test_a_worker_with_too_little_memory_is_refused_before_any_work(client: Client) -> None:
    has = memory_of_worker(client)
    too_little = (
        rf"^a fit of 12 rows x 3 columns needs about {1.2e-9 * has:.1f} GB but worker .* has "
        rf"{1e-9 * has:.1f} GB of memory; give workers more"
    )
    with pytest.raises(InputError, match=too_little), workers_of(client, needs(n_bytes=1.2 * has)):
        pytest.fail("it was opened")


def test_a_worker_with_other_versions_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = dask_map._describe_worker

    def describe_other(files: tuple, dask_worker: object) -> dict:
        found = described(files, dask_worker)
        return {**found, "versions": {**found["versions"], "lightgbm": "4.0.0"}}

    monkeypatch.setattr(dask_map, "_describe_worker", describe_other)
    with (
        pytest.raises(InputError, match=r"has lightgbm 4\.0\.0 but this process"),
        workers_of(client),
    ):
        pytest.fail("it was opened")


_AT_ONCE, _MOST = [0], [0]


def _take_a_moment(_: object, item: int) -> int:
    _AT_ONCE[0] += 1
    _MOST[0] = max(_MOST[0], _AT_ONCE[0])
    time.sleep(0.05)
    _AT_ONCE[0] -= 1
    return item


@pytest.mark.parametrize(("share", "at_once"), [(0.6, 1), (0.4, 2)])
def test_a_worker_fits_as_many_at_once_as_its_memory_holds(
    client: Client, share: float, at_once: int
) -> None:
    _MOST[0] = 0
    with workers_of(client, needs(n_bytes=share * memory_of_worker(client))) as workers:
        assert workers.map(_take_a_moment, None, [*range(8)]) == [*range(8)]
    assert _MOST[0] == at_once


def test_a_table_of_dask_by_a_client_is_the_table_in_memory(
    table: Path, tmp_path: Path, client: Client
) -> None:
    frame = pd.read_parquet(table)
    lazy = dd.from_pandas(frame, npartitions=5)
    options = {"model": "linear", "n_features": 3}
    alone = chaffinch.select(frame, "y", store=tmp_path / "alone", **options)
    with client.as_current():
        spread = chaffinch.select(lazy, "y", store=tmp_path / "spread", cluster=client, **options)
    assert spread.contract == alone.contract
    assert client.status == "running"


def test_a_table_of_dask_is_never_whole_in_this_process(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = dd.from_pandas(pd.read_parquet(table), npartitions=5)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the table was computed")

    monkeypatch.setattr(type(lazy), "compute", refuse)
    assert chaffinch.select(lazy, "y", model="linear", n_features=3).features


def test_what_cannot_compute_is_refused_in_one_line(client: Client) -> None:
    closed = Client(client.cluster, set_as_default=False)
    closed.close()
    asynchronous = SimpleNamespace(submit=None, asynchronous=True)
    for cluster, said in (
        (closed, "is a client of Dask that is closed; give a new one"),
        (asynchronous, "give one without asynchronous=True"),
        (client.cluster, r"give its client, cluster\.get_client\(\)"),
    ):
        with pytest.raises(InputError, match=said):
            chaffinch.select(pd.DataFrame({"x": range(50)}), range(50), cluster=cluster)


def test_columns_of_dask_are_named_as_those_of_pandas(table: Path) -> None:
    frame = pd.read_parquet(table)
    twice = dd.from_pandas(frame.rename(columns={"x1": "x0"}), npartitions=2)
    with pytest.raises(InputError, match="the table names column 'x0' twice"):
        chaffinch.select(twice, "y", model="linear")
    indexed = frame.set_index("x0", drop=False)
    lazy = chaffinch.select(dd.from_pandas(indexed, npartitions=2), "y", model="linear")
    assert lazy.contract == chaffinch.select(indexed, "y", model="linear").contract


def test_a_worker_that_joins_later_and_does_not_see_the_store_says_so(
    table: Path, tmp_path: Path
) -> None:
    dataset = ingest(source_of(table), tmp_path)
    (dataset.path / "table.parquet").unlink()
    with pytest.raises(StorageError, match="in a folder that all workers see"):
        dataset.read()
