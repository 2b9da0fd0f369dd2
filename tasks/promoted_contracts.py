"""What the contracts say that were promoted, and whether a run predicts the same."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chaffinch.storage.data_sets import other_name
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.promotion_entries import Promotion
from chaffinch.storage.promotions import Promotions
from chaffinch.tasks.contract import parse_contract


def read_contract(histories: Promotions, promotion: Promotion) -> Mapping[str, Any]:
    """Return what is in the contract of an entry.

    Raises
    ------
    StorageError
        If it is damaged, or a later release wrote it.
    """
    return parse_contract(histories.contract(promotion), histories.path(promotion))


def check_target(histories: Promotions, name: str, target: str, task: str | None) -> None:
    """Refuse a run that predicts something else than what is promoted under its name.

    The newest contract that can be read says what that is, since all of a name are alike in it.

    Parameters
    ----------
    histories : Promotions
        Of the run's store.
    name : str
        Of the data set.
    target : str
        The column that the run predicts.
    task : "regression", "classification" or None
        What it is to the run; None where that is not known yet.

    Raises
    ------
    InputError
        If the target is another column, or the task another one.
    StorageError
        If the history is damaged.
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
