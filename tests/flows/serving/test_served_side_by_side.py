"""Several data sets, each served by a `chaffinch serve` of its own, on one Prefect server."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.cli.programs import CHAFFINCH, chaffinch, eventually, started
from tests.flows.conftest import Server, names_of, nightly, on_new_data

pytestmark = pytest.mark.e2e


QUICK = {
    "target": "yield",
    "method": {"kind": "anova_f", "n_features": [2]},
    "model": {"name": "linear", "tuning": "none"},
}


@pytest.fixture(autouse=True)
def nothing_left(server: Server) -> Iterator[None]:
    """Delete every deployment afterwards, whatever became of the test."""
    yield
    server.forget_deployments()


def serve(table: Path) -> tuple[str, ...]:
    """Return the command, to be given in the table's folder."""
    return (*CHAFFINCH, "serve", "--data", table.name, "--target", "yield", "--cluster", "none")


def test_neither_takes_over_from_the_other_nor_stops_what_the_other_does(
    server: Server, table, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    orders = tmp_path / "elsewhere" / "orders.v2.csv"
    harvest = tmp_path / "harvest.csv"
    for copy in (orders, harvest):
        copy.write_bytes(table.read_bytes())
    both = ("harvest", "orders.v2")

    def runs_of(deployment: str) -> list[dict[str, Any]]:
        wanted = {"id": {"any_": [deployments[deployment]["id"]]}}
        runs = server.find("flow_runs", deployments=wanted)
        return [run for run in runs if not run["auto_scheduled"]]

    with started(*serve(harvest), env=server.env, log=tmp_path / "harvest.log", cwd=harvest.parent):
        eventually(lambda: server.deployments("harvest"))
        with started(
            *serve(orders), env=server.env, log=tmp_path / "orders.log", cwd=orders.parent
        ) as second:
            deployments = eventually(lambda: server.deployments(*both))
            assert set(deployments) == names_of(*both)
            suggested = {name: one["parameters"].get("data") for name, one in deployments.items()}
            assert (
                suggested[nightly("harvest")] == suggested[on_new_data("harvest")] == str(harvest)
            )
            assert suggested[nightly("orders.v2")] == str(orders)
            os.kill(second.pid, signal.SIGTERM)
            assert second.wait(60) == 143
        paused = {name for name, one in server.deployments(*both).items() if one["paused"]}
        assert paused == {nightly("orders.v2")}
        home = {"home": tmp_path, "PREFECT_API_URL": server.url}
        assert chaffinch("announce", str(harvest), **home).returncode == 0
        (announced,) = eventually(lambda: runs_of(on_new_data("harvest")))
        eventually(lambda: list(harvest.parent.glob("chaffinch-store/runs/harvest-*/run.json")))
        # with the table and the store that the other suggested last
        on_demand = deployments["feature_selection/select-on-demand"]
        ended = server.ended(server.accepted(on_demand["id"], {"settings": QUICK})["id"])
    assert announced["parameters"]["data"] == str(harvest)
    assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
    assert len(list(orders.parent.glob("chaffinch-store/runs/orders-*/report.html"))) == 1


def test_one_process_serves_the_tables_of_a_file(server: Server, table, tmp_path):
    (tmp_path / "both.toml").write_text(
        f"""
        target = "yield"
        model = "linear"
        serve = {{cron = "0 3 * * *"}}
        execution = {{cluster = "none"}}

        [tables.first]
        data = "{table}"
        method = "anova_f"

        [tables.second]
        data = "{table}"
        serve = {{cron = "0 4 * * *", promote = true}}
        """
    )
    command = (*CHAFFINCH, "serve", "--config", "both.toml")
    with started(*command, env=server.env, log=tmp_path / "log", cwd=tmp_path) as program:
        found = eventually(lambda: server.deployments("first", "second"))
        assert set(found) == names_of("first", "second")
        hours = {
            name: found[nightly(name)]["schedules"][0]["schedule"]["cron"].split()[1]
            for name in ("first", "second")
        }
        assert hours == {"first": "3", "second": "4"}
        asked = {name: found[nightly(name)]["parameters"] for name in ("first", "second")}
        methods = {name: one["settings"]["method"]["kind"] for name, one in asked.items()}
        assert methods == {"first": "anova_f", "second": "auto"}
        assert asked["second"]["promotion"]["name"] == "second"
        assert asked["first"].get("promotion") is None
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait(60) == 143
    paused = {name for name, one in server.deployments("first", "second").items() if one["paused"]}
    assert paused == {nightly("first"), nightly("second")}
