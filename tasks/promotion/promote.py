"""Promotion: which run's contract is in use for a data set, and which contracts were."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.runs.decisions import note_answer, note_decision, noted_decision
from chaffinch.storage.runs.promotions import How, Promotion, Promotions, alias_from
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table, other_name
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.exports.mlflow_alias import move_alias, register
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE
from chaffinch.tasks.promotion.difference import Difference, difference_of, lines_of_difference
from chaffinch.tasks.promotion.gate import GATE_CONFIDENCE, Decision, decide, why_undecided
from chaffinch.tasks.reporting.forms import with_decision
from chaffinch.tasks.results.contract import FeatureContract
from chaffinch.tasks.results.previous_run import STORE, Former, read_contract
from chaffinch.tasks.results.result import SelectionResult, load_result
from chaffinch.tasks.settings.execution import PromotionSettings
from chaffinch.tasks.statistics.verdict import CONFIDENCE

IN_USE = "It is in use as {} already."


def check_target(histories: Promotions, name: str, target: str, task: str | None) -> None:
    """Raise InputError for a run with another target or task than the contracts under its name."""
    known = None
    for entry in reversed(histories.history(name)):  # the newest that can be read; all are alike
        with suppress(StorageError):
            known = read_contract(histories, entry).target
            break
    if known is None or (known.name == target and task in (None, known.task)):
        return
    differs, other = f"predicts {known.name!r} but this run {target!r}", target
    if known.name == target:
        differs, other = f"is a {known.task} of {target!r} but this run a {task}", str(task)
    raise InputError(
        f"what is promoted as {name!r} {differs}; promote it under another name, such as "
        f"{other_name(name, other)}"
    )


@dataclass(frozen=True)
class AgainstPromoted:
    """Comparison of a run with the promoted contract of its data set."""

    name: str  # of the data set
    history: tuple[Promotion, ...]  # at the time of the comparison
    difference: Difference | None = None  # None if nothing was promoted, or it cannot be read
    damage: str = ""  # why the promoted contract cannot be read

    @property
    def lines(self) -> list[str]:
        """How the run differs, in lines."""
        if self.difference is not None:
            return lines_of_difference(self.difference)
        return [f"What is promoted cannot be read: {self.damage}."] if self.damage else []


@dataclass(frozen=True)
class GateResult:
    """What the gate decided about a run, and what was done.

    Attributes
    ----------
    lines : tuple of str
        What was decided and why, and how the run differs from what was promoted.
    needs_decision : str
        Why a person has to decide; empty if none has.
    promotion : Promotion or None
        Entry of the history by which the run is in use; None if it was not promoted.
    against : AgainstPromoted
        Comparison with what was promoted.
    decision : Decision or None
        That of the gate; None for a run that cannot be promoted under the name.
    """

    lines: tuple[str, ...]
    needs_decision: str
    promotion: Promotion | None
    against: AgainstPromoted
    decision: Decision | None

    @property
    def is_for_a_person(self) -> bool:
        """Whether a person can promote the run, or leave it."""
        return self.decision is not None and self.decision.outcome == "wait"


def promote(
    run: SelectionResult | str,
    name: str | None = None,
    *,
    reason: str = "",
    mlflow: str | None = None,
    store: str | Path = STORE,
) -> Promotion:
    """Make the contract of a run the one in use for its data set.

    Parameters
    ----------
    run : SelectionResult or str
        A result with a folder in a store, or the name of a run.
    name : str, optional
        Name of the data set; by default the one that the run was judged under, or else that of its
        table, without its ending.
    reason : str
        Reason, for the history.
    mlflow : str, optional
        Registered model of MLflow, such as ``"shop"``, and its alias, by default
        ``"shop@promoted"``, which from now on names the version with the contract in use.
        ``"none"`` ends that.
    store : path or address
        Where the name of a run is looked up.

    Returns
    -------
    Promotion
        The new entry of the history.

    Raises
    ------
    InputError
        If there is no such run, it is not finished or has no folder, its table has no name and none
        is given, or the contract promoted under that name has another target or task.
    StorageError
        If the run or the history is damaged.

    Notes
    -----
    A person has decided, so no gate is asked: `promote_by_gate` asks it. If the file of the
    promoted contract is missing or was changed, this repairs it. If the alias cannot be moved, a
    UserWarning says why, and the next promotion or rollback of the data set moves it.
    """
    kept = kept_run(run, store)
    name = default_name(kept) if name is None else name
    entry = promote_by(kept, name, "by hand", reason, mlflow=mlflow)
    note_answer(kept, f"Promoted as {name}")
    _move_alias(_histories_of(kept), name)
    return entry


def promote_by_gate(
    run: SelectionResult | str, name: str | None = None, *, store: str | Path = STORE
) -> GateResult:
    """Promote a run only where the gate of nightly flows lets it.

    Parameters
    ----------
    run, name, store
        See `promote`.

    Returns
    -------
    GateResult
        What was decided: `promotion` is the new entry of the history, or None if the run is not
        promoted; `needs_decision` is why a person has to decide, empty if none has; `lines` say
        both in words.

    Raises
    ------
    InputError
        If there is no such run, it is not finished or has no folder, or its table has no name and
        none is given.
    StorageError
        If the run or the history is damaged.

    Notes
    -----
    A run with another target or task than the promoted contract is for a person. A run that is put
    through the gate twice is promoted once.
    """
    kept = kept_run(run, store)
    gated = pass_gate(kept, PromotionSettings(name=name))
    _move_alias(_histories_of(kept), gated.against.name)
    return gated


def promoted(name: str, *, store: str | Path = STORE) -> FeatureContract:
    """Return the contract in use for a data set.

    Parameters
    ----------
    name : str
        Name of the data set.
    store : path or address
        The store of its promotions.

    Returns
    -------
    FeatureContract

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
    return read_contract(histories, histories.existing(name)[-1])


