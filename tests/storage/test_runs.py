"""A run is found again by its name; a finished stage is never done twice, a broken one always."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.runs.store import Run, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


# --- the store ---------------------------------------------------------------------------------


def test_a_store_is_made_and_opened_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "deep" / "store")
    assert Store.open(str(tmp_path / "deep" / "store")) == store
    assert json.loads((store.path / "store.json").read_bytes()) == {"format_version": 1}
    assert store.datasets == store.path / "datasets"
    assert store.runs() == []


def test_a_store_given_by_a_relative_path_outlives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store.open("store").path == tmp_path / "store"


FORBIDDEN = """
import os, sys
from chaffinch.errors import InputError
from chaffinch.storage.runs.store import Store
if os.getuid() == 0:
    os.setuid(65534)
try:
    Store.open(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (
            0o555,
            "writing store.json in {store} is not allowed; make the folder writable or name "
            "another place",
        ),
        (
            0o000,
            "reading store {store} is not allowed; change its permissions or name another store",
        ),
    ],
)
def test_a_store_that_may_not_be_written_or_read(mode: int, message: str) -> None:
    # not below tmp_path, which only its owner may enter
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(folder)
        store.path.chmod(mode)
        output, errors = start(FORBIDDEN, store.path).communicate(timeout=300)
        store.path.chmod(0o700)
    assert errors == ""
    assert output == message.format(store=store.path) + "\n"


def test_a_store_of_a_later_release_is_left_alone(store: Store) -> None:
    path = store.path / "store.json"
    path.write_bytes(b'{"format_version": 2}')
    for reach in (Store.open, Store.find):
        with pytest.raises(StorageError, match=r"by a later release \(format 2\); .*; update"):
            reach(store.path)
    assert path.read_bytes() == b'{"format_version": 2}'


def test_runs_are_listed_newest_first_once_described(store: Store) -> None:
    for name in ("first", "second", "third"):
        store.run(name).describe({"seed": 0})
    store.run("undescribed")
    assert [run.name for run in store.runs()] == ["third", "second", "first"]
    assert store.existing("second") == store.run("second")


@pytest.mark.parametrize("name", ["..", "a/b", "", ".x"])
def test_a_run_has_a_plain_name(store: Store, name: str) -> None:
    for ask in (store.run, store.existing):
        with pytest.raises(InputError, match="a name must be"):
            ask(name)


# --- the description ---------------------------------------------------------------------------


def test_a_run_is_described_once(store: Store) -> None:
    run = store.run("r")
    run.describe({"target": "y", "slacks": (0.1, 0.2)})
    document = (run.folder / "run.json").read_bytes()
    run.describe({"slacks": [0.1, 0.2], "target": "y"})
    assert (run.folder / "run.json").read_bytes() == document
    assert run.description == {"target": "y", "slacks": [0.1, 0.2]}
    assert list(json.loads(document)) == ["format_version", "name", "created", "description"]
    assert run.created.endswith("+00:00")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"target": "z"}, "began with target 'y' but is now asked for 'z'; give another run name"),
        ({}, "began with target 'y' but is now asked for None"),
        ({"target": "y", "seed": 1}, "began with seed None but is now asked for 1"),
    ],
)
def test_another_description_needs_another_name(
    store: Store, other: dict[str, object], message: str
) -> None:
    run = store.run("r")
    run.describe({"target": "y"})
    with pytest.raises(InputError, match=message):
        run.describe(other)


def test_a_run_without_or_with_a_damaged_description(store: Store) -> None:
    run = store.run("r")
    with pytest.raises(StorageError, match=r"run r has no run.json yet; start it again"):
        _ = run.description
    (run.folder / "run.json").write_bytes(b'{"format_version": 1}')
    with pytest.raises(StorageError, match=r"run.json is damaged \(no str created\)"):
        _ = run.description
    store.run("whole").describe({"target": "y"})
    assert [one.name for one in store.runs()] == ["whole", "r"]  # the damaged one last


# --- stages ------------------------------------------------------------------------------------


def test_a_stage_is_recorded_when_it_ends(store: Store) -> None:
    run = store.run("r")
    with run.stage("train", "key-1") as stage:
        stage.write("base_model/model.txt", b"tree")
        stage.write("elimination.parquet", lambda path: path.write_bytes(b"rows") and None)
        stage.result = {"loss": 0.1 + 0.2, "shape": (2, 3)}
        assert run.finished("train", "key-1") is None
    record = run.finished("train", "key-1")
    assert record == stage.record
    assert record is not None
    assert record.result == {"loss": 0.1 + 0.2, "shape": [2, 3]}
    assert list(record.files) == ["base_model/model.txt", "elimination.parquet"]
    assert record.path("base_model/model.txt").read_bytes() == b"tree"
    assert 0 <= record.seconds < 60
    manifest = json.loads((run.folder / "stages" / "train.json").read_bytes())
    assert list(manifest) == [
        *("format_version", "stage", "key", "result", "files", "seconds", "finished", "sha256")
    ]
    with pytest.raises(StorageError, match=r"stage train left no file 'elimination.parq'; nearest"):
        record.path("elimination.parq")


