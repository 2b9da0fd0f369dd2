"""Feature contracts as people edit them: any node changed, or any byte."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import chaffinch
from tests.fuzz import ground as made
from tests.fuzz.ground import ground, resealed
from tests.fuzz.tables import in_memory
from tests.fuzz.values import JSON_VALUES, NAMES, Case, Draws, damaged, often, pick, shown

_DEEP = 100_000
_VERSIONS = [2, 0, "1", "\x1b[2J", "x" * 100_000, 10**30, 1.0, True, [1], float("nan")]
_OFTEN = ("settings", "features", "target")


def edited(draws: Draws, content: Any) -> tuple[Any, str]:
    """Return JSON with one or two nodes that are otherwise, and what was done."""
    content, done = copy.deepcopy(content), []
    for _ in range(pick(draws, [1, 1, 1, 2])):
        parent, key, path = None, None, ""
        node = content
        while isinstance(node, dict | list) and node and (parent is None or often(draws, 0.75)):
            keys = [*node] if isinstance(node, dict) else [*range(len(node))]
            parent, key = node, pick(draws, keys + [k for k in keys if k in _OFTEN] * 3)
            path, node = f"{path}/{key}", node[key]
        if parent is None:
            continue
        how = pick(
            draws, ["value", "value", "value", "gone", "renamed", "twice", "wrapped", "name"]
        )
        value = pick(draws, [*JSON_VALUES, 1, 99, True])
        if how == "gone":
            del parent[key]
        elif how == "renamed" and isinstance(parent, dict):
            parent[pick(draws, NAMES)] = parent.pop(key)
        elif how == "twice" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        else:
            parent[key] = {"value": value, "name": pick(draws, NAMES)}.get(how, [parent[key]])
            how = f"is {shown(parent[key], 100)!r}"
        done.append(f"{path} {how}")
    return content, ", ".join(done)


def _as_text(draws: Draws, content: dict[str, Any]) -> tuple[bytes, str]:
    """Return an edited or a damaged contract as the bytes of a file."""
    ways = ["deep", "deep within", "digits", "fields twice", "version", "surrogate", "damaged"]
    how = pick(draws, ["edited"] * 20 + ways)
    if how == "edited":
        content, how = edited(draws, content)
    if how == "version":
        content = content | {"format_version": pick(draws, _VERSIONS)}
        how = f"format_version {shown(content['format_version'], 40)!r}"
    text, seed = json.dumps(content, indent=2), '"seed": '
    text = {
        "deep": "[" * _DEEP,
        "deep within": text.replace(seed, f'"deep": {"[" * _DEEP}{"]" * _DEEP}, {seed}', 1),
        "digits": text.replace(f"{seed}0", f"{seed}{'9' * 5000}", 1),
        "fields twice": text.replace(seed, f'"features": [], {seed}', 1),
        "surrogate": text.replace('"age"', '"\\ud800"'),
    }.get(how, text)
    data = text.encode(pick(draws, ["utf-8"] * 12 + ["utf-16", "utf-8-sig"]), "surrogatepass")
    return damaged(draws, data) if how == "damaged" else (data, how)


def draw(draws: Draws, place: Path) -> Case:
    """Draw a contract, by itself or in a run, and what is asked of it."""
    kind = pick(draws, [*ground().runs])
    name = ground().runs[kind]
    data, said = _as_text(draws, ground().contract(kind))
    path = place / "in" / "selection.json"
    path.write_bytes(data)
    table = made.of_days() if kind == "history" else made.table()
    if often(draws, 0.2):
        table, _, _ = in_memory(draws)

    def in_run() -> Any:
        store = ground().copied(place, kind)
        (store / ".damaged").touch()
        resealed(store / "runs" / name, "evaluate", "selection.json", data)
        return chaffinch.load_run(name, store=store)

    doors = {
        "columns": lambda: chaffinch.load_contract(path).columns,
        "features": lambda: chaffinch.load_contract(path).features,
        "validate": lambda: chaffinch.load_contract(path).validate(table),
        "bytes_in": lambda: chaffinch.load_contract(path).bytes_in(table),
        "reselect": lambda: chaffinch.reselect(path, table, store=place / "made" / "store"),
        "difference": lambda: chaffinch.difference(path, ground().run(kind), store=ground().store),
        "load_run": lambda: (lambda run: (repr(run), run.verdict, run.to_frame()))(in_run()),
        "predict": lambda: in_run().model.predict(table),
        "promote": lambda: (
            in_run() and chaffinch.promote(name, name="orders", store=place / "store")
        ),
    }
    door = pick(draws, [*doors])
    return Case(f"{door}, contract of {kind}: {shown(said, 400)}", doors[door])
