"""What must hold of a store and of the processes, whatever has died."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from chaffinch.errors import StorageError
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.results.result import load_result
from tests.faults.starter import MARK

# Beside the results they tell when and for how long; manifests hold the SHA-256 of such files.
_TIMES_IN_REPORT = re.compile(
    rb'<tr[^>]*><th scope="row" class="text">[a-z ]+</th><td class="number">[\d.,]+</td></tr>'
    rb"|\d+ \w+ \d{4}, \d\d:\d\d UTC|^\| [a-z ]+ \| [\d.,]+ \|$",
    re.MULTILINE,
)


def manifests(store: Path) -> dict[str, int]:
    """Return when each finished stage was recorded, in nanoseconds."""
    return {
        f"{p.parts[-3]}/{p.stem}": p.stat().st_mtime_ns
        for p in store.glob("runs/*/stages/*.json")
        if not p.name.startswith(".")
    }


def results(folder: Path) -> dict[str, Any]:
    """Return what each file of a run holds, less times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name.startswith("."):
            continue
        content = path.read_bytes()
        if name in ("report.html", "report.md"):
            found[name] = _TIMES_IN_REPORT.sub(b"", content)
        elif name == "report.json":
            report = json.loads(content)
            timeless = [one for one in report["sections"] if one["heading"] != "Time"]
            found[name] = {**report, "made_from": None, "sections": timeless}
        elif name == "metrics.json":
            found[name] = {**json.loads(content), "seconds": None}
        elif name == "run.json":
            found[name] = {**json.loads(content), "created": None}
        elif name.startswith("stages/"):
            found[name] = json.loads(content)["result"]
        else:
            found[name] = content
    return found


def differences(run: Path, undisturbed: dict[str, Any]) -> list[str]:
    """Return which files of a run are not as those of the undisturbed one."""
    found = results(run)
    return [
        name
        for name in sorted({*found, *undisturbed})
        if name not in found or name not in undisturbed or found[name] != undisturbed[name]
    ]


def half_written(store: Path) -> list[str]:
    """Return what is recorded as finished in a store and is not whole, right after the fault."""
    problems = []
    for path in store.glob("runs/*"):
        run = Run(path)
        try:
            records = run.records()
        except StorageError as error:
            problems.append(str(error))
            continue
        problems += [
            f"{run.name}: stage {record.stage} is recorded but not whole"
            for record in records
            if run.finished(record.stage, record.key) is None
        ]
    for manifest in store.glob("datasets/*/dataset.json"):
        try:
            Dataset.open(store / "datasets", json.loads(manifest.read_bytes())["hash"])
        except (StorageError, ValueError) as error:
            problems.append(str(error))
    return problems


def left_aside(store: Path) -> list[str]:
    """Return the files of a store that are none of its own, a day later; locks stay."""
    for shared in ("", "datasets", "dependencies", "dependencies/stages"):
        for path in (store / shared).glob(".aside-*"):
            os.utime(path, (0, time.time() - 25 * 3600))
    Store.open(store)
    return [
        f"{path.relative_to(store)} is left over"
        for path in store.rglob(".*")
        if not path.name.endswith(".lock")
    ]


def held_locks(store: Path) -> list[str]:
    """Return the locks of a store that somebody holds."""
    held = []
    for path in store.rglob("*.lock"):
        lock = FileLock(path)
        try:
            with lock.acquire(timeout=0):
                continue
        except Timeout:
            held.append(f"{path.relative_to(store)} is held")
    return held


def unreadable(store: Path) -> list[str]:
    """Return why a run of a store cannot be read back."""
    problems = []
    for run in Store.find(store).runs():
        try:
            load_result(run)
        except (StorageError, ValueError) as error:
            problems.append(str(error))
    return problems


def processes_of(mark: str) -> list[psutil.Process]:
    """Return the processes that carry a mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # of another user, or just gone
    return found
