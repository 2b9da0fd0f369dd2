"""Links to reports: what they lead to, and that nothing else of a store is served."""

import socket

import httpx
import pytest

from chaffinch.errors import InputError
from chaffinch.flows.prefect_runtime.reports import report_in_markdown, reports_served
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import free_port
from tests.tasks.results.made_store import begun

PAGE = "<!doctype html><title>a report</title>"


@pytest.fixture
def store(tmp_path):
    for kind in ("runs", "comparisons"):
        folder = tmp_path / "store" / kind / "orders-1"
        folder.mkdir(parents=True)
        (folder / "report.html").write_text(PAGE)
        (folder / "selection.json").write_text("{}")
    (tmp_path / "report.html").write_text("of somebody else")
    return tmp_path / "store"


def test_a_report_that_nobody_serves_is_named_by_its_path(store, monkeypatch) -> None:
    monkeypatch.delenv("CHAFFINCH_REPORTS_URL", raising=False)
    folder = store / "runs" / "orders-1"
    assert report_in_markdown(folder) == f"Report: `{folder}/report.html`"
    with reports_served(store, None):
        assert report_in_markdown(folder) == f"Report: `{folder}/report.html`"


def test_one_that_a_web_server_shows_is_linked_there(store, monkeypatch) -> None:
    monkeypatch.setenv("CHAFFINCH_REPORTS_URL", "https://reports.example/chaffinch/")
    found = report_in_markdown(store / "comparisons" / "orders-1")
    where = "https://reports.example/chaffinch/comparisons/orders-1/report.html"
    assert found == f"Report: [orders-1]({where})"


@pytest.mark.parametrize("kind", ["runs", "comparisons"])
def test_the_link_leads_to_the_report_while_it_is_served(store, tmp_path, kind) -> None:
    port = free_port()
    with reports_served(store, port):
        found = report_in_markdown(store / kind / "orders-1")
        link = f"http://127.0.0.1:{port}/{kind}/orders-1/report.html"
        assert found == f"Report: [orders-1]({link})"
        answer = httpx.get(link)
        assert (answer.status_code, answer.text) == (200, PAGE)
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        other = tmp_path / "other" / "runs" / "orders-1"
        assert report_in_markdown(other) == f"Report: `{other}/report.html`"
    with pytest.raises(httpx.ConnectError):
        httpx.get(link)
    assert "](" not in report_in_markdown(store / kind / "orders-1")


def test_a_container_serves_on_the_interface_that_its_port_is_published_from(store, monkeypatch):
    monkeypatch.setenv("CHAFFINCH_REPORTS_HOST", "127.0.0.2")
    with reports_served(store, port := free_port()):
        found = report_in_markdown(store / "runs" / "orders-1")
        assert f"(http://127.0.0.1:{port}/runs/orders-1/report.html)" in found
        asked = {"Host": f"127.0.0.1:{port}"}  # as a browser asks the published port
        answer = httpx.get(f"http://127.0.0.2:{port}/runs/orders-1/report.html", headers=asked)
    assert (answer.status_code, answer.text) == (200, PAGE)


def test_without_an_address_in_the_variable_no_other_interface_listens(store, monkeypatch):
    monkeypatch.setenv("CHAFFINCH_REPORTS_HOST", "")
    with reports_served(store, port := free_port()):
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


OTHER_PATHS = (
    "/",
    "/docs",
    "/openapi.json",
    "/runs/orders-1/",
    "/runs/orders-1/selection.json",
    "/runs/orders-2/report.html",
    "/runs/orders-3/report.html",  # by a link that leads out of the store
    "/datasets/orders-1/report.html",
    "/runs/%2e%2e/report.html",
    "/runs/..%2f..%2f..%2freport.html",
    "/runs/.hidden/report.html",
)


def test_nothing_else_is_served_nor_a_report_by_another_name_of_this_machine(
    store, tmp_path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "report.html").write_text("of somebody else")
    (store / "runs" / "orders-3").symlink_to(tmp_path / "elsewhere")
    with reports_served(store, port := free_port()):
        for path in OTHER_PATHS:
            assert httpx.get(f"http://127.0.0.1:{port}{path}").status_code in (404, 422), path
        link = f"http://127.0.0.1:{port}/runs/orders-1/report.html"
        assert httpx.get(link, headers={"Host": f"localhost:{port}"}).status_code == 200
        assert httpx.get(link, headers={"Host": f"evil.example:{port}"}).status_code == 400


def test_at_its_root_is_the_page_of_all_runs_as_they_are_now(tmp_path) -> None:
    store = Store.open(tmp_path)
    with reports_served(store.path, port := free_port()):
        empty = httpx.get(f"http://127.0.0.1:{port}/")
        assert empty.status_code == 200
        assert "Nothing: no decision is open" in empty.text
        begun(store, 1)
        page = httpx.get(f"http://127.0.0.1:{port}/")
    assert "orders-1" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_port_that_is_taken_is_refused_before_anything_is_served(store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refusal = f"reports cannot be served on port {port} of 127.0.0.1 .*; give another port"
        with pytest.raises(InputError, match=refusal), reports_served(store, port):
            """Not reached."""
