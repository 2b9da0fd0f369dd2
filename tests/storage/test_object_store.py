"""A store in object storage is what it is on disk, for every machine, whatever dies meanwhile."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import obstore
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

import chaffinch
from chaffinch.errors import InputError, StorageError
from chaffinch.storage.objects.bucket import Bucket, Object
from chaffinch.storage.objects.lease import Lease
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import eventually, free_port
from tests.object_storage import ObjectStorage
from tests.refusals import chaffinch_here

pytestmark = [pytest.mark.xdist_group("objects"), pytest.mark.usefixtures("undrawn")]

TABLE = load_breast_cancer(as_frame=True).frame
LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")
QUICK = {"method": "anova_f", "n_features": 3, "model": LINEAR}
TIMED = re.compile(r"/(run.json|metrics.json|report\.\w+|stages/\w+.json)$")  # files with times

Machine = Callable[[], Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return what makes this process another machine, with an empty cache."""

    def new() -> Path:
        cache = tmp_path / f"machine-{len(list(tmp_path.glob('machine-*')))}"
        cache.mkdir()
        monkeypatch.setenv("CHAFFINCH_CACHE", str(cache))
        return cache

    new()
    return new


@pytest.fixture
def address(s3: ObjectStorage, machine: Machine) -> str:
    return f"s3://shop/stores/{uuid4().hex}"


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory, undrawn: None) -> Path:
    folder = tmp_path_factory.mktemp("on-disk")
    (folder / "store").mkdir()
    chaffinch.select(TABLE, "target", store=folder / "store", **QUICK)
    return folder / "store"


def put(s3: ObjectStorage, address: str, name: str, content: bytes) -> None:
    with s3.files.open_output_stream(f"{address.removeprefix('s3://')}/{name}") as stream:
        stream.write(content)


def is_data(name: str) -> bool:
    return not any(level.startswith(".") for level in name.split("/"))


def test_a_run_leaves_in_the_bucket_what_it_leaves_on_disk(
    s3: ObjectStorage, address: str, on_disk: Path
) -> None:
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    objects = {name: content for name, content in s3.below(address).items() if is_data(name)}
    files = {str(p.relative_to(on_disk)): p.read_bytes() for p in on_disk.rglob("*") if p.is_file()}
    files = {name: content for name, content in files.items() if is_data(name)}
    assert objects.keys() == files.keys()
    same = [name for name, content in files.items() if objects[name] == content]
    assert all(TIMED.search(name) for name in files.keys() - same)
    assert f"runs/{result.run}/selection.json" in same
    for name in files:
        if "/stages/" in name:
            ours, theirs = (json.loads(of[name]) for of in (objects, files))
            assert ours["files"].keys() == theirs["files"].keys()


def test_another_machine_reads_all_that_was_kept(
    s3: ObjectStorage, address: str, machine: Machine
) -> None:
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    entry = chaffinch.promote(result, "cancer", reason="good")
    here = chaffinch.run_history(store=address)

    machine()
    assert chaffinch.promoted("cancer", store=address).columns == result.contract.columns
    assert chaffinch.promotions("cancer", store=address) == (entry,)
    machine()
    pd.testing.assert_frame_equal(chaffinch.run_history(store=address), here)
    machine()
    again = chaffinch.load_run(result.run[:12], store=address)
    np.testing.assert_array_equal(again.model.predict(TABLE), result.model.predict(TABLE))
    assert chaffinch.promote(again, "cancer").contract == entry.contract
    machine()
    n_puts = s3.log.read_text().count("PUT ")
    cache = machine()
    chaffinch.load_contract("cancer", store=address)
    assert s3.log.read_text().count("PUT ") == n_puts
    assert [path.stat().st_mode & 0o777 for path in cache.glob("stores/*")] == [0o700]


def test_what_is_in_the_cache_is_not_read_again(s3: ObjectStorage, address: str) -> None:
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    (table,) = (name for name in s3.below(address) if name.endswith("table.parquet"))
    at = f"{address.removeprefix('s3://shop/')}/{table}"
    before = s3.n_read(at)
    assert chaffinch.select(TABLE, "target", store=address, **QUICK).contract == result.contract
    assert s3.n_read(at) == before


