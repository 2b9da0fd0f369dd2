"""The process of a served run: ``python -m chaffinch.flows.serving.served_run ID``."""

import signal
import sys
from inspect import signature
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import SignatureMismatchError
from prefect.logging.loggers import flow_run_logger
from prefect.states import Failed

from chaffinch.errors import one_line
from chaffinch.flows.prefect_runtime.internals import (
    handle_engine_signals,
    load_flow_and_flow_run,
    run_flow,
)
from chaffinch.storage.column_names import quoted

if __name__ == "__main__":
    # Those of a terminal stay blocked, as they were inherited: they are for who serves.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    run_id = UUID(sys.argv[1])
    with handle_engine_signals(run_id):
        flow_run, flow = load_flow_and_flow_run(run_id)
        try:
            run_flow(flow, flow_run, return_type="state")  # whose errors are in the log already
        except SignatureMismatchError as error:  # the form has none of these
            unknown = sorted(set(flow_run.parameters) - set(signature(flow.fn).parameters))
            known = f"the flow has no parameter {quoted(unknown)}; leave it out"
            reason = known if unknown else one_line(error)
            flow_run_logger(flow_run, flow).error(reason)
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(run_id, Failed(message=reason))
