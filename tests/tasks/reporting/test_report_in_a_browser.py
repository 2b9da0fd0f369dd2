"""The report as a browser shows it: on a phone, and what its links download."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaffinch.flows.prefect_runtime.reports import reports_served
from chaffinch.storage.files import to_json
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.reporting import ReportContent, render_report
from chaffinch.tasks.results.history import history_of
from chaffinch.tasks.results.history_page import render_history
from tests import browser
from tests.flows.cli.programs import free_port
from tests.tasks.reporting.synthetic_report import explained, synthetic
from tests.tasks.results.made_store import night

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        browser.program() is None, reason="there is no Chromium here; make e2e-needs installs it"
    ),
]
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.opened(browser.program()) as page:
        yield page.context.browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.new_page() as page:
        page.set_default_timeout(30_000)
        yield page


@pytest.fixture(scope="module")
def content() -> ReportContent:
    """Names without a space, some wider than a phone."""
    names = [f"{'long_name_' * (place % 9)}{place}" for place in range(40)]
    sets = {
        "settings": {"number": 1, "tau": 0.5, "quality": "permutation", "dissimilarity": "dice"},
        **{"status": "optimal", "bound": None, "missing": None},
        "confidence": 0.95,
        "chosen": {"features": names[30:], "quality": 2.0},
        "sets": [
            {"features": names[25:35], "quality": 1.5, "bound": 1.5, "status": "optimal"}
            | {"test_loss": 0.5, "difference": 0.1, "interval": [-0.1, 0.3]}
        ],
        "prices": [],
    }
    sets["settings"] |= {"search": "sequential", "aggregate": "sum"}
    content = explained(synthetic(names, 10))
    return replace(content, alternatives=sets, source=f"{'wide_' * 30}.csv")


def test_a_phone_scrolls_in_one_direction(content, tmp_path, page) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(render_report(content))
    page.set_viewport_size(PHONE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_page_of_a_store_fits_a_phone_and_leads_to_reports(tmp_path, page) -> None:
    store = Store.open(tmp_path)
    for number in range(40):
        night(store, number, [number % 7, 8], loss=number / 9, decision="a column is gone " * 9)
    (tmp_path / "index.html").write_bytes(render_history(history_of(store)))
    page.set_viewport_size(PHONE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((tmp_path / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("figure svg text")].map(text =>
            parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
    )
    assert len(sizes) == 8
    assert min(sizes) >= 12
    page.get_by_role("link", name="orders-39").first.click()
    assert page.title() == "a report"


def test_text_in_charts_is_legible_on_a_phone(content, tmp_path, page) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(render_report(content))
    page.set_viewport_size(PHONE)
    page.goto(path.as_uri())
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("figure svg text")].map(text =>
            parseFloat(getComputedStyle(text).fontSize) *
            Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b))"""
    )
    assert len(sizes) > 20
    assert min(sizes) >= 12


@pytest.fixture(params=["file", "served"])
def address(request, content, tmp_path) -> Iterator[str]:
    """The address of a report, as a file and from the server, which has a policy of its own."""
    folder = tmp_path / "runs" / "orders-1"
    folder.mkdir(parents=True)
    (folder / "report.html").write_bytes(render_report(content))
    if request.param == "file":
        yield (folder / "report.html").as_uri()
        return
    port = free_port()
    with reports_served(tmp_path, port):
        yield f"http://127.0.0.1:{port}/runs/orders-1/report.html"


def test_a_table_is_sorted_and_filtered_and_its_former_order_comes_back(address, page) -> None:
    page.goto(address)
    table = page.locator("table.sortable").filter(has_text="Kept features")
    ranks = table.locator("tbody td:nth-child(3)")
    heading = table.get_by_role("columnheader", name="Rank")
    expected = [str(rank) for rank in range(1, 11)]
    assert ranks.all_inner_texts() == expected
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert ranks.all_inner_texts() == expected
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert ranks.all_inner_texts() == expected[::-1]  # 10 above 9: as numbers
    page.get_by_label("Filter: Kept features").fill("rank 7 OF")
    assert [cell.inner_text() for cell in ranks.all() if cell.is_visible()] == ["7"]
    assert page.get_by_text("1 of 10 rows").is_visible()
    page.get_by_label("Filter: Kept features").fill("")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") is None
    assert ranks.all_inner_texts() == expected