PROGRAM = """
import sys
import chaffinch
from sklearn.datasets import load_breast_cancer
table = load_breast_cancer(as_frame=True).frame
linear = chaffinch.ModelSettings(name="linear", tuning="none")
chaffinch.select(table, "target", store=sys.argv[1], method="anova_f", n_features=3, model=linear)
"""


def program(code: str, *words: str, cache: Path) -> subprocess.Popen[str]:
    """Start a program on another machine."""
    return subprocess.Popen(
        (sys.executable, "-c", code, *words),
        env={**os.environ, "CHAFFINCH_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def manifests(s3: ObjectStorage, address: str) -> dict[str, bytes]:
    return {name: c for name, c in s3.below(address).items() if "/stages/" in name}


@pytest.mark.e2e
def test_killed_on_one_machine_it_goes_on_on_another_and_repeats_no_stage(
    s3: ObjectStorage, address: str, machine: Machine, on_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("CHAFFINCH_LEASE_SECONDS", "2")
    dies_after = PROGRAM.replace(
        "import chaffinch\n",
        """
import os, signal
import chaffinch
import chaffinch.tasks.pipeline.run as pipeline
make = pipeline.choose_mask
def killed(run):
    make(run)
    os.kill(os.getpid(), signal.SIGKILL)
killed.__name__ = make.__name__
pipeline.choose_mask = killed
""",
    )
    dead = program(dies_after, address, cache=machine())
    dead.communicate()
    assert dead.returncode == -signal.SIGKILL
    done = manifests(s3, address)
    assert any(name.endswith("choose_mask.json") for name in done)
    machine()
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    after = manifests(s3, address)
    assert {name: after[name] for name in done} == done
    contract = next(on_disk.glob("runs/*/selection.json")).read_bytes()
    assert s3.below(address)[f"runs/{result.run}/selection.json"] == contract


@pytest.mark.e2e
def test_killed_at_random_moments_it_ends_in_the_same_contract(
    s3: ObjectStorage, address: str, machine: Machine, on_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("CHAFFINCH_LEASE_SECONDS", "2")
    at = np.random.default_rng(0)

    def n_writes() -> int:
        return len(re.findall(r"PUT (?!\S*/\.)\S+ ", s3.log.read_text()))  # without leases

    for _ in range(4):
        process = program(PROGRAM, address, cache=machine())
        # at a random write of its own; a finished program is none to kill
        until = n_writes() + at.integers(1, 30)
        while process.poll() is None and n_writes() < until:
            time.sleep(0.002)
        process.kill()
        process.communicate()
    machine()
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    contract = next(on_disk.glob("runs/*/selection.json")).read_bytes()
    assert s3.below(address)[f"runs/{result.run}/selection.json"] == contract
    assert chaffinch.load_run(result.run, store=address).contract == result.contract


def test_one_machine_at_a_time_works_on_a_data_set(
    address: str, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    here = Store.open(address)
    machine()
    there, has_turn = Store.open(address), threading.Event()

    def wait() -> None:
        with there.turn("orders"):
            has_turn.set()

    with caplog.at_level(logging.WARNING), here.turn("orders"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(
            lambda: "waiting for another process that works on data set orders" in caplog.text
        )
        with there.turn("customers"):  # another data set is free
            assert not has_turn.is_set()
    waiting.join()
    assert has_turn.is_set()


@pytest.mark.e2e
def test_who_was_stopped_for_longer_than_its_lease_loses_it_and_writes_nothing_more(
    s3: ObjectStorage, address: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAFFINCH_LEASE_SECONDS", "2")
    holds = """
import sys
from chaffinch.storage.runs.store import Store
run = Store.open(sys.argv[1]).run("it")
with run.lock():
    run.describe({"by": "the first"})
    print("held", flush=True)
    sys.stdin.readline()
    try:
        with run.stage("split", "key"):
            pass
    except Exception as error:
        print(error)
"""
    process = subprocess.Popen(
        (sys.executable, "-c", holds, address),
        env=os.environ | {"CHAFFINCH_CACHE": str(machine())},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGSTOP)
    machine()
    run = Store.open(address).run("it")
    with run.lock():  # after its expiry
        assert run.description == {"by": "the first"}
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("go on\n")
        assert said.startswith("another process has taken over run it, as this one did not renew")
        assert said.count("\n") == 1
        assert not manifests(s3, address)


def test_the_lease_of_a_dead_process_with_the_same_cache_is_free_at_once(address: str) -> None:
    store = Store.open(address)
    code = """
import os, sys
from chaffinch.storage.runs.store import Store
with Store.open(sys.argv[1]).turn("orders"):
    os._exit(1)
"""
    dead = program(code, address, cache=Path(os.environ["CHAFFINCH_CACHE"]))
    dead.communicate()
    with store.turn("orders"):  # a lease lasts 60 s
        pass


def test_the_lease_of_a_machine_that_died_long_ago_is_free_at_once(
    address: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import os, sys
from chaffinch.storage.runs.store import Store
with Store.open(sys.argv[1]).turn("orders"):
    os._exit(1)
"""
    program(code, address, cache=machine()).communicate()
    machine()
    now = Bucket.now
    monkeypatch.setattr(Bucket, "now", lambda self: now(self) + timedelta(hours=1))
    with Store.open(address).turn("orders"):  # a lease lasts 60 s
        pass


def promote_all(stores: list[Store]) -> list[BaseException | None]:
    """Promote a contract of its own from each store at once; return what each raised."""
    together = threading.Barrier(len(stores))

    def promote(number: int) -> BaseException | None:
        together.wait()
        try:
            stores[number].promotions.promote(
                "orders", f"{number}".encode(), f"run-{number}", "by hand", ""
            )
        except StorageError as error:
            return error
        return None

    with ThreadPoolExecutor(len(stores)) as threads:
        return list(threads.map(promote, range(len(stores))))


@contextmanager
def no_lease(self: Lease) -> Iterator[None]:
    yield


@pytest.mark.parametrize("with_leases", [True, False])
def test_of_racing_promotions_none_is_lost(
    with_leases: bool, address: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []
    for _ in range(6):
        machine()
        stores.append(Store.open(address))
    if not with_leases:  # the exchange of the history alone
        monkeypatch.setattr(Lease, "hold", no_lease)
    raised = promote_all(stores)
    machine()
    kept = {entry.run for entry in Store.find(address).promotions.history("orders")}
    assert kept == {f"run-{n}" for n, error in enumerate(raised) if error is None}
    assert len(kept) == 6 if with_leases else kept
    for error in filter(None, raised):
        assert str(error).endswith("was changed by another process meanwhile; try again")


NEEDED = {"selection.json", "model.skops", "cancer.json", "evaluate.json"}
IN_EVERY_WAY = {*NEEDED, "table.parquet"}
DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "changed": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "emptied": lambda content: b"",
    "missing": None,
}


def damaged_in_turn(
    damage: str, s3: ObjectStorage, address: str, *, datasets: bool
) -> Iterator[tuple[str, bytes]]:
    """Damage one object after the other, and give its name and whole content; then mend it.

    What all that is asked for needs is damaged in every way, and the others in one each.
    """
    make = DAMAGES[damage]
    for n, (name, content) in enumerate(s3.below(address).items()):
        if not is_data(name) or name.startswith("datasets") != datasets:
            continue
        in_turn = list(DAMAGES)[n % len(DAMAGES)]
        if damage != in_turn and name.rpartition("/")[2] not in IN_EVERY_WAY:
            continue
        if make is None:
            s3.files.delete_file(f"{address.removeprefix('s3://')}/{name}")
        else:
            put(s3, address, name, make(content))
        yield name, content
        put(s3, address, name, content)


def test_a_damaged_object_is_a_line_that_names_it_or_is_not_needed(
    s3: ObjectStorage, address: str, machine: Machine
) -> None:
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    chaffinch.promote(result, "cancer")
    expected = result.model.predict(TABLE)
    for damage in DAMAGES:
        said: dict[str, str] = {}
        for name, _ in damaged_in_turn(damage, s3, address, datasets=False):
            machine()
            try:
                contract = chaffinch.promoted("cancer", store=address)
                assert contract.columns == result.contract.columns
                np.testing.assert_array_equal(
                    chaffinch.load_run(result.run, store=address).model.predict(TABLE), expected
                )
            except (InputError, StorageError) as error:
                said[name] = str(error)
        assert {name.rpartition("/")[2] for name in said} >= NEEDED
        assert not any("\n" in line for line in said.values())
        for name, line in said.items():  # without a manifest its stage is not done
            is_named = name.rpartition("/")[2].removesuffix(".json") in line
            assert is_named or (damage == "missing" and "is not finished" in line), line


def test_a_damaged_dataset_is_a_line_or_is_made_again(
    s3: ObjectStorage, address: str, machine: Machine
) -> None:
    result = chaffinch.select(TABLE, "target", store=address, **QUICK)
    for damage in DAMAGES:
        for name, content in damaged_in_turn(damage, s3, address, datasets=True):
            machine()
            chaffinch.select(TABLE, "target", store=address, **QUICK)
            assert chaffinch.load_run(result.run, store=address).contract == result.contract
            assert s3.below(address)[name] == content


def promote(store: Store, run: str) -> None:
    store.promotions.promote("orders", run.encode(), run, "by hand", "")


def test_what_is_replaced_while_it_is_read_is_read_whole(
    address: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Store.open(address)
    promote(other, "a")
    machine()
    download, has_replaced = Bucket.download, []

    def replaced(self: Bucket, listed: Object, path: Path) -> None:
        if listed.name.endswith("orders.json") and not has_replaced:
            has_replaced.append(True)
            promote(other, "b")
        download(self, listed, path)

    monkeypatch.setattr(Bucket, "download", replaced)
    history = Store.find(address).promotions.history("orders")
    assert [entry.run for entry in history] == ["a", "b"]


def test_a_truncated_answer_is_a_line(
    address: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote(Store.open(address), "a")
    machine()
    get = obstore.get

    def truncated(*given: object, **more: object) -> SimpleNamespace:
        return SimpleNamespace(bytes=lambda: bytes(get(*given, **more).bytes())[:-1])

    monkeypatch.setattr(obstore, "get", truncated)
    with pytest.raises(StorageError, match=f"{address}/store.json is truncated: .* bytes came"):
        Store.find(address)
    assert not list(Path(os.environ["CHAFFINCH_CACHE"]).rglob("store.json"))


def test_storage_that_ignores_conditions_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *given, mode, **more: ask(*given, **more))
    with pytest.raises(InputError, match="ignores the conditions of writes"):
        Store.open(address)


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_a_line_without_them(
    name: str, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "wrongANDhidden")
    for ask in (Store.open, Store.find):
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(InputError, match="is not allowed") as no,
        ):
            ask(address)
        assert "\n" not in str(no.value)
        assert "hidden" not in str(no.value) + caplog.text


def test_no_credentials_at_all(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{free_port()}")  # no role
    with pytest.raises(InputError, match=f"^there are no credentials for {address}; set AWS_ACC"):
        Store.find(address)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder can be made in /proc")
def test_a_cache_that_cannot_be_made(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAFFINCH_CACHE", "/proc/cache")
    with pytest.raises(InputError, match=f"no cache of {address} can be made at /proc/cache"):
        Store.find(address)


def test_no_bucket_and_no_store(s3: ObjectStorage, address: str) -> None:
    with pytest.raises(InputError, match="there is no bucket 'nowhere'; make it"):
        Store.open("s3://nowhere/store")
    with pytest.raises(InputError, match=f"there is no store at {address}; name the one that"):
        chaffinch.promoted("orders", store=address)
    assert s3.below(address) == {}


@pytest.mark.e2e
def test_the_commands_take_its_address(
    s3: ObjectStorage, address: str, machine: Machine, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    TABLE.to_csv(tmp_path / "cancer.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> str:
        machine()
        done = chaffinch_here(*words, "--store", address)
        assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
        return str(done.stdout)

    options = ("--method", "anova_f", "--model", "linear", "--n-features", "3", "--no-prefect")
    said("run", "cancer.csv", "--target", "target", *options, "--cluster", "none")
    (run,) = json.loads(said("runs", "--json"))
    assert run["state"] == "finished"
    assert run["run"] in said("promote", run["run"][:10])
    assert json.loads(said("promoted", "cancer", "--json"))["history"][0]["run"] == run["run"]
    columns = json.loads(said("columns", "cancer"))["columns"]
    assert len(columns) == 3
    assert "dropped" in said("why", run["run"], "mean radius") or "mean radius" in columns
    assert run["run"] in said("history", "cancer")
    options = ("--methods", "anova_f", "--models", "linear", "--seeds", "1", "--quiet")
    said("compare", "cancer.csv", "--target", "target", *options)
    assert "Kept 3 of 30" in said("show", run["run"])
    names = [name.split("/") for name in s3.below(address)]
    (compared,) = {name[1] for name in names if name[0] == "comparisons"}
    assert "anova_f" in said("show", compared)
