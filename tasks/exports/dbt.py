"""A dbt model that selects the columns of a contract, and an exposure of what is trained on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from chaffinch.errors import InputError
from chaffinch.storage.column_names import quoted
from chaffinch.tasks.results.previous_run import STORE, AnyRun, Former, read_former

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# what ends a quoted name in some dialect of SQL, or begins an expression of Jinja
_UNSAFE = re.compile(r"[\"`\[\]{}\\\x00-\x1f\x7f]")


def to_dbt(
    run: AnyRun,
    *,
    name: str | None = None,
    table: str | None = None,
    store: str | Path = STORE,
) -> dict[str, str]:
    """Return a dbt model that selects the columns that the kept features need, and its exposure.

    Parameters
    ----------
    run : SelectionResult, str or Path
        A result, the name of a run in the store or one that it was promoted under, its folder, or
        a ``selection.json``.
    name : str, optional
        Name of the data set; by default the one that `run` was promoted under, or that of its
        table. The model is ``orders_features``.
    table : str, optional
        Relation to select from: a model, such as ``orders``, by default that of the data set's
        name; or a source and its table, such as ``shop.orders``.
    store : path or address
        The store of named runs.

    Returns
    -------
    dict of str to str
        Text of each file by its name: ``orders_features.sql`` and ``orders_features.yml``.

    Raises
    ------
    InputError
        If there is no such run, a name is no identifier of dbt, or the name of a column has
        characters that SQL or Jinja quote with.
    StorageError
        If the run is damaged.
    """
    exported = read_former(run, store)
    contract, columns = exported.contract, exported.contract.columns
    data_set = exported.data_set(name)
    if name is None:
        data_set = re.sub(r"\W", "_", data_set, flags=re.ASCII)
    levels = (table or data_set).split(".")
    if len(levels) > 2:
        raise InputError(
            f"table must be a model, or a source and its table, as in shop.orders, but is "
            f"{table!r}; dbt has the database and schema of a source in its own files"
        )
    for level in (data_set, *levels):
        if not _NAME.fullmatch(level):
            raise InputError(
                f"{level!r} is no name in dbt: names are letters, digits and underscores; give "
                "name or table"
            )
    if unsafe := [column for column in columns if _UNSAFE.search(column)]:
        raise InputError(
            f"a dbt model cannot quote the name of column {quoted(unsafe[:1])} safely; rename the "
            "column, and select again"
        )
    quoted_names = ",\n".join(f'    {{{{ adapter.quote("{column}") }}}}' for column in columns)
    model = f"{data_set}_features"
    relation = f"{'ref' if len(levels) == 1 else 'source'}({', '.join(map(repr, levels))})"
    return {
        f"{model}.sql": f"select\n{quoted_names}\nfrom {{{{ {relation} }}}}\n",
        f"{model}.yml": _properties(exported, model, data_set, contract.target.name),
    }


def _properties(exported: Former, model: str, data_set: str, target: str) -> str:
    contract = exported.contract
    kinds = {feature.name: feature.kind for feature in contract.kept}
    made, kept = "Features are made of it.", "A kept feature, {}."
    columns = [
        {"name": name, "description": kept.format(kinds[name]) if name in kinds else made}
        for name in contract.columns
    ]
    run = {
        "run": exported.run,
        "dataset_hash": contract.dataset.hash,
        "verdict": contract.comparison.verdict,
    }
    exposure = {
        "name": f"{data_set}_model",
        "type": "ml",
        "description": f"A model that predicts {target}.",
        "depends_on": [f"ref('{model}')"],
        "owner": {"name": "chaffinch"},
        "config": {"meta": {"chaffinch": run}},
    }
    properties: dict[str, Any] = {
        "version": 2,
        "models": [
            {
                "name": model,
                "description": f"Columns that the kept features for {target} need.",
                "columns": columns,
            }
        ],
        "exposures": [exposure],
    }
    return str(yaml.safe_dump(_plain(properties), sort_keys=False, allow_unicode=True))


def _plain(value: Any) -> Any:
    """Return a document without braces in its text, which dbt would take for Jinja."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return re.sub(r"[{}]", "", value) if isinstance(value, str) else value
