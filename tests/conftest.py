"""What holds for all tests: which of them share a process."""

from pathlib import Path

import pytest

# Whatever has many kernels is tested in one process, so that they are compiled there alone.
COMPILED_ONCE = ("test_alternatives_", "test_dfs_")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by the kernels that they compile."""
    for item in items:
        name = Path(item.path).name
        kernels = [start for start in COMPILED_ONCE if name.startswith(start)]
        if kernels and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(kernels[0]))
