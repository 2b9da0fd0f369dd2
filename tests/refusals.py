"""How tests of refusals ask, and what should not be left after one."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np

import chaffinch
from chaffinch import ModelSettings
from chaffinch.flows.cli.commands import cli, exit_code
from tests.synthetic import N

COMMAND = [sys.executable, "-c", "from chaffinch.flows.cli.main import main; main()"]
AMOUNTS = np.random.default_rng(1).normal(size=N).round(6)


def changed(values, place, value):
    values = list(values)
    values[place] = value
    return values


def select(data, *, target="y", name=None, tuning=None, folds=None, parameters=None, **options):
    """Call `chaffinch.select` with the command line's options."""
    model = {"tuning": tuning, "folds": folds, "parameters": parameters}
    model = {key: value for key, value in model.items() if value is not None}
    if model:
        options["model"] = ModelSettings(name=options.pop("model", "lightgbm"), **model)
    for place, names in (
        ("columns", ("categorical", "numeric")),
        ("settings", ("task", "baseline")),
    ):
        options[place] = {name: options.pop(name) for name in names if name in options}
    return chaffinch.select(data, target, **options)


def left_in(store):
    """Return what should not be in a store after a refusal."""
    return [path for path in Path(store).rglob("*")
            if path.name == "run.json" or path.name.startswith(".aside-")]  # fmt: skip


def chaffinch_run(*arguments, home=None, preamble=""):
    """Run the command line as a program of its own."""
    command = [COMMAND[0], COMMAND[1], preamble + COMMAND[2], *map(str, arguments)]
    environment = os.environ | ({"PREFECT_HOME": str(home)} if home else {})
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def chaffinch_here(*arguments):
    """Run the command line in this process, as the program does."""
    out, err = io.StringIO(), io.StringIO()
    arguments = [*map(str, arguments)]
    with redirect_stdout(out), redirect_stderr(err):
        code = exit_code(partial(cli.main, arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
