"""Names of runs whose source cannot be one: the run has a name, and fails with the reason."""

from importlib import import_module
from typing import Any

import pytest

from tests.flows.conftest import Server, day_of

pytestmark = pytest.mark.e2e

SETTINGS = {"target": "y"}
SOURCES = [
    ("", "a source must be named but is empty text"),
    ("sqlite:////srv/shop.db#DELETE FROM orders", "begin with SELECT or WITH, but begins with 'D"),
    ("orders\0.csv", r"source 'orders\x00.csv' holds the character of code 0; leave it out"),
    ("s3:///k.csv", "an address in S3 is s3://bucket/key"),
    ("postgresql://me:hidden@h/db#t", "the address of a source holds a password"),
]


def ended(
    server: Server, name: str, parameters: dict[str, Any], run_name: str | None = None
) -> dict[str, Any]:
    """Begin a flow run that the server has made, as a runner does; return it at its end."""
    from prefect.client.schemas.objects import FlowRun
    from prefect.flow_engine import run_flow

    flow = getattr(import_module(f"chaffinch.flows.{name}"), name)
    flow_id = server.ask("POST", "/flows/", {"name": flow.name}).json()["id"]
    asked: dict[str, Any] = {
        "flow_id": flow_id,
        "parameters": parameters,
        "state": {"type": "PENDING"},
    }
    asked |= {} if run_name is None else {"name": run_name}
    made = server.ask("POST", "/flow_runs/", asked).raise_for_status().json()
    run_flow(flow, FlowRun.model_validate(made), parameters, return_type="state")
    run: dict[str, Any] = server.get(f"/flow_runs/{made['id']}")
    return run


@pytest.mark.parametrize(("source", "reason"), SOURCES)
def test_a_source_that_cannot_be_one_fails_the_run_and_does_not_name_it(
    server, tmp_path, source, reason
):
    execution = {"store": str(tmp_path / "store"), "cluster": "none"}
    given = {"data": source, "settings": SETTINGS, "execution": execution}
    run = ended(server, "feature_selection", given)
    name = f"unnamed auto lightgbm {day_of(run)}"
    assert (run["name"], run["state_name"]) == (name, "Failed")
    assert reason in run["state"]["message"]
    assert "hidden" not in run["state"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flow", "given", "name", "reason"),
    [
        (
            "comparison",
            {"data": ["orders.csv", "foo://x/y"], "settings": SETTINGS},
            "orders, unnamed: 4 methods, 1 model,",
            "nothing is read from foo: addresses",
        ),
        (
            "comparison",
            {"data": [], "settings": SETTINGS},
            "no tables: 4 methods, 1 model,",
            "there is no table to compare on",
        ),
        (
            "reselection",
            {"former": "foo://x/y", "data": "s3:///k.csv"},
            "unnamed after unnamed",
            "a run must be on this disk but is an address",
        ),
    ],
)
def test_so_does_every_flow(server, tmp_path, monkeypatch, flow, given, name, reason):
    monkeypatch.chdir(tmp_path)
    given |= {"execution": {"store": str(tmp_path / "store"), "cluster": "none"}}
    run = ended(server, flow, given)
    assert (run["name"], run["state_name"]) == (f"{name} {day_of(run)}", "Failed")
    assert reason in run["state"]["message"]


@pytest.mark.parametrize("typed", ["before the audit", "nightly-orders", "calm"])
def test_a_name_that_a_person_typed_stays(server, tmp_path, typed):
    execution = {"store": str(tmp_path / "store"), "cluster": "none"}
    given = {"data": "foo://x/y", "settings": SETTINGS, "execution": execution}
    assert ended(server, "feature_selection", given, typed)["name"] == typed


def test_a_name_that_prefect_made_is_replaced(server, tmp_path):
    from prefect.utilities.names import generate_slug

    execution = {"store": str(tmp_path / "store"), "cluster": "none"}
    given = {"data": "foo://x/y", "settings": SETTINGS, "execution": execution}
    for _ in range(3):
        run = ended(server, "feature_selection", given, generate_slug(2))
        assert run["name"].startswith("unnamed auto lightgbm")
