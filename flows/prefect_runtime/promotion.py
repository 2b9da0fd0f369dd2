"""Promotion after a run: comparison with the promoted contract, and the gate.

If the gate needs a decision and the settings allow to wait for it, the flow run pauses with a form
in the UI.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import cast

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import NotPausedError
from prefect.flow_runs import resume_flow_run
from prefect.input import RunInput
from prefect.input.actions import read_flow_run_input
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed, Paused
from pydantic import Field

from chaffinch.flows.prefect_runtime.artifacts import publish, publish_again, publish_history, say
from chaffinch.flows.prefect_runtime.events import send_pending
from chaffinch.flows.prefect_runtime.internals import keyset_from_paused_state, propose_state_sync
from chaffinch.flows.prefect_runtime.limits import stop_retries
from chaffinch.flows.prefect_runtime.tasks import as_task
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources import Source
from chaffinch.storage.sources.data_set_name import name_of_data_set
from chaffinch.tasks.exports.mlflow_alias import move_alias
from chaffinch.tasks.promotion.promote import (
    IN_USE,
    against_promoted,
    check_target,
    compare_with_promoted,
    default_name,
    in_use,
    note_need,
    pass_gate,
    promote_compared,
    why_needed,
)
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.settings.execution import PromotionSettings
from chaffinch.tasks.settings.identity import digest
from chaffinch.tasks.settings.selection import SelectionSettings

NEEDS_DECISION = "NeedsDecision"  # name of the final state, as in prefect.flow-run.NeedsDecision
_SECONDS_BETWEEN_LOOKS = 5
# Prefect fails a run whose pause times out, so ours ends before.
_SECONDS_OF_GRACE = 600


class UndecidedError(RuntimeError):
    """A run needs a decision, and its settings make it fail without a decision."""


class Answer(RunInput):
    """Decision of a person."""

    promote: bool = Field(False, title="Promote", description="Make this contract the one in use.")
    reason: str = Field("", title="Reason", description="Why, for the history.")


def check_promotion(
    source: Source,
    settings: SelectionSettings,
    store: Path | str,
    promotion: PromotionSettings | None,
) -> None:
    """Check before any work that the result could be promoted."""
    if promotion is not None:
        name = name_of_data_set(source, promotion.name, "promotion.name: orders")
        task = None if settings.task == "auto" else settings.task
        check_target(Store.at(store).promotions, name, settings.target, task)


def conclude(
    result: SelectionResult,
    data_set: str,
    promotion: PromotionSettings | None,
    promoted_as: str | None = None,
) -> str:
    """Publish a result with its difference to the promoted contract, and promote it or not.

    Without settings of a promotion it is compared with `promoted_as`, by default its table's.

    Returns why a person has to decide, which the run notes too; empty if none has.
    """
    if result.folder is None:
        raise ValueError("a flow keeps its run in a store")
    run, name = Run(result.folder), promoted_as if promotion is None else promotion.name
    undecided, answer = _concluded(run, result, data_set, promotion, promoted_as)
    note_need(run, name, undecided, answer)
    publish_history(run, data_set)  # with the need of this run
    return "" if answer else undecided


def _concluded(
    run: Run,
    result: SelectionResult,
    data_set: str,
    promotion: PromotionSettings | None,
    promoted_as: str | None,
) -> tuple[str, str]:
    """Return why a person has to decide, empty if none has, and the answer if one did."""
    if promotion is None:
        lines, difference = compare_with_promoted(run, as_task(against_promoted), promoted_as)
        publish(run, result, data_set, _logged(lines), difference)
        # a deployment runs for production; what a person starts by hand, a person looks at
        is_in_production = runtime.deployment.id is not None
        need = why_needed(result.contract, lines, difference, in_production=is_in_production)
        return need, ""
    name = promotion.name or default_name(run)
    _send_events(name, run)  # events of a promotion that was killed
    gated = pass_gate(run, promotion, compare=as_task(against_promoted), owes_event=True)
    if gated.promotion is not None:
        _send_events(name, run)
    against, undecided = gated.against, gated.needs_decision
    verdict = publish(run, result, data_set, _logged(gated.lines), against.difference)
    if gated.is_for_a_person and promotion.wait is not None:
        # an answer is for a pair of contracts, new and promoted, also where a run starts again
        question = f"{digest(result.contract.to_dict())[:16]}-{len(against.history)}"
        asked = [gated.lines[0], *against.lines]
        answer, is_answered = _answer(asked, promotion.wait, question, undecided)
        answered = f"Not promoted as {name}{f': {answer.reason}' if answer.reason else '.'}"
        is_done = True
        if answer.promote:
            answered, entry = promote_compared(
                run, against, "by hand", answer.reason, owes_event=True
            )
            if is_done := entry is not None:
                _send_events(name, run)
        elif in_use(run, name):  # a person promoted it meanwhile, perhaps in another flow run
            later = f" {answered}" if is_answered else ""
            answered, is_answered = f"{IN_USE.format(name)}{later}", True
        publish_again(verdict, result, [*_logged([answered]), *against.lines])
        if is_answered:
            return (undecided, answered.rstrip(".")) if is_done else (answered.rstrip("."), "")
    return undecided, ""


def ended(
    result: SelectionResult, undecided: str, promotion: PromotionSettings | None
) -> SelectionResult | State[SelectionResult]:
    """Return the result, or the state of a flow run that ends without a needed decision."""
    if not undecided:
        return result
    message = f"needs a decision: {undecided}"
    get_run_logger().warning(message)
    if promotion is not None and promotion.unattended == "fail":
        stop_retries()
        # by the usual name, for which the automation of failed runs and people's own wait
        return Failed(message=message, data=UndecidedError(message))
    return Completed(name=NEEDS_DECISION, message=message, data=result)


def _answer(lines: list[str], hours: float, question: str, undecided: str) -> tuple[Answer, bool]:
    """Pause this flow run until a person has answered, or the time is over.

    Returns the answer, and whether a person gave it. An answer to the same question before the run
    was started again counts.
    """
    run_id, seconds = runtime.flow_run.id, 3600 * hours
    no_answer = {"promote": False, "reason": f"no answer came in {hours:g} h."}
    form = Answer.with_initial_data(description="\n\n".join(lines))
    with get_client(sync_client=True) as client:
        for time_asked in count(1):
            # as Prefect's pause_flow_run, whose state has no message
            state: State = Paused(
                timeout_seconds=int(seconds) + _SECONDS_OF_GRACE,
                pause_key=question if time_asked == 1 else f"{question}-{time_asked}",
                message=f"waits for a decision, at most {hours:g} h: {undecided}",
            )
            keyset = keyset_from_paused_state(state)
            state.state_details.run_input_keyset = cast(dict[str, str], keyset)
            state = propose_state_sync(client, state, run_id)
            if state.is_paused():
                form.save(keyset)
                break
            # a pause fires once: it did before this run was started again
            if read_flow_run_input(keyset["response"]) is not None:
                break
        end = time.monotonic() + seconds
        while not state.is_running():
            left = end - time.monotonic()
            if left < -_SECONDS_OF_GRACE:
                raise TimeoutError(f"the run is {state.name} and cannot be resumed")
            if left <= 0:
                with suppress(NotPausedError):  # already resumed
                    resume_flow_run(run_id, no_answer)
            time.sleep(min(_SECONDS_BETWEEN_LOOKS, max(left, 0.1)))
            state = client.read_flow_run(run_id).state or state
    answer = cast(Answer, form.load(keyset))  # a coroutine only with an event loop
    return answer, answer.model_dump() != no_answer


def _send_events(name: str, run: Run) -> None:
    """Send events, and move the alias, of promotions; also of one that was killed."""
    store = Store.of(run.folder)
    for problem in (move_alias(store.promotions, name), send_pending(name, store.path)):
        if problem is not None:
            say(f"Warning: {problem}")


def _logged(lines: Sequence[str]) -> Sequence[str]:
    for line in lines:
        say(line)
    return lines
