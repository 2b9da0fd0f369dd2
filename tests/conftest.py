"""What holds for all tests: time decides none, which share a process, what is started once."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from chaffinch.tasks.workers.dask_map import OverDask
    from tests.object_storage import GoogleStorage, ObjectStorage
    from tests.postgres import Postgres

# Threads that wait for each other sleep: there are more of them than cores, and what they spin
# away is another test's. Read when a library with OpenMP is loaded, by child processes too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage among what tests make, not among modules and tests, which are much."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure() -> None:
    """Let workers of pytest-xdist wait for a kernel that another compiles, and load it then."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from filelock import FileLock
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_or_load = Dispatcher.compile

    def compile_once(self: Dispatcher, signature: Any) -> Any:
        folder = self.stats.cache_path
        if folder is None:
            return compile_or_load(self, signature)
        Path(folder).mkdir(parents=True, exist_ok=True)
        kernel = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        lock = FileLock(Path(folder, f"{kernel}.lock"), thread_local=False, is_singleton=True)
        with global_compiler_lock, lock:
            return compile_or_load(self, signature)

    Dispatcher.compile = compile_once


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what tests share be made by one xdist worker: of a file, or of the whole session."""
    for item in items:
        if "two_workers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.xdist_group("dask"))
        elif item.get_closest_marker("xdist_group") is None and not item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


_EMPTY = '<svg viewBox="0 0 1 1"></svg>'


@pytest.fixture(scope="module")
def undrawn() -> Iterator[Any]:
    """Leave charts empty, whose drawing is most of what a small run costs; yield what draws."""
    from chaffinch.tasks.reporting import charts

    draw = charts.drawing_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "drawing_of", lambda _: _EMPTY)
        yield draw


@pytest.fixture
def undrawn_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the charts of one test empty, in a file where others look at charts."""
    monkeypatch.setattr("chaffinch.tasks.reporting.charts.drawing_of", lambda _: _EMPTY)


@pytest.fixture
def drawn(undrawn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw charts all the same."""
    monkeypatch.setattr("chaffinch.tasks.reporting.charts.drawing_of", undrawn)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resample a score, which takes long, a few times where its interval is not the point."""
    monkeypatch.setattr("chaffinch.tasks.statistics.bootstrap._RESAMPLES_OF_A_SCORE", 20)


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator["ObjectStorage"]:
    """Start S3-compatible storage; what asks for it names the xdist group "objects"."""
    from tests.object_storage import object_storage

    with object_storage(tmp_path_factory.mktemp("objects")) as storage:
        yield storage


@pytest.fixture
def s3(objects: "ObjectStorage", monkeypatch: pytest.MonkeyPatch) -> "ObjectStorage":
    """Return the storage, with all that it takes to read from it in the environment."""
    for name in ("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in objects.environment.items():
        monkeypatch.setenv(name, value)
    return objects


@pytest.fixture(scope="session")
def google_objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator["GoogleStorage"]:
    """Start Google's storage; what asks for it names the xdist group "objects"."""
    from tests.object_storage import google_storage

    with google_storage(tmp_path_factory.mktemp("google")) as storage:
        yield storage


@pytest.fixture
def gcs(google_objects: "GoogleStorage", monkeypatch: pytest.MonkeyPatch) -> "GoogleStorage":
    """Return the storage, with its address in the environment."""
    for name, value in google_objects.environment.items():
        monkeypatch.setenv(name, value)
    return google_objects


@pytest.fixture(scope="session")
def two_workers() -> Iterator["OverDask"]:
    """Start two worker processes; what asks for them is e2e, in the xdist group "dask"."""
    from chaffinch.tasks.workers.dask_cluster import open_workers
    from chaffinch.tasks.workers.dask_map import OverDask

    with open_workers("local", 2) as workers:
        assert isinstance(workers, OverDask)
        yield workers


@pytest.fixture
def scheduler(two_workers: "OverDask") -> Iterator[str]:
    """Return the address of their scheduler, with its certificates in Dask's configuration."""
    import dask

    made = two_workers.client.security
    files = {
        "ca-file": made.tls_ca_file,
        "client.cert": made.tls_client_cert,
        "client.key": made.tls_client_key,
    }
    with dask.config.set({f"distributed.comm.tls.{name}": at for name, at in files.items()}):
        yield two_workers.client.scheduler.address


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["Postgres"]:
    """Start PostgreSQL with an empty database; what asks for it is e2e and names an xdist group."""
    from tests.postgres import postgres, programs

    folder = programs()
    if folder is None:
        pytest.skip("there is no PostgreSQL here; make e2e-needs installs it")
    with postgres(folder) as server:
        yield server
