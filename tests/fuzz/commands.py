"""Command lines, in this process: all but those that start a server, of which the options."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaffinch import load_contract
from chaffinch.flows.commands import cli, exit_code
from chaffinch.flows.option_fields import EXECUTION, SELECTION
from chaffinch.flows.options import nested
from tests.fuzz.ground import ground
from tests.fuzz.tables import file_of_table
from tests.fuzz.values import NAMES, Broken, Case, Draws, Place, often, pick, shown, some

_TEXTS = ["", " ", "x", "0", "1", "2", "-1", "1.5", "nan", "inf", "1e400", "9" * 30, "true", "a,b", ",", ",,", "a\nb", '"', '"a"b', "\x1b[31m",
          "é", "\udcff", "x" * 5000, "--help", "-", "y", "none", "local", "tcp://127.0.0.1:9", "{}", "1,2", "1,x", "0,0", "y,y", *NAMES[:12]]  # fmt: skip
_NOT_DRAWN = ("serve", "automations", "announce", "reproduce", "compare", "reselect")


def run_command(arguments: Sequence[str]) -> None:
    """Run a command line in this process, and hold its exit code against what it printed."""
    _judged(lambda **given: cli.main(args=list(arguments), **given))


def _judged(run: Any) -> None:
    before = Path("/proc/self/fd/2").resolve().stat().st_size
    try:
        code = exit_code(run)
    except SystemExit as error:
        code = int(error.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    said = Path("/proc/self/fd/2").resolve().read_text(errors="surrogateescape")[before:]
    if code not in (0, 1, 2):
        raise Broken(f"exit code {code}: {said!r}")
    errors = [line for line in said.split("\n") if line.startswith("Error: ")]
    if code and len(errors) != 1:
        raise Broken(f"exit code {code} without one line that says why: {said[:500]!r}")
    if code and (not said.endswith(f"{errors[0]}\n") or len(errors[0]) > 2000):
        raise Broken(f"an error of several lines, or too long: {said[:500]!r}")


def draw(draws: Draws, place: Place) -> Case:
    """Draw a command with its arguments and options."""
    if often(draws, 0.3):
        return _run(draws, place)
    if often(draws, 0.15):
        return _columns(draws, place)
    name = pick(
        draws, sorted(set(cli.commands) - {*_NOT_DRAWN, "run"}) + ["shuffle", "descend", "descend"]
    )
    command = cli.commands[name]
    store = ground().copied(place, "lightgbm", "xgboost")
    known = ground().runs
    values = [known["lightgbm"], known["xgboost"], "orders", str(ground().run("linear")), str(ground().run("mlp") / "selection.json"),
              "nowhere", "../x", str(place.given), "/dev/null", "a\0b", *some(draws, _TEXTS)]  # fmt: skip
    if name in ("shuffle", "descend"):
        file, _ = file_of_table(draws, place)
        files = ground().files
        values = [
            str(file),
            *(
                str(files / f)
                for f in (
                    "table.csv",
                    "rows.parquet",
                    "rows.parquet",
                    "shuffled.parquet",
                    "shuffled.parquet",
                )
            ),
        ]
    arguments = [name]
    options = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments += [pick(draws, values) for _ in range(pick(draws, [1] * 9 + [0, 2]))]
        elif parameter.name == "store":
            options += [
                "--store",
                str(store)
                if often(draws, 0.9)
                else pick(draws, [str(place.given), "nowhere", *_TEXTS]),
            ]
        elif parameter.required and parameter.name == "to":
            options += [
                "--to",
                pick(draws, [str(place.made / "x.parquet"), str(place.made), "/dev/null"]),
            ]
        elif parameter.required or often(draws, 0.15):
            options += _option(draws, parameter)
    if name == "shuffle" and often(draws, 0.5):
        options += ["--target", "y"]
    if name == "descend" and often(draws, 0.7):
        options += ["--steps", "3"]
    given = [*arguments, *options]
    return Case(f"chaffinch {shown(given, 600)}", lambda: run_command(given), command=True)


def _option(draws: Draws, parameter: Any) -> list[str]:
    flag = pick(draws, [*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return [flag]
    choices = getattr(parameter.type, "choices", ())
    if parameter.name in ("cluster", "workers"):  # which would start worker processes
        return [flag, pick(draws, ["none", "x", "-1", "0"])]
    return [flag, str(pick(draws, [*choices, *choices, *_TEXTS]))]


def _run(draws: Draws, place: Place) -> Case:
    """Draw what `chaffinch run` does before it starts a server."""
    from chaffinch.tasks.select import method_settings
    from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings
    from chaffinch.tasks.story import check

    path, said = (
        (ground().files / "table.csv", "") if often(draws, 0.7) else file_of_table(draws, place)
    )
    given = [
        str(path),
        "--target",
        pick(draws, ["churned", "churned", "y", *_TEXTS]),
        "--cluster",
        "none",
    ]
    parameters = [
        p
        for p in cli.commands["run"].params
        if p.param_type_name == "option" and p.name not in ("target", "cluster", "workers", "store")
    ]
    for parameter in some(draws, parameters, 3):
        given += _option(draws, parameter)
    given += ["--store", str(place.store)]

    def do(**_: Any) -> None:
        options = cli.commands["run"].make_context("run", list(given)).params
        asked = method_settings(options["method"], options["n_features"], options["min_score"])
        settings = SelectionSettings(**{**nested(options, SELECTION), "method": asked})
        execution = ExecutionSettings(**nested(options, EXECUTION))
        check(options["data"], settings, execution)

    return Case(f"chaffinch run {shown(given, 500)} {said}", lambda: _judged(do), command=True)


def _columns(draws: Draws, place: Place) -> Case:
    """Draw a contract with odd names, which each form must give back."""
    content = ground().contract("lightgbm")
    names = [
        name for name in some(draws, NAMES, 3) if name.strip() and name not in ("\ud800", "a\0b")
    ] or ["a"]
    content["features"] = [{"name": name, "type": "number"} for name in names]
    content["candidates"] = names
    path = place.given / "selection.json"
    path.write_text(json.dumps(content))
    form = pick(draws, ["sql", "parquet", "json"])

    def do() -> None:
        before = Path("/proc/self/fd/1").resolve().stat().st_size
        run_command(["columns", str(path), "--as", form])
        printed = Path("/proc/self/fd/1").resolve().read_bytes()[before:].decode()
        columns = load_contract(path).columns
        if form == "sql":
            missing = [c for c in columns if c.replace('"', '""') not in printed]
        else:
            found = json.loads(printed)
            missing = (
                [] if (found if form == "parquet" else found["columns"]) == columns else columns
            )
        if missing:
            raise Broken(f"columns --as {form} lost names: {missing!r} in {printed!r}")

    return Case(f"chaffinch columns --as {form} of {names!r}", do, command=True)
