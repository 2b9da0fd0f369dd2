"""Files appear whole or not at all, whatever happens to their writer."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from chaffinch.errors import InputError, StorageError
from chaffinch.storage import files
from chaffinch.storage.files import (
    check_name,
    file_to_write,
    locked,
    path_in,
    read_json,
    sha256_of_file,
    to_json,
    write_file,
)
from tests.flows.cli.programs import python

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("name", ["a", "run-1", "2024.01.31_night", "A" * 120])
def test_a_name_of_letters_digits_dots_dashes_underscores_is_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-x", "a/b", "a\\b", "a b", "a\n", "é", "A" * 121, "a\0"]
)
def test_any_other_name_is_refused_with_the_rule_and_the_name(name: str) -> None:
    with pytest.raises(InputError, match=r"must be 1..120 of") as caught:
        check_name(name)
    assert repr(name) in str(caught.value)


def test_a_file_name_may_have_levels_but_none_that_leads_out(tmp_path: Path) -> None:
    assert path_in(tmp_path, "model/trees.txt") == tmp_path / "model" / "trees.txt"
    for name in ("../x", "/etc/passwd", "a/../../x", "a//b", "a/", "a/.hidden"):
        with pytest.raises(InputError, match="a name must be"):
            path_in(tmp_path, name)


def test_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"leads out of .* by a symbolic link; remove the link"):
        path_in(tmp_path / "run", "model/x")
    (tmp_path / "run" / "circle").symlink_to("circle")
    assert path_in(tmp_path / "run", "circle") == tmp_path / "run" / "circle"


def test_bytes_are_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "x.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_writing_function_sees_the_ending_and_not_the_final_name(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    seen: list[Path] = []

    def write(aside: Path) -> None:
        seen.append(aside)
        aside.write_bytes(b"data")
        assert not path.exists()

    write_file(path, write)
    assert path.read_bytes() == b"data"
    assert seen[0].suffix == ".png"
    assert seen[0].name.startswith(".")
    assert seen[0].parent == tmp_path


def test_after_a_failure_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_file(path, b"old")

    def fail(aside: Path) -> None:
        aside.write_bytes(b"half")
        raise RuntimeError("the model library gave up")

    with pytest.raises(RuntimeError, match="gave up"):
        write_file(path, fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


FULL_DISK = """
import resource, sys
from pathlib import Path
from chaffinch.errors import StorageError
from chaffinch.storage.files import write_file
import pyarrow as pa, pyarrow.parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
folder = Path(sys.argv[1])
table = pa.table({"x": [i * 0.1 for i in range(100_000)]})
for name, data in {
    "model.txt": b"x" * 20_000,
    "table.parquet": lambda path: pa.parquet.write_table(table, path),
}.items():
    try:
        write_file(folder / name, data)
    except StorageError as error:
        print(error)
"""


def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    done = python(FULL_DISK, tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"no space left for a file of this size on the device of {tmp_path} while writing {name}: "
        "free some or name another place"
        for name in ("model.txt", "table.parquet")
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_no_space_left_is_said_in_one_line(tmp_path: Path) -> None:
    def write_to_full_device(aside: Path) -> None:
        aside.symlink_to("/dev/full")
        aside.write_bytes(b"x")

    with pytest.raises(StorageError) as caught:
        write_file(tmp_path / "report.html", write_to_full_device)
    assert str(caught.value) == (
        f"no space left on the device of {tmp_path} while writing report.html: "
        "free some or name another place"
    )
    assert list(tmp_path.iterdir()) == []


NO_LOCK = """
import sys
from pathlib import Path
from chaffinch.errors import StorageError
from chaffinch.storage.files import locked
try:
    with locked(Path(sys.argv[1]), "it"):
        print("held")
except StorageError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file can be made in Linux's /proc")
def test_a_lock_that_cannot_be_made_is_not_waited_for() -> None:
    done = python(NO_LOCK, "/proc/.y.lock")
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "cannot write .y.lock in /proc: No such file or directory; correct it or"
    )


