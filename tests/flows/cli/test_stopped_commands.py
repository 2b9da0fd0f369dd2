"""What is said when a command is stopped: what the same command does then, and nothing else."""

import os
import signal
from functools import partial

import click
import pytest

from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.flows.cli.options import Commands
from chaffinch.tasks.workers.signals import Stopped
from tests.flows.cli.programs import python

GOES_ON = "The same command continues where it stopped."
DONE_OR_NOT = "`chaffinch promoted` shows whether it was done."
AGAIN = "The same command begins again."
SAID = {
    **dict.fromkeys(("run", "at", "reselect", "compare"), GOES_ON),
    **dict.fromkeys(("promote", "rollback"), DONE_OR_NOT),
    "serve": "The same command serves again.",
    **dict.fromkeys(("diff", "columns", "export", "promoted", "runs", "show"), AGAIN),
    **dict.fromkeys(("announce", "automations", "check", "history", "init", "methods"), AGAIN),
    "why": AGAIN,
}


def stopped(error):
    """Return commands of the same names, each of which is stopped at its work."""

    def stop():
        raise error

    return Commands(commands={name: click.Command(name, callback=stop) for name in cli.commands})


def test_every_command_is_told_of():
    assert set(SAID) == set(cli.commands)
    assert isinstance(cli, Commands)


@pytest.mark.parametrize("name", SAID)
def test_a_stop_says_what_the_same_command_does(name, capsys):
    for error, code in ((KeyboardInterrupt(), 130), (Stopped(signal.SIGTERM), 143)):
        assert exit_code(partial(stopped(error).main, [name])) == code
        said = capsys.readouterr()
        assert (said.out, said.err.strip()) == ("", f"Stopped. {SAID[name]}")


def test_before_there_is_a_command_nothing_is_promised(capsys):
    def stop(**_):
        raise KeyboardInterrupt

    assert exit_code(stop) == 130
    assert capsys.readouterr().err.strip() == "Stopped."


# The first look for click finds that somebody has just pressed Ctrl-C, or sent another signal. Its
# handler is set because who starts the tests may ignore it, as `nohup` and a shell's `&` do.
STOPPED_AT_AN_IMPORT = """
import os, signal, sys
number = int(os.environ["NUMBER"])
usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
signal.signal(number, signal.SIG_IGN if "IGNORED" in os.environ else usual)
class Stopping:
    def find_spec(name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Stopping)
from chaffinch.flows.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_stop_while_the_command_line_is_imported_is_told_in_one_line(number, code):
    """Standard error has nothing else, and no command is begun."""
    ended = python(STOPPED_AT_AN_IMPORT, "--help", env=os.environ | {"NUMBER": str(int(number))})
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr == "Stopped. The same command begins again.\n"


def test_a_command_under_nohup_is_not_stopped_by_the_end_of_its_terminal():
    env = os.environ | {"NUMBER": str(int(signal.SIGHUP)), "IGNORED": "1"}
    ended = python(STOPPED_AT_AN_IMPORT, "--help", env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Usage:" in ended.stdout


def test_nothing_heavy_is_imported_before_signals_are_minded():
    ended = python("import sys; import chaffinch.flows.cli.main; print(*sys.modules)")
    assert "chaffinch.tasks.workers.signals" in ended.stdout.split()
    assert not {"click", "pydantic", "numpy", "prefect"} & set(ended.stdout.split())
