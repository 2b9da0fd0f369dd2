"""Feature contracts as people edit them: any node changed, or any byte."""

from __future__ import annotations

import copy
import json
from typing import Any

import chaffinch
from tests.fuzz import ground as made
from tests.fuzz.ground import ground, resealed
from tests.fuzz.tables import in_memory
from tests.fuzz.values import JSON_VALUES, NAMES, Case, Draws, Place, damaged, often, pick, shown

_DEEP = 100_000


def edited(draws: Draws, content: Any) -> tuple[Any, str]:
    """Return an object of JSON with one or two nodes that are otherwise, and what was done."""
    content, done = copy.deepcopy(content), []
    for _ in range(pick(draws, [1, 1, 1, 2])):
        path, parent, key = _node(draws, content)
        if parent is None:
            continue
        how = pick(
            draws, ["value", "value", "value", "gone", "renamed", "twice", "wrapped", "name"]
        )
        if how == "value":
            parent[key] = pick(draws, [*JSON_VALUES, 1, 99, True])
        elif how == "name":
            parent[key] = pick(draws, NAMES)
        elif how == "gone":
            del parent[key]
        elif how == "renamed" and isinstance(parent, dict):
            parent[pick(draws, NAMES)] = parent.pop(key)
        elif how == "twice" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        else:
            parent[key] = [parent[key]]
        done.append(
            f"{path}: {how} {shown(parent.get(key, '') if isinstance(parent, dict) else parent, 100)}"
        )
    return content, "; ".join(done)


def _node(draws: Draws, content: Any) -> tuple[str, Any, Any]:
    """Return a node as its path, what holds it, and its key there; settings are drawn often."""
    parent, key, path = None, None, ""
    while isinstance(content, dict | list) and content and (parent is None or often(draws, 0.75)):
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        parent, key = (
            content,
            pick(draws, keys + [k for k in ("settings", "features", "target") if k in keys] * 3),
        )
        path, content = f"{path}/{shown(key, 40)}", content[key]
    return path, parent, key


def _as_text(draws: Draws, content: dict[str, Any]) -> tuple[bytes, str]:
    """Return an edited or a damaged contract as the bytes of a file."""
    how = pick(
        draws,
        ["edited"] * 12
        + ["damaged"] * 3
        + ["deep", "deep within", "digits", "twice", "version", "surrogate"],
    )
    said = how
    if how == "edited":
        content, said = edited(draws, content)
    text = json.dumps(content, indent=2)
    if how == "deep":
        text = "[" * _DEEP
    elif how == "deep within":
        text = text.replace('"seed": ', '"deep": ' + "[" * _DEEP + "]" * _DEEP + ', "seed": ', 1)
    elif how == "digits":
        text = text.replace('"seed": 0', f'"seed": {"9" * 5000}', 1)
    elif how == "twice":
        text = text.replace('"seed": ', '"features": [], "seed": ', 1)
    elif how == "version":
        version = pick(
            draws, [2, 0, "1", "\x1b[2J", "x" * 100_000, 10**30, 1.0, True, [1], float("nan")]
        )
        text, said = (
            json.dumps(content | {"format_version": version}),
            f"format_version {shown(version, 40)}",
        )
    elif how == "surrogate":
        text = text.replace('"age"', '"\\ud800"')
    data = text.encode(pick(draws, ["utf-8"] * 12 + ["utf-16", "utf-8-sig"]), "surrogatepass")
    if how == "damaged":
        data, said = damaged(draws, data)
    return data, said


def draw(draws: Draws, place: Place) -> Case:
    """Draw a contract, by itself or in a run, and what is asked of it."""
    kind = pick(draws, [*ground().runs])
    data, said = _as_text(draws, ground().contract(kind))
    path = place.given / "selection.json"
    table = made.of_days() if kind == "history" else made.table()
    if often(draws, 0.2):
        table, _, _ = in_memory(draws)
    door = pick(
        draws,
        [
            "columns",
            "columns",
            "validate",
            "bytes_in",
            "reselect",
            "difference",
            "promote",
            "predict",
            "load_run",
        ],
    )
    if door in ("promote", "predict", "load_run"):
        store = ground().copied(place, kind)
        resealed(store / "runs" / ground().runs[kind], "evaluate", {"selection.json": data})
        (store / ".damaged").touch()
    else:
        path.write_bytes(data)

    def do() -> None:
        if door == "columns":
            contract = chaffinch.load_contract(path)
            assert isinstance(contract.columns + contract.features, list)
        elif door in ("validate", "bytes_in"):
            getattr(chaffinch.load_contract(path), door)(table)
        elif door == "reselect":
            chaffinch.reselect(path, table, store=place.made / "store")
        elif door == "difference":
            chaffinch.difference(path, ground().run(kind), store=ground().store)
        elif door == "promote":
            chaffinch.promote(ground().runs[kind], name="orders", store=place.store)
        else:
            result = chaffinch.load_run(ground().runs[kind], store=place.store)
            repr(result), result.verdict, result.to_pandas()
            if door == "predict":
                result.model.predict(table)

    return Case(f"{door}(contract of {kind}, {shown(said, 400)})", do)
