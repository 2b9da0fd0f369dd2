"""Runs whose rows are in files, and what a worker needs to read them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from distributed import Client

from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.interface import Needs


def contract(
    table: Path,
    store: Path | str,
    method: str | dict,
    cluster: str = "none",
    client: Client | None = None,
) -> str:
    """Return the SHA-256 of the contract of a quick run, which leaves no temporary files."""
    quick = {"name": "lightgbm", "tuning": "small", "parameters": {"n_estimators": 5}, "folds": 3}
    settings = SelectionSettings(target="y", method=method_of(method), model=quick)
    execution = ExecutionSettings(store=store, cluster=cluster)
    if client is not None:
        execution = ExecutionSettings.with_client(client, store=store)
    run = select_features(source_of(table), settings, execution)
    left = [*Store.of(run.folder).path.rglob(".aside-*"), *run.folder.glob("rows")]
    assert not left, "files are left"
    return hashlib.sha256((run.folder / "selection.json").read_bytes()).hexdigest()


def needs(**changes: object) -> Needs:
    return Needs(
        **{"files": (), "n_bytes": 0.0, "about": "a fit of 12 rows x 3 columns", **changes}
    )
