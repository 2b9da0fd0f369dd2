"""What several of these tests ask for."""

from collections.abc import Iterator

import pytest

from chaffinch.tasks.selection.models.runtime import single_thread


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let small models that a test fits itself use one thread, as those of a search do."""
    with single_thread():
        yield
