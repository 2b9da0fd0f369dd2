"""A store that is in the way, full, read-only or damaged; workers that are not there."""

import ctypes
import json
import os
import shutil
from itertools import cycle
from pathlib import Path

import dask.distributed  # its defaults must be there before a setting is changed
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import chaffinch
from chaffinch import InputError, ModelSettings, StorageError
from chaffinch.storage.datasets.dataset import ingest
from chaffinch.storage.files import path_from
from chaffinch.storage.sources import source_of
from tests.refusals import chaffinch_here, chaffinch_run, left_in
from tests.synthetic import bad_table

QUICK = {
    "model": ModelSettings(tuning="none", parameters={"n_estimators": 20, "min_child_samples": 3}),
    "method": "gbmo",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A store with one finished run of a small table."""
    store = tmp_path_factory.mktemp("finished")
    return store, chaffinch.select(bad_table(), "y", **QUICK, store=store)


def snapshot(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "stages").iterdir()}


_FORM = "the address of a store must be s3://bucket/prefix with levels of A-Z a-z 0-9 . _ - but is"
NO_STORES = {
    "gs://shop/store": "a store must be a folder or an address in S3 but is one of gs; give s3://b",
    "file:///store": "a store must be a folder or an address in S3 but is one of file; give s3://b",
    "s3://": _FORM,
    "s3://shop/../other": _FORM,
    "s3://shop/a?key=b": _FORM,
    "s3://key:hidden@shop/store": "the address of the store holds a password or another secret",
}


@pytest.mark.parametrize(("address", "message"), NO_STORES.items())
def test_an_address_of_no_store_is_refused_before_any_work(address, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for ask in (
        lambda: chaffinch.select(bad_table(), "y", store=address),
        lambda: chaffinch.promoted("orders", store=address),
    ):
        with pytest.raises(InputError, match=f"^{message}") as refusal:
            ask()
        assert "hidden" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_that_only_a_shell_writes_out_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, said = kind("~/kept"), r"^{} must be a path written out but '~/kept' begins with '~'; "
    with pytest.raises(InputError, match=said.format("store") + "give what os.path.expanduser"):
        chaffinch.select(bad_table(), "y", store=given)
    with pytest.raises(InputError, match=said.format("checkpoint")):
        chaffinch.probabilistic_selection(np.eye(9), np.arange(9.0), checkpoint=given)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="a path written out"):
        path_from("~", "store")
    assert path_from("a/~b", "store") == Path("a/~b")


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("below", ["", "store"])
def test_a_file_where_the_store_should_be(below, tmp_path):
    (tmp_path / "notes").write_text("mine")
    store = tmp_path / "notes" / below
    message = f"store {store} cannot be made because a file has its place; name another store"
    with pytest.raises(InputError) as refusal:
        chaffinch.select(bad_table(), "y", store=store)
    assert str(refusal.value) == message

    bad_table().to_csv(tmp_path / "table.csv", index=False)
    done = chaffinch_here("run", tmp_path / "table.csv", "--target", "y", "--store", store)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {message}\n")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder can be made in /proc")
def test_a_store_where_no_folder_can_be_made():
    for store in ("/proc/x", "/proc/x/store"):
        with pytest.raises(InputError, match=f"^no folder can be made at {store}; name another st"):
            chaffinch.select(bad_table(), "y", store=store)


@pytest.fixture
def read_only(tmp_path):
    """A folder on a file system that is mounted read-only, which binds root as well."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    read_only_flag = 1
    if libc.mount(b"none", bytes(folder), b"tmpfs", read_only_flag, None):
        pytest.skip(f"mounting is not allowed here: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount(bytes(folder))


def test_a_store_in_a_read_only_folder(read_only):
    for store in (read_only, read_only / "store"):
        with pytest.raises(InputError, match=r"is not allowed; make the folder writable or name"):
            chaffinch.select(bad_table(), "y", store=store)


@pytest.mark.e2e
def test_a_disk_without_room_for_the_table_at_the_command_line(tmp_path):
    load_breast_cancer(as_frame=True).frame.to_csv(tmp_path / "table.csv", index=False)
    limit = (
        "import resource;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY));"
    )
    done = chaffinch_run(
        "run", tmp_path / "table.csv", "--target", "target", "--store", tmp_path / "store",
        preamble=limit,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: no space left for a file of this size")
    assert done.stderr.count("\n") == 1
    assert not left_in(tmp_path)


TELLS_THE_TIME = ("stages/optimise_mask.json", "report.html")


@pytest.mark.parametrize(
    "damaged",
    ["stages/optimise_mask.json", "splits.parquet", "profile.json", "report.html", "table"],
)
def test_a_truncated_file_is_made_again(damaged, finished):
    """Those that a result is read from are in `test_reading_back.py`."""
    store, result = finished
    path = result.folder / damaged
    if damaged == "table":
        (path,) = (store / "datasets").rglob("table.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    again = chaffinch.select(bad_table(), "y", **QUICK, store=store)
    assert again.contract == result.contract
    if damaged in TELLS_THE_TIME:
        assert len(path.read_bytes()) > 0.9 * len(whole)
    else:
        assert path.read_bytes() == whole


def test_a_damaged_dataset_is_named_and_made_again_from_its_file(tmp_path, caplog):
    bad_table().to_csv(tmp_path / "table.csv", index=False)
    source = source_of(tmp_path / "table.csv")
    dataset = ingest(source, tmp_path / "store")
    table = dataset.files[0].path
    whole = table.read_bytes()
    table.write_bytes(whole[:-9])
    ingest(source, tmp_path / "store")
    assert table.read_bytes() == whole
    assert f"dataset {dataset.path} is damaged, and is made again from " in caplog.text


def without_the_store(store):
    shutil.rmtree(store)


def with_other_files(store):
    for path in store.glob("runs/*/*"):
        if path.is_file() and path.name not in (".lock", "run.json"):
            path.write_bytes(path.read_bytes()[:-1])


def test_a_store_that_is_changed_amid_a_run_is_a_storage_error_in_one_line(tmp_path):
    """At the beginning of a stage, unless what was changed is not read; the next call is right."""

    def selected(on_progress):
        quick = ModelSettings(name="linear", tuning="none")
        return chaffinch.select(bad_table(), "y", method="anova_f", n_features=2, model=quick,
                                store=tmp_path / "store", verbose=on_progress)  # fmt: skip

    moments = []
    whole = selected(lambda *moment: moments.append(moment))
    refused = 0
    begun = [one for one in moments if one[1:] == (0, 1)]
    for moment, do in zip(begun, cycle([without_the_store, with_other_files]), strict=False):
        shutil.rmtree(tmp_path / "store", ignore_errors=True)

        def change(*reached, moment=moment, do=do):
            if reached == moment:
                do(tmp_path / "store")

        try:
            assert selected(change).contract == whole.contract
        except StorageError as error:
            assert str(error).isprintable()  # noqa: PT017 - others are raised
            refused += 1
    assert refused >= 4
    assert selected(lambda *_: None).contract == whole.contract


def test_a_run_that_is_not_there(finished):
    store, result = finished
    assert chaffinch.load_run(result.run[:-1], store=store).run == result.run  # its beginning
    almost = f"{result.run}x"
    message = f"there is no run {almost!r} in {store}; nearest: {result.run}"
    with pytest.raises(InputError) as refusal:
        chaffinch.load_run(almost, store=store)
    assert str(refusal.value) == message

    done = chaffinch_here("show", almost, "--store", store)
    shown = message.replace("there is no run", "there is no run or comparison")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {shown}\n")


@pytest.mark.parametrize("command", [["show", "any"], ["runs"], ["history"], ["why", "any"]])
def test_a_store_that_is_not_there(command, tmp_path):
    done = chaffinch_here(*command, "--store", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: there is no store at {tmp_path / 'none'}; name the one that runs were given\n"
    )
    assert not (tmp_path / "none").exists()


EMPTY = "store must be named but is empty text; give a path"


@pytest.mark.parametrize(
    "command",
    [
        ["run", "{table}", "--target", "y"],
        ["compare", "{table}", "--target", "y"],
        ["reselect", "any", "{table}"],
        ["runs"],
        ["show", "any"],
        ["why", "any"],
        ["history"],
        ["columns", "any"],
        ["diff", "any", "other"],
        ["promote", "any"],
        ["promoted"],
        ["rollback", "any"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("store", ["", " "])
def test_a_store_of_no_name_at_the_command_line(command, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "orders.csv"
    bad_table().to_csv(table, index=False)
    given = [part.format(table=table) for part in command]
    done = chaffinch_here(*given, "--store", store)
    assert (done.returncode, done.stderr) == (2, f"Error: {EMPTY}\n")
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    "door",
    [
        lambda: chaffinch.ExecutionSettings(store=""),
        lambda: chaffinch.select(bad_table(), "y", store=""),
        lambda: chaffinch.compare([bad_table()], "y", store=""),
        lambda: chaffinch.load_run("any", store=""),
        lambda: chaffinch.load_contract("any", store=""),
        lambda: chaffinch.run_history(store=""),
        lambda: chaffinch.reselect("any", bad_table(), store=""),
        lambda: chaffinch.difference("any", "other", store=""),
        lambda: chaffinch.promote("any", store=""),
        lambda: chaffinch.promoted("any", store=""),
        lambda: chaffinch.promotions("any", store=""),
        lambda: chaffinch.rollback("any", store=""),
    ],
)
def test_a_store_of_no_name_in_python(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        door()
    assert str(refusal.value) == EMPTY
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e  # it is waited for
def test_a_scheduler_that_does_not_answer(tmp_path):
    nobody = "tcp://127.0.0.1:9"
    with pytest.raises(InputError) as refusal:
        chaffinch.select(bad_table(), "y", cluster=nobody, store=tmp_path)
    assert str(refusal.value) == (
        f"no Dask scheduler answers at {nobody!r}; start one with `dask scheduler`, give tls:// "
        "where it takes certificates, or set cluster to local"
    )
    assert not left_in(tmp_path)


@pytest.mark.parametrize(
    ("named", "problem"),
    [("", "none are named"), ("no_file", "they cannot be used (No such file or directory)")],
)
def test_a_scheduler_with_tls_but_no_certificates(tmp_path, named, problem):
    address, name = "tls://127.0.0.1:9", "DASK_DISTRIBUTED__COMM__TLS__{}".format
    files = dict.fromkeys(("ca-file", "client.cert", "client.key"), named or None)
    with (
        dask.config.set({f"distributed.comm.tls.{key}": file for key, file in files.items()}),
        pytest.raises(InputError) as refusal,
    ):
        chaffinch.select(bad_table(), "y", cluster=address, store=tmp_path)
    assert str(refusal.value) == (
        f"the scheduler at {address!r} needs certificates, but {problem}; set {name('CA_FILE')}, "
        f"{name('CLIENT__CERT')}, {name('CLIENT__KEY')} to their files"
    )
    assert not left_in(tmp_path)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    chaffinch.select(bad_table(), "y", **QUICK)
    with pytest.raises(InputError):
        chaffinch.select(bad_table(y="no"), "y", **QUICK)
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.parametrize("file", ["run.json", "selection.json"])
def test_a_damaged_run_is_listed_beside_the_others(file, finished, tmp_path):
    store, result = finished
    shutil.copytree(store, tmp_path / "store")
    damaged = tmp_path / "store" / "runs" / f"{result.run}-damaged"
    shutil.copytree(result.folder, damaged)
    (damaged / file).write_bytes(b"")
    listed = chaffinch_here("runs", "--store", tmp_path / "store", "--json")
    assert listed.returncode == 0
    states = {entry["run"]: entry["state"] for entry in json.loads(listed.stdout)}
    assert states == {damaged.name: "damaged", result.run: "finished"}
    assert damaged.name in chaffinch_here("runs", "--store", tmp_path / "store").stdout
