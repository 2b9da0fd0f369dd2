"""`chaffinch run` as a program of its own, where no server is configured."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.flows.cli.programs import chaffinch as program
from tests.flows.cli.programs import run, still_running

pytestmark = pytest.mark.e2e

QUICK = ("--tuning", "none", "--cluster", "none", "--n-features", "2")


@pytest.mark.parametrize("with_prefect", [False, True])
def test_a_first_run_needs_nothing_and_leaves_nothing_running(tmp_path, table, with_prefect):
    store = "flow-store" if with_prefect else "chaffinch-store"
    asked = ("--store", store, *["--prefect"] * with_prefect)
    ended = run(str(table), "--target", "yield", *QUICK, *asked, home=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert still_running(tmp_path) == []
    assert bool([*tmp_path.glob("prefect/*.db")]) is with_prefect

    (report,) = tmp_path.glob(f"{store}/runs/*/report.html")
    *table_lines, last = ended.stdout.splitlines()
    assert last == f"Report: {report}"
    shown = "\n".join(table_lines)
    words = "train", "out-of-fold", "Kept 2 of 6: first, second\nDropped 4: ", "features explain"
    assert [word for word in words if word not in shown] == []
    # Without a terminal every step is a line as it begins, and as it ends.
    steps = ("1/9 read the table", "2/9 check the columns")
    steps += (*["starting Prefect"] * with_prefect, "3/9 split the rows")
    expected = [line for step in steps for line in (step, f"{step}: done after # s")]
    lines = re.sub(r"[0-9]+\.[0-9] s", "# s", ended.stderr).splitlines()
    # on a machine that is busy a step says after half a minute that it continues
    lines = [line for line in lines if not re.search(r": (\d+ of \d+ )?after \d+ s$", line)]
    assert lines[: len(expected)] == expected
    assert lines[-2:] == ["9/9 write the report", "9/9 write the report: done after # s"]
    assert len(lines) == 2 * (9 + with_prefect)  # Prefect's own log lines are not shown


def test_methods_are_compared(home, table):
    asked = ("--methods", "anova_f,flbmo", "--models", "linear", "--folds", "2", "--seeds", "1")
    command = (str(table), "--target", "yield", *asked, "--sizes", "1,0.5", "--cluster", "none")
    ended = program("compare", *command, home=home)
    assert ended.returncode == 0, ended.stderr
    (report,) = home.glob("chaffinch-store/comparisons/*/report.html")
    assert ended.stdout.splitlines()[-1] == f"Report: {report}"
    assert "anova_f, 3 features" in ended.stdout
    told = re.sub(r"[0-9]+(\.[0-9])? s\b", "# s", ended.stderr).splitlines()
    told = [line for line in told if not re.search("(?<!done) after # s", line)]  # if it is slow
    assert told == [
        "1/3 read the tables",
        "1/3 read the tables: done after # s",
        "2/3 measure the methods",
        "2/3 measure the methods: done after # s",
        "3/3 summarise the results",
        "3/3 summarise the results: done after # s",
    ]


def test_on_a_terminal_every_stage_stays_with_its_seconds():
    steps = "tell('split', 0, 1); tell.end('split', 0.1)"
    code = (
        f"from chaffinch.flows.cli.output import progress\nwith progress() as (tell, *_): {steps}"
    )
    ours, theirs = pty.openpty()
    subprocess.run((sys.executable, "-c", code), stderr=theirs, check=True, timeout=300)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "✓" in shown
    assert "3/9 split" in shown
    assert "━━━" in shown
    assert "done after" not in shown


def test_bad_input_is_one_line_on_stderr_and_exit_code_2_before_any_server(tmp_path, table):
    ended = run(str(table), "--target", "yeild", "--prefect", home=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        ended.stderr == "Error: target 'yeild' is no column of the table; did you mean 'yield'?\n"
    )
    assert still_running(tmp_path) == []
    assert not [*tmp_path.glob("prefect/*.db*")]
