"""The command line: what it prints where, in words and in JSON, and how quickly it helps."""

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import chaffinch
from chaffinch import ModelSettings
from tests.made_up import good_table
from tests.refusals import COMMAND, chaffinch_run

HEAVY = ("numpy", "pandas", "pyarrow", "prefect", "distributed", "sklearn", "lightgbm", "torch")
COMMANDS = {
    "run": ("DATA", "--target", "--method", "--n-features", "--keep", "--store", "--json"),
    "reselect": ("RUN", "DATA", "--target", "--gain", "--slack", "--seed", "--store", "--json"),
    "compare": ("TABLES", "--methods", "--models", "--seeds", "--sizes", "--time-budget", "--json"),
    "reproduce": ("PAPER_TABLE", "gbmo-table-2", "--seeds", "--data", "--json"),
    "columns": ("RUN", "--as", "--table", "--dialect", "--source", "--store"),
    "shuffle": ("FILES", "--to", "--target", "--sparse", "--zero-based", "--one-based", "--json"),
    "descend": ("TABLE", "--to", "--n-features", "--penalty", "--start", "--cluster", "--json"),
    "announce": ("DATA", "--name"),
    "automations": ("--webhook",),
    "diff": ("BEFORE", "AFTER", "--store", "--json"),
    "promote": ("RUN", "--as", "--reason", "--store", "--json"),
    "promoted": ("NAME", "--store", "--json"),
    "rollback": ("NAME", "--reason", "--store", "--json"),
    "runs": ("--store", "--json"),
    "show": ("RUN", "--store", "--json"),
    "serve": ("--data", "--target", "--cron", "--name", "--promote", "--store", "--cluster",
              "--retries", "--retry-delay", "--timeout", "--stage-timeout"),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with two finished runs and one unfinished."""
    store = tmp_path_factory.mktemp("store")
    for n_features in (1, 2):
        chaffinch.select(
            good_table(), "churned", method="flbmo", n_features=n_features,
            model=ModelSettings(tuning="none"), store=store,
        )  # fmt: skip
    with pytest.raises(chaffinch.InputError, match="MultinomialNB cannot be fitted"):
        chaffinch.select(good_table(), "churned", model="MultinomialNB", store=store)
    return store


@pytest.mark.e2e
@pytest.mark.xdist_group("prefect")
def test_run_with_names_that_need_quotes_prints_json_alone(tmp_path):
    names = {"noise_1": "noise, loud", "noise_2": 'noise "2"', "age": "Alter (Jahre)"}
    table = good_table().rename(columns=names)
    table.to_csv(tmp_path / "table.csv", index=False)
    done = chaffinch_run(
        "run", tmp_path / "table.csv", "--target", "churned", "--method", "flbmo",
        "--n-features", 3, "--keep", '"noise, loud",Alter (Jahre)', "--drop", '"noise ""2"""',
        "--tuning", "none", "--cluster", "none", "--store", tmp_path / "store", "--json",
        home=tmp_path / "prefect",
    )  # fmt: skip
    assert done.returncode == 0
    contract = json.loads(done.stdout)
    assert {"Alter (Jahre)", "noise, loud"} < {f["name"] for f in contract["features"]}
    assert len(contract["features"]) == 3
    assert {"name": 'noise "2"', "reason": "left out as asked"} in contract["dropped"]
    assert contract["settings"]["columns"]["keep"] == ["Alter (Jahre)", "noise, loud"]
    folder = Path(contract["folder"])
    assert (folder.name, folder.parent) == (contract["run"], tmp_path / "store" / "runs")

    again = chaffinch_run("show", contract["run"], "--store", tmp_path / "store", "--json")
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout) == contract
    assert json.loads((folder / "selection.json").read_text()).items() <= contract.items()


