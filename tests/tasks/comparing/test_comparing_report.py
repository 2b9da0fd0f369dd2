"""The report of a comparison: what it shows, that it stands alone, that no name can break it."""

import re
import subprocess
import sys
from typing import Any

import pytest

from chaffinch.tasks.comparing import report
from chaffinch.tasks.comparing.report import render_comparison
from tests.tasks.comparing.synthetic_results import failing, synthetic, synthetic_rows, table_of
from tests.tasks.comparing.synthetic_summary import summarise
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.snapshots import check_snapshot

THREE = ("gbmo", "anova_f", "mrmr")
TWELVE = ("gbmo", "dfs", *(f"method {i}" for i in range(10)))
CLEAR = {"gbmo": -0.1, "anova_f": 0.1}


def page_of(results, name: str = "a comparison") -> Page:
    return Page(render_comparison(summarise(results), name=name))


@pytest.fixture(scope="module")
def page() -> Page:
    return page_of(synthetic(methods=THREE, sizes=(5, 10), differences=CLEAR))


@pytest.fixture
def in_all_alone(monkeypatch) -> None:
    """Leave what is said of each table, with its charts, off the pages."""
    monkeypatch.setattr(report, "_of_table", lambda *_: iter(()))


METRICS = {"rmse": 2.5, "r2": 0.75}


def with_metrics() -> list[dict[str, Any]]:
    rows = synthetic_rows(methods=("anova_f",), sizes=(5,))
    rows += [{**row, "method": "none", "r2": -0.01} for row in rows if row["method"] == "all"]
    return [METRICS | row for row in rows]


PAGES = {
    "metrics": table_of(with_metrics()),
    "gaps and errors": table_of(
        failing(synthetic_rows(methods=THREE), lambda r: r["method"] == "mrmr", "needs <classes>")[
            :-8
        ]
    ),
    "nothing computed": table_of(failing(synthetic_rows(), lambda r: True, "the disk is full")),
}


def test_the_words_and_figures_of_the_page(page: Page) -> None:
    check_snapshot("comparison/page of clear differences", page.lines)


@pytest.mark.parametrize("name", PAGES)
def test_the_words_and_figures_of_other_results(name: str) -> None:
    check_snapshot(f"comparison/page of {name}", page_of(PAGES[name]).lines)


def test_many_tables_are_counted(in_all_alone) -> None:
    tables = [f"t{i}" for i in range(8)]
    results = synthetic(tables=tables, methods=("gbmo", "anova_f"), differences=CLEAR)
    check_snapshot("comparison/page of eight tables", page_of(results).lines)


@pytest.mark.parametrize("n_tables", [4, 5])
def test_critical_differences_are_drawn_from_five_tables_on(n_tables, in_all_alone) -> None:
    tables = [f"t{i}" for i in range(n_tables)]
    page = page_of(synthetic(tables=tables, methods=THREE, differences=CLEAR))
    charts = [c for c in page.of("svg") if str(c["aria-label"]).startswith("Mean ranks")]
    ranks = page.tables.get("Mean ranks")
    assert "Mean ranks of 4 contenders" in page.text
    if n_tables == 5:
        assert charts
        assert ranks is None
    else:
        assert not charts
        assert ranks is not None
        assert [row[0] for row in ranks[1:]][::3] == ["gbmo", "anova_f"]


def test_the_contents_link_to_headings_and_tables(in_all_alone) -> None:
    page = page_of(synthetic(tables=("a", "b"), methods=THREE))
    ids = {attributes.get("id") for _, attributes in page.elements}
    links = {str(a["href"]).removeprefix("#") for a in page.of("a")}
    assert {"ranks", "table-1", "table-2", "how-to-read-it"} == links <= ids
    assert page.texts.count("a, b: methods of selection compared") == 2  # title, heading


@pytest.mark.parametrize(
    "how",
    [
        {"methods": ()},
        {"methods": ("gbmo",), "n_seeds": 1, "n_folds": 1},
        {"methods": TWELVE, "sizes": (3, 1000), "n_total": 5000, "n_seeds": 1, "n_folds": 2},
        {"methods": THREE, "noise": 0},
    ],
    ids=["none", "one cell", "twelve and wide", "no difference"],
)
def test_the_page_stands_alone_at_every_size(how) -> None:
    html = render_comparison(summarise(synthetic(**how)), name="a comparison")
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "iframe", "object", "img"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "srcset", "onload", "onclick"} & attributes.keys()
        for key, value in attributes.items():
            if key.endswith("href"):
                assert value is not None
                assert value.startswith("#")
    assert b"://" not in html
    assert b"@import" not in html
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert len(page.of("table")) == len(page.of("caption"))
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in page.of("svg"))
    charts = "".join(re.findall(r"<svg.*?</svg>", html.decode(), re.DOTALL))
    assert not re.search(r"(fill|stroke): (#|white|black)", charts)


@pytest.mark.parametrize(
    "name",
    [
        "\"><b a='</td></table><img src=x onerror=y><script>alert('x')</script>",
        "{{ 7 * 7 }}{% raw %}&lt;already&gt;$\\frac{1}{2}$#000001",
        "方法 قائمة\n\x07",
        "ü" * 300,
    ],
)
def test_hostile_names_come_out_as_they_are_and_run_nothing(name: str) -> None:
    rows = synthetic_rows(tables=(name,), models=(name,), methods=(name, "gbmo"))
    rows = [{**row, "features": [name]} for row in rows]
    rows = failing(rows, lambda r: r["method"] == "gbmo" and r["fold"] == 0, name)
    page = page_of(table_of(rows), name)
    shown = name.replace("\n", "\N{SYMBOL FOR LINE FEED}").replace("\x07", "\N{SYMBOL FOR BELL}")
    assert page.open == []
    assert not {"script", "b", "img"} & {tag for tag, _ in page.elements}
    assert any(row[0].startswith(shown) for row in page.tables["Verdicts (log loss)"])
    assert page.texts.count(shown) >= 4  # name, table, model, method
    title = f"{shown}: methods of selection compared"
    assert page.texts.count(title) == 2  # title, heading
    if len(name) < 20:
        assert any(
            shown in text for text in page.texts if text.startswith(shown) and text[-1] == "5"
        )


def test_equal_results_give_equal_bytes_in_any_process_which_needs_no_prefect_and_no_dask() -> None:
    # the hash seed differs, and with it the order of sets
    code = (
        "import sys; from tests.tasks.comparing.synthetic_results import synthetic; "
        "from chaffinch.tasks.comparing.report import render_comparison as render; "
        "from tests.tasks.comparing.synthetic_summary import summarise; "
        "page = render(summarise(synthetic(methods=('a', 'b', 'gbmo'))), name='t'); "
        "sys.stdout.buffer.write(page); "
        "raise SystemExit(bool({'prefect', 'dask', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    drawn = summarise(synthetic(methods=("a", "b", "gbmo")))
    assert render_comparison(drawn, name="t") == done.stdout
