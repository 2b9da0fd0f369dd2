"""What the server does by itself about runs that failed, and about runs that were killed."""

import http.server
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chaffinch.flows.serving.automations import FAILED, SILENT, UNDECIDED, silence
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import (
    CHAFFINCH,
    chaffinch,
    eventually,
    free_port,
    in_process,
    started,
)
from tests.flows.conftest import Server

pytestmark = pytest.mark.e2e


def made(server: Server) -> dict[str, dict[str, Any]]:
    """Return our automations by their names; each must be there once."""
    found = [a for a in server.find("automations") if a["name"].startswith("chaffinch: ")]
    assert len({automation["name"] for automation in found}) == len(found)
    return {automation["name"]: automation for automation in found}


@pytest.fixture
def forgotten(server: Server) -> Iterator[None]:
    """Begin and end with a server that has none of our automations."""
    server.forget("automations", made(server).values())
    yield
    server.forget("automations", made(server).values())


@pytest.fixture
def told(server: Server) -> Iterator[list[dict[str, Any]]]:
    """Serve what a webhook calls, and make the Webhook block `told`; return what it is told."""
    from prefect.blocks.webhook import Webhook

    heard: list[dict[str, Any]] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever).start()
        Webhook(url=f"http://127.0.0.1:{listener.server_port}").save("told", overwrite=True)
        yield heard
        listener.shutdown()


def test_made_twice_each_is_there_once(server, forgotten, tmp_path):
    first = chaffinch("automations", home=tmp_path, PREFECT_API_URL=server.url)
    assert first.returncode == 0, first.stderr
    before = made(server)
    assert set(before) == {SILENT, FAILED, UNDECIDED}
    assert in_process("automations").stdout == first.stdout
    after = made(server)
    assert {name: a["id"] for name, a in after.items()} == {n: a["id"] for n, a in before.items()}
    assert after[SILENT]["trigger"]["within"] == 180  # three heartbeats
    assert after[SILENT]["actions"][0]["state"] == "CRASHED"
    assert after[FAILED]["actions"] == [{"type": "do-nothing"}]


def test_a_webhook_that_does_not_exist_is_one_line(server):
    ended = in_process("automations", "--webhook", "nobody")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "Error: there is no Webhook block 'nobody' on the server; make one in the UI, at Blocks\n"
    )


def test_without_a_server_there_is_one_line():
    url = f"http://127.0.0.1:{free_port()}/api"
    ended = in_process("automations", PREFECT_API_URL=url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: no Prefect server answers at {url}: start one with")


def test_a_run_that_is_killed_with_what_serves_it_crashes_and_is_told_of(
    server, forgotten, told, table, small, tmp_path
):
    """Serving makes what is missing; what a person has made or switched off, it leaves alone."""
    from prefect.client.orchestration import get_client

    assert in_process("automations", "--webhook", "told").returncode == 0
    with get_client(sync_client=True) as client:
        server.forget("automations", [made(server)[SILENT]])
        client.create_automation(silence(10))  # a run's first heartbeat is its last here

    store = tmp_path / "store"
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--store", str(store), "--cluster", "none")
    with (
        Store.open(store).turn("harvest"),  # so that it continues until it is killed
        started(*command, *more, env=server.env, log=tmp_path / "serve.log") as serving,
    ):
        deployment = eventually(server.deployments)["feature_selection/select-on-demand"]
        asked = server.accepted(deployment["id"], {"data": str(table), "settings": small})
        run = asked["id"]

        def lives() -> bool:
            return any(
                e["event"].endswith(".heartbeat") for e in server.events(f"prefect.flow-run.{run}")
            )

        eventually(lives)
        os.killpg(serving.pid, signal.SIGKILL)
        ended_run = server.ended(run)
    server.forget_deployments()
    assert (ended_run["state_type"], ended_run["state_name"]) == ("CRASHED", "Crashed")
    assert ended_run["state"]["message"].startswith("There was no sign of life for 10 s")
    assert made(server)[SILENT]["trigger"]["within"] == 10
    (said,) = eventually(lambda: told)
    assert (said["id"], said["state"]) == (run, "Crashed")
    assert {"chaffinch", "chaffinch.dataset.harvest"} <= set(said["tags"])


def test_runs_that_fail_or_need_a_decision_are_told_of(
    server, forgotten, told, table, small, tmp_path
):
    def told_of(run):  # a run of an earlier test may be told of again
        return next((message for message in told if message["id"] == run), None)

    assert in_process("automations", "--webhook", "told").returncode == 0
    store = tmp_path / "store"
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--store", str(store), "--cluster", "none")
    with started(*command, *more, env=server.env, log=tmp_path / "serve.log"):
        deployment = eventually(server.deployments)["feature_selection/select-on-demand"]
        parameters = {"data": str(tmp_path / "none.csv"), "settings": small}
        run = server.accepted(deployment["id"], parameters)["id"]
        assert server.ended(run)["state_type"] == "FAILED"
        said = eventually(lambda: told_of(run))
        assert said["state"] == "Failed"
        assert "there is no file" in said["message"]
        promotion = {"name": "first"}  # of which nothing was promoted
        parameters = {"data": str(table), "settings": small, "promotion": promotion}
        run = server.accepted(deployment["id"], parameters)["id"]
        assert server.ended(run)["state_name"] == "NeedsDecision"
        said = eventually(lambda: told_of(run))
    server.forget_deployments()
    assert said["state"] == "NeedsDecision"
    assert said["message"].startswith("needs a decision: nothing was promoted yet")
