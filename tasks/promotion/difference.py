"""What differs between two contracts of one target: features, the loss that comes of it, drift.

Whatever the first set was chosen on, both are refitted on the rows of the second run, with the
hyper-parameters that its tuning chose, and judged on its test rows, so that the sets alone differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import path_from
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.promotion.stored_run import KeptRun, LossDifference
from chaffinch.tasks.results.previous_run import Former, read_former
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.statistics.drift import FeatureDrift, drift_between

Made = TypeVar("Made")


@dataclass(frozen=True)
class Difference:
    """What differs between two contracts.

    Attributes
    ----------
    before, after : str
        Names of the runs; empty where a contract came by itself.
    n_before, n_after : int
        How many features each keeps.
    gained, lost : tuple of str
        Features that only the second keeps, or only the first, in the tables' order.
    share_changed : float in 0..1
        Those, of all that either keeps.
    gone : dict of str to str
        Features that the first keeps and the newer rows cannot offer, and why.
    telling : tuple of str
        Of those gained, which alone tell the target of the newer rows: they may not be known
        before it is.
    loss : LossDifference or None
        None if the sets are the same or it is not known.
    why_no_loss : str
        Why there is none; empty where there is one.
    drift : tuple of FeatureDrift
        How far each feature of either set moved between the two tables, if both have it.
    why_no_drift : str
        Why there is none; empty where it was looked for.
    """

    before: str
    after: str
    n_before: int
    n_after: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    share_changed: float
    gone: dict[str, str]
    telling: tuple[str, ...]
    loss: LossDifference | None
    why_no_loss: str
    drift: tuple[FeatureDrift, ...]
    why_no_drift: str

    @property
    def is_same(self) -> bool:
        """Whether both keep the same features, and the newer rows can offer them all."""
        return not (self.gained or self.lost or self.gone)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON holds it."""
        return asdict(self)


def difference(
    before: SelectionResult | str | Path,
    after: SelectionResult | str | Path,
    *,
    store: str | Path = "chaffinch-store",
) -> Difference:
    """Return what differs between two runs of one target, or between a contract and a run.

    Parameters
    ----------
    before, after : SelectionResult, str or Path
        A result; or the name of a run in the store, its folder, or its ``selection.json``.
    store : path
        The store that names are looked up in, and the tables of contracts that came by themselves.

    Returns
    -------
    Difference
        The losses of both sets need the run of `after` and its table in the store, drift the tables
        of both. Without them, the rest is returned.

    Raises
    ------
    InputError
        If there is no such run, it is not finished, or the two have different targets.
    StorageError
        If a run is damaged, or a later release wrote it.
    """
    return between(read_former(before, store), read_former(after, store), path_from(store, "store"))


def between(before: Former, after: Former, store: Path) -> Difference:
    """Return what differs between two contracts that were read; see `difference`."""
    _check_targets(before, after)
    first, second = _kinds(before), _kinds(after)
    gained = tuple(name for name in second if name not in first)
    lost = tuple(name for name in first if name not in second)
    either = list(dict.fromkeys([*first, *second]))
    older, why_no_older = _attempt(lambda: _table(before, after, store))
    newer, why_no_newer = _attempt(lambda: _table(after, before, store))
    rows, why_no_rows = None, why_no_newer
    if newer is not None:
        rows, why_no_rows = _attempt(lambda: _kept_run(after, newer))
    gone = _gone(first, after, rows)
    loss, why_no_loss = None, "both keep the same features"
    if gained or lost or gone:
        loss, why_no_loss = None, why_no_rows
        if rows is not None:
            left = [name for name in first if name not in gone]
            loss, why_no_loss = _attempt(lambda: rows.loss_difference(left, list(second)))
    drift: tuple[FeatureDrift, ...] = ()
    if older is not None and newer is not None:
        moved = [drift_between(older, newer, name) for name in either]
        drift = tuple(one for one in moved if one is not None)
    return Difference(
        before=before.run,
        after=after.run,
        n_before=len(first),
        n_after=len(second),
        gained=gained,
        lost=lost,
        share_changed=(len(gained) + len(lost)) / len(either),
        gone=gone,
        telling=() if rows is None else rows.telling(gained),
        loss=loss,
        why_no_loss=why_no_loss,
        drift=drift,
        why_no_drift=why_no_older or why_no_newer,
    )


def _attempt(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """Return what is made, or None and why it cannot be."""
    try:
        return make(), ""
    except (InputError, StorageError) as error:
        return None, str(error)


def _check_targets(before: Former, after: Former) -> None:
    first, second = (known.contract["target"]["name"] for known in (before, after))
    if first != second:
        raise InputError(
            f"{before.run or 'the first contract'} predicts {first!r} but "
            f"{after.run or 'the second'} {second!r}; name two of one target"
        )


def _kinds(known: Former) -> dict[str, str]:
    """Return the type of each kept feature, in the table's order."""
    return {feature["name"]: feature["type"] for feature in known.contract["features"]}


def _table(known: Former, other: Former, store: Path) -> Dataset:
    """Return the table that a contract was made from, from the first store that holds it."""
    stores = [one.folder.parent.parent for one in (known, other) if one.folder is not None]
    why: StorageError | None = None
    for path in dict.fromkeys([*stores, store]):
        try:
            of_table = known.contract.get("dataset", {}).get("hash") or "without a hash"
            return Dataset.open(Store(path.absolute()).datasets, of_table)
        except StorageError as error:
            why = why or error
    raise why or StorageError("there is no store to look for the table in")


def _kept_run(known: Former, table: Dataset) -> KeptRun:
    if known.folder is None:
        raise InputError(
            "the second contract came by itself, without the run to refit; name the run"
        )
    return KeptRun.open(known.folder, known.contract, table)


def _gone(first: Mapping[str, str], after: Former, rows: KeptRun | None) -> dict[str, str]:
    """Return which features of the first set the newer rows cannot offer, and why."""
    contract = after.contract
    reasons = {one["name"]: one.get("reason", "left out") for one in contract.get("dropped", ())}
    for role in ("weight", "group", "time"):
        reasons[contract["settings"]["columns"][role]] = f"the {role} column now"
    # without its rows, a contract has the types of what it keeps
    now = _kinds(after) if rows is None else rows.kinds
    gone = {}
    for name, kind in first.items():
        if name not in contract["candidates"]:
            gone[name] = reasons.get(name, "no such column")
        elif now.get(name, kind) != kind:
            gone[name] = f"was a {kind}, is a {now[name]} now"
    return gone
