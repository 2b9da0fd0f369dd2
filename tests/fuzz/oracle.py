"""What must hold of every case: it is done, or refused in one printable line, and nothing is left.

Each case runs in a process of its own, forked from one that has imported and compiled everything:
a crash, a hang or a leak ends that case alone.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chaffinch.errors import InputError, StorageError, WorkersError
from chaffinch.storage.files import sha256_of_file
from tests.faults.checks import half_written
from tests.fuzz.values import Broken, Case, Draws

SECONDS, BYTES, CHARACTERS = 120, 2 * 2**30, 2000
Families = Mapping[str, tuple[Callable[[Draws, Path], Case], int]]
_REPOSITORY = str(Path(__file__).parents[2])
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


@dataclass
class Outcome:
    """What became of a case: ``done``, ``refused`` or ``failed``, and by what to group failures."""

    index: int
    family: str = ""
    what: str = ""
    kind: str = ""
    said: str = ""
    key: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Started:
    """The process of a case."""

    pid: int
    folder: Path
    index: int
    began: float

    def outcome(self) -> Outcome | None:
        """Return what became of the case; None while it runs."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        is_late = not pid and time.monotonic() - self.began > SECONDS
        if not pid and not is_late:
            return None
        if is_late:
            os.kill(self.pid, signal.SIGABRT)  # which writes where it is
            _, status, used = os.wait4(self.pid, 0)
        found = Outcome(**json.loads((self.folder / "outcome.json").read_bytes()))
        if is_late or status or not found.kind:
            how = f"more than {SECONDS} s" if is_late else f"a process that ended with {status}"
            stack, printed = (
                (self.folder / n).read_text(errors="replace") for n in ("stack", "stderr")
            )
            ours = [
                line.replace(_REPOSITORY, "") for line in stack.splitlines() if "chaffinch" in line
            ]
            found.kind, found.said = "failed", f"{how}\n{printed[:2000]}\n{stack[:3000]}"
            found.key = f"{how}, {ours[0].strip() if ours else found.family}"
        found.seconds = used.ru_utime + used.ru_stime
        shutil.rmtree(self.folder)
        return found


def drawn(seed: int, index: int, families: Families) -> tuple[Draws, str]:
    """Return what draws a case, and its family."""
    draws = np.random.default_rng([seed, index])
    shares = np.array([share for _, share in families.values()])
    return draws, str(draws.choice([*families], p=shares / shares.sum()))


def start(seed: int, index: int, folder: Path, families: Families) -> Started:
    """Fork a process that draws a case and runs it."""
    for name in ("in", "made", "tmp", "here"):
        (folder / name).mkdir(parents=True)
    began = time.monotonic()
    _write(Outcome(index), folder)
    pid = os.fork()
    if not pid:
        try:
            _in_child(seed, index, folder, families)
        finally:
            os._exit(0)
    return Started(pid, folder, index, began)


def _in_child(seed: int, index: int, folder: Path, families: Families) -> None:
    faulthandler.enable((folder / "stack").open("w"))
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.stdout, sys.stderr = (open(n, "w", errors="surrogateescape") for n in (1, 2))  # noqa: PTH123, SIM115
    os.chdir(folder / "here")
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    held = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + BYTES, held + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    draws, family = drawn(seed, index, families)
    outcome = Outcome(index, family)
    try:
        case = families[outcome.family][0](draws, folder)
        outcome.what = case.what
        _write(outcome, folder)
        for name in ("stdout", "stderr"):
            os.truncate(folder / name, 0)  # what was printed as the input was made
        _judge(case, outcome, folder)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
        outcome.kind, outcome.said = "failed", "".join(traceback.format_exception(error))[-6000:]
        outcome.key = _frame(error)
        if isinstance(error, Broken):
            outcome.said, outcome.key = str(error), str(error).partition(":")[0]
    _write(outcome, folder)


def _write(outcome: Outcome, folder: Path) -> None:
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)))


def _judge(case: Case, outcome: Outcome, folder: Path) -> None:
    """Run a case; note what became of it; raise what it failed by."""
    before, leaked = _contents(folder / "in"), []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *said, **_: leaked.append(_warned(*said[:2]))  # type: ignore[assignment]
        try:
            case.do()
            outcome.kind = "done"
        except (InputError, StorageError, WorkersError) as error:
            outcome.kind, outcome.said = "refused", str(error)
    sys.stdout.flush()
    sys.stderr.flush()
    printed = [(folder / n).read_text(errors="surrogateescape") for n in ("stdout", "stderr")]
    problems = [*_of_message(outcome.said), *filter(None, leaked)]
    if case.command:
        problems += [f"printed with control characters: {line!r}"
                     for line in printed[1].split("\n") if not is_printable(line)]  # fmt: skip
    elif any(printed):
        problems.append(f"a library prints: {''.join(printed)[:300]!r}")
    if _contents(folder / "in") != before:
        problems.append("the input was changed, or a file written beside it")
    left = [
        f"{one.parent.name}/{one.name}" for n in ("here", "tmp") for one in (folder / n).iterdir()
    ]
    left += [path.name for path in folder.rglob(".aside-*")]
    problems += [f"left behind: {left!r}"] if left else []
    for store in (folder / "store", folder / "made" / "store"):
        if not (store / ".damaged").exists():
            problems += [f"half written: {one}" for one in half_written(store)]
    if problems:
        raise Broken("\n".join(problems))


def is_printable(line: str) -> bool:
    """Return whether a line neither breaks nor moves a cursor."""
    return not any(unicodedata.category(character) in _UNPRINTABLE for character in line)


def _of_message(message: str) -> list[str]:
    if len(message) > CHARACTERS:
        return [
            f"a message of more than {CHARACTERS} characters: {message[:300]!r}... {len(message)}"
        ]
    return (
        []
        if is_printable(message)
        else [f"a message of several lines, or unprintable: {message!r}"]
    )


def _contents(folder: Path) -> dict[Path, str]:
    return {
        p: sha256_of_file(p) if p.is_file() and not p.is_symlink() else ""
        for p in sorted(folder.rglob("*"))
    }


def _warned(message: Any, category: type[Warning]) -> str:
    """Return what is wrong with a warning: that it is a library's, or cannot be printed.

    What scikit-learn says of the estimator or scorer that a person named is that person's to see.
    """
    outside = (__name__, "warnings")
    frames = (frame.f_globals["__name__"] for frame, _ in traceback.walk_stack(None))
    module = next(name for name in frames if name not in outside)
    of_the_model = category.__name__ in (
        "ConvergenceWarning",
        "DataConversionWarning",  # of y in a table of one column, as scikit-learn's estimators do
        "FutureWarning",
        "UndefinedMetricWarning",
    )
    is_ours = module.startswith("chaffinch") and issubclass(category, UserWarning)
    if (is_ours and is_printable(str(message))) or (module.startswith("sklearn") and of_the_model):
        return ""
    return f"a warning in {module} of {category.__name__}: {message}"


def _frame(error: BaseException) -> str:
    """Return an error's type, the last frame of all and our last."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if _REPOSITORY in f.filename and "/.venv/" not in f.filename]
    places = [
        f"{Path(*Path(f.filename).parts[-3:])}:{f.lineno} {f.name}" for f in (frames[-1], ours[-1])
    ]
    return f"{type(error).__name__} in {' <- '.join(dict.fromkeys(places))}"
