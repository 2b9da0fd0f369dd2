"""Promotions whose files are missing or were changed: all of it is told, and each remedy works."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch.flows.cli.commands import cli
from chaffinch.storage.runs.store import Store
from tests.tasks.synthetic_runs import runs_of_two_days


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of_two_days(tmp_path_factory.mktemp("orders"))


@pytest.fixture
def store(runs, tmp_path, monkeypatch):
    """A copy of their store, where both were promoted as `mine`, and the first as `yours`."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    store = shutil.copytree(runs[0].folder.parents[1], tmp_path / "store")
    for run, name in ((runs[0], "mine"), (runs[1], "mine"), (runs[0], "yours")):
        chaffinch.promote(run.run, name, store=store)
    return store


@pytest.fixture
def say(store):
    """Return what a command prints and its exit code."""

    def say(*command):
        asked = [*command, "--store", str(store)]
        ended = CliRunner().invoke(cli, asked, catch_exceptions=False)
        return ended.exit_code, ended.stdout, ended.stderr

    return say


def contract_in_use(store, name, place=-1):
    histories = Store.find(store).promotions
    return histories.path(histories.history(name)[place])


DAMAGE = {
    "missing": (lambda path: path.unlink(), r"cannot be read \(No such file or directory\)"),
    "changed": (lambda path: path.write_bytes(b"{}"), "has changed since it was promoted"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_the_listing_names_what_is_damaged_and_goes_on(runs, store, say, how):
    damage, said = DAMAGE[how]
    path = contract_in_use(store, "mine")
    damage(path)
    code, listed, told = say("promoted")
    assert code == 1
    assert " mine " in listed
    assert " yours " in listed
    assert re.fullmatch(
        rf"Error: what is promoted as mine cannot be read: {path} {said}; bring back a copy of it, "
        rf"or promote run '{runs[1].run}' again under the same name, or another run\n",
        told,
    )
    code, listed, again = say("promoted", "--json")
    assert (code, again) == (1, told)
    found = {one["name"]: one["damage"] for one in json.loads(listed)}
    assert found["yours"] == ""
    assert found["mine"] in told
    code, listed, told = say("promoted", "mine")
    assert code == 1
    assert runs[0].run in listed
    assert told.startswith(f"Error: the contract in use cannot be read: {path} ")
    assert say("promoted", "yours")[::2] == (0, "")


def test_an_earlier_contract_that_is_damaged_is_a_warning(runs, store, say):
    contract_in_use(store, "mine", 0).unlink()
    chaffinch.promote(runs[1].run, "yours", store=store)
    code, _, told = say("promoted", "mine")
    assert code == 0
    assert told.startswith("Warning: no rollback leads to an earlier contract: ")
    assert told.count("\n") == 1
    history = json.loads(say("promoted", "mine", "--json")[1])["history"]
    assert [bool(one["damage"]) for one in history] == [False, True]
    assert say("promoted")[::2] == (0, "")


def test_a_damaged_history_has_no_row_and_the_others_are_listed(store, say):
    path = store / "promotions" / "mine.json"
    path.write_bytes(path.read_bytes()[:-20])
    code, listed, told = say("promoted")
    assert code == 1
    assert " mine " not in listed
    assert " yours " in listed
    assert told.startswith(f"Error: what is promoted as mine cannot be read: {path} is damaged")
    (mine, yours) = json.loads(say("promoted", "--json")[1])
    assert (mine["name"], mine["run"], yours["damage"]) == ("mine", None, "")
    assert mine["damage"] in told


@pytest.mark.parametrize("how", DAMAGE)
def test_a_run_that_is_promoted_again_mends_it(runs, store, say, how):
    DAMAGE[how][0](contract_in_use(store, "mine"))
    told = say("promoted", "mine")[2]
    (run,) = re.findall("promote run '(.*)' again under the same name", told)
    code, said, _ = say("promote", run, "--name", "mine")
    assert code == 0
    lines = said.splitlines()
    assert lines[0].startswith("What that changes is not known: ")
    assert lines[-1] == f"Promoted {run} as mine."
    assert say("promoted", "mine")[::2] == (0, "")
    assert chaffinch.promoted("mine", store=store) == runs[1].contract


@pytest.mark.parametrize("how", DAMAGE)
def test_so_does_another_run_and_a_rollback(runs, store, say, how):
    DAMAGE[how][0](contract_in_use(store, "mine"))
    code, said, _ = say("rollback", "mine")
    assert (code, said) == (0, f"The contract of {runs[0].run} is in use again for mine.\n")
    assert say("promoted")[::2] == (0, "")
    DAMAGE[how][0](contract_in_use(store, "mine"))
    code, said, _ = say("promote", runs[1].run, "--name", "mine", "--json")
    assert code == 0
    assert json.loads(said)["difference"] is None
    assert str(store) in json.loads(said)["damage"]
    assert chaffinch.promoted("mine", store=store) == runs[1].contract


def test_a_rollback_to_a_damaged_contract_names_a_remedy_that_works(runs, store, say):
    from chaffinch import StorageError

    contract_in_use(store, "mine", 0).unlink()
    with pytest.raises(StorageError, match=f"promote run '{runs[0].run}' again under the same na"):
        say("rollback", "mine")
    assert say("promote", runs[0].run, "--name", "mine")[0] == 0
    assert chaffinch.promoted("mine", store=store) == runs[0].contract


def test_a_damaged_history_that_is_moved_away_begins_again(runs, store, say):
    from chaffinch import StorageError

    path = store / "promotions" / "mine.json"
    whole = path.read_bytes()
    path.write_bytes(b"{}")
    with pytest.raises(StorageError, match="a copy of it, or move it away and promote a run by ha"):
        say("promote", runs[1].run, "--name", "mine")
    path.rename(store / "mine.json")
    assert say("promote", runs[1].run, "--name", "mine")[0] == 0
    assert len(chaffinch.promotions("mine", store=store)) == 1
    path.write_bytes(whole)
    assert say("promoted")[::2] == (0, "")
    assert len(chaffinch.promotions("mine", store=store)) == 2
