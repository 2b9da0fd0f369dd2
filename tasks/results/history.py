"""The runs of a store over time: their verdicts and columns, and what a person had to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.runs.decisions import noted_decision
from chaffinch.storage.runs.promotions import Promotion, Promotions
from chaffinch.storage.runs.refusals import refusals
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE
from chaffinch.tasks.results.previous_run import read_contract

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HistoryRow:
    """A run of a store, or a table that was refused; what is not known is empty, NaN or 0."""

    data_set: str
    run: str  # empty for a table that was refused
    created: str  # UTC in ISO 8601
    state: Literal["finished", "unfinished", "refused", "damaged"] = "unfinished"
    problem: str = ""  # why it was refused, or cannot be read
    source: str = ""  # name of the file or table that was read
    target: str | None = None
    verdict: str | None = None
    loss: str | None = None  # its name
    judged_on: str | None = None
    loss_all_features: float | None = None
    loss_selected: float | None = None
    features: tuple[str, ...] = ()
    candidates: int | None = None
    # columns that moved beyond chance since the promotion; None if nothing was compared
    moved: tuple[str, ...] | None = None
    promoted: str = ""  # when it was last put in use, UTC in ISO 8601
    is_in_use: bool = False
    decision: str = ""  # why it needed one when it ended
    is_open: bool = False  # whether it still does


@dataclass(frozen=True)
class History:
    """The runs of a store, oldest first, and what was promoted for each data set."""

    store: str  # name of its folder
    rows: tuple[HistoryRow, ...]
    promotions: Mapping[str, tuple[Promotion, ...]] = field(default_factory=dict)
    damage: Mapping[str, str] = field(default_factory=dict)  # promotions that cannot be read

    @property
    def data_sets(self) -> dict[str, list[HistoryRow]]:
        """The runs of each data set, by its name."""
        names = sorted({*(row.data_set for row in self.rows), *self.promotions, *self.damage})
        runs: dict[str, list[HistoryRow]] = {name: [] for name in names}
        for row in self.rows:
            runs[row.data_set].append(row)
        return runs

    def of(self, name: str) -> History:
        """Return the history of one data set; InputError if there is none of that name."""
        data_sets = self.data_sets
        if name not in data_sets:
            raise InputError(f"there is no data set {name!r}{nearest(name, data_sets)}")
        promotions = {key: of for key, of in self.promotions.items() if key == name}
        damage = {key: why for key, why in self.damage.items() if key == name}
        return History(self.store, tuple(data_sets[name]), promotions, damage)


def run_history(name: str | None = None, *, store: str | Path = "chaffinch-store") -> pd.DataFrame:
    """Return the runs of a store over time, with their verdicts, losses and columns.

    Parameters
    ----------
    name : str, optional
        Name of a data set; by default all of them. It is the name of promotions, or else that of
        the table, without its ending.
    store : path or address
        The store of the runs.

    Returns
    -------
    pandas.DataFrame
        One row per run, oldest first, then one per data set in use whose last table was refused,
        with an empty ``run``: ``data_set``, ``run``, ``created`` (UTC), ``state``
        (``"finished"``, ``"unfinished"``, ``"refused"`` or ``"damaged"``) and the ``problem`` of
        a refused or damaged one, ``source``, ``target``, ``verdict``, name of the ``loss``,
        ``judged_on``, ``loss_all_features``, ``loss_selected``, kept ``features``, number of
        ``candidates``,
        ``moved`` (columns whose distribution changed beyond chance since the promotion; None where
        nothing was compared), when it was ``promoted``, whether it ``is_in_use``, the ``decision``
        that it needed of a person, and whether that ``is_open``.

    Raises
    ------
    InputError
        If there is no such store, or no such data set.

    Examples
    --------
    >>> nights = chaffinch.run_history("orders")  # doctest: +SKIP
    >>> nights[nights["decision"] != ""]  # doctest: +SKIP
    """
    import pandas as pd

    history = history_of(Store.find(store))
    rows = (history if name is None else history.of(name)).rows
    names = [field.name for field in fields(HistoryRow)]
    frame = pd.DataFrame([asdict(row) for row in rows], columns=names)
    for time in ("created", "promoted"):
        frame[time] = pd.to_datetime(frame[time], errors="coerce", utc=True)
    return frame


def history_of(store: Store, most: int | None = None) -> History:
    """Return the runs, at most the newest `most`, and the promotions of a store.

    What cannot be read is named. Tables that were refused, of which there is no run, come last.
    """
    promotions, damage = read_promotions(store.promotions)
    put_in_use = {
        entry.run: (name, entry.promoted) for name, of in promotions.items() for entry in of
    }
    in_use = {entries[-1].run for entries in promotions.values() if entries}
    rows = [_row(run, promotions) for run in reversed(store.runs()[:most])]
    # a table may be promoted under another name than its own, and then all its runs belong to it
    of_source = {row.source: put_in_use[row.run][0] for row in rows if row.run in put_in_use}
    named = []
    for row in rows:
        known = row.data_set or of_source.get(row.source) or _name_of(row.source)
        name, when = put_in_use.get(row.run, (known, ""))
        name = known if row.is_open else name  # an open decision is about the name noted with it
        named.append(replace(row, data_set=name, promoted=when, is_in_use=row.run in in_use))
    of_runs = [(row.data_set, row.problem) for row in named if row.problem]
    named += [
        HistoryRow(
            name, "", refusal.noted, "refused" if refusal.noted else "damaged", refusal.reason
        )
        for name, refusal in refusals(store).items()
        # a run notes its refusal without the remedies that are added later
        if not any(name == of and refusal.reason.startswith(why) for of, why in of_runs)
    ]
    return History(str(store).rpartition("/")[2], tuple(named), promotions, damage)


def read_promotions(
    histories: Promotions,
) -> tuple[dict[str, tuple[Promotion, ...]], dict[str, str]]:
    """Return the promotions of each data set, and why what is in use cannot be read."""
    promotions: dict[str, tuple[Promotion, ...]] = {}
    damage: dict[str, str] = {}
    for name in histories.names():
        try:
            promotions[name] = entries = histories.history(name)
            if entries:
                read_contract(histories, entries[-1])
        except (StorageError, InputError) as error:
            damage[name] = str(error)
    return promotions, damage


def _name_of(source: str) -> str:
    try:
        return name_of_table(source, "--name orders")
    except InputError:  # a table in memory, or a run that cannot be read
        return source or "unknown"


def _row(run: Run, promotions: Mapping[str, tuple[Promotion, ...]]) -> HistoryRow:
    """Return what a run knows; its data set is that of its comparison, or empty."""
    row = HistoryRow("", run.name, "")
    try:
        row = replace(row, source=str(run.description.get("source", "")))
        datetime.fromisoformat(run.created)
        row, needed = replace(row, created=run.created), noted_decision(run)
        evaluated, reported = run.record("evaluate"), run.record("write_report")
        if needed is not None:
            history = promotions.get(needed.name or "", ())
            row = replace(
                row,
                data_set=needed.name or "",
                decision="; answered: ".join(filter(None, [needed.reason, needed.answer])),
                is_open=needed.is_open(history),
            )
        if evaluated is None or reported is None:
            refused = run.refusal
            return replace(row, state="refused", problem=refused) if refused else row
        compared_with = str(reported.result.get("data_set", ""))
        row = replace(row, data_set=row.data_set or compared_with)
        path = evaluated.path(CONTRACT_FILE)
        contract = Contract.read(evaluated.read(CONTRACT_FILE), path)
        losses = contract.judged_losses
    except (StorageError, InputError, OSError, LookupError, ValueError) as error:
        return replace(row, state="damaged", problem=str(error))
    moved = reported.result.get("moved") if compared_with in ("", row.data_set) else None
    return replace(
        row,
        state="finished",
        target=contract.target.name,
        verdict=contract.comparison.verdict,
        loss=contract.loss,
        judged_on=contract.judged_on,
        loss_all_features=losses.all_features,
        loss_selected=losses.selected,
        features=tuple(contract.features),
        candidates=len(contract.candidates),
        moved=None if moved is None else tuple(moved),
    )