def test_a_file_system_without_locks_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_implemented(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", not_implemented)
    for _ in range(2):  # the file of the first is there then
        with pytest.raises(StorageError) as refusal, locked(tmp_path / ".lock", "it"):
            pass
        assert str(refusal.value) == (
            f"the file system of {tmp_path} has no file locks (flock); mount it with them, as "
            "Lustre with -o flock, or name another place"
        )


def test_a_file_in_the_place_of_a_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot write x in .*model: .*name another place"):
        write_file(tmp_path / "model" / "x", b"")


def test_a_file_and_what_is_not_there_yet_are_written_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"")
    for name in ("there", "new", "deep/down/new", "there/below", "x" * 300):
        assert file_to_write(tmp_path / name, "the table") == tmp_path / name
    assert file_to_write(Path("new"), "the table") == Path("new")


def test_behind_links_it_is_what_they_lead_to_there_or_not(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"")
    for name in ("there", "not there", "no folder/new"):
        first, second = tmp_path / f"first to {name[:3]}", tmp_path / f"second to {name[:3]}"
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)
        first.symlink_to(name)
        second.symlink_to(first)
        assert file_to_write(second, "the table") == (tmp_path / name).resolve()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "must be a file but .*/folder is a folder; name a file in it"),
        ("to the folder", "must be a file but .*/to the folder is a folder; name a file in it"),
        ("pipe", "must be a regular file but .*/pipe is a device, a pipe or a socket; name"),
        ("circle", "must be a file but .*/circle leads in a circle by symbolic links; name"),
    ],
)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "to the folder").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match=f"^the table {said}") as refusal:
        file_to_write(tmp_path / name, "the table")
    assert "\n" not in str(refusal.value)


def test_sha256_of_known_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert sha256_of_file(tmp_path / "empty") == EMPTY_SHA256


def test_json_keeps_order_and_floats_and_ends_with_a_newline(tmp_path: Path) -> None:
    data = {"format_version": 1, "z": 0.1 + 0.2, "a": ["é", None, True]}
    document = to_json(data)
    assert document.endswith(b"}\n")
    assert document.index(b'"z"') < document.index(b'"a"')
    write_file(tmp_path / "x.json", document)
    assert read_json(tmp_path / "x.json", {"z": float, "a": list}) == data


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_json_holds_no_nan_and_no_infinity(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"x": number})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b'{"format_version": 1', r"is damaged \(.*\); remove it and run again"),
        (b"\xff\xfe\x00", r"is damaged"),
        (b'{"format_version": 1, "x": NaN}', r"is damaged \(NaN is no number of JSON\)"),
        (b'{"format_version": 0, "x": 1}', "must have format_version 1 but has 0; remove it and"),
        (b"[1]", "must have format_version 1 but has None"),
        (b'{"format_version": 2, "x": 1}', r"by a later release \(format 2\); this one reads up"),
        (b'{"format_version": 1}', r"is damaged \(no int x\)"),
        (b'{"format_version": 1, "x": "1"}', r"is damaged \(no int x\)"),
    ],
)
def test_a_damaged_document_is_a_storage_error(
    tmp_path: Path, document: bytes, message: str
) -> None:
    (tmp_path / "x.json").write_bytes(document)
    with pytest.raises(StorageError, match=message):
        read_json(tmp_path / "x.json", {"x": int})


def test_what_cannot_be_read_as_a_document_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "circle.json").symlink_to("circle.json")
    for name, reason in {"folder": "Is a directory", "circle": "Too many levels"}.items():
        with pytest.raises(StorageError, match=rf"{name}.json cannot be read \({reason}.*; remove"):
            read_json(tmp_path / f"{name}.json", {})


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no file system that flushes no folder")
def test_a_folder_that_cannot_be_flushed_is_no_error() -> None:
    files._flush(Path("/proc/self"))
    with pytest.raises(OSError, match="Invalid argument"):
        files._flush(Path("/proc/self/stat"))


def test_a_file_is_flushed_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, Path.replace

    def noted_flush(descriptor: int) -> None:
        steps.append("flush")
        flush(descriptor)

    def noted_rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(Path, "replace", noted_rename)
    write_file(tmp_path / "x", b"data")
    assert steps == ["flush", "rename", "flush"]
