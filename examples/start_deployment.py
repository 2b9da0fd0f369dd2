"""Let `chaffinch serve` do the work, from a program that only knows the Prefect server.

python examples/start_deployment.py /srv/chaffinch/orders.parquet features.json

The environment names the server: PREFECT_API_URL, and PREFECT_API_AUTH_STRING, which it asks for.
"""

import json
import sys
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.deployments import run_deployment


def select(table: str) -> list[str]:
    """Start the deployment on a table, wait for its end, and return the kept features."""
    run = run_deployment(
        "feature-selection/select-on-demand",
        parameters={"data": table},
        timeout=3600,
        as_subflow=False,
    )
    if not run.state.is_completed():
        raise SystemExit(f"{run.name}: {run.state.name}, {run.state.message}")
    # the keys of a run's artifacts are its data set and their kind, as in orders-features
    wanted = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]),
        key=ArtifactFilterKey(like_="%-features"),
    )
    with get_client(sync_client=True) as client:
        (artifact,) = client.read_artifacts(artifact_filter=wanted)
    return [row["feature"] for row in json.loads(artifact.data) if row["kept"]]


if __name__ == "__main__":
    table, destination = sys.argv[1:]
    Path(destination).write_text(json.dumps(select(table)))
