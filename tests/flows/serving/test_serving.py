"""`chaffinch serve` as a program of its own, with runs started as the UI and the schedule do."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from chaffinch import ModelSettings, select
from tests.flows.cli.programs import (
    CHAFFINCH,
    eventually,
    free_port,
    in_process,
    processes_of,
    started,
)
from tests.flows.conftest import Server, day_of, names_of, nightly, on_new_data

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def port() -> int:
    """Where the reports are served."""
    return free_port()


@pytest.fixture(scope="module")
def deployments(server: Server, table: Path, store: Path, port: int) -> Iterator[dict[str, Any]]:
    """Serve, and return the deployments by their names."""
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--name", "harvest", "--promote", "--store", str(store), "--reports-port", str(port))
    with started(*command, *more, env=server.env, log=store / "serve.log"):
        yield eventually(lambda: server.deployments("harvest"))
    server.forget_deployments()


def test_every_flow_is_served_and_named_by_its_module(deployments):
    assert set(deployments) == names_of("harvest")
    for name, deployment in deployments.items():
        flow = name.partition("/")[0]
        assert deployment["entrypoint"] == f"chaffinch.flows.{flow}.{flow}"
        assert deployment["tags"] == ["chaffinch"]


def test_of_one_table_the_next_run_that_nobody_asked_for_waits_for_the_last(deployments):
    limits = {name: d["global_concurrency_limit"] for name, d in deployments.items()}
    limited = {name: limit["limit"] for name, limit in limits.items() if limit is not None}
    assert limited == {nightly("harvest"): 1, on_new_data("harvest"): 1}


def test_only_the_nightly_one_has_a_schedule_and_the_server_makes_runs_of_it(deployments, server):
    schedules = {name: d["schedules"] for name, d in deployments.items() if d["schedules"]}
    ((name, (schedule,)),) = schedules.items()
    assert (name, schedule["schedule"]["cron"]) == (nightly("harvest"), "0 2 * * *")

    wanted = {"id": {"any_": [deployments[nightly("harvest")]["id"]]}}
    runs = eventually(lambda: server.find("flow_runs", deployments=wanted))
    assert all(run["auto_scheduled"] and run["state_name"] == "Scheduled" for run in runs)
    assert all(run["next_scheduled_start_time"][11:16] == "02:00" for run in runs)
    assert runs[0]["parameters"]["settings"]["target"] == "yield"


def test_the_runs_that_nobody_asked_for_promote_where_they_pass_the_gate(deployments):
    promoted = {name: d["parameters"].get("promotion") for name, d in deployments.items()}
    gate = {"name": "harvest", "most_changed": 0.3, "wait": None, "unattended": "complete"}
    unasked = (nightly("harvest"), on_new_data("harvest"))
    assert promoted == dict.fromkeys(deployments) | dict.fromkeys(unasked, gate)


def test_a_run_started_from_the_form_gives_the_features(
    deployments, server, table, small, store, port
):
    parameters = {
        "data": str(table),
        "settings": small | {"method": {"kind": "rfe", "n_features": [2]}},
        "execution": {"store": str(store), "cluster": "none", "workers": None},
    }
    accepted = server.accepted(deployments["feature_selection/select-on-demand"]["id"], parameters)
    run = server.ended(accepted["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["name"] == f"harvest rfe lightgbm {day_of(run)}"
    (contract,) = store.glob("runs/*/selection.json")
    found = json.loads(contract.read_bytes())
    assert [f["name"] for f in found["features"]] == ["first", "second"]
    dataset = found["dataset"]["hash"][:16]
    where = f"run={contract.parent.name} dataset={dataset} stage=optimise_mask: rfe fits model"
    assert server.log_of(run["id"], where)
    link = f"http://127.0.0.1:{port}/runs/{contract.parent.name}/report.html"
    said = [artifact["data"] for artifact in server.find("artifacts") if artifact["data"]]
    assert any(f"Report: [{contract.parent.name}]({link})" in str(data) for data in said)
    assert httpx.get(link).content == (contract.parent / "report.html").read_bytes()


@pytest.mark.parametrize(
    ("target", "others", "reason"),
    [
        ("yeild", {}, "target 'yeild' is no column of the table; did you mean 'yield'?"),
        ("yield", {"promotions": {}}, "the flow has no parameter 'promotions'; leave it out"),
    ],
)
def test_a_run_that_fails_leaves_one_line_of_its_reason_and_no_traceback(
    deployments, server, table, small, store, target, others, reason
):
    settings = small | {"target": target}
    parameters = {"data": str(table), "settings": settings, **others}
    deployment = deployments["feature_selection/select-on-demand"]["id"]
    run = server.ended(server.accepted(deployment, parameters)["id"])
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].endswith(reason)
    eventually(lambda: not processes_of(run["id"]))
    log = server.log_of(run["id"], reason)
    assert log.count(reason) == 1
    assert "Traceback" not in "".join([*log, (store / "serve.log").read_text()])


def test_newer_rows_are_announced_as_what_their_contract_is_promoted_as(server, table, tmp_path):
    rows = (tmp_path / "rows.v2.csv").absolute()
    rows.write_bytes(table.read_bytes())
    ended = in_process("announce", rows, PREFECT_API_URL=server.url)
    assert (ended.returncode, ended.stdout) == (1, "")  # no run of them starts
    assert ended.stderr.startswith("Error: no deployment on-new-data-rows.v2 is registered at ")
    assert ended.stderr.count("\n") == 1
    assert eventually(lambda: server.events("chaffinch.dataset.rows.v2"))[0]["payload"] == {
        "path": str(rows)
    }
    model = ModelSettings(tuning="none")
    run = select(rows, "yield", method="anova_f", n_features=2, model=model, store=tmp_path).run
    promoted = in_process("promote", run, "--store", tmp_path, PREFECT_API_URL=None)
    assert promoted.stdout.splitlines()[-1] == f"Promoted {run} as rows.v2."


def test_new_data_that_are_announced_start_a_run_of_them(deployments, server, table, store):
    newer = store / "harvest-2026-11-21.csv"
    newer.write_text("\n".join(table.read_text().splitlines()[:200]) + "\n")
    command = (*CHAFFINCH, "announce", str(newer), "--name", "harvest")
    ended = subprocess.run(
        command, env=server.env, cwd=store, capture_output=True, text=True, timeout=300, check=True
    )
    assert ended.stdout == f"Announced {newer} as chaffinch.dataset.harvest\n"
    assert "Warning" not in ended.stderr
    wanted = {"id": {"any_": [deployments[on_new_data("harvest")]["id"]]}}
    (run,) = eventually(lambda: server.find("flow_runs", deployments=wanted))
    run = server.ended(run["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["parameters"]["data"] == str(newer)
    assert run["name"] == f"harvest auto lightgbm {day_of(run)}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv"], "there is no file none.csv"),
        (["harvest.csv", "--name", "a/b"], "a name must be 1..115 of A-Z"),
        (["harvest.csv"], "new data are announced to a Prefect server: set PREFECT_API_URL"),
    ],
)
def test_what_cannot_be_announced_is_said_in_a_line(table, tmp_path, monkeypatch, arguments, said):
    (tmp_path / "harvest.csv").write_bytes(table.read_bytes())
    monkeypatch.chdir(tmp_path)
    ended = in_process("announce", *arguments, PREFECT_API_URL=None)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Error: {said}")
    assert ended.stderr.count("\n") == 1


class _Refuses(BaseHTTPRequestHandler):
    """Answers whatever is asked by an error, as a server in trouble does."""

    def do_GET(self) -> None:
        self.send_error(500)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _IsSomethingElse(_Refuses):
    """Answers whatever is asked by a page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html></html>")


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (None, "no Prefect server answers at {url} (All connection attempts failed); start it, or"),
        (_Refuses, "the Prefect server at {url} does not take the event (500 Internal Server Err"),
        (_IsSomethingElse, "no Prefect server answers at {url} ("),
    ],
)
def test_a_server_that_does_not_take_an_announcement_is_a_line_and_a_failure(table, who, said):
    with ExitStack() as stack:
        port = free_port()
        if who is not None:
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), who))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever).start()
            port = server.server_address[1]
        url = f"http://127.0.0.1:{port}/api"
        ended = in_process("announce", table, PREFECT_API_URL=url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: {said.format(url=url)}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("url", ["127.0.0.1:4200", "nonsense"])
def test_an_address_of_a_server_that_is_none_is_a_line(table, url):
    ended = in_process("announce", table, PREFECT_API_URL=url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: no Prefect server answers at {url}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("method.kind", "anova", "'anova'"),
        ("method.n_features", 0, "settings.method"),  # of a union the server knows no more
        ("columns", {"kep": ["first"]}, "'kep' was unexpected"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(
    deployments, server, table, small, path, value, reason
):
    settings = deepcopy(small)
    *groups, last = path.split(".")
    inner = settings
    for group in groups:
        inner = inner[group]
    inner[last] = value
    response = server.start(
        deployments["feature_selection/select-on-demand"]["id"],
        {"data": str(table), "settings": settings},
    )
    assert response.status_code == 409
    assert reason in response.text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "yeild"], "there is no column 'yeild'; nearest: yield"),
        (["--timezone", "Mars/Base"], "there is no time zone 'Mars/Base'"),
        (["--timezone", "Europe/Viena"], "there is no time zone 'Europe/Viena'; nearest: Europe/V"),
        (["--cron", "zork"], "schedule 'zork' in 'UTC' cannot be read"),
        (["--cron", "0 2 31 2 *"], "schedule '0 2 31 2 *' never comes, as on a 31st of February"),
        (["--name", "harvest.py"], "data set 'harvest.py' cannot be served, as Prefect takes .py"),
        (["--data", ""], "a source must be named but is empty text"),
        (["--store", ""], "store must be named but is empty text; give a path"),
        (["--store", "{table}"], "store {table} cannot be made because a file has its place; name"),
    ],
)
def test_what_cannot_be_served_is_said_at_once_in_a_line(
    server, table, tmp_path, monkeypatch, more, said
):
    monkeypatch.chdir(tmp_path)
    more = [one.format(table=table) for one in more]
    ended = in_process("serve", "--data", table, "--target", "yield", *more)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Error: {said.format(table=table)}")
    assert ended.stderr.count("\n") == 1


def test_nothing_is_registered_for_a_store_that_cannot_be_written(server, table):
    before = {one["id"] for one in server.find("deployments")}
    command = ("serve", "--data", table, "--target", "yield", "--name", "unwritten")
    ended = in_process(*command, "--store", "/proc/none")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Error: no folder can be made at /proc/none; name another store")
    assert ended.stderr.count("\n") == 1
    assert {one["id"] for one in server.find("deployments")} == before


@pytest.mark.parametrize("has_address", [False, True])
def test_without_a_server_there_is_one_line_with_the_remedy(
    has_address, table, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{free_port()}/api" if has_address else None
    ended = in_process("serve", "--data", table, "--target", "yield", PREFECT_API_URL=url)
    assert (ended.returncode, ended.stdout) == (1 if has_address else 2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "`prefect server start`" in line
