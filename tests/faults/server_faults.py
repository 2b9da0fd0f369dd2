"""Faults around Prefect: its server, its database, and somebody who cancels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults.ground import PrefectServer, ServedRun
from tests.faults.run_faults import alone, with_workers
from tests.faults.starter import Running
from tests.faults.trial import Trial
from tests.flows.cli.programs import eventually


def on_postgres(trial: Trial) -> Running:
    """Start the run with the Prefect server that keeps its runs in PostgreSQL."""
    server, _ = trial.ground.server_on_postgres
    return trial.run(cluster="none", url=server.api.url)


def from_the_form(trial: Trial) -> ServedRun:
    """Start a run of what is served."""
    trial.mark = trial.ground.serving.mark
    trial.stays = trial.ground.serving.pids
    return trial.ground.serving.start(trial.store)


def server_killed(trial: Trial, seconds: float) -> None:
    """Kill the Prefect server, and start it again at once."""
    server = trial.ground.server
    running = alone(trial)
    trial.wait_for_moment(running, seconds)

    def restart() -> None:
        server.kill()
        server.start()

    trial.strike(restart)
    code = running.wait()
    server.wait_until_up()
    if code:
        _goes_on(trial, running, server, alone)


def database_restarted(trial: Trial, seconds: float) -> None:
    """Stop the PostgreSQL of the Prefect server, in order or not, and start it again."""
    server, database = trial.ground.server_on_postgres
    running = on_postgres(trial)
    trial.wait_for_moment(running, seconds)
    in_order = trial.draws.random() < 0.5
    trial.strike(lambda: database.restart(in_order=in_order))
    code = running.wait()
    server.wait_until_up()
    if code:
        _goes_on(trial, running, server, on_postgres)


def cancelled(trial: Trial, seconds: float) -> None:
    """Cancel a run in the UI that was started there."""
    api = trial.ground.server.api
    running = from_the_form(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(lambda: api.cancel(running.id))
    trial.missed_if(running.wait() == 0)
    _is_cancelled(trial, api.get(f"/flow_runs/{running.id}"))
    trial.go_on(lambda: from_the_form(trial))


def command_cancelled(trial: Trial, seconds: float) -> None:
    """Cancel a run in the UI that was started in a terminal."""
    api = trial.ground.server.api
    running = with_workers(trial)
    trial.wait_for_moment(running, seconds)
    flow_run = eventually(lambda: running.code is not None or _flow_run_of(trial))
    trial.missed_if(flow_run is True)
    trial.strike(lambda: api.cancel(flow_run))
    code = running.wait()
    trial.missed_if(code == 0)
    trial.expect(code == 143, f"it ended with {code}")
    said = running.said()[-1]
    trial.expect(
        said == "Stopped. The same command continues where it stopped.", f"it said {said!r}"
    )
    _is_cancelled(trial, api.ended(flow_run))
    trial.go_on(lambda: with_workers(trial))


def _goes_on(
    trial: Trial, running: Running, server: PrefectServer, start: Callable[[Trial], Running]
) -> None:
    """See that a run without its server said so in one line, and continues by the same command."""
    trial.expect_one_line(running, f"the Prefect server at {server.api.url} failed (")
    trial.look_at_what_is_left()
    trial.go_on(lambda: start(trial))


def _is_cancelled(trial: Trial, flow_run: dict[str, Any]) -> None:
    """See that a flow run is shown as cancelled, and that nothing of it stays."""
    trial.expect(flow_run["state_type"] == "CANCELLED", f"it is {flow_run['state_name']}")
    trial.expect_nothing_runs()
    trial.look_at_what_is_left()


def _flow_run_of(trial: Trial) -> str | None:
    """Return the flow run that keeps its results in the store of a trial, once it is shown."""
    wanted = {"state": {"type": {"any_": ["RUNNING"]}}}
    runs = trial.ground.server.api.find("flow_runs", flow_runs=wanted, sort="START_TIME_DESC")
    of_trial = [r["id"] for r in runs if r["parameters"]["execution"]["store"] == str(trial.store)]
    return of_trial[0] if of_trial else None
