"""The health check of `chaffinch serve`, as compose.yaml and the Kubernetes probes make it."""

import httpx
import pytest
from prefect.settings import (
    PREFECT_RUNNER_SERVER_ENABLE,
    PREFECT_RUNNER_SERVER_HOST,
    PREFECT_RUNNER_SERVER_MISSED_POLLS_TOLERANCE,
    PREFECT_RUNNER_SERVER_PORT,
    temporary_settings,
)

from chaffinch.errors import InputError
from chaffinch.flows.serving.health import health_served
from tests.flows.cli.programs import free_port


@pytest.mark.parametrize(("missed", "after"), [(60, 200), (0, 503)])
def test_it_is_well_once_it_has_looked_for_runs_and_not_if_that_was_too_long_ago(missed, after):
    port = free_port()
    settings = {
        PREFECT_RUNNER_SERVER_ENABLE: True,
        PREFECT_RUNNER_SERVER_HOST: "127.0.0.1",
        PREFECT_RUNNER_SERVER_PORT: port,
        PREFECT_RUNNER_SERVER_MISSED_POLLS_TOLERANCE: missed,
    }
    with temporary_settings(settings), health_served() as looked:
        url = f"http://127.0.0.1:{port}/health"
        assert httpx.get(url).status_code == 503
        looked()
        assert httpx.get(url).status_code == after
        with pytest.raises(InputError, match=f"health cannot be served on port {port} of"):
            health_served().__enter__()