def promotions(name: str, *, store: str | Path = STORE) -> tuple[Promotion, ...]:
    """Return the promotions of a data set, oldest first; the last is in use.

    Parameters
    ----------
    name, store
        See `promoted`.

    Returns
    -------
    tuple of Promotion
        Each with `run`, `contract` (SHA-256 of its bytes), `promoted` (UTC, ISO 8601), `how` (the
        gate or a person) and `reason`.

    Raises
    ------
    InputError
        If there is no such store, or nothing was promoted under that name.
    StorageError
        If the history is damaged.
    """
    return Store.find(store).promotions.existing(name)


def rollback(name: str, *, reason: str = "", store: str | Path = STORE) -> Promotion:
    """Go back to the contract that was in use before the present one; again, further back.

    Until a person promotes a run, nothing is promoted automatically after that.

    Parameters
    ----------
    name, store
        See `promoted`.
    reason : str
        Reason, for the history.

    Returns
    -------
    Promotion
        The new entry of the history.

    Raises
    ------
    InputError
        If there is no such store, or no contract before the present one.
    StorageError
        If the history or the earlier contract is damaged.
    """
    histories = Store.find(store).promotions
    entry = histories.rollback(name, reason)
    _move_alias(histories, name)
    return entry


def _move_alias(histories: Promotions, name: str) -> None:
    if problem := move_alias(histories, name):
        warnings.warn(problem, stacklevel=3)


def promote_by(
    run: Run,
    name: str,
    how: How,
    reason: str,
    *,
    seen: int | None = None,
    owes_event: bool = False,
    mlflow: str | None = None,
) -> Promotion:
    """Add the contract of a run to the history of a data set; `move_alias` is left to do."""
    alias = None if mlflow is None else alias_from(mlflow)
    target = load_result(run).contract.target
    histories = _histories_of(run)
    check_target(histories, name, target.name, target.task)
    stages = {record.stage: record for record in run.records()}
    contract = stages["evaluate"].read(CONTRACT_FILE)
    if alias is not None:
        register(run, alias)
    return histories.promote(
        name, contract, run.name, how, reason, seen=seen, owes_event=owes_event, alias=mlflow
    )


def promote_compared(
    run: Run, against: AgainstPromoted, how: How, reason: str, *, owes_event: bool = False
) -> tuple[str, Promotion | None]:
    """Promote a run unless something was promoted since its comparison.

    Returns the outcome as a sentence, and the entry by which the run is in use, if it is.
    """
    name, seen = against.name, len(against.history)
    try:
        entry = promote_by(run, name, how, reason, seen=seen, owes_event=owes_event)
    except InputError as error:
        if (entry_in_use := in_use(run, name)) is not None:
            return IN_USE.format(name), entry_in_use
        return f"Not promoted as {name}: {error}.", None
    return f"Promoted as {name}{f': {reason}' if reason else '.'}", entry


def in_use(run: Run, name: str) -> Promotion | None:
    """Return the entry by which a run is in use under a name; None if it is not."""
    last = _histories_of(run).history(name)[-1:]
    return last[0] if last and last[0].run == run.name else None


def against_promoted(run: Run, name: str, confidence: float = CONFIDENCE) -> AgainstPromoted:
    """Return how a finished run differs from what is promoted under a name.

    `confidence` is that of the interval and the verdict of the losses.
    """
    histories, result = _histories_of(run), load_result(run)
    check_target(histories, name, result.contract.target.name, None)  # another task is a change
    history = histories.history(name)
    if not history:
        return AgainstPromoted(name, ())
    try:
        before = Former(history[-1].run, read_contract(histories, history[-1]))
    except StorageError as error:
        damage, _, _ = str(error).rpartition("; ")  # to promote is the remedy after it
        return AgainstPromoted(name, history, None, damage)
    after = Former(result.run, result.contract, run.folder)
    difference = difference_of(before, after, Store.of(run.folder), confidence)
    return AgainstPromoted(name, history, difference)


