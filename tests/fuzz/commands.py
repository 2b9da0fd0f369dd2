"""Command lines in this process; of those that start a server, all that comes before it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chaffinch import load_contract
from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.flows.cli.options import SELECTION, STRICT, nested
from chaffinch.tasks.pipeline.run import check
from chaffinch.tasks.settings.method import method_settings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from tests.fuzz.ground import ground
from tests.fuzz.tables import file_of_table
from tests.fuzz.values import NAMES, Broken, Case, Draws, encodable, often, pick, shown, some

_TEXTS = [
    "", " ", "x", "0", "1", "2", "-1", "1.5", "nan", "inf", "1e400", "9" * 30, "true", "a,b", ",",
    ",,", "a\nb", '"', '"a"b', "\x1b[31m", "é", "\udcff", "x" * 5000, "--help", "-", "y", "none",
    "local", "tcp://127.0.0.1:9", "{}", "1,2", "1,x", "0,0", "y,y", *NAMES[:12],
]  # fmt: skip
_ANY = ["columns", "diff", "promote", "promoted", "rollback", "runs", "show"]


def run_command(arguments: Sequence[str]) -> None:
    """Run a command line in this process, and hold its exit code against what it printed."""
    _judged(lambda **given: cli.main(args=list(arguments), **given))


def _judged(run: Callable[..., Any]) -> None:
    before = len(_printed(2))
    code = exit_code(run)
    said = _printed(2)[before:].decode(errors="surrogateescape")
    *_, last = ["", *said.splitlines()]
    if code not in (0, 1, 2, 4, 5):
        raise Broken(f"an exit code that is none: {code}, {said!r}")
    begin = "Needs a decision: " if code == 5 else "Error: "  # of the gate
    if code and not (last.startswith(begin) and said.count(begin) == 1 and len(last) < 2000):
        raise Broken(f"exit code {code} without one line that says why: {shown(said)!r}")


def _printed(stream: int) -> bytes:
    sys.stdout.flush()
    sys.stderr.flush()
    return Path(f"/proc/self/fd/{stream}").resolve().read_bytes()


def draw(draws: Draws, place: Path) -> Case:
    """Draw a command with its arguments and options."""
    return pick(draws, [_run, _run, _columns, _any, _any, _any])(draws, place)


def _any(draws: Draws, place: Path) -> Case:
    name = pick(draws, _ANY)
    store, runs = ground().copied(place, "lightgbm", "xgboost"), ground().runs
    contract = str(ground().run("mlp") / "selection.json")
    values = [runs["lightgbm"], runs["xgboost"], "orders", contract, "nowhere", "/dev/null"]
    values += [str(ground().run("linear")), "../x", *some(draws, _TEXTS)]
    line, options = [name], []
    for parameter in cli.commands[name].params:
        if parameter.param_type_name == "argument":
            line += [pick(draws, values) for _ in range(pick(draws, [1] * 12 + [0, 2]))]
        elif parameter.name == "store":
            options += ["--store", pick(draws, [str(store)] * 12 + [str(place / "in"), *_TEXTS])]
        elif often(draws, 0.15):
            options += _option(draws, parameter)
    return Case(
        f"chaffinch {shown(line + options, 600)}", lambda: run_command(line + options), True
    )


def _option(draws: Draws, parameter: Any) -> list[str]:
    flag = pick(draws, [*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return [flag]
    if parameter.name in ("cluster", "workers"):  # which would start worker processes
        return [flag, pick(draws, ["none", "x", "-1", "0"])]
    return [flag, str(pick(draws, [*getattr(parameter.type, "choices", ()) * 9, *_TEXTS]))]


def _run(draws: Draws, place: Path) -> Case:
    """Draw what `chaffinch run` does before it starts a server."""
    path, said = (
        (ground().files / "table.csv", "") if often(draws, 0.7) else file_of_table(draws, place)
    )
    target = pick(draws, ["churned" if not said else "y"] * 6 + _TEXTS[:3])
    line = [str(path), "--target", target, "--cluster", "none", "--store", str(place / "store")]
    given = ("data", "target", "cluster", "workers", "store", "help")
    options = [one for one in cli.commands["run"].params if one.name not in given]
    for parameter in some(draws, options, 3):
        line += _option(draws, parameter)

    def do(**_: Any) -> None:
        with cli.commands["run"].make_context("run", [*line]) as context:
            asked = context.params
            method = method_settings(asked["method"], asked["n_features"], asked["min_score"])
            settings = SelectionSettings(**{**nested(asked, SELECTION), "method": method})
            check(asked["data"], settings, ExecutionSettings(**nested(asked, STRICT)))

    return Case(f"chaffinch run {shown(line, 500)} {said}", lambda: _judged(do), command=True)


def _columns(draws: Draws, place: Path) -> Case:
    """Draw a contract with odd names, which each form must give back."""
    known = [encodable(name) for name in NAMES if name.strip() and "\0" not in name]
    names = some(draws, known) or ["a"]
    content = ground().contract("lightgbm")
    content["features"] = [{"name": name, "type": "number"} for name in names]
    content["candidates"] = names
    path, form = place / "in" / "selection.json", pick(draws, ["sql", "parquet", "json"])
    path.write_text(json.dumps(content))

    def do() -> None:
        before = len(_printed(1))
        run_command(["columns", str(path), "--as", form])
        printed = _printed(1)[before:].decode()
        wanted = load_contract(path).columns
        if form == "sql":
            is_whole = all(name.replace('"', '""') in printed for name in wanted)
        else:
            found = json.loads(printed)
            is_whole = (found["columns"] if form == "json" else found) == wanted
        if not is_whole:
            raise Broken(f"columns --as {form} lost a name: {wanted!r} in {printed!r}")

    return Case(f"chaffinch columns --as {form}, of {names!r}", do, command=True)
