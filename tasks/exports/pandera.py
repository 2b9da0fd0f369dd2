"""A schema of pandera for the columns that a contract asks of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import as_text
from chaffinch.storage.extras import require
from chaffinch.tasks.contract import KeptFeature
from chaffinch.tasks.data.column_profile import LARGEST
from chaffinch.tasks.results.previous_run import STORE, AnyRun, load_contract

if TYPE_CHECKING:
    from pandera.api.dataframe.container import DataFrameSchema

_DAY = r"\d{4}-\d\d-\d\d"
_LEADING_ZERO = r"-?0\d+"


def to_pandera(
    run: AnyRun,
    *,
    library: Literal["pandas", "polars"] = "pandas",
    store: str | Path = STORE,
) -> DataFrameSchema[Any]:
    """Return a pandera schema of the columns that the kept features need.

    Parameters
    ----------
    run, store
        See `to_dbt`.
    library : {"pandas", "polars"}
        Library of the tables to validate.

    Returns
    -------
    pandera.pandas.DataFrameSchema or pandera.polars.DataFrameSchema
        Numbers must be within -1e30..1e30, and categories known; values may be missing. Columns
        that lag features are made of need only exist. Other columns are ignored.

    Raises
    ------
    InputError
        If pandera is not installed, or there is no such run.
    StorageError
        If the run is damaged.

    Notes
    -----
    `FeatureContract.validate` differs: it accepts new categories, which the model reads as missing,
    takes numbers in text and empty text for missing values, and refuses true and false where the
    model learnt from numbers.

    Examples
    --------
    >>> schema = chaffinch.exports.to_pandera("orders")  # doctest: +SKIP
    >>> schema.validate(pandas.read_parquet("newer.parquet"))  # doctest: +SKIP
    """
    require("pandera", "a schema of pandera")
    if library not in ("pandas", "polars"):
        raise InputError(f"library must be pandas or polars but is {library!r}; name one of them")
    pandera: Any = import_module(f"pandera.{library}")
    contract = load_contract(run, store=store)
    checks = {
        feature.name: _check(pandera.Check, feature, with_numbers=library == "pandas")
        for feature in contract.kept
    }
    columns = {
        name: pandera.Column(checks=checks.get(name), nullable=True) for name in contract.columns
    }
    title = f"Features for {contract.target.name}"
    schema: DataFrameSchema[Any] = pandera.DataFrameSchema(columns, name="chaffinch", title=title)
    return schema


def _check(check: Any, feature: KeptFeature, *, with_numbers: bool) -> Any:
    if feature.categories is not None:
        # numbers have no leading zeros, and columns of Arrow cannot be compared with mixed values
        is_text = any(re.fullmatch(_LEADING_ZERO, text) for text in feature.categories)
        untyped = _untyped(feature.categories) if with_numbers and not is_text else ()
        return check.isin([*feature.categories, *untyped, *_spelled(feature.categories)])
    if feature.values == "boolean":
        return check.isin([True, False])
    return check.in_range(-LARGEST, LARGEST)


def _untyped(categories: Sequence[str]) -> list[Any]:
    """Return the numbers, booleans and dates among categories, which a table may hold as such."""
    originals: list[Any] = []
    for text in categories:
        values: list[Any] = [True, False]
        with suppress(ValueError):
            values.append(float(text))
        with suppress(ValueError):
            values.append(int(text))
        originals += [value for value in values if as_text(value) == text][:1]
        if re.match(_DAY, text):
            with suppress(ValueError):
                originals.append(datetime.fromisoformat(text))
                originals.append(date.fromisoformat(text))  # unless it has a time
    return originals


def _spelled(categories: Sequence[str]) -> list[str]:
    """Return other texts of the same numbers, booleans and dates, which a table may hold."""
    others: list[str] = []
    for text in categories:
        if text in ("true", "false"):
            others += [text.title(), text.upper()]
        elif re.fullmatch(r"0|-?[1-9]\d*", text):
            others.append(f"{text}.0")
        elif re.fullmatch(_DAY, text):
            others.append(f"{text} 00:00:00")
    return others
