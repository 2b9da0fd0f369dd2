"""Promotion: which run's contract is the one in use for a data set, and which ones were."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.runs.promotions import How, Promotion, Promotions
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table, other_name
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE
from chaffinch.tasks.promotion.difference import Difference, between
from chaffinch.tasks.results.contract import FeatureContract, parse_contract
from chaffinch.tasks.results.previous_run import Former
from chaffinch.tasks.results.result import SelectionResult, load_result


def read_contract(histories: Promotions, promotion: Promotion) -> Mapping[str, Any]:
    """Return what is in the contract of an entry."""
    return parse_contract(histories.contract(promotion), histories.path(promotion))


def check_target(histories: Promotions, name: str, target: str, task: str | None) -> None:
    """Refuse a run that predicts something else than what is promoted under its name.

    The newest contract that can be read shows it, since all of a name are alike in it.
    """
    known = _newest_target(histories, histories.history(name))
    if known is None:
        return
    under = "promote it under another name, such as"
    if known["name"] != target:
        raise InputError(
            f"what is promoted as {name!r} predicts {known['name']!r} but this run {target!r}; "
            f"{under} {other_name(name, target)}"
        )
    if task not in (None, known["task"]):
        raise InputError(
            f"what is promoted as {name!r} is a {known['task']} of {target!r} but this run a "
            f"{task}; {under} {other_name(name, task)}"
        )


def _newest_target(
    histories: Promotions, history: tuple[Promotion, ...]
) -> Mapping[str, Any] | None:
    """Return the target in the newest contract that can be read, if one can."""
    for entry in reversed(history):
        with suppress(StorageError):
            target: Mapping[str, Any] = read_contract(histories, entry)["target"]
            return target
    return None


_STORE = "chaffinch-store"


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
        None if nothing was promoted yet, or what was promoted last cannot be read.
    damage : str
        Why it cannot be read; empty where it can.
    """

    name: str
    history: tuple[Promotion, ...]
    difference: Difference | None
    damage: str = ""


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
        Of the data set; by default that of the run's table, see
        `chaffinch.storage.sources.data_set_name.name_of_table`.
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
        given, or what is promoted under that name has another target, or is of another task.
    StorageError
        If the run or the history is damaged.

    Notes
    -----
    This is a person's decision, and carried out in any case. It repairs what is
    promoted where that contract's file is missing or was changed.
    """
    kept = kept_run(run, store)
    return promote_by(kept, default_name(kept) if name is None else name, "by hand", reason)


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


def promote_by(
    run: Run,
    name: str,
    how: How,
    reason: str,
    *,
    seen: int | None = None,
    owes_event: bool = False,
) -> Promotion:
    """Add the contract of a run to the history of a data set."""
    target = load_result(run).contract["target"]
    histories = _histories_of(run)
    check_target(histories, name, target["name"], target["task"])
    stages = {record.stage: record for record in run.records()}
    contract = stages["evaluate"].read(CONTRACT_FILE)
    return histories.promote(
        name, contract, run.name, how, reason, seen=seen, owes_event=owes_event
    )


def against_promoted(run: Run, name: str) -> AgainstPromoted:
    """Return how a finished run differs from what is promoted under a name."""
    histories, result = _histories_of(run), load_result(run)
    target = result.contract["target"]
    check_target(histories, name, target["name"], target["task"])
    history = histories.history(name)
    if not history:
        return AgainstPromoted(name, (), None)
    try:
        before = Former(history[-1].run, read_contract(histories, history[-1]))
    except StorageError as error:
        found, _, _ = str(error).rpartition("; ")  # to promote is the remedy after it
        return AgainstPromoted(name, history, None, found)
    after = Former(result.run, result.contract, run.folder)
    return AgainstPromoted(name, history, between(before, after, run.folder.parent.parent))


def default_name(run: Run) -> str:
    """Return the name of the data set that a run's table is taken for."""
    return name_of_table(run.description["source"], "--as orders or name='orders'")


def kept_run(run: SelectionResult | str, store: str | Path) -> Run:
    """Return the run of a result, or of a name in a store."""
    if not isinstance(run, SelectionResult):
        return Store.find(store).existing(run)
    if run.folder is None:
        raise InputError(
            f"the result of {run.run!r} is kept in no store; select again with store=..."
        )
    return Run(run.folder)


def _histories_of(run: Run) -> Promotions:
    return Store(run.folder.parent.parent).promotions
