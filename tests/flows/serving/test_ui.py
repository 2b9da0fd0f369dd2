"""The UI as a person meets it: a browser opens it, fills in the form, and reads what came of it.

Pictures of what it shows are left in build/pictures; docs/pictures has them with fewer colours.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chaffinch
from chaffinch.tasks.settings.method import kinds, method_of
from tests import browser
from tests.documents import ROOT
from tests.flows.cli.programs import AUTH, CHAFFINCH, eventually, free_port, started
from tests.flows.conftest import Server, day_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="module")
def deployments(server: Server, table: Path, store: Path) -> Iterator[dict[str, Any]]:
    """Serve, and return the deployments by their names."""
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--store", str(store), "--reports-port", str(free_port()))
    with started(*command, *more, env=server.env, log=store / "serve.log"):
        yield eventually(lambda: server.deployments("harvest"))
    server.forget_deployments()


@pytest.fixture(scope="module")
def page(server: Server, deployments: dict[str, Any]) -> Iterator["Page"]:
    """Open the UI; nothing but the server can be reached."""
    program = browser.program()
    if program is None:
        pytest.skip("there is no Chromium here; make e2e-needs installs it")
    home = server.url.removesuffix("/api")
    with browser.opened(program, home) as page:
        page.goto(home)
        page.get_by_placeholder("admin:pass").fill(AUTH)
        page.get_by_role("button", name="Login").click()
        page.get_by_role("link", name="Deployments").wait_for()
        yield page


@pytest.fixture
def form(page: "Page", server: Server) -> "Page":
    """Go from the front page to the form of the selection, as a person does."""
    page.goto(server.url.removesuffix("/api"))
    page.get_by_role("link", name="Deployments").click()
    page.get_by_role("link", name="select-on-demand", exact=True).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Custom run").click()
    page.get_by_text("Method (Optional)").wait_for()
    return page


def field(form: "Page", title: str) -> "Locator":
    """Return a field with all that belongs to it, by its title."""
    label = form.locator("label").get_by_text(title, exact=True)
    return form.locator("div.group").filter(has=label).last


def submit(form: "Page") -> None:
    form.get_by_role("button", name="Submit").click()


def send(page: "Page", button: "Locator", path: str) -> None:
    """Press what sends; a server on SQLite that is busy says so, and is asked again."""
    status = 503
    while status == 503:
        with page.expect_response(re.compile(f"/{path}$")) as response:
            button.click()
        status = response.value.status
    assert response.value.ok


def keep_picture(page: "Page", name: str) -> None:
    page.screenshot(path=ROOT / "build" / "pictures" / f"{name}.png")


def runs(server: Server, deployments: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = {"id": {"any_": [deployments["feature_selection/select-on-demand"]["id"]]}}
    return server.find("flow_runs", deployments=wanted)


def test_the_form_shows_titles_descriptions_and_defaults_in_order(form):
    from prefect.utilities.callables import parameter_schema

    schema = parameter_schema(chaffinch.feature_selection.fn).model_dump()
    titles = [
        title.removesuffix(" (Optional)") for title in form.locator("label").all_inner_texts()
    ]
    for group in ("SelectionSettings", "Auto", "ModelSettings", "ColumnSettings"):
        fields = schema["definitions"][group]["properties"].values()
        asked = [field["title"] for field in fields]
        places = [titles.index(title) for title in asked]
        assert places == sorted(places)
        for field in fields:
            assert form.get_by_text(field["description"], exact=True).count() > 0
    outer = [field["title"] for field in schema["properties"].values()]
    assert outer == ["Table", "Settings", "Execution", "Promotion", "Limits"]
    assert [title for title in titles if title in outer] == outer
    assert form.get_by_role("textbox", name="Target").input_value() == "yield"
    assert form.get_by_label("Folds").input_value() == "5"


def test_each_method_has_a_form_of_its_own(form):
    method = field(form, "Method (Optional)").get_by_role("tablist").first
    assert method.get_by_role("tab", selected=True).inner_text() == "Automatic"
    assert form.get_by_text("Within one standard error (Optional)").count() > 0
    method.get_by_role("tab", name="GBMO").click()
    form.get_by_text("Slacks (Optional)").wait_for()
    assert form.get_by_text("Within one standard error (Optional)").count() == 0
    method.get_by_role("tab", name="Ranking").click()
    form.get_by_text("Lowest score (Optional)").wait_for()
    assert form.get_by_text("Slacks (Optional)").count() == 0
    method.get_by_role("tab", name="PEFS").click()
    form.get_by_text("Hidden layers (Optional)").wait_for()
    assert form.get_by_text("Lowest score (Optional)").count() == 0


def test_wrong_values_are_refused_with_the_reason_and_start_nothing(form, server, deployments):
    form.get_by_label("Folds").fill("1")
    submit(form)
    said = form.get_by_label("Folds").evaluate("input => input.validationMessage")
    assert said == "Value must be greater than or equal to 2."
    form.get_by_label("Folds").fill("5")

    form.get_by_label("Table").fill("postgresql://me:hidden@host/shop#orders")
    submit(form)
    reason = "Validation failed for field 'data'. Failure reason:"
    form.get_by_text(re.compile(re.escape(reason))).first.wait_for()

    form.get_by_label("Table").fill("orders.csv")
    form.get_by_role("textbox", name="Target").fill("")
    submit(form)
    form.get_by_text(re.compile("'target' is a required property")).first.wait_for()
    assert "/run?" in form.url
    assert runs(server, deployments) == []


def test_no_method_begins_with_what_the_browser_itself_refuses(form):
    methods = {type(method_of(kind)) for kind in kinds()}
    method = field(form, "Method (Optional)").get_by_role("tablist").first
    for tab in method.get_by_role("tab").all():
        tab.click()
        (one,) = (m for m in methods if m.model_config["title"] == tab.inner_text())
        form.get_by_text(one.model_fields["kind"].description, exact=True).wait_for()
        assert form.locator("input:invalid").count() == 0, tab.inner_text()


def test_a_run_is_started_and_its_artifacts_are_there_to_see(
    form, server, deployments, table, store
):
    form.get_by_label("Table").fill(table.name)
    form.get_by_role("textbox", name="Target").fill("yield")
    most = field(form, "At most this many features (Optional)")
    most.get_by_role("tab", name="Number").click()
    most.get_by_role("spinbutton").fill("2")
    form.get_by_label("Cluster (Optional)").fill("none")
    form.get_by_label("Table").scroll_into_view_if_needed()
    keep_picture(form, "form")
    form.get_by_label("Table").fill(str(table))
    send(form, form.get_by_role("button", name="Submit"), "create_flow_run")
    (run,) = eventually(lambda: runs(server, deployments))
    run = server.ended(run["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["parameters"]["settings"]["method"]["n_features"] == 2

    page = form
    home = server.url.removesuffix("/api")
    page.goto(f"{home}/v2/runs/flow-run/{run['id']}")
    page.get_by_text(f"harvest auto lightgbm {day_of(run)}").first.wait_for()
    page.wait_for_timeout(5_000)  # nothing else tells when its graph is drawn
    keep_picture(page, "run")
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("harvest-verdict").wait_for()
    keep_picture(page, "artifacts")
    artifacts = server.artifacts(run["id"])
    for key in artifacts:
        assert page.get_by_text(key, exact=True).count() == 1

    def show(key: str) -> None:
        page.goto(f"{home}/v2/artifacts/artifact/{artifacts[key]['id']}")
        page.get_by_text(artifacts[key]["description"]).first.wait_for()

    show("harvest-verdict")
    verdict = page.get_by_test_id("markdown-display")
    verdict.get_by_text("with 2 of 6 features, chosen separately in each fold").wait_for()
    link = verdict.get_by_role("link", name=next(store.glob("runs/*/report.html")).parent.name)
    report = page.context.browser.new_page()  # the other one shows the server's address alone
    report.goto(link.get_attribute("href"))
    report.get_by_text("with 2 of 6 features, chosen separately in each fold").first.wait_for()
    assert report.locator("svg").first.is_visible()
    styled = report.locator("h1").first.evaluate("title => getComputedStyle(title).fontFamily")
    assert "serif" in styled
    report.close()
    show("harvest-losses")
    page.get_by_role("cell", name="out-of-fold").wait_for()
    show("harvest-features")
    assert page.get_by_role("row").filter(has_text="true").all_inner_texts() != []
    show("harvest-elimination-curve")
    image = page.locator("main img, img").last
    image.wait_for()
    assert image.evaluate("image => image.complete && image.naturalWidth") > 600


def test_a_run_that_waits_asks_a_person_and_acts_on_the_answer(
    page, server, deployments, table, store
):
    settings = {"target": "yield", "model": {"name": "linear"}}
    parameters = {
        "data": str(table),
        "settings": settings,
        "execution": {"cluster": "none", "store": str(store)},
        "promotion": {"name": "rye", "wait": 1},
    }
    on_demand = deployments["feature_selection/select-on-demand"]["id"]
    run = server.accepted(on_demand, parameters)["id"]
    eventually(lambda: server.get(f"/flow_runs/{run}")["state_type"] == "PAUSED")

    page.goto(f"{server.url.removesuffix('/api')}/v2/runs/flow-run/{run}")
    page.get_by_role("button", name="Open menu").click()
    page.get_by_role("menuitem", name="Resume").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Make this contract the one in use.").wait_for()
    dialog.get_by_label("Promote").click()
    dialog.get_by_label("Reason").fill("looked at it")
    keep_picture(page, "pause")
    send(page, dialog.get_by_role("button", name="Resume"), "resume")

    assert server.ended(run)["state_type"] == "COMPLETED"
    (promotion,) = chaffinch.promotions("rye", store=store)
    assert promotion.reason == "looked at it"
