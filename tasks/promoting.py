"""Promotion: which run's contract is the one in use for a data set, and which ones were."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaffinch.storage.addresses import PARQUET_ENDINGS, TEXT_ENDINGS
from chaffinch.storage.errors import InputError
from chaffinch.storage.files import check_name, parse_json
from chaffinch.storage.promotions import How, Promotion, Promotions
from chaffinch.storage.runs import Run, Store
from chaffinch.tasks.contract import FeatureContract
from chaffinch.tasks.differences import Difference, between
from chaffinch.tasks.former import Former
from chaffinch.tasks.result import (
    CONTRACT_FIELDS,
    CONTRACT_FILE,
    SelectionResult,
    load_result,
)

_STORE = "chaffinch-store"
_ENDINGS = (*TEXT_ENDINGS, ".gz", *PARQUET_ENDINGS)
_IN_MEMORY = ("DataFrame", "Table")  # what `source_name` says of tables without a name


@dataclass(frozen=True)
class AgainstPromoted:
    """A run against what is promoted of its data set.

    Attributes
    ----------
    name : str
        Of the data set.
    history : tuple of Promotion
        As it was when they were compared.
    difference : Difference or None
        None if nothing was promoted yet.
    """

    name: str
    history: tuple[Promotion, ...]
    difference: Difference | None


def promote(
    run: SelectionResult | str,
    name: str | None = None,
    *,
    reason: str = "",
    store: str | Path = _STORE,
) -> Promotion:
    """Make the contract of a run the one in use for its data set.

    Parameters
    ----------
    run : SelectionResult or str
        A result that is kept in a store, or the name of a run.
    name : str, optional
        Of the data set; by default that of the run's table, without its ending.
    reason : str
        Why, for the history.
    store : path
        The store that a name of a run is looked up in.

    Returns
    -------
    Promotion
        What was added to the history.

    Raises
    ------
    InputError
        If there is no such run, it is not finished or not kept, its table has no name and none is
        given, or what is promoted under that name has another target.
    StorageError
        If the run or the history is damaged.

    Notes
    -----
    This is a person's decision, and carried out whatever `difference` says.
    """
    kept = kept_run(run, store)
    return promote_by(kept, name or default_name(kept), "by hand", reason)


def promoted(name: str, *, store: str | Path = _STORE) -> FeatureContract:
    """Return the contract in use for a data set.

    Parameters
    ----------
    name : str
        Of the data set.
    store : path
        Where it was promoted.

    Raises
    ------
    InputError
        If there is no such store, or nothing was promoted under that name.
    StorageError
        If the history or the contract is damaged.

    Examples
    --------
    >>> contract = chaffinch.promoted("orders")  # doctest: +SKIP
    >>> pandas.read_parquet("orders.parquet", columns=contract.columns)  # doctest: +SKIP
    """
    histories = Store.find(store).promotions
    return FeatureContract(read_contract(histories, histories.existing(name)[-1]))


def promotions(name: str, *, store: str | Path = _STORE) -> tuple[Promotion, ...]:
    """Return what was promoted for a data set, the oldest first; the last is the one in use.

    Parameters are those of `promoted`.

    Raises
    ------
    InputError
        If there is no such store, or nothing was promoted under that name.
    StorageError
        If the history is damaged.
    """
    return Store.find(store).promotions.existing(name)


def rollback(name: str, *, reason: str = "", store: str | Path = _STORE) -> Promotion:
    """Go back to the contract that was in use before the present one; again, further back.

    Until a person promotes a run, nothing is promoted automatically after that.

    Parameters
    ----------
    name : str
        Of the data set.
    reason : str
        Why, for the history.
    store : path
        Where it was promoted.

    Returns
    -------
    Promotion
        What was added to the history.

    Raises
    ------
    InputError
        If there is no such store, or no contract before the present one.
    StorageError
        If the history or the earlier contract is damaged.
    """
    return Store.find(store).promotions.rollback(name, reason)


def promote_by(run: Run, name: str, how: How, reason: str, *, seen: int | None = None) -> Promotion:
    """Add the contract of a run to the history of a data set.

    Parameters
    ----------
    run : Run
        A finished one.
    name : str
        Of the data set.
    how : "automatic" or "by hand"
        Who decided.
    reason : str
        Why.
    seen : int, optional
        How many entries there were when it was decided.

    Raises
    ------
    InputError
        If the run is not finished, or what is promoted under that name has another target.
    OvertakenError
        If there are more entries than were seen.
    StorageError
        If the run or the history is damaged.
    """
    target = load_result(run).contract["target"]["name"]
    histories = _histories_of(run)
    check_target(histories, name, target)
    stages = {record.stage: record for record in run.records()}
    contract = stages["evaluate"].read(CONTRACT_FILE)
    return histories.promote(name, contract, run.name, how, reason, seen=seen)


def against_promoted(run: Run, name: str) -> AgainstPromoted:
    """Return how a finished run differs from what is promoted under a name.

    Raises
    ------
    InputError
        If the run is not finished, or what is promoted has another target.
    StorageError
        If the run, the history or the promoted contract is damaged.
    """
    histories, result = _histories_of(run), load_result(run)
    history = histories.history(name)
    if not history:
        return AgainstPromoted(name, (), None)
    check_target(histories, name, result.contract["target"]["name"])
    before = Former(history[-1].run, read_contract(histories, history[-1]))
    after = Former(result.run, result.contract, run.folder)
    return AgainstPromoted(name, history, between(before, after, run.folder.parent.parent))


def check_target(histories: Promotions, name: str, target: str) -> None:
    """Refuse a run whose target is none that is promoted under its name.

    Raises
    ------
    InputError
        If it is another.
    StorageError
        If the history or the promoted contract is damaged.
    """
    history = histories.history(check_name(name))
    if not history:
        return
    known = read_contract(histories, history[-1])["target"]["name"]
    if known != target:
        raise InputError(
            f"what is promoted as {name!r} predicts {known!r} but this run {target!r}; promote it "
            f"under another name, such as {name}-{_as_name(target)}"
        )


def default_name(run: Run) -> str:
    """Return the name of the data set that a run's table is taken for.

    Raises
    ------
    InputError
        If the table had no name, or one that cannot be made one.
    """
    return name_of_source(run.description["source"])


def name_of_source(label: str) -> str:
    """Return the name of a data set from that of its file or folder; see `default_name`.

    Raises
    ------
    InputError
        If it was a table in memory, or nothing of its name is left.
    """
    name = label
    while Path(name).suffix.lower() in _ENDINGS:
        name = Path(name).stem
    name = _as_name(name)[:120]
    if label in _IN_MEMORY or not name:
        raise InputError(
            f"the table, {label}, has no name that a data set could have; give one, as in "
            "--as orders"
        )
    return name


def kept_run(run: SelectionResult | str, store: str | Path) -> Run:
    """Return the run of a result, or of a name in a store.

    Raises
    ------
    InputError
        If there is none, or the result was kept in no store.
    """
    if not isinstance(run, SelectionResult):
        return Store.find(store).existing(run)
    if run.folder is None:
        raise InputError(
            f"the result of {run.run!r} is kept in no store; select again with store=..."
        )
    return Run(run.folder)


def read_contract(histories: Promotions, promotion: Promotion) -> Mapping[str, Any]:
    """Return what is in the contract of an entry.

    Raises
    ------
    StorageError
        If it is damaged, or a later release wrote it.
    """
    content, path = histories.contract(promotion), histories.path(promotion)
    return parse_json(content, path, CONTRACT_FIELDS)


def _histories_of(run: Run) -> Promotions:
    return Store(run.folder.parent.parent).promotions


def _as_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("._-")
