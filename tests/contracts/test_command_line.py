"""The command line: what it prints where, in words and in JSON, and how quickly it helps."""

import errno
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings, StorageError
from chaffinch.errors import UnreachableError, WorkersError
from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.storage.runs.store import Store
from tests.refusals import COMMAND, chaffinch_here, chaffinch_run
from tests.synthetic import good_table
from tests.tasks.results.made_store import night

FITTING = ("pandas", "prefect", "distributed", "scipy.stats", "sklearn", "lightgbm", "torch")
HEAVY = ("numpy", "pyarrow", *FITTING)
COMMANDS = {
    "run": ("DATA", "--target", "--method", "--n-features", "--keep", "--store", "--json"),
    "check": ("DATA", "--target", "--config", "--strict", "--json"),
    "init": ("DATA", "--file", "--target", "--method", "--keep", "--store"),
    "reselect": ("RUN", "DATA", "--target", "--gain", "--slack", "--seed", "--store", "--json"),
    "compare": ("TABLES", "--methods", "--models", "--seeds", "--sizes", "--time-budget", "--json"),
    "columns": ("RUN", "--as", "--table", "--dialect", "--source", "--store"),
    "export": ("RUN", "--to", "--output", "--name", "--table", "--store"),
    "why": ("RUN", "COLUMN", "--store", "--json"),
    "history": ("NAME", "--html", "--store", "--json"),
    "at": ("RUN", "K", "--store", "--cluster", "--workers", "--quiet", "--json"),
    "announce": ("DATA", "--name"),
    "automations": ("--webhook",),
    "diff": ("BEFORE", "AFTER", "--store", "--json"),
    "promote": ("RUN", "--name", "--gate", "--reason", "--store", "--json"),
    "promoted": ("NAME", "--store", "--json"),
    "rollback": ("NAME", "--reason", "--store", "--json"),
    "methods": ("METHOD", "--json"),
    "runs": ("--store", "--json"),
    "show": ("RUN", "--store", "--json"),
    "serve": ("--data", "--target", "--cron", "--name", "--promote", "--store", "--cluster",
              "--retries", "--retry-delay", "--timeout", "--stage-timeout"),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with two finished runs and one that was refused."""
    store = tmp_path_factory.mktemp("store")
    for n_features in (1, 2):
        chaffinch.select(
            good_table(), "churned", method="flbmo", n_features=n_features,
            model=ModelSettings(tuning="none"), store=store,
        )  # fmt: skip
    with pytest.raises(chaffinch.InputError, match="MultinomialNB cannot be fitted"):
        chaffinch.select(good_table(), "churned", model="MultinomialNB", store=store)
    return store


def test_runs_as_a_table_newest_first(store):
    done = chaffinch_here("runs", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    words = ("created (UTC)", "refused at 'tune and train", "2 of 6", "1 of 6")
    places = [done.stdout.index(these) for these in words]
    assert places == sorted(places)
    assert done.stdout.endswith("chaffinch show RUN gives the reason of a refused run.\n")
    for run in (store / "runs").iterdir():
        assert f" {run.name} " in done.stdout


def test_runs_as_json(store):
    done = chaffinch_here("runs", "--store", store, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    refused, two, one = json.loads(done.stdout)
    assert [run["kept"] for run in (refused, two, one)] == [None, 2, 1]
    assert [run["candidates"] for run in (refused, two, one)] == [None, 6, 6]
    assert [run["state"] for run in (refused, two, one)] == ["refused", "finished", "finished"]
    at = [run["next_stage"] for run in (refused, two, one)]
    assert at == ["train_base_model", None, None]
    for run in (refused, two, one):
        document = json.loads((store / "runs" / run["run"] / "run.json").read_bytes())
        assert run["created"] == document["created"]
        assert datetime.fromisoformat(run["created"]).utcoffset() == timedelta(0)
    back = chaffinch.load_run(two["run"], store=store)
    assert two["judged_on"] == "test"
    assert two["loss_selected"] == back.losses["test"]["selected"]
    assert two["verdict"] == back.comparison["verdict"]


def test_runs_of_an_empty_store(tmp_path):
    with pytest.raises(chaffinch.InputError):
        chaffinch.select(good_table(), "nothing", store=tmp_path)
    done = chaffinch_here("runs", "--store", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"No runs in {tmp_path} yet.\n")
    assert json.loads(chaffinch_here("runs", "--store", tmp_path, "--json").stdout) == []


def test_show_in_words(store):
    one = json.loads(chaffinch_here("runs", "--store", store, "--json").stdout)[-1]["run"]
    result = chaffinch.load_run(one, store=store)
    done = chaffinch_here("show", one, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Kept 1 of 6: {result.features[0]}" in done.stdout
    assert f"{result.losses['test']['selected']:.4g}" in done.stdout
    assert f"{result.verdict}\n" in done.stdout
    assert f"Report: {result.folder / 'report.html'}\n" in done.stdout
    assert chaffinch_here("show", one[:-2], "--store", store).stdout == done.stdout


def test_show_of_a_run_that_was_refused(store):
    refused = json.loads(chaffinch_here("runs", "--store", store, "--json").stdout)[0]["run"]
    done = chaffinch_here("show", refused, "--store", store)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: run {refused!r} was refused: model MultinomialNB cannot be fitted, try another: "
        "Negative values in data passed to MultinomialNB (input X).\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option_and_default(command):
    done = chaffinch_here(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: chaffinch {command} [OPTIONS]")
    assert all(word in done.stdout for word in COMMANDS[command])
    assert "None" not in done.stdout
    assert "..." not in done.stdout


def test_help_lists_the_commands_in_whole_sentences():
    done = chaffinch_here("--help")
    assert (done.returncode, done.stderr) == (0, "")
    commands = done.stdout.split("Commands:\n")[1].splitlines()
    lines = dict(line.split(maxsplit=1) for line in commands)
    assert set(lines) == set(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines.values())
    assert chaffinch_here().stderr == done.stdout
    assert chaffinch_here("--version").stdout == f"chaffinch, version {chaffinch.__version__}\n"


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


def test_the_history_loads_nothing_that_fits(tmp_path):
    # which takes a second
    night(Store.open(tmp_path), 0, [0, 1])
    loaded = f"print([m for m in {FITTING} if m in sys.modules])"
    done = chaffinch_run(
        *("history", "--store", tmp_path),
        preamble=f"import atexit, sys; atexit.register(lambda: {loaded}); ",
    )
    assert done.returncode == 0, done.stderr
    assert "orders-0" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_everything_public_can_be_imported():
    for name in chaffinch.__all__:
        assert getattr(chaffinch, name).__doc__


def test_quiet_and_verbose_go_against_each_other():
    done = chaffinch_here("run", "table.csv", "--target", "y", "--quiet", "--verbose")
    said = "Error: --quiet and --verbose go against each other; give one of them\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


HOSTILE = ["\x1b]0;TITLE\x07x", "two\nlines", "\x1b[31mred"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run that keeps columns whose names are made to take a terminal over."""
    store = tmp_path_factory.mktemp("hostile")
    table = pd.DataFrame({name: np.arange(60) % (7 + i) for i, name in enumerate(HOSTILE)})
    table["y"] = table.sum(axis=1) + 0.5
    model = ModelSettings(name="linear", tuning="none")
    return chaffinch.select(table, "y", model=model, keep=HOSTILE, store=store)


def test_names_of_columns_cannot_write_to_the_terminal(hostile):
    for command in ("show", "why"):
        done = chaffinch_here(command, hostile.run, "--store", hostile.folder.parents[1])
        assert done.returncode == 0
        for name in ("\\x1b]0;TITLE\\x07x", "two\\nlines", "\\x1b[31mred"):
            assert name in done.stdout
        assert "\x1b" not in done.stdout + done.stderr


def test_nor_can_reasons_of_promotions(hostile):
    store = hostile.folder.parents[1]
    chaffinch.promote(hostile, "named", reason="\x1b[2J", store=store)
    done = chaffinch_here("promoted", "named", "--store", store)
    assert "\\x1b[2J" in done.stdout
    assert "\x1b" not in done.stdout


def test_columns_reach_another_program_as_they_are(hostile):
    asked = ("columns", hostile.run, "--store", hostile.folder.parents[1], "--as")
    sql = chaffinch_here(*asked, "sql").stdout
    assert sql == ", ".join(f'"{name}"' for name in HOSTILE) + "\n"
    assert json.loads(chaffinch_here(*asked, "parquet").stdout) == HOSTILE
    assert json.loads(chaffinch_here(*asked, "json").stdout)["columns"] == HOSTILE


def test_an_error_is_one_printable_line(tmp_path, capsys):
    contract = tmp_path / "c.json"
    contract.write_text(json.dumps({"format_version": "\x1b[2J" * 10_000}))
    for given, said in (
        (["columns", "no\nsuch \x1b[31mrun.json"], "no such \\x1b[31mrun.json"),
        (["columns", str(contract)], "must have format_version 1 but has \\x1b[2J\\x1b"),
    ):
        assert exit_code(partial(cli.main, given)) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.removesuffix("\n").isprintable()
        assert len(told) < 500


def test_the_middle_of_a_long_error_is_left_out():
    said = str(InputError(f"column {'x' * 5000!r} is none; rename it"))
    assert len(said) < 1500
    assert said.startswith("column 'xx")
    assert said.endswith("xx' is none; rename it")
    assert "xx ... xx" in said


@pytest.mark.parametrize(
    "error", [StorageError, InputError, UnreachableError, WorkersError, click.UsageError]
)
def test_so_is_one_of_several_lines(error, capsys):
    def fail(**_):
        raise error("x is no Parquet file: Invalid data\nDeserializing failed.\n\n")

    assert exit_code(fail) == (2 if error in (InputError, click.UsageError) else 1)
    said = "Error: x is no Parquet file: Invalid data Deserializing failed.\n"
    assert capsys.readouterr().err == said


def test_output_that_cannot_be_written_is_told_from_any_other_file():
    """To /dev/full; a terminal that is gone answers EIO."""
    arguments = [*COMMAND, "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    said = "Error: the output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (1, said)

    def fail(**_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        exit_code(fail)


# The table takes 800 MB; the limit is on what the process may ask for beyond its libraries.
SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
import chaffinch.flows.prefect_runtime.server
import chaffinch.tasks.pipeline.run, chaffinch.tasks.api.select
chaffinch.flows.prefect_runtime.server.prepare(quiet=True)
import chaffinch.flows.cli.output
from chaffinch.flows.cli.commands import cli, exit_code
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 200 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(exit_code(lambda **options: cli.main(sys.argv[1:], **options)))
"""


@pytest.mark.e2e
def test_memory_that_runs_out_is_told_as_that(tmp_path):
    table, zeros = tmp_path / "table.parquet", np.zeros(5_000_000)
    pq.write_table(pa.table(dict.fromkeys([*map(str, range(19)), "y"], zeros)), table)
    command = ("run", table, "--target", "y", "--cluster", "none", "--store", tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, *map(str, command)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr == (
        "Error: out of memory while running step 'read the table'; give fewer rows or columns, or "
        "more memory\n"
    )
