"""A schedule makes a run, and the run is done: with SQLite here, with PostgreSQL in test_whole."""

from pathlib import Path

import pytest

from tests.flows.cli.programs import CHAFFINCH, eventually, started
from tests.flows.conftest import Server, day_of, nightly


def has_a_run_every_minute(server: Server, env: dict[str, str], table: Path, folder: Path) -> None:
    """Serve a table every minute until a run of it is done."""
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--cron", "* * * * *", "--cluster", "none", "--store", str(folder / "store"))
    with started(*command, *more, env=env, log=folder / "serve.log"):
        deployments = eventually(lambda: server.deployments("harvest"))
        wanted = {"id": {"any_": [deployments[nightly("harvest")]["id"]]}}

        def done() -> list[str]:
            runs = server.find("flow_runs", deployments=wanted)
            assert all(run["auto_scheduled"] for run in runs)
            assert not [run for run in runs if run["state_type"] in ("FAILED", "CRASHED")]
            ended = [run for run in runs if run["state_type"] == "COMPLETED"]
            return [run["name"].removesuffix(f" {day_of(run)}") for run in ended]

        assert set(eventually(done, 150)) == {"harvest auto lightgbm"}
    server.forget_deployments()
    assert len(list(folder.glob("store/runs/*/report.html"))) == 1


@pytest.mark.e2e
def test_a_schedule_makes_a_run_that_is_done(server, table, tmp_path):
    has_a_run_every_minute(server, server.env, table, tmp_path)