def pass_gate(
    run: Run,
    settings: PromotionSettings,
    *,
    compare: Callable[[Run, str, float], AgainstPromoted] = against_promoted,
    owes_event: bool = False,
) -> GateResult:
    """Promote a run if the gate lets it, and note with it why a person has to decide.

    `move_alias` is left to do.
    """
    name = settings.name or default_name(run)
    gated = _gated(run, name, settings, compare, owes_event)
    note_need(run, name, gated.needs_decision)
    return gated


def _gated(
    run: Run,
    name: str,
    settings: PromotionSettings,
    compare: Callable[[Run, str, float], AgainstPromoted],
    owes_event: bool,
) -> GateResult:
    contract = load_result(run).contract
    try:
        check_target(_histories_of(run), name, contract.target.name, contract.target.task)
    except InputError as error:
        said = f"Not promoted as {name}: {error}."
        return GateResult((said,), str(error), None, AgainstPromoted(name, ()), None)
    against = compare(run, name, GATE_CONFIDENCE)
    last = against.history[-1] if against.history else None
    decision = decide(against.difference, last, settings, contract.comparison.leaks)
    needed, entry = why_undecided(contract, against.difference, decision), None
    if decision.outcome == "promote":
        said, entry = promote_compared(
            run, against, "automatic", decision.reason, owes_event=owes_event
        )
        lines = [said]
        needed = needed or ("" if entry else said.rstrip("."))
    elif decision.outcome == "keep":
        lines = [f"The promoted contract of {name} stays: {decision.reason}"]
    else:
        store = shlex.quote(str(Store.of(run.folder)))
        lines = [
            f"Not promoted as {name}, for a person to decide: {decision.reason}",
            f"chaffinch promote {run.name} --name {name} --store {store} promotes it.",
        ]
    return GateResult((*lines, *against.lines), needed, entry, against, decision)


def compare_with_promoted(
    run: Run,
    compare: Callable[[Run, str], AgainstPromoted] = against_promoted,
    name: str | None = None,
) -> tuple[list[str], Difference | None]:
    """Return how a run differs from a promoted contract, by default its table's, or why not."""
    target = load_result(run).contract.target.name
    try:
        name, histories = name or default_name(run), _histories_of(run)
        if not histories.history(name):
            return [], None
        check_target(histories, name, target, None)
    except InputError:
        return [], None  # a contract of another target is promoted under the table's name
    except StorageError as error:
        return [f"What is promoted cannot be compared with: {error}."], None
    against = compare(run, name)
    lines = [f"Compared with what is promoted as {name}:", *against.lines]
    return lines, against.difference


def why_needed(
    contract: Contract,
    lines: Sequence[str],
    difference: Difference | None,
    *,
    in_production: bool = False,
) -> str:
    """Return why a person has to decide on a run without a gate, or "".

    `lines` and `difference` are of `compare_with_promoted`. Where nothing is promoted, a person
    has to look only at a run `in_production`.
    """
    if lines and difference is None:  # what is promoted is damaged
        return lines[-1].rstrip(".")
    return why_undecided(contract, difference) if lines or in_production else ""


def note_need(run: Run, name: str | None, undecided: str, answer: str = "") -> None:
    """Note with a run, and in its report, why a person has to decide; empty if none has.

    `name` is what it was compared with, by default the promoted contract of its table. With the
    `answer` of a person the decision is made: it is kept with the run, and not in its report.
    """
    with suppress(InputError):  # a table in memory has no name
        name = name or default_name(run)
    note_decision(run, name, undecided, answer)
    undecided = "" if answer else undecided
    for record in run.records():
        if record.stage == "write_report":
            forms = {name: record.read(name) for name in record.files}
            noted = {name: with_decision(name, forms[name], run.name, undecided) for name in forms}
            if noted != forms:
                run.rewrite(record, noted)


def promoted_name(former: str | Path, store: str | Path) -> str | None:
    """Return what names a former run if it is the name of a promoted contract, else None."""
    try:
        return str(former) if Store.find(store).promotions.history(str(former)) else None
    except InputError:  # a path is no such name
        return None


def default_name(run: Run) -> str:
    """Return the name that a run was judged under, or else that of its table."""
    with suppress(StorageError):  # of a damaged note
        if (noted := noted_decision(run)) is not None and noted.name:
            return noted.name
    return name_of_table(run.description["source"], "--name orders or name='orders'")


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
    return Store.of(run.folder).promotions
