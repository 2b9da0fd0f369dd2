"""The process of a served run: ``python -m chaffinch.flows.serving.served_run ID``."""

import signal
import sys
from uuid import UUID

from prefect.engine import handle_engine_signals
from prefect.flow_engine import load_flow_and_flow_run, run_flow

if __name__ == "__main__":
    # Those of a terminal stay blocked, as they were inherited: they are for who serves.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    run_id = UUID(sys.argv[1])
    with handle_engine_signals(run_id):
        flow_run, flow = load_flow_and_flow_run(run_id)
        run_flow(flow, flow_run, return_type="state")  # whose errors are in the log already
