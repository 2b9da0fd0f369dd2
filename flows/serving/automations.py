"""Automations of the Prefect server for failed runs and for runs without a heartbeat."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, DoNothing
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from chaffinch.errors import InputError
from chaffinch.flows.prefect_runtime.promotion import NEEDS_DECISION

TAG = "chaffinch"
SILENT, FAILED = "chaffinch: a run that fell silent", "chaffinch: a run that failed"
UNDECIDED = "chaffinch: a run that needs a decision"

_HEARTBEATS_MISSED = 3
_HEARTBEAT = "prefect.flow-run.heartbeat"
# After these events a run sends no heartbeat, or a new event when it continues.
_RESTS = {
    f"prefect.flow-run.{state}"
    for state in (
        *("Completed", "Failed", "TimedOut", "Crashed", "Cancelled", NEEDS_DECISION),
        *("AwaitingRetry", "Paused", "Suspended", "Scheduled"),
    )
}
_PAYLOAD = """{
  "flow_run": {{ flow_run.name | tojson }},
  "id": {{ flow_run.id | string | tojson }},
  "state": {{ flow_run.state.name | tojson }},
  "message": {{ (flow_run.state.message or "") | tojson }},
  "tags": {{ flow_run.tags | list | tojson }}
}"""


def make(webhook: str | None = None) -> tuple[AutomationCore, ...]:
    """Create the automations, or replace existing ones."""
    with get_client(sync_client=True) as client:
        made = _automations(_called(client, webhook))
        for automation in made:
            _put(client, automation)
    return made


def make_missing() -> None:
    """Create missing automations, and leave existing ones unchanged."""
    with get_client(sync_client=True) as client:
        for automation in _automations(DoNothing()):
            if not client.read_automations_by_name(automation.name):
                client.create_automation(automation)


def _automations(action: CallWebhook | DoNothing) -> tuple[AutomationCore, ...]:
    heartbeat = get_current_settings().flows.heartbeat_frequency or 60
    failed = "A run failed, took too long or crashed."
    undecided = "A run needs a decision; its message gives the reason."
    return (
        silence(_HEARTBEATS_MISSED * heartbeat),
        _after_states(FAILED, failed, ("Failed", "TimedOut", "Crashed"), action),
        _after_states(UNDECIDED, undecided, (NEEDS_DECISION,), action),
    )


def silence(seconds: float) -> AutomationCore:
    """Return the automation that marks a run without a heartbeat as crashed."""
    return AutomationCore(
        name=SILENT,
        description=f"A run without a sign of life for {seconds:g} s has crashed: its process or "
        "its machine was killed. Started again, it continues where it stopped.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={_HEARTBEAT},
            expect={_HEARTBEAT, *_RESTS},
            within=timedelta(seconds=seconds),
            **_of_our_runs(),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                name="Crashed",
                message=f"There was no sign of life for {seconds:g} s; started again, the run goes "
                "on where it was",
                force=False,
            )
        ],
    )


def _after_states(
    name: str, what: str, states: Sequence[str], action: CallWebhook | DoNothing
) -> AutomationCore:
    return AutomationCore(
        name=name,
        description=f"{what} Add actions here, such as a message.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            expect={f"prefect.flow-run.{state}" for state in states},
            **_of_our_runs(),
        ),
        actions=[action],
    )


def _of_our_runs() -> dict[str, Any]:
    run = {"prefect.resource.id": "prefect.flow-run.*"}
    tag = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
    return {
        "match": ResourceSpecification.model_validate(run),
        "match_related": ResourceSpecification.model_validate(tag),
        "for_each": {"prefect.resource.id"},
        "threshold": 1,
    }


def _called(client: SyncPrefectClient, webhook: str | None) -> CallWebhook | DoNothing:
    if webhook is None:
        return DoNothing()
    try:
        block = client.read_block_document_by_name(webhook, "webhook")
    except ObjectNotFound as error:
        raise InputError(
            f"there is no Webhook block {webhook!r} on the server; make one in the UI, at Blocks"
        ) from error
    return CallWebhook(block_document_id=block.id, payload=_PAYLOAD)


def _put(client: SyncPrefectClient, automation: AutomationCore) -> None:
    first, *others = client.read_automations_by_name(automation.name) or (None,)
    if first is None:
        client.create_automation(automation)
        return
    # in full: Prefect's client omits defaults, which the server does not know
    definition = automation.model_dump(mode="json", exclude={"owner_resource"})
    definition["enabled"] = first.enabled
    client.update_automation(first.id, AutomationCore.model_validate(definition))
    for other in others:
        client.delete_automation(other.id)
