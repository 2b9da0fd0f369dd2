"""A device or a pipe that is named as a file is refused before it is opened, whoever reads it.

To open a pipe that nobody writes to waits for ever, and /dev/zero never ends. Each test names the
pipe first, so that code which opens it is out of time before it fills the memory.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli.commands import cli, exit_code
from tests.sources import check_source, column_names, read_source, source_fingerprint

ANOTHER_STATE = "name a file that chaffinch.save_state wrote"
ANOTHER_RUN = "give a run's name, its folder or its selection.json"
ANOTHER_FILE = "name another file"


@pytest.fixture
def no_files(tmp_path: Path) -> list[Path]:
    pipe, link = tmp_path / "pipe", tmp_path / "link to the pipe"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    return [pipe, link, Path("/dev/zero")]


def synthetic():
    X = np.random.default_rng(0).normal(size=(1000, 4))
    return X, X[:, 1] - X[:, 2]


def check_refused(ask, *given, what: str, named: Path, remedy: str, **options) -> None:
    with pytest.raises(InputError) as refusal:
        ask(*given, **options)
    assert str(refusal.value) == (
        f"{what} must be a regular file but {named} is a device, a pipe or a socket; {remedy}"
    )


def test_a_state_to_start_from(no_files) -> None:
    X, y = synthetic()
    select = chaffinch.differentiable_selection
    for path in no_files:
        said = {"what": "start", "named": path, "remedy": ANOTHER_STATE}
        for given in (path, str(path)):
            check_refused(select, X, y, n_features=2, start=given, **said)


def test_a_former_run(no_files) -> None:
    for path in no_files:
        for given in (path, str(path)):
            check_refused(
                chaffinch.load_contract, given, what="a run", named=path, remedy=ANOTHER_RUN
            )


@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".parquet"])
def test_a_table_by_its_ending(no_files, tmp_path: Path, ending: str) -> None:
    link, store = tmp_path / f"table{ending}", tmp_path / "store"
    for path in no_files:
        link.symlink_to(path)
        said = {"what": "a source", "named": link, "remedy": ANOTHER_FILE}
        for ask in (check_source, column_names, source_fingerprint, read_source):
            check_refused(ask, link, **said)
        check_refused(chaffinch.select, link, target="y", store=store, cluster="none", **said)
        link.unlink()


def test_one_among_the_files_of_a_folder(no_files, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    X, y = synthetic()
    pa.parquet.write_table(pa.table({"x": X[:, 1], "y": y}), folder / "a.parquet")
    (folder / "_b.parquet").symlink_to(no_files[0])  # no data, by its name
    assert read_source(folder).num_rows == 1000
    odd = folder / "c.parquet"
    for path in no_files:
        odd.symlink_to(path)
        said = {"what": "a source", "named": odd, "remedy": "move it elsewhere"}
        for ask in (check_source, column_names, source_fingerprint, read_source):
            check_refused(ask, folder, **said)
        odd.unlink()


def test_a_database(no_files) -> None:
    for path in no_files:
        for ask in (check_source, column_names, read_source):
            check_refused(
                ask, f"sqlite:///{path}#orders", what="a source", named=path, remedy=ANOTHER_FILE
            )


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="Linux has a file that fails")
@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".parquet", ".svm"])
def test_a_file_whose_disk_fails_is_named(tmp_path: Path, ending: str, capsys) -> None:
    """Exit code 2: the one of a hang-up is for a terminal that is gone."""
    failing = tmp_path / f"table{ending}"
    failing.symlink_to("/proc/self/mem")  # its first bytes cannot be read
    message = f"{failing} cannot be read (Input/output error); check its disk, or name another"
    for ask in (chaffinch.load_contract, source_fingerprint, partial(chaffinch.select, target="y")):
        with pytest.raises(InputError) as refusal:
            ask(failing)
        assert str(refusal.value) == message
    assert exit_code(partial(cli.main, ["columns", str(failing)])) == 2
    assert capsys.readouterr().err == f"Error: {message}\n"
