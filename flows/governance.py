"""What follows a run in production: it is compared with what is promoted, and meets the gate.

Where a person has to decide, and the settings say that one is waited for, the flow run pauses with
a form in the UI.
"""

import threading
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

from prefect import runtime
from prefect.exceptions import NotPausedError
from prefect.flow_runs import pause_flow_run, resume_flow_run
from prefect.input import RunInput
from pydantic import Field

from chaffinch.flows.artifacts import publish, publish_again, say
from chaffinch.flows.promotion_events import announce
from chaffinch.flows.step_tasks import as_task
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.promotions import How, OvertakenError
from chaffinch.storage.runs import Run, Store
from chaffinch.storage.sources import source_name
from chaffinch.tasks.differences import Difference
from chaffinch.tasks.promoting import (
    AgainstPromoted,
    against_promoted,
    check_target,
    default_name,
    name_of_source,
    promote_by,
)
from chaffinch.tasks.promotion_gate import decide
from chaffinch.tasks.promotion_settings import PromotionSettings
from chaffinch.tasks.reporting.differences import lines_of_difference
from chaffinch.tasks.result import SelectionResult

_SECONDS_BETWEEN_LOOKS = 5
# Prefect fails a run whose pause it ends itself, so ours ends before.
_SECONDS_OF_GRACE = 600


class Answer(RunInput):
    """What a person decides."""

    promote: bool = Field(False, title="Promote", description="Make this contract the one in use.")
    reason: str = Field("", title="Reason", description="Why, for the history.")


def check_promotion(
    data: Any, target: str, store: Path, promotion: PromotionSettings | None
) -> None:
    """Refuse before any work what could not be promoted after it.

    Parameters
    ----------
    data : path
        The table.
    target : str
        What the run predicts.
    store : Path
        Where it is kept.
    promotion : PromotionSettings or None
        None asks for nothing to be promoted.

    Raises
    ------
    InputError
        If the data set has no name, or another target was promoted under it.
    StorageError
        If its history is damaged.
    """
    if promotion is not None:
        name = promotion.name or name_of_source(source_name(data))
        check_target(Store(store.absolute()).promotions, name, target)


def shown_as(data: Any, promotion: PromotionSettings | None) -> str:
    """Return the name that the artifacts of a run are kept under: its data set's, if it has one.

    Parameters
    ----------
    data : path
        The table.
    promotion : PromotionSettings or None
        May name the data set.

    Raises
    ------
    InputError
        If the address of the table cannot be one, or holds a secret.
    """
    if promotion is not None and promotion.name:
        return promotion.name
    label = source_name(data)
    try:
        return name_of_source(label)
    except InputError:
        return label


def conclude(result: SelectionResult, data_set: str, promotion: PromotionSettings | None) -> None:
    """Publish a result beside its difference to what is promoted, and promote it or not.

    Parameters
    ----------
    result : SelectionResult
        What the flow found; kept in a store.
    data_set : str
        Name that its artifacts are kept under.
    promotion : PromotionSettings or None
        Without, nothing is promoted.

    Raises
    ------
    InputError
        If the data set has no name, or another target was promoted under it meanwhile.
    StorageError
        If what is promoted is damaged, or the device is full or fails.
    """
    run = Run(_folder(result))
    if promotion is None:
        lines, difference = _compared_in_passing(run, result)
        publish(run, result, data_set, _said(lines), difference)
        return
    against = as_task(against_promoted)(run, promotion.name or default_name(run))
    differs = [] if against.difference is None else lines_of_difference(against.difference)
    last = against.history[-1] if against.history else None
    decision = decide(against.difference, last, promotion)
    if decision.outcome == "promote":
        promotes = _promoted(run, against, "automatic", decision.reason)
        publish(run, result, data_set, _said([promotes, *differs]), against.difference)
    elif decision.outcome == "keep":
        stays = f"The promoted contract of {against.name} stays: {decision.reason}"
        publish(run, result, data_set, _said([stays, *differs]), against.difference)
    else:
        waits = f"Not promoted as {against.name}, for a person to decide: {decision.reason}"
        by_hand = f"chaffinch promote {run.name} --as {against.name} promotes it."
        said = _said([waits, by_hand, *differs])
        verdict = publish(run, result, data_set, said, against.difference)
        if promotion.wait is not None:
            answer = _answer([waits, *differs], promotion.wait)
            answered = _said([_answered(run, against, answer)])
            publish_again(verdict, result, [*answered, *differs])


def _compared_in_passing(run: Run, result: SelectionResult) -> tuple[list[str], Difference | None]:
    """Return how a run differs from what is promoted of its table; trouble with that is told."""
    try:
        name = default_name(run)
        histories = Store(run.folder.parent.parent).promotions
        if not histories.history(name):
            return [], None
        check_target(histories, name, result.contract["target"]["name"])
    except InputError:
        return [], None  # what is promoted under the table's name is something else
    except StorageError as error:
        return [f"What is promoted cannot be compared with: {error}."], None
    against = as_task(against_promoted)(run, name)
    lines = lines_of_difference(against.difference)
    return [f"Compared with what is promoted as {name}:", *lines], against.difference


def _promoted(run: Run, against: AgainstPromoted, how: How, reason: str) -> str:
    """Promote a run and tell of it; return what was done in a sentence."""
    try:
        promote_by(run, against.name, how, reason, seen=len(against.history))
    except OvertakenError as error:
        return f"Not promoted as {against.name}: {error}."
    announce(against.name, run.folder.parent.parent)
    return f"Promoted as {against.name}{f': {reason}' if reason else '.'}"


def _answered(run: Run, against: AgainstPromoted, answer: Answer) -> str:
    if answer.promote:
        return _promoted(run, against, "by hand", answer.reason)
    return f"Not promoted as {against.name}{f': {answer.reason}' if answer.reason else '.'}"


def _answer(lines: list[str], hours: float) -> Answer:
    """Pause this flow run until a person has answered, or the time is over."""
    run_id, seconds = runtime.flow_run.id, 3600 * hours
    over = {"promote": False, "reason": f"nobody answered in {hours:g} h."}

    def go_on() -> None:
        with suppress(NotPausedError):  # somebody was quicker
            resume_flow_run(run_id, over)

    deadline = threading.Timer(seconds, copy_context().run, (go_on,))
    deadline.daemon = True
    deadline.start()
    try:
        return pause_flow_run(
            Answer.with_initial_data(description="\n\n".join(lines)),
            timeout=int(seconds) + _SECONDS_OF_GRACE,
            poll_interval=_SECONDS_BETWEEN_LOOKS,
        )
    finally:
        deadline.cancel()


def _said(lines: list[str]) -> list[str]:
    """Return lines after they were said as well."""
    for line in lines:
        say(line)
    return lines


def _folder(result: SelectionResult) -> Path:
    if result.folder is None:
        raise ValueError("a flow keeps its run in a store")
    return result.folder
