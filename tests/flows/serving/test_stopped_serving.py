"""`chaffinch serve` is stopped while a run continues, and served again."""

import os
import signal
from contextlib import ExitStack

import psutil
import pytest

from tests.flows.cli.programs import (
    CHAFFINCH,
    eventually,
    free_port,
    processes_of,
    started,
    with_database,
)
from tests.flows.conftest import SLOW, Server, names_of, nightly, prefect_server

pytestmark = pytest.mark.e2e

SECONDS_TO_STOP = 60


def pids_of_run(run: str) -> list[int]:
    """Return the process that was started for a run; not its workers."""
    # a process may end meanwhile, and has no command then
    return [p.pid for p in psutil.process_iter(["cmdline"]) if run in (p.info["cmdline"] or ())]


def in_lines(said: str) -> bool:
    """Return whether a program said what happened in lines of its own."""
    return not any(word in said for word in ("Traceback", "never awaited", "CancelledError"))


def test_killed_it_leaves_runs_that_end_by_themselves(server: Server, slow, tmp_path):
    store, log = tmp_path / "store", tmp_path / "serve.log"
    command = (*CHAFFINCH, "serve", "--data", str(slow), "--target", "y", "--store", str(store))
    with started(*command, env=server.env, log=log) as program:
        deployments = eventually(lambda: server.deployments("slow"))
        execution = {"store": str(store), "workers": 1}
        select = deployments["feature_selection/select-on-demand"]["id"]
        run = server.accepted(select, {"settings": SLOW, "execution": execution})["id"]
        eventually(lambda: list(store.glob("runs/*/stages/train_base_model.json")))
        program.kill()
        program.wait()
        ended = server.ended(run)  # 90 s are less than three heartbeats
        eventually(lambda: not processes_of(run))
    assert ended["state_type"] == "CRASHED"
    assert ended["state"]["message"] == "Execution was aborted by a termination signal."
    assert not server.deployments("slow")[nightly("slow")]["paused"]
    server.forget_deployments()


@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (os.kill, signal.SIGTERM, 143),  # `kill`, and service managers
        (os.killpg, signal.SIGINT, 130),  # Ctrl-C in a terminal, which sends it to all of them
    ],
)
def test_stopped_it_pauses_the_nights_ends_its_runs_and_serves_again(
    server: Server, slow, tmp_path, send, number, code
):
    store, log = tmp_path / "store", tmp_path / "serve.log"
    command = (*CHAFFINCH, "serve", "--data", str(slow), "--target", "y", "--store", str(store))
    with started(*command, env=server.env, log=log) as program:
        deployments = eventually(lambda: server.deployments("slow"))
        select = deployments["feature_selection/select-on-demand"]
        execution = {"store": str(store), "workers": 1}
        run = server.accepted(select["id"], {"settings": SLOW, "execution": execution})["id"]
        eventually(lambda: list(store.glob("runs/*/stages/train_base_model.json")))
        send(program.pid, number)
        assert program.wait(SECONDS_TO_STOP) == code
        assert processes_of(run) == []
    said = log.read_text()
    assert said.splitlines()[-1] == "Stopped. The same command serves again."
    assert in_lines(said), said
    ended = server.ended(run)  # and not only once it has fallen silent
    assert ended["state_type"] == "CRASHED"
    assert ended["state"]["message"] == "Execution was aborted by a termination signal."
    paused = {name for name, one in server.deployments("slow").items() if one["paused"]}
    assert paused & names_of("slow") == {nightly("slow")}  # what another serves as well is not

    with started(*command, env=server.env, log=log):
        eventually(lambda: not server.deployments("slow")[nightly("slow")]["paused"])
    server.forget_deployments()


def test_a_run_that_is_killed_is_shown_as_such(server: Server, slow, tmp_path):
    log = tmp_path / "serve.log"
    command = (*CHAFFINCH, "serve", "--data", str(slow), "--target", "y")
    with started(*command, "--store", str(tmp_path), env=server.env, log=log):
        deployments = eventually(lambda: server.deployments("slow"))
        select = deployments["feature_selection/select-on-demand"]["id"]

        execution = {"store": str(tmp_path), "workers": 1}
        killed = server.accepted(select, {"settings": SLOW, "execution": execution})["id"]
        eventually(lambda: list(tmp_path.glob("runs/*/stages/train_base_model.json")))
        (pid,) = pids_of_run(killed)
        os.kill(pid, signal.SIGKILL)
        ended = server.ended(killed)
        assert ended["state_type"] == "CRASHED"
        assert ended["state"]["message"].startswith("Its process ended with code -9")
    assert in_lines(log.read_text())
    server.forget_deployments()


def test_it_waits_for_a_server_that_is_away_and_ends_in_lines_without_it(slow, tmp_path):
    log, store, port = tmp_path / "serve.log", tmp_path / "store", free_port()
    settings = SLOW | {"model": {"name": "linear", "tuning": "none"}}
    command = (*CHAFFINCH, "serve", "--data", str(slow), "--target", "y", "--store", str(store))
    execution = {"store": str(store), "cluster": "none"}
    trained = "runs/*/stages/train_base_model.json"
    with ExitStack() as serving:
        with prefect_server(with_database(tmp_path), port) as server:
            program = serving.enter_context(started(*command, env=server.env, log=log))
            eventually(lambda: server.deployments("slow"))
            select = server.deployments("slow")["feature_selection/select-on-demand"]["id"]
            going_on = server.accepted(select, {"settings": SLOW, "execution": execution})["id"]
            eventually(lambda: list(store.glob(trained)))
        eventually(lambda: "the Prefect server does not answer" in log.read_text())
        with prefect_server(tmp_path, port) as server:
            eventually(lambda: "the Prefect server answers again" in log.read_text())
            run = server.accepted(select, {"settings": settings, "execution": execution})["id"]
            assert server.ended(run)["state_type"] == "COMPLETED"
            assert server.ended(going_on)["state_type"] == "COMPLETED"
        with prefect_server(tmp_path, port, PREFECT_SERVER_API_AUTH_STRING="tests:another"):
            eventually(lambda: "answers 401 Unauthorized" in log.read_text())
        program.terminate()
        assert program.wait(SECONDS_TO_STOP) == 143
    said = log.read_text()
    assert "schedules are not paused" in said
    assert said.splitlines()[-1] == "Stopped. The same command serves again."
    assert in_lines(said), said
