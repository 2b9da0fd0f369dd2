"""A schedule makes a run, and the run is done: on a server with SQLite, and with PostgreSQL."""

import pytest

from tests.flows.cli.programs import CHAFFINCH, eventually, started
from tests.flows.conftest import nightly, prefect_server
from tests.postgres import Postgres

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("postgres")]

EVERY_MINUTE = "* * * * *"


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_a_schedule_makes_a_run_that_is_done(database, table, tmp_path, request):
    where = {}
    if database == "PostgreSQL":
        postgres: Postgres = request.getfixturevalue("postgres_server")
        with postgres.connected() as connection:
            connection.exec_driver_sql("CREATE DATABASE prefect")
        where["PREFECT_API_DATABASE_CONNECTION_URL"] = postgres.url("postgresql+asyncpg", "prefect")
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--cron", EVERY_MINUTE, "--store", str(tmp_path / "store"))
    with (
        prefect_server(tmp_path, **where) as server,
        started(*command, *more, env=server.env, log=tmp_path / "serve.log"),
    ):
        deployments = eventually(lambda: server.deployments("harvest"))
        wanted = {"id": {"any_": [deployments[nightly("harvest")]["id"]]}}

        def done() -> list[str]:
            runs = server.find("flow_runs", deployments=wanted)
            assert all(run["auto_scheduled"] for run in runs)
            assert not [run for run in runs if run["state_type"] in ("FAILED", "CRASHED")]
            return [run["name"] for run in runs if run["state_type"] == "COMPLETED"]

        assert set(eventually(done, 150)) == {"harvest.csv gbmo lightgbm"}
    assert (tmp_path / "prefect" / "prefect.db").exists() == (database == "SQLite")
    assert len(list(tmp_path.glob("store/runs/*/report.html"))) == 1
