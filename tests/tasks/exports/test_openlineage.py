"""The event names the table that a run read, and the column that each kept feature comes from."""

import json
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.exports import to_openlineage
from chaffinch.tasks.exports.openlineage import as_json, send
from tests.flows.cli.programs import free_port

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)  # which holds no openlineage.yml


def test_the_event(exported, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    event = to_openlineage(exported)
    assert type(event).__name__ == "RunEvent"
    assert event.eventType.value == "COMPLETE"
    assert (event.job.namespace, event.job.name) == ("shop", "feature_selection.orders")
    (read,), (made,) = event.inputs, event.outputs
    assert (read.namespace, read.name) == ("shop", "orders")
    assert read.facets["version"].datasetVersion == exported.contract["dataset"]["hash"]
    assert (made.namespace, made.name) == ("shop", "orders_features")
    types = {field.name: field.type for field in made.facets["schema"].fields}
    kinds = {one["name"]: one.get("values") or one["type"] for one in exported.contract["features"]}
    assert types == kinds


def lineage(event):
    facet = event.outputs[0].facets["columnLineage"]
    return {
        feature: [(one.name, one.field, one.transformations[0].subtype) for one in of.inputFields]
        for feature, of in facet.fields.items()
    }


def test_each_feature_comes_from_its_column(exported, of_days):
    found = lineage(to_openlineage(exported, table="web.orders"))
    assert found == {name: [("web.orders", name, "IDENTITY")] for name in exported.features}
    found = lineage(to_openlineage(of_days, name="days"))
    assert found == {"y_lag_1": [("days", "y", "TRANSFORMATION")]}


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("s3://shop/a/orders.parquet", ("s3://shop", "a/orders.parquet")),
        ("postgres://db:5432/shop.web.orders", ("postgres://db:5432", "shop.web.orders")),
        ("web.orders", ("default", "web.orders")),
    ],
)
def test_an_address_is_a_namespace_and_a_name(table, place, exported):
    event = to_openlineage(exported, table=table)
    (read,) = event.inputs
    origin = event.outputs[0].facets["columnLineage"].fields["age"].inputFields[0]
    assert (read.namespace, read.name) == (origin.namespace, origin.name) == place


def test_a_secret_is_refused(exported):
    with pytest.raises(InputError, match="holds a password") as caught:
        to_openlineage(exported, table="postgres://me:hidden@db/orders")
    assert "hidden" not in str(caught.value)


def test_a_promoted_run_has_the_name_that_it_was_promoted_under(exported):
    store = exported.folder.parent.parent
    chaffinch.promote(exported, name="sales", store=store)
    assert to_openlineage("sales", store=store).job.name == "feature_selection.sales"
    assert to_openlineage(exported.run, store=store).job.name == "feature_selection.orders"


def test_one_run_has_one_id_and_one_time(exported, of_days):
    event = to_openlineage(exported)
    assert to_openlineage(exported) == event
    uuid.UUID(event.run.runId)
    assert event.run.runId != to_openlineage(of_days, name="orders").run.runId
    assert event.eventTime == json.loads((exported.folder / "run.json").read_text())["created"]


def test_the_names_of_a_contract_alone(exported):
    contract = exported.folder / "selection.json"
    assert to_openlineage(contract, name="orders").job.name == "feature_selection.orders"
    with pytest.raises(InputError, match="has no name of a data set"):
        to_openlineage(contract)


def test_it_is_sent_where_the_environment_says(exported, monkeypatch):
    received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *args):
            pass

    event = to_openlineage(exported)
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        assert send(event) == event.run.runId
    assert received == [json.loads(as_json(event))]
    assert received[0]["schemaURL"].endswith("#/$defs/RunEvent")


def test_without_a_configuration_it_is_printed(exported):
    event = to_openlineage(exported)
    assert send(event) == as_json(event)


def test_nobody_listens(exported, monkeypatch):
    address = f"http://reader:hidden@127.0.0.1:{free_port()}"
    transport = {"type": "http", "url": address, "retry": {"total": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    with pytest.raises(InputError, match="could not be sent to OpenLineage") as caught:
        send(to_openlineage(exported))
    assert "hidden" not in str(caught.value)
