"""A client of a user, and rows that are in files however few they are."""

from collections.abc import Iterator

import pytest
from distributed import Client

from chaffinch.tasks.data import stored_rows
from chaffinch.tasks.pipeline import memory


@pytest.fixture
def rows_are_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SHARE_IN_MEMORY", 0.0)
    monkeypatch.setattr(stored_rows, "MOST_BYTES", 0)
    monkeypatch.setattr(stored_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(stored_rows, "_MOST_SENT", 0)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a user's own client of a worker with two threads."""
    with Client(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address=":0",
        set_as_default=False,
    ) as client:
        yield client
