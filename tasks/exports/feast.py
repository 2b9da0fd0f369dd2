"""A feature service of Feast that serves the columns of a contract from a feature view."""

from __future__ import annotations

import re
from keyword import iskeyword
from pathlib import Path

from chaffinch.errors import InputError
from chaffinch.tasks.results.previous_run import STORE, AnyRun, read_former

# the view has a name of ours, which is none of the other names
_TEXT = '''\
"""Columns of a feature contract, as chaffinch wrote them."""

from feast import FeatureService
from {module} import {view} as view

{service} = FeatureService(
    name="{service}",
    features=[
        view[
            [
{columns}            ]
        ]
    ],
    description={description!r},
    tags={{
{tags}    }},
)
'''


def to_feast(
    run: AnyRun,
    *,
    table: str,
    name: str | None = None,
    store: str | Path = STORE,
) -> str:
    """Return a Python file with the feature service of the columns that the kept features need.

    Parameters
    ----------
    run, store
        See `to_dbt`.
    table : str
        Feature view to serve from, with its module in the feature repository, such as
        ``features.orders``. It must have the columns as features, by the same names.
    name : str, optional
        Name of the data set, as in `to_dbt`. The service is ``orders_features``.

    Returns
    -------
    str
        Text of the file. It has the columns of the contract in its order, without the target,
        which comes with the rows that features are asked for.

    Raises
    ------
    InputError
        If there is no such run, or a name is no identifier of Python.
    StorageError
        If the run is damaged.
    """
    exported = read_former(run, store)
    contract = exported.contract
    data_set = exported.data_set(name)
    if name is None:
        data_set = re.sub(r"\W", "_", data_set)
    module, _, view = table.rpartition(".")
    if not module:
        raise InputError(
            f"table must be a feature view with its module, as in features.orders, but is {table!r}"
        )
    for part in (*module.split("."), view, service := f"{data_set}_features"):
        if not part.isidentifier() or iskeyword(part):
            raise InputError(
                f"{part!r} is no name in Python: names are letters, digits and underscores; give "
                "name or table"
            )
    columns = [column for column in contract.columns if column != contract.target.name]
    tags = {
        "run": exported.run,
        "dataset_hash": contract.dataset.hash,
        "verdict": contract.comparison.verdict,
    }
    return _TEXT.format(
        module=module,
        view=view,
        service=service,
        columns="".join(f"                {column!r},\n" for column in columns),
        description=f"Columns that the kept features for {contract.target.name} need.",
        tags="".join(f"        {tag!r}: {value!r},\n" for tag, value in tags.items()),
    )
