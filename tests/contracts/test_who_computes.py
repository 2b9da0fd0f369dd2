"""The settings of who computes: what cannot be is refused with what can."""

import pytest

from chaffinch import InputError
from chaffinch.tasks.settings.selection import ExecutionSettings


def test_none_for_a_cluster_is_text() -> None:
    assert ExecutionSettings(cluster="none").cluster == "none"
    with pytest.raises(InputError) as error:
        ExecutionSettings(cluster=None)
    assert str(error.value) == (
        "cluster must be 'auto', 'local', 'none' or a scheduler's address such as "
        "tcp://host:8786 but is None"
    )


@pytest.mark.parametrize("workers", [0, -1])
def test_fewer_than_one_worker_is_refused_with_how_to_do_without(workers) -> None:
    assert ExecutionSettings(cluster="local", workers=1).workers == 1
    for cluster in ("local", "none"):
        with pytest.raises(InputError) as error:
            ExecutionSettings(cluster=cluster, workers=workers)
        assert str(error.value) == (
            f"workers must be at least 1 but is {workers}; for this process alone, leave it out "
            "and set cluster to 'none'"
        )
    assert ExecutionSettings(cluster="none").workers is None  # as the refusal says