@pytest.mark.e2e
def test_runs_as_a_table_newest_first(store):
    done = chaffinch_run("runs", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    words = ("created (UTC)", "unfinished at train base model", "2 of 6", "1 of 6")
    places = [done.stdout.index(these) for these in words]
    assert places == sorted(places)
    assert done.stdout.endswith(
        "An unfinished run goes on, or says again why it cannot, when the command that began it "
        "is given again.\n"
    )
    for run in (store / "runs").iterdir():
        assert f" {run.name} " in done.stdout


@pytest.mark.e2e
def test_runs_as_json(store):
    done = chaffinch_run("runs", "--store", store, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    unfinished, two, one = json.loads(done.stdout)
    assert [run["kept"] for run in (unfinished, two, one)] == [None, 2, 1]
    assert [run["candidates"] for run in (unfinished, two, one)] == [None, 6, 6]
    assert [run["state"] for run in (unfinished, two, one)] == ["unfinished"] + ["finished"] * 2
    at = [run["next_stage"] for run in (unfinished, two, one)]
    assert at == ["train_base_model", None, None]
    for run in (unfinished, two, one):
        document = json.loads((store / "runs" / run["run"] / "run.json").read_bytes())
        assert run["created"] == document["created"]
        assert datetime.fromisoformat(run["created"]).utcoffset() == timedelta(0)
    back = chaffinch.load_run(two["run"], store=store)
    assert two["test_loss_selected"] == back.losses["test"]["selected"]
    assert two["verdict"] == back.comparison["verdict"]


@pytest.mark.e2e
def test_runs_of_an_empty_store(tmp_path):
    with pytest.raises(chaffinch.InputError):
        chaffinch.select(good_table(), "nothing", store=tmp_path)
    done = chaffinch_run("runs", "--store", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"No runs in {tmp_path} yet.\n")
    assert json.loads(chaffinch_run("runs", "--store", tmp_path, "--json").stdout) == []


@pytest.mark.e2e
def test_show_in_words(store):
    one = json.loads(chaffinch_run("runs", "--store", store, "--json").stdout)[-1]["run"]
    result = chaffinch.load_run(one, store=store)
    done = chaffinch_run("show", one, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Kept 1 of 6: {result.features[0]}" in done.stdout
    assert f"{result.losses['test']['selected']:.4g}" in done.stdout
    assert f"{result.verdict}\n" in done.stdout
    assert f"Report: {result.folder / 'report.html'}\n" in done.stdout


@pytest.mark.e2e
def test_show_of_a_run_that_is_not_finished(store):
    unfinished = json.loads(chaffinch_run("runs", "--store", store, "--json").stdout)[0]["run"]
    done = chaffinch_run("show", unfinished, "--store", store)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: run {unfinished!r} is not finished; run it again and it goes on\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option_and_default(command):
    done = chaffinch_run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: chaffinch {command} [OPTIONS]")
    assert all(word in done.stdout for word in COMMANDS[command])
    assert "None" not in done.stdout
    assert "..." not in done.stdout


def test_help_offers_no_more_than_the_command_takes():
    words = " ".join(chaffinch_run("run", "--help").stdout.split())
    assert "--baseline [mean|median|zero] What a masked feature is set to" in words
    assert "values by feature" not in words.lower()
    assert "--lags NUMBERS How many rows back" in words
    assert "--tau NUMBER How far apart" in words
    assert "--alternatives-time-limit NUMBER Seconds of one search" in words
    assert "--keep NAMES Features that are never removed." in words


def test_help_lists_the_commands_in_whole_sentences():
    done = chaffinch_run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    commands = done.stdout.split("Commands:\n")[1].splitlines()
    lines = dict(line.split(maxsplit=1) for line in commands)
    assert set(lines) == set(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines.values())
    assert chaffinch_run().stderr == done.stdout
    assert chaffinch_run("--version").stdout == f"chaffinch, version {chaffinch.__version__}\n"


@pytest.mark.parametrize("statement", ["import chaffinch", COMMAND[2]])
def test_help_and_import_load_nothing_heavy(statement):
    script = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules]))\n{statement}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"


def test_everything_public_can_be_imported():
    for name in chaffinch.__all__:
        assert getattr(chaffinch, name).__doc__


def test_quiet_and_verbose_go_against_each_other():
    done = chaffinch_run("run", "table.csv", "--target", "y", "--quiet", "--verbose")
    said = "Error: --quiet and --verbose go against each other; give one of them\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
