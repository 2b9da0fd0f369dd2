"""Serve the flow with settings of your own: ``python deployments/serve.py TABLE TARGET``."""

import sys

import chaffinch
from chaffinch.flows.prefect_runtime.server import prepare

prepare()

from chaffinch.flows.serving.deployments import Served, serve_flows  # noqa: E402 - prepared first
from chaffinch.storage.sources import source_of  # noqa: E402
from chaffinch.tasks.settings.execution import ServeSettings  # noqa: E402

if __name__ == "__main__":
    data, target = sys.argv[1:]
    settings = chaffinch.SelectionSettings(
        target=target,
        method=chaffinch.methods.Flbmo(n_features=(10,)),
        model=chaffinch.ModelSettings(name="xgboost"),
    )
    schedule = ServeSettings(cron="30 1 * * 1-5", timezone="Europe/Vienna")
    serve_flows([Served(source_of(data), settings, schedule)], chaffinch.ExecutionSettings())
