"""What is said when a command is stopped: what the same command does then, and nothing else."""

import signal
from functools import partial

import click
import pytest

from chaffinch.flows.cli import _exit_code, cli
from chaffinch.flows.stopped_commands import Commands
from chaffinch.tasks.interrupts import Stopped

GOES_ON = "The same command goes on where it was."
DONE_OR_NOT = "`chaffinch promoted` says whether it was done."
ANEW = "The same command begins anew."
SAID = {
    **dict.fromkeys(("run", "reselect", "compare", "reproduce"), GOES_ON),
    **dict.fromkeys(("promote", "rollback"), DONE_OR_NOT),
    "serve": "The same command serves again.",
    "descend": "The same command goes on where it was seconds ago.",
    **dict.fromkeys(("diff", "columns", "promoted", "runs", "show"), ANEW),
    **dict.fromkeys(("announce", "automations", "shuffle"), ANEW),
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
        assert _exit_code(partial(stopped(error).main, [name])) == code
        said = capsys.readouterr()
        assert (said.out, said.err.strip()) == ("", f"Stopped. {SAID[name]}")


def test_before_there_is_a_command_nothing_is_promised(capsys):
    def stop(**_):
        raise KeyboardInterrupt

    assert _exit_code(stop) == 130
    assert capsys.readouterr().err.strip() == "Stopped."
