"""Files of models and stores, damaged: with manifests made anew, and without."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import chaffinch
from tests.fuzz import ground as made
from tests.fuzz.contracts import edited
from tests.fuzz.ground import ground, resealed
from tests.fuzz.values import Broken, Case, Draws, Place, damaged, often, pick, shown

# What a file of a model may name; none of it may be run or imported.
_HOSTILE = ["os.system", "builtins.exec", "builtins.eval", "sklearn.utils.discovery.import_module", "subprocess.run",
            "sklearn.experimental.tests.test_enable_hist_gradient_boosting.assert_run_python_script_without_output",
            "numpy.load", "functools.partial", "sklearn.datasets.load_iris", "sklearn.tree.nowhere"]  # fmt: skip
_FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.exec",
    "os.fork",
    "socket.connect",
    "exec_hostile",
)


def _watch(event: str, arguments: Any) -> None:
    if event.startswith(_FORBIDDEN):
        raise Broken(f"a file of a model led to {event}: {arguments!r}")


def draw(draws: Draws, place: Place) -> Case:
    """Draw a damaged file of a model, which its manifest says is whole."""
    kinds = [kind for kind in ground().runs if (ground().run(kind) / "model").exists()]
    kind = pick(draws, ["lightgbm", "xgboost", "mlp", "linear", *kinds])
    store = ground().copied(place, kind)
    run = store / "runs" / ground().runs[kind]
    path = pick(draws, sorted((run / "model").iterdir()))
    data, said = _changed(draws, path, path.read_bytes())
    resealed(run, "retrain", {f"model/{path.name}": data})
    table = made.of_days() if kind == "history" else made.table()

    def do() -> None:
        sys.addaudithook(_watch)
        result = chaffinch.load_run(run.name, store=store)
        if kind == "history":
            from chaffinch import with_history

            result.model.predict(with_history(table, result))
        else:
            result.model.predict(table)

    return Case(f"load_run({kind}).model.predict, {path.name}: {said}", do)


def _changed(draws: Draws, path: Path, data: bytes) -> tuple[bytes, str]:
    if path.suffix == ".skops" and often(draws, 0.6):
        return _skops(draws, data)
    if path.suffix == ".json" and often(draws, 0.7):
        content, said = edited(draws, json.loads(data))
        return json.dumps(content).encode(), said
    if path.suffix == ".txt" and often(draws, 0.6):
        return _text(draws, data)
    if path.suffix == ".ubj" and often(
        draws, 0.7
    ):  # a byte alone, as far as possible from the header
        place = int(draws.integers(len(data) // 10, len(data)))
        value = int(draws.integers(256))
        return data[:place] + bytes([value]) + data[
            place + 1 :
        ], f"byte {place} of {len(data)} is {value}"
    return damaged(draws, data)


def _text(draws: Draws, data: bytes) -> tuple[bytes, str]:
    numbers = [*re.finditer(rb"-?\d+(\.\d+)?", data)]
    found = numbers[int(draws.integers(len(numbers)))]
    value = pick(
        draws,
        [b"-1", b"0", b"99", b"nan", b"1e400", b"x", b"99999999999999999999", b"", b"2147483647"],
    )
    line = data[: found.start()].count(b"\n")
    return data[: found.start()] + value + data[
        found.end() :
    ], f"{found[0]!r} in line {line} is {value!r}"


def _skops(draws: Draws, data: bytes) -> tuple[bytes, str]:
    """Change a part of the archive, or what its schema names."""
    source = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: source.read(name) for name in source.namelist()}
    name = pick(draws, sorted(parts))
    if often(draws, 0.3):
        name = "schema.json"
    if name == "schema.json" and often(draws, 0.5):
        schema, hostile = parts[name].decode(), pick(draws, _HOSTILE)
        module, _, function = hostile.rpartition(".")
        classes = [*re.finditer(r'"__class__": "(\w+)",\s*"__module__": "([\w.]+)"', schema)]
        found = pick(draws, classes)
        schema = f'{schema[: found.start()]}"__class__": "{function}", "__module__": "{module}"{schema[found.end() :]}'
        parts[name], said = schema.encode(), f"{found[2]}.{found[1]} is {hostile}"
    elif name == "schema.json":
        content, said = edited(draws, json.loads(parts[name]))
        parts[name] = json.dumps(content).encode()
    elif often(draws, 0.2):
        del parts[name]
        said = "gone"
    else:
        parts[name], said = damaged(draws, parts[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)
    return out.getvalue(), f"{name}: {said}"


def draw_store(draws: Draws, place: Place) -> Case:
    """Draw a store of which a file is gone, cut or otherwise, and what is asked of it."""
    kind = pick(draws, [*ground().runs])
    store = (
        ground().copied(place, kind, "xgboost")
        if kind != "xgboost"
        else ground().copied(place, kind)
    )
    shutil.copytree(ground().store / "promotions", store / "promotions")
    (store / ".damaged").touch()
    name = ground().runs[kind]
    files = sorted(p for p in store.rglob("*") if p.is_file() and p.name != ".damaged")
    path = pick(draws, files)
    how = pick(draws, ["gone", "damaged", "damaged", "edited", "edited", "folder", "link"])
    if how == "edited" and path.suffix == ".json" and path.parent.name == "stages":
        content, said = edited(draws, json.loads(path.read_bytes()))
        content.pop("sha256", None)
        (path).write_bytes(
            made.sealed(content) if often(draws, 0.7) else json.dumps(content).encode()
        )
        how = said
    elif how == "edited" and path.suffix == ".json":
        content, how = edited(draws, json.loads(path.read_bytes()))
        path.write_bytes(json.dumps(content).encode())
    elif how == "gone":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "link":
        path.unlink()
        path.symlink_to(pick(draws, ["/nowhere", "/etc/passwd", path.name, "/proc/self/mem"]))
    else:
        data, how = damaged(draws, path.read_bytes())
        path.write_bytes(data)
    doors = {
        "load_run": lambda: _read(name, store),
        "runs": lambda: _command("runs", "--store", str(store)),
        "show": lambda: _command("show", name, "--store", str(store)),
        "promoted": lambda: _command("promoted", "--store", str(store)),
        "promoted orders": lambda: _command("promoted", "orders", "--store", str(store)),
        "promote": lambda: _command("promote", name, "--as", "orders", "--store", str(store)),
        "rollback": lambda: _command("rollback", "orders", "--store", str(store)),
        "columns": lambda: _command("columns", name, "--store", str(store)),
        "diff": lambda: _command("diff", name, ground().runs["xgboost"], "--store", str(store)),
        "select": lambda: chaffinch.select(made.table(), "churned", model=made.cheap("xgboost"), store=store),
        "reselect": lambda: chaffinch.reselect(name, made.table(), store=store),
    }  # fmt: skip
    door = pick(draws, [*doors])
    is_command = door not in ("load_run", "select", "reselect")
    return Case(
        f"{door} of {kind}; {path.relative_to(store)}: {shown(how, 300)}",
        doors[door],
        command=is_command,
    )


def _command(*arguments: str) -> None:
    from tests.fuzz.commands import run_command

    run_command(arguments)


def _read(name: str, store: Path) -> None:
    result = chaffinch.load_run(name, store=store)
    result.to_pandas()
    result.report(store.parent / "made" / "report.html")
    result.model.predict(made.of_days() if result.settings["history"] else made.table())
