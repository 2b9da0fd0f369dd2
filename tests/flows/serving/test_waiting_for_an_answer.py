"""A served run waits for a person, who may take longer than Prefect lets a paused run live."""

import time

import pytest

from tests.flows.cli.programs import CHAFFINCH, eventually, started
from tests.flows.conftest import nightly

pytestmark = pytest.mark.e2e

# Prefect looks after 75 % of 300 s for the place of a run under a limit of its deployment, and
# cancels a run that has lost it, as a paused one has. Here it looks after 1 % of them.
SOON = """
import sys
from importlib.machinery import PathFinder

class Soon:
    def find_spec(name, path=None, target=None):
        if name != "prefect.concurrency._leases":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def hasten(module):
            load(module)
            assert module._RENEWAL_FRACTION == 0.75
            module._RENEWAL_FRACTION = 0.01
        spec.loader.exec_module = hasten
        return spec

sys.meta_path.insert(0, Soon)
"""
LONGER_THAN_A_LEASE = 10


def test_an_answer_may_come_after_the_place_of_the_run_has_expired(server, table, tmp_path):
    store, log = tmp_path / "store", tmp_path / "serve.log"
    (tmp_path / "sitecustomize.py").write_text(SOON)
    env = server.env | {"PYTHONPATH": str(tmp_path)}
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    options = ("--model", "linear", "--cluster", "none", "--promote", "--wait-for-approval", "1")
    with started(*command, *options, "--store", str(store), env=env, log=log):
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
