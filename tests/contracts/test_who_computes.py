"""The settings of who computes: what cannot be is refused with what can."""

import pytest

from chaffinch import InputError
from chaffinch.tasks.settings.descent import SharingSettings
from chaffinch.tasks.settings.selection import ExecutionSettings

BOTH = pytest.mark.parametrize("settings", [ExecutionSettings, SharingSettings])


@BOTH
def test_none_for_a_cluster_is_text(settings) -> None:
    assert settings(cluster="none").cluster == "none"
    with pytest.raises(InputError) as error:
        settings(cluster=None)
    automatic = "'auto', " if settings is ExecutionSettings else ""
    assert str(error.value) == (
        f"cluster must be {automatic}'local', 'none' or a scheduler's address such as "
        "tcp://host:8786 but is None"
    )


@BOTH
@pytest.mark.parametrize("workers", [0, -1])
def test_fewer_than_one_worker_is_refused_with_how_to_do_without(settings, workers) -> None:
    assert settings(cluster="local", workers=1).workers == 1
    for cluster in ("local", "none"):
        with pytest.raises(InputError) as error:
            settings(cluster=cluster, workers=workers)
        assert str(error.value) == (
            f"workers must be at least 1 but is {workers}; for this process alone, leave it out "
            "and set cluster to 'none'"
        )
    assert settings(cluster="none").workers is None  # as the refusal says
