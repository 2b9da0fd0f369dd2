"""A served run waits for a person, who may take longer than Prefect lets a paused run live."""

import time

import pytest

from tests.flows.cli.programs import CHAFFINCH, eventually, started
from tests.flows.conftest import nightly

pytestmark = pytest.mark.e2e

# Prefect looks after 225 s for the place of a run under a limit of its deployment, and cancels a
# run that has lost it, as a paused one has.
LONGER_THAN_A_LEASE = 250


def test_an_answer_may_come_after_the_place_of_the_run_has_expired(server, table, tmp_path):
    store, log = tmp_path / "store", tmp_path / "serve.log"
    command = (
        *CHAFFINCH,
        "serve",
        "--data",
        str(table),
        "--target",
        "yield",
        "--store",
        str(store),
    )
    options = ("--model", "linear", "--cluster", "none", "--promote", "--wait-for-approval", "1")
    with started(*command, *options, env=server.env, log=log):
        deployment = eventually(server.deployments)[nightly("harvest")]
        run = server.accepted(deployment["id"], {})["id"]

        def state():
            return server.get(f"/flow_runs/{run}")["state_type"]

        eventually(lambda: state() == "PAUSED")
        time.sleep(LONGER_THAN_A_LEASE)
        assert state() == "PAUSED", log.read_text()
        answer = {"run_input": {"promote": True, "reason": "looked at it"}}
        server.ask("POST", f"/flow_runs/{run}/resume", answer).raise_for_status()
        assert server.ended(run)["state_type"] == "COMPLETED"
    server.forget_deployments()