def test_a_stage_that_fails_records_nothing(store: Store) -> None:
    run = store.run("r")

    def fail() -> None:
        with run.stage("train", "k") as stage:
            stage.write("model.txt", b"tree")
            with pytest.raises(RuntimeError, match="a record only after its with block"):
                _ = stage.record
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        fail()
    assert run.finished("train", "k") is None
    assert not (run.folder / "stages").exists()


def test_a_result_json_cannot_hold_records_nothing(store: Store) -> None:
    run = store.run("r")
    with pytest.raises(ValueError, match="not JSON compliant"), run.stage("train", "k") as stage:
        stage.result["loss"] = float("nan")
    assert run.finished("train", "k") is None


@pytest.fixture
def finished(store: Store) -> Run:
    run = store.run("r")
    with run.stage("train", "k") as stage:
        stage.write("model.txt", b"tree")
    return run


def test_another_key_asks_for_the_stage_again(
    finished: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert finished.finished("train", "k") is not None
    assert caplog.messages == []
    assert finished.finished("train", "other") is None
    assert caplog.messages == ["stage train is to be done: what it depends on has changed"]


@pytest.mark.parametrize("content", [None, b"", b"tre!", b"tree\n"])
def test_a_missing_or_changed_file_asks_for_the_stage_again(
    finished: Run, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    caplog.set_level(logging.INFO)
    path = finished.folder / "model.txt"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert finished.finished("train", "k") is None
    assert "model.txt" in caplog.messages[0]
    assert caplog.messages[0].endswith(("is missing", "has changed"))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b'"stage"', b'"stage'),
        (b'"format_version": 1', b'"format_version": 2'),
        (b'"result": {}', b'"result": 1'),
        (b'"model.txt"', b'"../../../etc/passwd"'),
        (b'"seconds": ', b'"seconds": 1'),
        (b'"finished": "2', b'"finished": "3'),
    ],
)
def test_a_damaged_manifest_asks_for_the_stage_again(
    finished: Run, caplog: pytest.LogCaptureFixture, good: bytes, bad: bytes
) -> None:
    caplog.set_level(logging.INFO)
    path = finished.folder / "stages" / "train.json"
    document = path.read_bytes()
    assert good in document
    path.write_bytes(document.replace(good, bad))
    assert finished.finished("train", "k") is None
    assert caplog.messages[0].startswith("stage train is to be done: ")


def test_a_manifest_under_another_name_is_damaged(finished: Run) -> None:
    stages = finished.folder / "stages"
    (stages / "other.json").write_bytes((stages / "train.json").read_bytes())
    with pytest.raises(StorageError, match=r"other.json is damaged \(it was changed\); remove it"):
        finished.records()


def test_what_a_killed_writer_left_is_no_manifest(finished: Run) -> None:
    (finished.folder / "stages" / ".aside-0.json").write_bytes(b'{"format')
    assert [record.stage for record in finished.records()] == ["train"]


def test_what_a_killed_writer_left_where_nobody_has_a_lock_goes_a_day_later(store: Store) -> None:
    shared = ("", "datasets", "cells/stages", "dependencies", "dependencies/stages")
    for old, folder in enumerate((*shared, *shared)):
        left = store.path / folder / f".aside-{old}.npy"
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"half")
        if old < len(shared):
            os.utime(left, (0, time.time() - 25 * 3600))
    Store.open(store.path)
    left_over = {path.relative_to(store.path) for path in store.path.rglob(".aside-*")}
    assert left_over == {
        Path(folder, f".aside-{i}.npy") for i, folder in enumerate(shared, len(shared))
    }


def test_a_store_of_an_earlier_version_with_experiments_opens(store: Store) -> None:
    left = store.path / "experiments" / "stages" / f"{'0' * 64}.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    for reopened in (Store.open(store.path), Store.find(store.path)):
        assert (reopened.runs(), reopened.comparisons()) == ([], [])
    assert left.read_text() == "{}"


