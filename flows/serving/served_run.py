"""The process of a served run: ``python -m chaffinch.flows.serving.served_run ID``."""

import signal
import sys
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.engine import handle_engine_signals
from prefect.exceptions import ParameterTypeError, SignatureMismatchError
from prefect.flow_engine import load_flow_and_flow_run, run_flow
from prefect.logging import get_logger
from prefect.states import Failed

from chaffinch.errors import one_line

if __name__ == "__main__":
    # Those of a terminal stay blocked, as they were inherited: they are for who serves.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    run_id = UUID(sys.argv[1])
    with handle_engine_signals(run_id):
        flow_run, flow = load_flow_and_flow_run(run_id)
        try:
            run_flow(flow, flow_run, return_type="state")  # whose errors are in the log already
        except (ParameterTypeError, SignatureMismatchError) as error:  # not of the form
            reason = f"the flow cannot take the run's parameters: {one_line(error)}"
            get_logger("flow_runs").error(reason)
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(run_id, Failed(message=reason))
