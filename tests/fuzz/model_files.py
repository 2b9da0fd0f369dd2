"""Files of models, damaged, with manifests made again; and files of stores, damaged."""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import chaffinch
from tests.fuzz import ground as made
from tests.fuzz.commands import run_command
from tests.fuzz.contracts import edited
from tests.fuzz.ground import ground, resealed
from tests.fuzz.values import Broken, Case, Draws, damaged, often, pick, shown

# What a file of a model may name; none of it may be called.
_HOSTILE = [
    "os.system", "builtins.exec", "sklearn.utils.discovery.import_module", "functools.partial",
    "sklearn.experimental.tests.test_enable_hist_gradient_boosting.assert_run_python_script_without_output",
    "numpy.load", "subprocess.run", "sklearn.datasets.load_iris", "sklearn.tree.nowhere",
]  # fmt: skip
_FORBIDDEN = ("subprocess.", "os.system", "os.posix_spawn", "os.exec", "os.fork", "socket.connect")
_NAMED = re.compile(r'"__class__": "(\w+)",\s*"__module__": "([\w.]+)"')
_NUMBERS = [b"-1", b"0", b"99", b"nan", b"1e400", b"x", b"9" * 20, b"", b"2147483647"]


def _watch(event: str, arguments: Any) -> None:
    if event.startswith(_FORBIDDEN):
        raise Broken(f"a file of a model led to {event}: {arguments!r}")


def draw(draws: Draws, place: Path) -> Case:
    """Draw a damaged file of a model, which its manifest says is whole."""
    kind = pick(draws, [*made.CHEAP])
    store = ground().copied(place, kind)
    run = store / "runs" / ground().runs[kind]
    path = pick(draws, sorted((run / "model").iterdir()))
    data, said = _changed(draws, path.suffix, path.read_bytes())
    resealed(run, "retrain", f"model/{path.name}", data)

    def do() -> None:
        sys.addaudithook(_watch)
        chaffinch.load_run(run.name, store=store).model.predict(made.table())

    return Case(f"load_run({kind}).model.predict, {path.name}: {said}", do)


def _changed(draws: Draws, suffix: str, data: bytes) -> tuple[bytes, str]:
    if suffix == ".json" and often(draws, 0.7):
        content, said = edited(draws, json.loads(data))
        return json.dumps(content).encode(), said
    if suffix == ".skops" and often(draws, 0.6):
        return _skops(draws, data)
    if suffix == ".txt" and often(draws, 0.6):
        number = pick(draws, [*re.finditer(rb"-?\d+(\.\d+)?", data)])
        value = pick(draws, _NUMBERS)
        line = data[: number.start()].count(b"\n") + 1
        said = f"{number[0]!r} in line {line} is {value!r}"
        return data[: number.start()] + value + data[number.end() :], said
    if suffix == ".ubj" and often(draws, 0.7):
        at, value = int(draws.integers(len(data) // 10, len(data))), int(draws.integers(256))
        return data[:at] + bytes([value]) + data[at + 1 :], f"byte {at} of {len(data)} is {value}"
    return damaged(draws, data)


def _skops(draws: Draws, data: bytes) -> tuple[bytes, str]:
    """Change a part of the archive, or what its schema names."""
    source = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: source.read(name) for name in source.namelist()}
    name = "schema.json" if often(draws, 0.4) else pick(draws, sorted(parts))
    if name == "schema.json" and often(draws, 0.5):
        schema, hostile = parts[name].decode(), pick(draws, _HOSTILE)
        module, _, function = hostile.rpartition(".")
        found = pick(draws, [*_NAMED.finditer(schema)])
        named = f'"__class__": "{function}", "__module__": "{module}"'
        said = f"{found[2]}.{found[1]} is {hostile}"
        parts[name] = (schema[: found.start()] + named + schema[found.end() :]).encode()
    elif name == "schema.json":
        content, said = edited(draws, json.loads(parts[name]))
        parts[name] = json.dumps(content).encode()
    else:
        parts[name], said = damaged(draws, parts[name])
        if often(draws, 0.2):
            del parts[name]
            said = "gone"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)
    return out.getvalue(), f"{name}: {said}"


def draw_store(draws: Draws, place: Path) -> Case:
    """Draw a store with a file that is gone or otherwise, and what is asked of it."""
    kind = pick(draws, [*ground().runs])
    store, name, other = (
        ground().copied(place, kind, "xgboost"),
        ground().runs[kind],
        ground().runs["xgboost"],
    )
    path = pick(draws, sorted(p for p in store.rglob("*") if p.is_file()))
    (store / ".damaged").touch()
    data = path.read_bytes()
    how = pick(draws, ["gone", "folder", "link", "damaged", "damaged", "edited", "edited"])
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to(pick(draws, ["/nowhere", "/etc/passwd", path.name, "/proc/self/mem"]))
    elif how == "edited" and path.suffix == ".json":
        content, how = edited(draws, json.loads(data))
        content.pop("sha256", None)
        path.write_bytes(_sealed(content) if often(draws, 0.7) else json.dumps(content).encode())
    elif how != "gone":
        data, how = damaged(draws, data)
        path.write_bytes(data)
    lines = {
        "runs": (), "show": (name,), "promoted": (), "promoted orders": ("orders",),
        "columns": (name,), "promote": (name, "--name", "orders"), "rollback": ("orders",),
        "diff": (name, other),
    }  # fmt: skip
    calls = {
        "load_run": lambda: _read(name, store),
        "select": lambda: chaffinch.select(
            made.table(), "churned", model=made.cheap("xgboost"), store=store
        ),
        "reselect": lambda: chaffinch.reselect(name, made.table(), store=store),
    }
    door = pick(draws, [*calls, *lines])
    line = [door.split()[0], *lines.get(door, ()), "--store", str(store)]
    do = calls.get(door, lambda: run_command(line))
    said = f"{door} of {kind}, {path.relative_to(store)}: {shown(how)}"
    return Case(said, do, command=door in lines)


def _sealed(content: Any) -> bytes:
    try:
        return made.sealed(content)
    except (TypeError, ValueError):  # NaN, or no object any more
        return json.dumps(content).encode()


def _read(name: str, store: Path) -> None:
    result = chaffinch.load_run(name, store=store)
    result.to_frame()
    result.report(store.parent / "made" / "report.html")
    result.model.predict(made.of_days() if result.settings["history"] else made.table())
