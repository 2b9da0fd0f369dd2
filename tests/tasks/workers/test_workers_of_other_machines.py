"""Workers that share no folder with the run read its rows from object storage, by their caches."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import cloudpickle
import numpy as np
import obstore
import pandas as pd
import pytest
from distributed import Client
from distributed.comm.tcp import TCP
from pyarrow import fs

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.datasets.dataset import ingest
from chaffinch.storage.objects.mirror import local_folder
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.storage.sources import source_of
from chaffinch.tasks.data.stored_rows import StoredRows, StoredTable
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.dask_cluster import workers_of
from tests.flows.cli.programs import eventually, free_port, started
from tests.object_storage import ObjectStorage
from tests.tasks.workers.rows_in_files import contract, needs

pytestmark = [
    pytest.mark.xdist_group("objects"),
    pytest.mark.usefixtures("undrawn", "rows_are_in_files"),
]

N_ROWS = 20_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(N_ROWS, 12)), columns=[f"x{j}" for j in range(12)])
    rows["shop"] = random.choice(["north", "south", "east"], len(rows))
    rows["y"] = (rows.x0 + rows.x1 * rows.x2 + (rows.shop == "east") > 0).astype(int)
    path = tmp_path_factory.mktemp("tables") / "orders.parquet"
    rows.to_parquet(path)
    return path


@pytest.fixture
def address(s3: ObjectStorage) -> str:
    return f"s3://shop/stores/{uuid4().hex}"


def n_downloads(s3: ObjectStorage, address: str, inside: str) -> int:
    """Return how often objects of a store with this text in their names were read."""
    place = address.removeprefix("s3:/")
    return len(re.findall(rf"GET {place}/\S*{inside}\S* ", s3.log.read_text()))


@dataclass(frozen=True)
class Machines:
    """Workers, each in a working folder of its own, in which its cache is."""

    scheduler: str
    folders: tuple[Path, ...]

    def files(self, pattern: str) -> list[Path]:
        return [path for folder in self.folders for path in folder.glob(f"cache/**/{pattern}")]


# The same path is another folder for each process, as on machines that are set up alike.
OWN_CACHE = "/proc/self/cwd/cache"


@pytest.fixture
def machines(
    tmp_path: Path, s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    """Start two workers as on machines of their own; this process is on another."""
    if not Path(OWN_CACHE).parent.exists():
        pytest.skip("there is no /proc/self/cwd")
    monkeypatch.setenv("CHAFFINCH_CACHE", OWN_CACHE)
    names = ("client", "worker-0", "worker-1")
    here, *others = (tmp_path / name for name in names)
    with ExitStack() as running:
        at = f"tcp://127.0.0.1:{free_port()}"
        scheduler = ("distributed.cli.dask_scheduler", "--host", at, "--no-dashboard")
        worker = ("distributed.cli.dask_worker", at, "--nthreads", "1", "--no-dashboard")
        for folder, program in ((here, scheduler), *((other, worker) for other in others)):
            folder.mkdir()
            log = tmp_path / f"{folder.name}.log"
            command = (sys.executable, "-m", *program)
            running.enter_context(started(*command, env={**os.environ}, log=log, cwd=folder))
        monkeypatch.chdir(here)
        with Client(at, set_as_default=False, timeout=60) as client:
            client.wait_for_workers(2, timeout=120)
        yield Machines(at, tuple(others))


@pytest.mark.e2e
@pytest.mark.parametrize("method", ["auto", "gbmo"])
def test_the_contract_is_that_of_one_process_and_rows_are_fetched_once(
    table: Path,
    tmp_path: Path,
    address: str,
    s3: ObjectStorage,
    machines: Machines,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = [0]
    write = TCP.write

    async def counted(self: TCP, *given: object, **more: object) -> int:
        n_bytes = await write(self, *given, **more)
        sent[0] += n_bytes
        return n_bytes

    alone = contract(table, tmp_path / "alone", method)
    monkeypatch.setattr(TCP, "write", counted)
    assert contract(table, address, method, machines.scheduler) == alone
    assert 0 < sent[0] < 0.5 * 8 * 13 * N_ROWS, "rows were sent"

    place = address.removeprefix("s3://")
    assert not fs_below(s3, f"{place}/runs", "/rows/")
    s3.files.delete_dir(f"{place}/runs")  # all is fitted again
    assert contract(table, address, method, machines.scheduler) == alone
    for inside, pattern in (("table.parquet", "table.parquet"), ("/rows/", "rows/*.bits")):
        assert n_downloads(s3, address, inside) == len(machines.files(pattern)) > 0


def fs_below(s3: ObjectStorage, place: str, inside: str) -> list[str]:
    infos = s3.files.get_file_info(fs.FileSelector(place, recursive=True))
    return [info.path for info in infos if inside in info.path]


@pytest.mark.e2e
def test_a_worker_that_dies_while_it_fetches_changes_nothing(
    table: Path, tmp_path: Path, address: str, machines: Machines
) -> None:
    alone = contract(table, tmp_path / "alone", "auto")
    with Client(machines.scheduler, set_as_default=False) as client:
        pid, *_ = client.run(os.getpid).values()
    died: list[int] = []

    def kill() -> None:
        eventually(lambda: machines.files(".aside-*.parquet") or machines.files("*.bits"), 60)
        os.kill(pid, signal.SIGKILL)
        died.append(pid)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert contract(table, address, "auto", machines.scheduler) == alone
    assert died


@dataclass(frozen=True)
class Far:
    """Rows in object storage as a process on another machine gets them, with an empty cache."""

    sent: bytes
    rows: StoredRows
    manifest: SharedFile
    expected: np.ndarray
    table: str  # the address of the table
    cache: Path

    def files(self, inside: str = "datasets") -> list[Path]:
        """Return the files in a folder of the cache, without its locks."""
        found = self.cache.glob(f"stores/*/{inside}/**/*")
        return [at for at in found if at.is_file() and not at.name.endswith(".lock")]


@pytest.fixture
def far(table: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Far:
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "client"))
    store = local_folder(address)
    dataset = ingest(source_of(table), store / "datasets")
    settings = SelectionSettings(target="y")
    about = describe_table(dataset.read(), settings)
    stored = StoredTable.of(dataset, settings, about, store / "runs" / "it")
    rows = StoredRows(stored, stored.numbers(np.arange(0, N_ROWS, 2)), ("x0", "x1", "shop"))
    sent, expected = cloudpickle.dumps(rows), rows.X
    at = f"{address}/datasets/{dataset.path.name}/table.parquet"
    manifest = dataset.manifest
    (tmp_path / "client").rename(tmp_path / "not seen")
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "worker"))
    return Far(sent, cloudpickle.loads(sent), manifest, expected, at, tmp_path / "worker")


def test_rows_are_fetched_once_and_what_is_sent_is_small_and_holds_no_secret(
    far: Far, address: str, s3: ObjectStorage
) -> None:
    assert len(far.sent) < 2000
    assert not any(text.encode() in far.sent for text in (s3.key, s3.secret, s3.endpoint))
    for _ in range(2):
        rows = cloudpickle.loads(far.sent)
        np.testing.assert_array_equal(rows.X, far.expected)
        assert rows.temporary_path(0).parent.is_relative_to(far.cache)
        (kept,) = far.files()
        assert n_downloads(s3, address, "table.parquet") == 1
    assert n_downloads(s3, address, "/rows/") == 1
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == far.rows._table.dataset.files[0].sha256


def flipped(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "flipped": flipped,
    "emptied": lambda content: b"",
    "replaced": lambda content: content + b"another",
    "missing": None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_object_is_a_line_that_names_it_and_nothing_is_left(
    damage: str, far: Far, s3: ObjectStorage
) -> None:
    make, place = DAMAGES[damage], far.table.removeprefix("s3://")
    content = s3.files.open_input_file(place).read()
    if make is None:
        s3.files.delete_file(place)
    else:
        with s3.files.open_output_stream(place) as stream:
            stream.write(make(content))
    why = "is missing; run again" if make is None else "is damaged or was replaced, .*; run again"
    with pytest.raises(StorageError, match=f"^{far.table} {why}$"):
        far.rows.in_memory()
    assert not far.files()
    with s3.files.open_output_stream(place) as stream:
        stream.write(content)
    np.testing.assert_array_equal(far.rows.X, far.expected)


def test_a_truncated_answer_is_a_line_and_nothing_is_left(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = obstore.get

    def truncated(*given: object, **more: object) -> SimpleNamespace:
        return SimpleNamespace(bytes=lambda: bytes(get(*given, **more).bytes())[:-1])

    monkeypatch.setattr(obstore, "get", truncated)
    with pytest.raises(StorageError, match=r"^s3://shop/\S* is truncated: .* bytes came"):
        far.rows.in_memory()
    assert not far.files("*")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_file_of_the_cache_is_fetched_again(
    damage: str, far: Far, address: str, s3: ObjectStorage
) -> None:
    np.testing.assert_array_equal(far.rows.X, far.expected)
    (kept,) = far.files()
    if (make := DAMAGES[damage]) is None:
        kept.unlink()
    else:
        kept.write_bytes(make(kept.read_bytes()))
    np.testing.assert_array_equal(cloudpickle.loads(far.sent).X, far.expected)
    assert n_downloads(s3, address, "table.parquet") == 2


def test_threads_that_begin_together_fetch_it_once(
    far: Far, address: str, s3: ObjectStorage
) -> None:
    with ThreadPoolExecutor(4) as threads:
        for X in threads.map(lambda sent: cloudpickle.loads(sent).X, [far.sent] * 4):
            np.testing.assert_array_equal(X, far.expected)
    assert n_downloads(s3, address, "table.parquet") == 1


@pytest.mark.e2e
def test_processes_with_one_cache_fetch_it_once(
    far: Far, address: str, s3: ObjectStorage, tmp_path: Path
) -> None:
    (tmp_path / "sent").write_bytes(far.sent)
    code = "import cloudpickle, sys; cloudpickle.loads(open(sys.argv[1], 'rb').read()).in_memory()"
    command = (sys.executable, "-c", code, str(tmp_path / "sent"))
    readers = [subprocess.Popen(command) for _ in range(3)]
    assert [reader.wait() for reader in readers] == [0, 0, 0]
    assert n_downloads(s3, address, "table.parquet") == 1


def test_a_worker_that_can_fetch_the_dataset_is_accepted(far: Far, client: Client) -> None:
    with workers_of(client, needs(files=(far.manifest,))) as workers:
        assert workers.map(_sum, far.rows, [0]) == [np.nansum(far.expected)]


def _sum(rows: StoredRows, _: int) -> float:
    return float(np.nansum(rows.X))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrongANDhidden", r"s3://shop/\S* is not allowed"),
        ("AWS_SECRET_ACCESS_KEY", "", "AWS_SECRET_ACCESS_KEY is not; set both"),
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}", "does not answer"),
        ("CHAFFINCH_CACHE", "/proc/cache", "no cache of s3://shop/.* can be made at /proc/cache"),
    ],
    ids=["wrong key", "no key", "no answer", "no cache"],
)
def test_a_worker_that_cannot_fetch_it_is_refused_before_any_work(
    name: str, value: str, said: str, far: Far, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)  # of the worker, which is in this process
    with (
        pytest.raises(
            InputError, match=f"^worker .* cannot read the rows of this run: .*{said}"
        ) as no,
        workers_of(client, needs(files=(far.manifest,))),
    ):
        pytest.fail("it was opened")
    assert "\n" not in str(no.value)
    assert "hidden" not in str(no.value)
