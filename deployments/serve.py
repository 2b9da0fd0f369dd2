"""Serve the flow with settings of your own: ``python deployments/serve.py TABLE TARGET``."""

import sys

import chaffinch
from chaffinch.flows.prefect_runtime.server import prepare

prepare()

from chaffinch.flows.serving.deployments import serve_flows  # noqa: E402 - prepared first

if __name__ == "__main__":
    data, target = sys.argv[1:]
    serve_flows(
        data,
        chaffinch.SelectionSettings(
            target=target,
            method=chaffinch.methods.Flbmo(n_features=(10,)),
            model=chaffinch.ModelSettings(name="xgboost"),
        ),
        chaffinch.ExecutionSettings(),
        cron="30 1 * * 1-5",
        timezone="Europe/Vienna",
    )
