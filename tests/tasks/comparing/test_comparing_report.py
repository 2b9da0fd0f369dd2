"""The report of a comparison: what it shows, that it stands alone, that no name can break it."""

import re
import subprocess
import sys

import pytest

from chaffinch.tasks.comparing import report
from chaffinch.tasks.comparing.report import render_comparison
from tests.tasks.comparing.synthetic_results import failing, synthetic, synthetic_rows, table_of
from tests.tasks.comparing.synthetic_summary import summarise
from tests.tasks.reporting.synthetic_report import Page

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


def test_the_verdicts_come_first_and_in_plain_words(page: Page) -> None:
    assert page.headings == ["Selection against all features", "Ranks", "How to read it"]
    said = (
        "Selection is better: with gbmo. It is worse: with anova_f (every size). "
        "For the other 2, these results cannot tell."
    )
    assert page.text.index(said) < page.text.index("Verdicts (log loss)")
    assert page.text.index("Verdicts (log loss)") < page.text.index("Mean ranks of 4 contenders")
    rows = page.tables["Verdicts (log loss)"]
    assert rows[0][:4] == ["Method", "Kept", "Verdict", "Why"]
    assert [row[:3] for row in rows[1:4]] == [
        ["gbmo", "10", "better"],
        ["anova_f, 5 features", "5", "worse"],
        ["anova_f, 10 features", "10", "worse"],
    ]
    assert [row[3] for row in rows[1:]] == [
        *("the loss is lower", "the loss is higher", "the loss is higher"),
        *("the interval holds zero", "the interval holds zero"),
    ]


def test_metrics_stand_in_a_table_of_their_own_where_there_are_any(page: Page) -> None:
    rows = synthetic_rows(methods=("anova_f",), sizes=(5,))
    rows += [{**row, "method": "none", "r2": -0.01} for row in rows if row["method"] == "all"]
    for row in rows:
        row.update({"rmse": 2.5, "r2": row.get("r2", 0.75)})
    assert page_of(table_of(rows)).tables["Mean metrics"] == [
        ["Method", "Size", "R2", "RMSE"],
        ["all features", "–", "0.75", "2.5"],  # noqa: RUF001
        ["anova_f", "5", "0.75", "2.5"],
        ["a constant", "–", "-0.01", "2.5"],  # noqa: RUF001
    ]
    assert "Mean metrics" not in page.tables


def test_every_figure_of_a_contender_is_on_the_page(page: Page) -> None:
    rows = synthetic_rows(methods=THREE, sizes=(5, 10), differences=CLEAR)
    mean = sum(row["loss"] for row in rows if row["method"] == "gbmo") / 15
    measured = {tuple(row[:2]): row for row in page.tables["What was measured"]}
    own = measured["gbmo", "–"]  # noqa: RUF001
    assert own[2:4] == ["10", f"{mean:.4g}"]
    assert own[7:11] == ["1.50", "0.25", "15", "15"]
    assert [row[1] for row in page.tables["Pareto front"][1:]][-1] == "gbmo"


def test_many_tables_are_counted_and_opened_on_demand(in_all_alone) -> None:
    tables = [f"t{i}" for i in range(8)]
    page = page_of(synthetic(tables=tables, methods=THREE, differences=CLEAR))
    assert "Selection is better in 8 of 8 combinations of table and model" in page.text
    counts = page.tables["Methods and sizes by verdict"]
    assert counts[1] == ["t0", "linear", "1", "0", "1", "1", "gbmo", "0"]
    assert len(counts) == 9
    of_tables = [d for d in page.of("details") if d.get("class") == "of-table"]
    assert len(of_tables) == 8
    assert not any("open" in details for details in of_tables)
    assert "critical difference" in page.text
    assert "Some are better than others (Friedman, p" in page.text


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
        {"methods": TWELVE, "sizes": (3, 9), "n_seeds": 1},
        {"methods": THREE, "sizes": (10, 1000), "n_total": 5000, "n_folds": 2},
        {"methods": THREE, "noise": 0},
    ],
    ids=["none", "one cell", "twelve", "wide", "no difference"],
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


def test_gaps_and_errors_are_told_before_the_ranks() -> None:
    rows = failing(
        synthetic_rows(methods=THREE), lambda r: r["method"] == "mrmr", "needs <classes>"
    )
    page = page_of(table_of(rows[:-8]))
    assert page.headings[1] == "What is missing"
    assert "21 of 60 losses were not computed" in page.text
    assert "wine, linear: mrmr (5 features) failed in 13 cells: needs <classes>" in page.text


def test_nothing_computed_at_all_still_makes_a_page() -> None:
    page = page_of(table_of(failing(synthetic_rows(), lambda r: True, "the disk is full")))
    assert "No method could be compared to all features" in page.text
    assert page.of("svg") == []


@pytest.mark.parametrize(
    "name",
    [
        "\"><b a='</td></table><img src=x onerror=y><script>alert('x')</script>",
        "{{ 7 * 7 }}{% raw %}&lt;already&gt;$\\frac{1}{2}$",
        "#000001",
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