def test_a_file_is_read_only_as_it_was_written(finished: Run) -> None:
    (record,) = finished.records()
    assert record.read("model.txt") == b"tree"
    path = finished.folder / "model.txt"
    remedy = "make the same selection again to replace it"
    path.write_bytes(b"tre!")
    with pytest.raises(StorageError) as changed:
        record.read("model.txt")
    assert str(changed.value) == f"model.txt of run 'r' has changed since it was written; {remedy}"
    path.unlink()
    with pytest.raises(StorageError, match=f"model.txt of run 'r' is missing; {remedy}"):
        record.read("model.txt")
    path.mkdir()
    with pytest.raises(StorageError, match=r"model.txt of run 'r' cannot be read \(Is a directory"):
        record.read("model.txt")
    with pytest.raises(StorageError, match="stage train left no file 'other'"):
        record.read("other")


def test_a_stage_that_is_done_again_is_not_recorded_meanwhile(finished: Run) -> None:
    with finished.stage("train", "k") as stage:
        assert finished.records() == []
        stage.write("model.txt", b"another tree")
    (record,) = finished.records()
    assert record.read("model.txt") == b"another tree"


def test_stage_and_file_names_are_checked(store: Store) -> None:
    run = store.run("r")
    with pytest.raises(InputError, match="a name must be"), run.stage("../x", "k"):
        pass
    with pytest.raises(InputError, match="a name must be"):
        run.finished("../x", "k")
    with pytest.raises(InputError, match="a name must be"), run.stage("train", "k") as stage:
        stage.write("../escape", b"")
    assert not (run.folder.parent / "escape").exists()


STAGES = """
import os, signal, sys
from pathlib import Path
from chaffinch.storage.runs.store import Store
store, die = Store.open(sys.argv[1]), sys.argv[2] == "die"
run = store.run("r")
def half(path):
    path.write_bytes(b"half")
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
    path.write_bytes(b"whole")
with run.lock():
    for name in ("ingest", "train", "report"):
        if run.finished(name, "k"):
            continue
        print(name, flush=True)
        with run.stage(name, "k") as stage:
            stage.write(f"{name}/first.txt", b"first")
            if name == "train":
                stage.write("train/model.txt", half)
"""


def test_after_kill_9_nothing_is_half_there_and_only_that_stage_is_done_again(store: Store) -> None:
    killed = start(STAGES, store.path, "die")
    assert killed.communicate(timeout=300)[0].split() == ["ingest", "train"]
    assert killed.returncode == -9
    run = store.run("r")
    assert run.finished("ingest", "k") is not None
    assert run.finished("train", "k") is None
    assert not (run.folder / "train" / "model.txt").exists()

    again = start(STAGES, store.path, "live")
    assert again.communicate(timeout=300) == ("train\nreport\n", "")
    assert (run.folder / "train" / "model.txt").read_bytes() == b"whole"
    left = [p.name for p in run.folder.rglob("*") if p.is_file() and p.name.startswith(".")]
    assert left == [".lock"]


HOLDER = """
import logging, sys, time
from pathlib import Path
from chaffinch.storage.runs.store import Store
logging.basicConfig(format="%(message)s")
run = Store.open(sys.argv[1]).run("r")
with run.lock():
    (run.folder / "held").touch()
    while not (run.folder / "let-go").exists():
        time.sleep(0.01)
print("done")
"""


def test_a_second_process_waits_and_says_so_once(store: Store) -> None:
    run = store.run("r")
    first = start(HOLDER, store.path)
    wait_for(run.folder / "held")
    second = start(HOLDER, store.path)
    assert second.stderr is not None
    assert second.stderr.readline() == "waiting for another process that works on run r\n"
    assert second.poll() is None
    (run.folder / "let-go").touch()
    assert first.communicate(timeout=300) == ("done\n", "")
    assert second.communicate(timeout=300) == ("done\n", "")


def test_two_runs_go_on_side_by_side(store: Store) -> None:
    first, second = store.run("one"), store.run("two")
    with first.lock(), second.lock():
        assert (second.folder / ".lock").exists()


def test_the_beginning_of_a_name_is_enough_and_of_two_is_refused(tmp_path):
    store = Store.open(tmp_path)
    for name in ("orders-auto-1a2b", "orders-auto-1c3d", "prices-gbmo-9f"):
        store.run(name).describe({})
    assert store.existing("prices").name == "prices-gbmo-9f"
    assert store.existing("orders-auto-1c").name == "orders-auto-1c3d"
    none_in_use = ", and none is promoted as orders; `chaffinch promote RUN` takes one into use"
    for begin, end in (("orders", none_in_use), ("orders-auto", "")):
        with pytest.raises(InputError, match=f"there is no run '{begin}'.* begin with it{end}$"):
            store.existing(begin)
    with pytest.raises(InputError, match="there is no run 'none'"):
        store.existing("none")
