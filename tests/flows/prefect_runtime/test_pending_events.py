"""Each promotion becomes an event once, whatever dies between the two; a real server hears it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chaffinch
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import eventually, free_port, in_process
from tests.tasks.synthetic_runs import causes, runs_of_two_days

pytestmark = pytest.mark.e2e

# Dies where the promotion is written and its event not sent, or sent and not crossed off.
DIES = """
import os, signal, sys
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv.pop(1) == "before":
    import chaffinch.flows.prefect_runtime.events as module
    module.send = die
else:
    from chaffinch.storage.runs.promotions import Promotions
    Promotions.mark_sent = die
from chaffinch.flows.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of_two_days(tmp_path_factory.mktemp("orders"))


@pytest.fixture
def store(runs, tmp_path):
    return Path(shutil.copytree(runs[0].folder.parents[1], tmp_path / "store"))


def said(url, store, *command):
    """Return what a command says on standard error, with a server or, where None, without."""
    ended = in_process(*command, "--store", store, PREFECT_API_URL=url)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def killed(server, store, when, *command):
    ended = subprocess.run(
        (sys.executable, "-c", DIES, when, *command, "--store", str(store)),
        env=server.env, cwd=store, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == -9, ended.stderr


def heard(server, name):
    """Return the run in each event of a data set, in the order of the promotions."""
    events = server.events(f"chaffinch.dataset.{name}")
    in_order = sorted(events, key=lambda event: event["payload"]["promotion"]["promoted"])
    return [event["payload"]["promotion"]["run"] for event in in_order]


def pending_events(store, name):
    return [entry.run for _, entry in Store.find(store).promotions.pending_events(name)]


@pytest.mark.parametrize("later", ["promoted", "promote", "rollback"])
def test_killed_before_it_is_sent_the_next_command_sends_it_once(server, runs, store, later):
    first, second = (run.run for run in runs)
    name = f"killed-{later}"
    said(server.url, store, "promote", first, "--name", name)
    killed(server, store, "before", "promote", second, "--name", name)
    assert pending_events(store, name) == [second]
    assert [one.run for one in chaffinch.promotions(name, store=store)] == [first, second]
    more = {"promoted": [], "promote": [second], "rollback": [first]}[later]
    command = {"promote": ["promote", second, "--name", name]}.get(later, [later, name])
    assert said(server.url, store, *command) == ""
    assert pending_events(store, name) == []
    assert said(server.url, store, "promoted") == ""
    wanted = [first, second, *more]
    assert eventually(lambda: (found := heard(server, name))[len(wanted) - 1 :] and found) == wanted
    events = server.events(f"chaffinch.dataset.{name}")
    assert all(event["payload"]["contract"]["features"] for event in events)


def test_killed_after_it_is_sent_it_is_sent_again_by_the_same_id(server, runs, store):
    killed(server, store, "after", "promote", runs[0].run, "--name", "twice")
    (event,) = eventually(lambda: server.events("chaffinch.dataset.twice"))
    assert pending_events(store, "twice") == [runs[0].run]
    assert said(server.url, store, "promoted", "twice") == ""
    assert pending_events(store, "twice") == []
    assert {one["id"] for one in server.events("chaffinch.dataset.twice")} == {event["id"]}


def test_what_a_server_that_is_down_did_not_hear_it_hears_later(server, runs, store):
    url = f"http://127.0.0.1:{free_port()}/api"
    (line,) = said(url, store, "promote", runs[0].run, "--name", "down").splitlines()
    assert line.startswith("Warning: an event of down is not sent yet: no Prefect server answers a")
    assert said(server.url, store, "promoted") == ""
    assert eventually(lambda: heard(server, "down")) == [runs[0].run]


def test_a_contract_that_cannot_be_read_holds_up_no_other_event(server, runs, store):
    killed(server, store, "before", "promote", runs[0].run, "--name", "torn-event")
    (contract,) = (store / "promotions" / "contracts").iterdir()
    contract.unlink()
    told = said(server.url, store, "promote", runs[1].run, "--name", "torn-event")
    assert told.startswith(f"Warning: an event of torn-event is not sent yet: {contract} cannot be")
    assert eventually(lambda: heard(server, "torn-event")) == [runs[1].run]
    assert pending_events(store, "torn-event") == [runs[0].run]
    said(server.url, store, "promote", runs[0].run, "--name", "torn-event")
    assert pending_events(store, "torn-event") == []


def test_where_no_server_is_configured_nothing_is_owed(server, runs, store):
    chaffinch.promote(runs[0].run, "quiet", store=store)
    said(None, store, "promote", runs[1].run, "--name", "quiet")
    said(None, store, "rollback", "quiet")
    assert pending_events(store, "quiet") == []


def test_the_gate_sends_what_is_owed(server, runs, store):
    from chaffinch import ExecutionSettings, PromotionSettings, SelectionSettings

    killed(server, store, "before", "promote", runs[0].run, "--name", "gated")
    table = store / "orders.csv"
    causes("x1", "x2").to_csv(table, index=False)
    chaffinch.feature_selection(
        str(table),
        SelectionSettings(
            target="y",
            method={"kind": "flbmo", "n_features": [2]},
            model={"name": "linear", "tuning": "none"},
        ),
        ExecutionSettings(store=store, cluster="none"),
        PromotionSettings(name="gated"),
    )
    assert pending_events(store, "gated") == []
    assert eventually(lambda: heard(server, "gated"))[0] == runs[0].run
