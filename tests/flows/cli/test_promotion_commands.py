"""`chaffinch diff`, `promote`, `promoted` and `rollback`: what they print, and what they leave."""

import html
import json

import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli.commands import cli
from tests.tasks.synthetic_runs import causes, run_of, runs_of_two_days


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of_two_days(tmp_path_factory.mktemp("orders"))


@pytest.fixture
def said(runs, monkeypatch):
    """Return what a command prints, where no Prefect server is configured."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    store = str(runs[0].folder.parents[1])

    def say(*command):
        asked = [*command, "--store", store]
        ended = CliRunner().invoke(cli, asked, catch_exceptions=False)
        assert (ended.exit_code, ended.stderr) == (0, "")
        return ended.stdout

    return say


def test_diff_says_what_differs(runs, said):
    first, second = runs
    lines = said("diff", first.run, str(second.folder)).splitlines()
    assert lines[0] == "Gained: x3. Lost: x1. Changed: 2 of the 3 features of either, 66.7 %."
    assert lines[1].startswith("Refitted on the newer rows, the loss (squared error) is ")
    found = json.loads(said("diff", first.run, second.run, "--json"))
    whole = chaffinch.difference(first, second).as_json()
    assert found == json.loads(json.dumps(whole))


def test_a_day_in_production(runs, said):
    first, second = runs
    assert said("promoted") == "Nothing was promoted yet.\n"
    assert json.loads(said("promoted", "--json")) == []

    promoted = said("promote", first.run, "--reason", "looked at it")
    assert promoted == f"Nothing was promoted before.\nPromoted {first.run} as orders.\n"
    lines = said("promote", second.run[:-1]).splitlines()  # the beginning of a name does
    assert lines[0].startswith("Gained: x3. Lost: x1.")
    assert lines[-1] == f"Promoted {second.run} as orders."

    back = said("rollback", "orders", "--reason", "wrong")
    assert back == f"The contract of {first.run} is in use again for orders.\n"

    (in_use,) = json.loads(said("promoted", "--json"))
    assert (in_use["name"], in_use["run"], in_use["how"]) == ("orders", first.run, "rollback")
    found = json.loads(said("promoted", "orders", "--json"))
    assert [one["reason"] for one in found["history"]] == ["wrong", "", "looked at it"]
    assert chaffinch.load_contract(found["contract"]) == first.contract
    table = said("promoted", "orders")
    places = [table.index(word) for word in ("rollback", second.run, "looked at it")]
    assert places == sorted(places)
    assert table.endswith(f"The contract in use: {found['contract']}\n")
    assert " orders " in said("promoted")


def test_promote_as_json_has_the_entry_and_the_difference(runs, said):
    first, second = runs
    begun = json.loads(said("promote", first.run, "--name", "nightly", "--json"))
    assert (begun["name"], begun["difference"]) == ("nightly", None)
    then = json.loads(said("promote", second.run, "--name", "nightly", "--json"))
    assert then["difference"]["gained"] == ["x3"]
    assert then["promotion"]["how"] == "by hand"
    back = json.loads(said("rollback", "nightly", "--json"))
    assert back["promotion"]["run"] == first.run


def test_a_promoted_name_stands_for_the_run_in_use(runs, said):
    first, second = runs
    said("promote", first.run, "--name", "stands")
    assert said("diff", "stands", second.run) == said("diff", first.run, second.run)
    assert said("columns", "stands") == said("columns", first.run)
    assert said("show", "stands") == said("show", first.run)
    said("promote", second.run, "--name", "stands")
    assert said("columns", "stands") == said("columns", second.run)


def test_promote_by_the_gate_has_an_exit_code_where_a_person_is_needed(tmp_path, monkeypatch):
    from tests.flows.cli.programs import in_process

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    store, found = tmp_path / "store", []
    for day, n_features in enumerate((3, 4)):
        causes("x1", "x2", "x3", "x4", seed=day).to_csv(tmp_path / "orders.csv", index=False)
        found.append(run_of(tmp_path / "orders.csv", store, n_features=n_features))
    fewer, more = (run.run for run in found)

    def by_gate(run, *options):
        return in_process("promote", run, "--gate", *options, "--store", str(store))

    ended = by_gate(fewer)
    why = "nothing was promoted yet, and all later contracts are measured against the first"
    assert (ended.returncode, ended.stderr) == (5, f"Needs a decision: {why}\n")
    asked, remedy = ended.stdout.splitlines()
    assert asked == f"Not promoted as orders, for a person to decide: {why}."
    assert remedy.startswith(f"chaffinch promote {fewer} --name orders")
    again = by_gate(fewer, "--json")
    assert again.returncode == 5
    assert json.loads(again.stdout) == {
        "name": "orders", "promotion": None, "difference": None, "damage": "",
        "decided": asked, "needs_decision": why,
    }  # fmt: skip

    first, _ = chaffinch.run_history("orders", store=store).itertuples()
    assert (first.run, first.decision, first.is_open) == (fewer, why, True)
    _, listed = json.loads(in_process("runs", "--json", "--store", str(store)).stdout)
    assert (listed["run"], listed["needs_decision"]) == (fewer, why)
    assert why in in_process("show", fewer, "--store", str(store)).stdout.replace("\n", " ")

    assert in_process("promote", fewer, "--store", str(store)).returncode == 0
    better = by_gate(more)
    assert (better.returncode, better.stderr) == (0, "")
    assert better.stdout.startswith("Promoted as orders: its loss is lower")
    assert "Gained: x4. Lost: none." in better.stdout
    stays = by_gate(more)
    assert (stays.returncode, stays.stderr) == (0, "")
    assert stays.stdout.startswith("The promoted contract of orders stays")
    assert [one.how for one in chaffinch.promotions("orders", store=store)] == [
        "by hand",
        "automatic",
    ]
    refused = by_gate(more, "--reason", "looked at it")
    assert refused.returncode == 2
    assert refused.stderr.startswith("Error: --reason is for a promotion by hand; leave it out")


def test_bad_input_is_one_line(runs, said):
    for command, message in (
        (("promote", runs[0].run, "--name", ""), "a name must be 1..115 of .* but is ''"),
        (("diff", "nothing", runs[0].run), "there is no run 'nothing'"),
        (("promote", "nothing"), "there is no run 'nothing'"),
        (("promoted", "nothing"), "nothing was promoted as 'nothing'"),
        (("rollback", "nothing"), "nothing was promoted as 'nothing'"),
    ):
        with pytest.raises(InputError, match=message):
            said(*command)


def test_a_server_that_does_not_answer_is_a_warning_and_the_promotion_stands(runs, monkeypatch):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from tests.flows.cli.programs import free_port

    store = str(runs[0].folder.parents[1])
    url = f"http://127.0.0.1:{free_port()}/api"
    with temporary_settings({PREFECT_API_URL: url}):
        command = ["promote", runs[0].run, "--name", "unheard", "--store", store]
        ended = CliRunner().invoke(cli, command, catch_exceptions=False)
        again = CliRunner().invoke(cli, ["promoted", "--store", store], catch_exceptions=False)
    assert (ended.exit_code, again.exit_code) == (0, 1)  # the second sends what is pending
    assert again.stderr == ended.stderr
    assert ended.stderr.startswith(
        f"Warning: an event of unheard is not sent yet: no Prefect server answers at {url} (All"
    )
    assert ended.stderr.count("\n") == 1
    assert chaffinch.promoted("unheard", store=store) == runs[0].contract


def test_a_run_that_lacks_a_promoted_column_has_an_exit_code_of_its_own(tmp_path, table):
    import pandas as pd

    from tests.flows.cli.programs import in_process

    store = tmp_path / "store"
    kept = chaffinch.select(
        str(table), "yield", method="anova_f", n_features=2, model="linear", store=store
    )
    chaffinch.promote(kept, store=store)
    newer, rows, gone = tmp_path / table.name, pd.read_csv(table), kept.features[0]
    command = ("run", str(newer), "--target", "yield", "--method", "gbmo", "--model", "linear")
    said = "Needs a decision: features of the promoted set are gone from the newer rows"
    for worse in (rows.drop(columns=gone), rows.assign(**{gone: None})):
        worse.to_csv(newer, index=False)
        ended = in_process(*command, "--store", str(store))
        assert ended.returncode == 5
        assert said in ended.stderr
    again = in_process("reselect", table.stem, str(newer), "--store", str(store))
    assert again.returncode == 5
    assert said in again.stderr
    fine = in_process("run", str(table), *command[2:], "--store", str(store))
    assert fine.returncode == 0, fine.stderr


def test_a_reselection_of_a_promoted_column_in_another_unit_has_it_too(tmp_path, table, small):
    import pandas as pd

    from tests.flows.cli.programs import in_process

    store = tmp_path / "store"
    kept = chaffinch.select(
        str(table), "yield", method="anova_f", n_features=1, model="linear", store=store
    )
    chaffinch.promote(kept, store=store)
    newer = tmp_path / table.name
    rows = pd.read_csv(table)
    rows[kept.features] *= 1000
    rows.to_csv(newer, index=False)
    ended = in_process("reselect", kept.run, str(newer), "--store", str(store))
    assert ended.returncode == 5
    assert "Needs a decision: columns of the promoted contract have another scale" in ended.stderr
    (report,) = (store / "runs").glob("*-reselect-*/report.html")
    assert "Another scale, perhaps another unit" in report.read_text()


def test_what_a_person_has_to_decide_is_said_again_until_something_is_promoted(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)

    def say(*command):
        return CliRunner().invoke(cli, [*command, "--store", "store"], catch_exceptions=False)

    table = causes("x1", "x2")
    table.to_csv("orders.csv", index=False)
    chaffinch.promote(run_of("orders.csv", "store"))
    table.drop(columns="x1").to_csv("orders.csv", index=False)
    ended = say("run", "orders.csv", "--target", "y", "--model", "linear", "--json", "--quiet")
    reason = "features of the promoted set are gone from the newer rows: 'x1' (no such column)"
    assert ended.stderr == f"Needs a decision: {reason}\n"
    newer = json.loads(ended.stdout)
    assert newer["needs_decision"] == reason
    run = newer["run"]

    def told():
        (entry,) = (one for one in json.loads(say("runs", "--json").stdout) if one["run"] == run)
        shown = json.loads(say("show", run, "--json").stdout)
        return entry["needs_decision"], shown["needs_decision"]

    assert told() == (reason, reason)
    assert f"Needs a decision: {reason}\n" in say("show", run).stdout
    listed = say("runs").stdout
    assert listed.count("finished, needs a decision") == 1
    assert "chaffinch show RUN says why a person has to decide" in listed
    page = html.unescape((tmp_path / "store" / "runs" / run / "report.html").read_text())
    assert f"When it ended, this run needed a decision: {reason}." in page

    assert say("promote", run).exit_code == 0
    assert told() == (None, None)
    assert say("promote", run, "--gate").exit_code == 0  # the contract in use stays
    (row,) = (r for r in json.loads(say("history", "--json").stdout) if r["run"] == run)
    assert row["decision"] == f"{reason}; answered: Promoted as orders"
    assert "decision" not in say("show", run).stdout + say("runs").stdout
    say("run", "orders.csv", "--target", "y", "--model", "linear", "--quiet")
    assert (
        "this run needed a decision"
        not in (tmp_path / "store" / "runs" / run / "report.html").read_text()
    )


def test_a_night_whose_contract_in_use_is_damaged_needs_a_decision(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    causes("x1", "x2").to_csv("orders.csv", index=False)
    chaffinch.promote(run_of("orders.csv", "store"))
    (contract,) = (tmp_path / "store" / "promotions" / "contracts").glob("*.json")
    contract.write_text("{}")
    causes("x1", "x2", seed=1).to_csv("orders.csv", index=False)
    command = ["run", "orders.csv", "--target", "y", "--model", "linear", "--quiet"]
    ended = CliRunner().invoke(cli, [*command, "--store", "store"], catch_exceptions=False)
    assert ended.stderr.startswith("Needs a decision: What is promoted cannot be read: ")
    (night,) = chaffinch.run_history("orders", store="store").query("is_open")["decision"]
    assert night.startswith("What is promoted cannot be read: ")
