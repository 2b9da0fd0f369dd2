"""What a stage has got so far outlives a kill, costs next to nothing, and goes with the stage."""

import logging
import signal
from pathlib import Path

import pytest

from chaffinch.errors import InputError
from chaffinch.storage.runs import stages as module
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.storage.runs.store import Run, Store
from tests.flows.cli.programs import python

STAGE, KEY = "optimise_mask", "0a" * 32


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store").run("synthetic")


def begun(run: Run, key: str = KEY, stage: str = STAGE) -> Checkpoints:
    checkpoints = Checkpoints.of(run.folder, stage, key)
    checkpoints.begin()
    return checkpoints


KILLED = """
import os, signal, sys
from chaffinch.storage.runs.store import Store

run = Store.open(sys.argv[1]).run("synthetic")
with run.lock(), run.stage(*sys.argv[2:]) as writer:
    writer.checkpoints.begin()
    writer.checkpoints.keep("part-1", lambda: b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_kept_before_a_kill_is_there_for_the_same_key_and_for_no_other(run: Run) -> None:
    assert python(KILLED, run.folder.parents[1], STAGE, KEY).returncode == -signal.SIGKILL
    with run.lock():
        assert Checkpoints.of(run.folder, STAGE, "1b" * 32).read("part-1") is None
        with run.stage(STAGE, KEY) as writer:
            assert writer.checkpoints.key == KEY
            assert writer.checkpoints.read("part-1") == b"half of it"
            assert writer.checkpoints.read("part-2") is None
    assert not (run.folder / "checkpoints").exists()


def test_a_recorded_stage_takes_those_of_every_key_along_but_none_of_another_stage(run) -> None:
    other = begun(run, stage="retrain")
    for key in (KEY, "1b" * 32):
        assert begun(run, key).keep("part-1", lambda: b"some")
    assert other.keep("part-1", lambda: b"another")
    with run.stage(STAGE, KEY):
        pass
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["retrain"]
    assert other.read("part-1") == b"another"


def test_what_a_late_worker_left_goes_when_the_run_is_locked(run: Run) -> None:
    with run.stage(STAGE, KEY):
        pass
    late, under_way = begun(run), begun(run, stage="retrain")
    for one in (late, under_way):
        one.keep("part-1", lambda: b"some")
    with run.lock():
        assert not late.folder.exists()
        assert under_way.read("part-1") == b"some"


def test_who_does_not_see_the_folder_writes_nothing(run: Run) -> None:
    elsewhere = Checkpoints.of(run.folder, STAGE, KEY)
    assert not elsewhere.keep("part-1", lambda: pytest.fail("nobody asked for it"))
    assert elsewhere.read("part-1") is None
    assert not elsewhere.folder.exists()


def test_what_cannot_be_written_or_read_is_warned_of_and_no_more(run: Run, caplog) -> None:
    checkpoints = begun(run)
    (checkpoints.folder / "part-1" / "in the way").mkdir(parents=True)
    assert not checkpoints.keep("part-1", lambda: b"some")
    assert checkpoints.read("part-1") is None
    failed, unread = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert failed.startswith("the work continues without this checkpoint: cannot write part-1 in")
    assert unread.endswith("part-1 cannot be used, so its work starts again: Is a directory")


def test_what_is_of_no_use_is_removed_and_said(run: Run, caplog) -> None:
    checkpoints = begun(run)
    checkpoints.keep("part-1", lambda: b"some")
    checkpoints.discard("part-1", "it was changed")
    assert checkpoints.read("part-1") is None
    path = checkpoints.folder / "part-1"
    assert caplog.messages == [
        f"checkpoint {path} cannot be used, so its work starts again: it was changed"
    ]


def test_a_link_out_of_the_run_is_refused(run: Run, tmp_path) -> None:
    (tmp_path / "elsewhere" / STAGE).mkdir(parents=True)
    (run.folder / "checkpoints").symlink_to(tmp_path / "elsewhere")
    said = "by a symbolic link; remove the link"
    with pytest.raises(InputError, match=said), run.stage(STAGE, KEY):
        pass
    assert (tmp_path / "elsewhere" / STAGE).exists()


# How often


class Clock:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def test_they_are_five_seconds_apart_and_take_a_hundredth_of_the_time_at_most(run, clock) -> None:
    checkpoints, written = begun(run), []
    keep = checkpoints.now_and_then("part-1")

    def make(seconds: float) -> bytes:
        clock.now += seconds
        written.append(clock.now)
        return b"some"

    for _ in range(40):  # one a second, each in a moment
        clock.now += 1
        keep(lambda: make(0.0))
    assert written == [1000.0 + 5 * n for n in range(1, 9)]
    for _ in range(400):  # the disk has become slow
        clock.now += 1
        keep(lambda: make(2.0))
    assert len(written) == 8 + 2
    assert written[-1] - written[-2] > 200


def test_after_a_failure_no_other_is_tried(run: Run, clock, caplog) -> None:
    checkpoints = begun(run)
    (checkpoints.folder / "part-1" / "in the way").mkdir(parents=True)
    keep = checkpoints.now_and_then("part-1")
    for _ in range(40):
        clock.now += 1
        keep(lambda: b"some")
    assert len(caplog.messages) == 1