def test_a_group_is_shown_alone_in_all_tables_and_sorted_together(content, tmp_path, page) -> None:
    names = content.contract.candidates
    group, dropped = [names[35], names[2], names[5]], [names[0], names[9]]
    path = tmp_path / "report.html"
    path.write_bytes(render_report(replace(content, near_copies=[group, dropped])))
    page.goto(path.as_uri())
    table = page.locator("table.sortable").filter(has_text="Dropped columns")
    rows = page.locator("table:has(td.group) tbody tr:visible th")
    page.get_by_label("Filter: Dropped columns").fill(names[5])
    page.get_by_label("Group: Kept features").select_option(names[35])
    assert rows.all_inner_texts() == [names[35], names[5]]
    page.get_by_label("Filter: Dropped columns").fill("")
    assert rows.all_inner_texts() == [names[35], names[5], names[2]]
    page.get_by_label("Group: Dropped columns").select_option("All groups")
    table.get_by_role("columnheader", name="Group").get_by_role("button").click()
    ordered = table.locator("tbody th").all_inner_texts()
    assert {frozenset(ordered[:2]), frozenset(ordered[2:4])} == {
        frozenset(group[1:]),
        frozenset(dropped),
    }


@pytest.mark.parametrize(
    ("texts", "ascending"),
    [
        (["10", "9", "\N{EN DASH}", "-1"], ["-1", "9", "10", "\N{EN DASH}"]),
        (["1,234", "0.5 %", "7e-05", "+12"], ["7e-05", "0.5 %", "+12", "1,234"]),
        (["10 of 12", "9 of 12", "kept as asked", "1 to 4"],
         ["1 to 4", "9 of 12", "10 of 12", "kept as asked"]),
        (["2026-02-10 02:00", "2026-02-09 23:00", "2025-12-31 23:59"],
         ["2025-12-31 23:59", "2026-02-09 23:00", "2026-02-10 02:00"]),
        (["x10", "x9", "Y", "a"], ["a", "x9", "x10", "Y"]),
    ],
)  # fmt: skip
def test_cells_are_sorted_as_people_read_them(texts, ascending, content, tmp_path, page) -> None:
    """What is not known comes last in both directions."""
    path = tmp_path / "report.html"
    path.write_bytes(render_report(content))
    known = [text for text in ascending if text != "\N{EN DASH}"]
    missing = ascending[len(known) :]
    page.goto(path.as_uri())
    found = page.evaluate(
        """texts => [1, -1].map(sign => texts.map(text => ({ textContent: text }))
            .sort((a, b) => compare(a, b, sign)).map(cell => cell.textContent))""",
        texts,
    )
    assert found == [ascending, known[::-1] + missing]


def test_without_scripts_a_page_shows_every_row_and_no_field(content, tmp_path, chromium) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(render_report(content))
    with chromium.new_page(java_script_enabled=False) as page:
        page.goto(path.as_uri())
        rows = page.locator("table.sortable").filter(has_text="Kept features").locator("tbody tr")
        assert all(row.is_visible() for row in rows.all())
        assert rows.count() == 10
        assert page.locator("input, thead button").count() == 0


def test_a_served_report_downloads_the_contract_byte_for_byte(content, tmp_path, page) -> None:
    folder = tmp_path / "runs" / "orders-1"
    folder.mkdir(parents=True)
    (folder / "report.html").write_bytes(render_report(content))
    port = free_port()
    with reports_served(tmp_path, port):
        page.goto(f"http://127.0.0.1:{port}/runs/orders-1/report.html")
        found = {}
        for link in page.locator("a[download]").all():
            with page.expect_download() as begun:
                link.click()
            found[begun.value.suggested_filename] = Path(begun.value.path()).read_bytes()
    assert found["selection.json"] == to_json(content.contract.to_dict())
    assert found["features.csv"].startswith(b"feature,type,price,")
    assert len(found["features.csv"].splitlines()) == 11
