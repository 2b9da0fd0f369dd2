"""What must hold of every case: it is done, or refused in one printable line, and nothing is left.

Each case runs in a process of its own, forked from one that has imported and compiled everything,
so that a crash, a hang or a leak of memory ends that case alone.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.tasks.errors import WorkersError
from tests.faults.checks import half_written
from tests.fuzz.values import Broken, Case, Place

SECONDS, BYTES, CHARACTERS = 120, 2 * 2**30, 2000
_REPOSITORY = Path(__file__).parents[2]
Families = Mapping[str, tuple[Callable[[Any, Place], Case], int]]
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


@dataclass
class Outcome:
    """What became of a case.

    Attributes
    ----------
    index : int
        Number of the case.
    family : str
        What was drawn.
    what : str
        The call.
    kind : str
        ``done``, ``refused`` or ``failed``.
    said : str
        The message, or the traceback.
    key : str
        By which failures are grouped.
    seconds : float
        CPU time.
    """

    index: int
    family: str = ""
    what: str = ""
    kind: str = "failed"
    said: str = ""
    key: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Started:
    """A process that runs a case."""

    pid: int
    folder: Path
    index: int
    began: float

    def outcome(self) -> Outcome | None:
        """Return what became of it; None while it runs."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        is_late = pid == 0 and time.monotonic() - self.began > SECONDS
        if pid == 0 and not is_late:
            return None
        if is_late:
            os.kill(self.pid, signal.SIGABRT)  # which writes the traceback
            time.sleep(0.2)
            os.kill(self.pid, signal.SIGKILL)
            _, status, used = os.wait4(self.pid, 0)
        path = self.folder / "outcome.json"
        found = Outcome(self.index)
        if path.exists():
            found = Outcome(**json.loads(path.read_bytes()))
        if (
            is_late
            or os.WIFSIGNALED(status)
            or not found.kind
            or (not found.key and found.kind == "failed")
        ):
            found.kind = "failed"
            how = f"more than {SECONDS} s" if is_late else f"signal {os.WTERMSIG(status)}"
            stack = (self.folder / "stack").read_text(errors="replace")
            frames = [line.strip() for line in stack.splitlines() if "/chaffinch/" in line]
            found.key = f"{how} in {_relative(frames[0]) if frames else found.family}"
            printed = (self.folder / "stderr").read_text(errors="replace")
            found.said = f"{how}\n{stack[:3000]}\n{printed[:1000]}"
        found.seconds = used.ru_utime + used.ru_stime
        shutil.rmtree(self.folder, ignore_errors=True)
        return found

    def kill(self) -> None:
        """End it, whatever it is at."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def start(seed: int, index: int, folder: Path, families: Families) -> Started:
    """Fork a process that draws a case and runs it."""
    for name in ("in", "made", "tmp", "here"):
        (folder / name).mkdir(parents=True)
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return Started(pid, folder, index, began)
    try:
        _in_child(seed, index, folder, families)
    except BaseException:  # noqa: BLE001 - a fault of the fuzzer itself
        (folder / "outcome.json").write_text(
            json.dumps(asdict(Outcome(index, said=traceback.format_exc(), key="the fuzzer")))
        )
    finally:
        os._exit(0)


def _in_child(seed: int, index: int, folder: Path, families: Families) -> None:
    import numpy as np

    with (folder / "stack").open("w") as stack:
        faulthandler.enable(stack)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, descriptor)
        sys.stdout, sys.stderr = (
            os.fdopen(os.dup(number), "w", errors="surrogateescape") for number in (1, 2)
        )
        os.chdir(folder / "here")
        import tempfile

        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
        status = Path("/proc/self/status").read_text()
        held = int(status.partition("VmData:")[2].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (held + BYTES, held + BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        draws = np.random.default_rng([seed, index])
        names, shares = zip(*((name, share) for name, (_, share) in families.items()), strict=True)
        family = str(draws.choice(names, p=np.array(shares) / sum(shares)))
        outcome = Outcome(index, family)
        _write(outcome, folder)
        case = families[family][0](draws, Place(folder))
        outcome.what = case.what
        _write(outcome, folder)
        _judge(case, outcome, folder)
        _write(outcome, folder)


def _write(outcome: Outcome, folder: Path) -> None:
    text = json.dumps(asdict(outcome))
    (folder / "outcome.json").write_text(text)


def _judge(case: Case, outcome: Outcome, folder: Path) -> None:
    """Run a case and fill in what became of it."""
    before = _contents(folder / "in")
    leaked: list[str] = []
    message = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _collecting(leaked)
            case.do()
        outcome.kind = "done"
    except (InputError, StorageError, WorkersError) as error:
        message = outcome.said = str(error)
        outcome.kind = "refused"
    except Broken as error:
        outcome.said = outcome.key = str(error)
        outcome.key = outcome.key.partition(":")[0]
        outcome.kind = "failed"
        return
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
        outcome.kind, outcome.key = "failed", _frame(error)
        outcome.said = "".join(traceback.format_exception(error))[-6000:]
        return
    sys.stdout.flush()
    sys.stderr.flush()
    problems = [*_of_message(message), *leaked]
    printed = [(folder / name).read_text(errors="surrogateescape") for name in ("stdout", "stderr")]
    if case.command:
        problems += _of_lines(printed[1])
    elif any(printed):
        problems.append(f"printed by a library: {''.join(printed)[:300]}")
    if _contents(folder / "in") != before:
        problems.append("an input file was changed, or another written beside it")
    problems += [
        f"left in {name}: {_kinds(folder / name)}"
        for name in ("here", "tmp")
        if _kinds(folder / name)
    ]
    for store in (folder / "store", folder / "made"):
        problems += _of_store(store)
    if problems:
        outcome.kind, outcome.key = "failed", problems[0].partition(":")[0]
        outcome.said = "\n".join(problems)


def _of_message(message: str) -> list[str]:
    if not message:
        return []
    frames = []
    if len(message.splitlines()) > 1:
        frames = [f"a message of several lines: {message}"]
    elif any(unicodedata.category(c) in _UNPRINTABLE for c in message):
        frames = [f"a message with control characters: {message!r}"]
    if len(message) > CHARACTERS:
        frames.append(
            f"a message of more than {CHARACTERS} characters: {message[:300]}... ({len(message)})"
        )
    return frames


def _of_lines(printed: str) -> list[str]:
    return [
        f"printed with control characters: {line!r}"
        for line in printed.split("\n")
        if any(unicodedata.category(c) in _UNPRINTABLE for c in line)
    ][:1]


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def _kinds(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _of_store(store: Path) -> list[str]:
    left = [path.name for path in store.rglob("*") if path.name.startswith(".aside-")]
    problems = [f"a file left half written: {name}" for name in left]
    if not (store / ".damaged").exists():
        problems += [f"half written: {one}" for one in half_written(store)]
    return problems


def _collecting(leaked: list[str]) -> Any:
    """Return what notes warnings that are not chaffinch's own."""

    def note(message: Any, category: Any, filename: str, lineno: int, *_: Any) -> None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") == "warnings":
            frame = frame.f_back  # type: ignore[assignment]
        module = str(frame.f_globals.get("__name__")) if frame else ""
        if not (module.startswith("chaffinch") and category is UserWarning):
            leaked.append(f"a warning of {module} ({category.__name__}): {message}")
        elif len(str(message).splitlines()) > 1 or not str(message).isprintable():
            leaked.append(f"an unprintable warning: {message!r}")

    return note


def _frame(error: BaseException) -> str:
    """Return by what a failure is grouped: its type, our last frame, and the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/tests/" not in f.filename and _is_ours(f.filename)]
    said = [f"{_short(f.filename)}:{f.lineno} {f.name}" for f in [*ours[-1:], *frames[-1:]]]
    return f"{type(error).__name__} in {' <- '.join(dict.fromkeys(reversed(said)))}"


def _is_ours(filename: str) -> bool:
    return str(_REPOSITORY) in filename and "site-packages" not in filename


def _short(filename: str) -> str:
    parts = Path(filename).parts
    return "/".join(parts[-3:]).removeprefix("chaffinch/")


def _relative(line: str) -> str:
    return line.replace(str(_REPOSITORY), "")
