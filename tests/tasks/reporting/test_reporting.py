"""The report: what it shows, that it stands alone, and that nothing in a table can break it."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.storage.files import to_json
from chaffinch.tasks.reporting import render_report
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.section import MOST_ROWS
from chaffinch.tasks.reporting.text import bound_of_share, numbers_alike, summarise_verdict
from chaffinch.tasks.statistics.verdict import share_in_words
from tests.tasks.reporting.synthetic_report import (
    Page,
    explained,
    numbered,
    ranked,
    synthetic,
    with_contract,
)
from tests.tasks.snapshots import changes_of, check_snapshot


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_report(synthetic(numbered(12), 4)))


def changed(content: ReportContent, part: str = "", **values: Any) -> ReportContent:
    """Return the content with other values in its contract, or in a part of that."""
    if part:
        values = {part: {**content.contract.to_dict()[part], **values}}
    return with_contract(content, **values)


def of_method(content: ReportContent, **method: Any) -> ReportContent:
    return changed(content, "settings", method=method)


def of_costs(price: float | None) -> ReportContent:
    content = changed(PLAIN, costs={"kept": 12.5, "all": 50.0, "loss_per_cost_saved": price})
    return changed(content, "settings", constraints={"budget": 20.0, "groups": []})


def out_of_fold() -> ReportContent:
    sizes = [
        {"n_features": n, "loss": 0.1 + 0.1 / n, "difference": 0.0, "standard_error": 0.01}
        for n in (6, 2)
    ]
    content = replace(ranked(PLAIN, "auto"), candidates=[], sizes=sizes)
    content = replace(content, fold_sizes=[2, 2, 1, 2, 2], widen=1.5)
    losses = content.contract.to_dict()["losses"]
    content = changed(content, "dataset", rows_by_part={"train": 1049382, "out_of_fold": 185185})
    return changed(
        content,
        judged_on="out_of_fold",
        losses={"train": losses["train"], "out_of_fold": losses["test"]},
    )


def of_stability(index: float | None) -> ReportContent:
    shares = dict.fromkeys(PLAIN.contract.candidates, 0.6)
    return changed(PLAIN, stability={"index": index, "n_folds": 5, "share_of_folds": shares})


def with_categories() -> ReportContent:
    feature = {"name": "colour", "type": "category", "baseline": "blue", "step": None}
    feature["categories"] = ["blue", "red"]
    column = {"name": "colour", "role": "feature", "type": "category", "distinct": 2}
    found = changed(synthetic(numbered(2), 1), features=[feature], candidates=["colour", "other"])
    return replace(found, profile=[{**column, "rows": 8, "missing": 1}])


def beside_a_constant(n_kept: int, low: float) -> ReportContent:
    both = ("over_constant", "all_features_over_constant")
    content = synthetic(numbered(6), n_kept, "cannot tell")
    return changed(content, "comparison", **{key: [low, 0.01] for key in both})


PLAIN = synthetic(numbered(6), 2)
TUMOURS = {"source": "tumours.v2.csv.gz", "created": "2026-11-26T02:45:01.5+00:00"}
METRIC = {"all_features": 0.91, "selected": 0.93, "constant": 0.5, "difference": 0.02}
STEPLESS = [{**one, "step": None} for one in PLAIN.contract.to_dict()["features"]]
ASKED_FOR = {**PLAIN.contract.settings["columns"], "keep": ["feature 5"]}
PENALTIES = {"kind": "dfs", "n_features": None, "penalty": [0.3, 1.0, 3.0]}
LOWEST = {"kind": "anova_f", "n_features": None, "min_score": 104.5}
PAGES = {
    "plain": PLAIN,
    **{
        f"verdict {word}": synthetic(numbered(6), 2, word)
        for word in ("as good with fewer columns", "worse", "cannot tell")
    },
    "of a file with settings": replace(
        changed(PLAIN, settings_file={"name": "nightly.toml", "sha256": "0" * 64}), **TUMOURS
    ),
    "metrics": changed(PLAIN, metrics=dict.fromkeys(("accuracy", "roc_auc"), METRIC)),
    "costs": of_costs(0.25),
    "costs without a price": of_costs(None),
    "everything kept": synthetic(numbered(6), 6, "cannot tell"),
    "one feature": synthetic(["only"], 1, "cannot tell"),
    "not shown to beat a constant": beside_a_constant(2, -0.02),
    "no better than a constant": beside_a_constant(2, 0.0),
    "no better, with everything kept": beside_a_constant(6, 0.0),
    "no steps": changed(PLAIN, features=STEPLESS),
    "kept as asked": changed(PLAIN, "settings", columns=ASKED_FOR),
    "categories": with_categories(),
    "flbmo": synthetic(numbered(6), 2, method="flbmo"),
    **{
        method: ranked(PLAIN, method)
        for method in ("anova_f", "mrmr", "select_from_model", "permutation", "tree_shap")
    },
    "penalties of a ranking": replace(
        of_method(ranked(PLAIN), **PENALTIES),
        candidates=[
            {"n_features": 6, "settings": [0.3], "model_validation_loss": 0.0772},
            {"n_features": 2, "settings": [1.0, 3.0], "model_validation_loss": 0.0771},
        ],
    ),
    "a ranking of one size": replace(ranked(PLAIN), candidates=ranked(PLAIN).candidates[:1]),
    "a lowest score": replace(
        of_method(ranked(PLAIN), **LOWEST),
        candidates=[{"n_features": 2, "settings": [104.5], "model_validation_loss": 0.08}],
    ),
    "auto out of fold": out_of_fold(),
    "auto exactly": of_method(out_of_fold(), kind="auto", n_features=2, exactly=True),
    "auto with a test part": of_method(
        replace(ranked(PLAIN, "auto"), candidates=[], sizes=out_of_fold().sizes, widen=1.1547),
        kind="auto",
        validation="holdout",
    ),
    **{f"stability {index}": of_stability(index) for index in (0.3, 0.9, None)},
    "explained": explained(PLAIN),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_words_and_figures_of_the_page(name: str) -> None:
    """The plain page as a whole, and of each other what it says otherwise."""
    content = PAGES[name]
    lines = [summarise_verdict(content.contract), *Page(render_report(content)).lines]
    plain = [summarise_verdict(PLAIN.contract), *Page(render_report(PLAIN)).lines]
    check_snapshot(f"report/{name}", lines if name == "plain" else changes_of(lines, plain))


def test_the_contents_link_to_every_heading_after_them(page: Page) -> None:
    ids = {attributes["id"] for attributes in page.of("h2")}
    links = [a["href"] or "" for a in page.of("a") if (a["href"] or "").startswith("#")]
    assert {link.removeprefix("#") for link in links} == ids - {"verdict"}


def test_kept_features_and_the_contract_can_be_downloaded() -> None:
    content = with_contract(
        synthetic(["a", 'b "2", c', "d"], 2),
        stability={"index": 0.5, "n_folds": 4, "share_of_folds": {"a": 0.25, "d": 1.0}},
    )
    files = downloads(Page(render_report(content)))
    assert files["features.csv"].decode().splitlines() == [
        "feature,type,rank,loss once masked,folds",
        "d,number,1,,4 of 4",
        '"b ""2"", c",number,2,1.0,',
    ]
    assert files["selection.json"] == to_json(content.contract.to_dict())


def downloads(page: Page) -> dict[str, bytes]:
    """Return the files of the links that download something."""
    links = [one for one in page.of("a") if "download" in one]
    return {
        str(one["download"]): b64decode(str(one["href"]).partition(";base64,")[2]) for one in links
    }


def test_an_unknown_verdict_is_refused() -> None:
    content = synthetic(numbered(3), 1)
    comparison = {**content.contract.to_dict()["comparison"], "verdict": "shines"}
    with pytest.raises(
        ValueError,
        match="one of better, as good with fewer columns, worse, cannot tell but is 'shines'",
    ):
        render_report(with_contract(content, comparison=comparison))


@pytest.mark.parametrize(
    ("row", "text", "label"),
    [
        (
            {"type": "float64", "minimum": 0.0, "maximum": 12.0, "counts": [0, 6, *[0] * 9, 2]},
            "0 to 12",
            "Most, 75 %, are from 1 to 2.",
        ),
        (
            {"type": "float64", "minimum": -1.7e308, "maximum": 1.7e308, "counts": [1, *[0] * 11]},
            "-1.7e+308 to 1.7e+308",
            "Most, 100 %, are from -1.7e+308 to -1.417e+308.",
        ),
        (
            {"type": "float64", "minimum": 7.0, "maximum": 7.0, "counts": [8]},
            "7",
            "All values are the same.",
        ),
        (
            {"type": "category", "most_frequent": "<b>red\n", "counts": [6, 1, 1]},
            "<b>red␊ 75 %",
            "Shares: 75 %, 12.5 %, 12.5 %.",
        ),
        ({"type": "bool", "most_frequent": "true", "counts": [8]}, "true 100 %", "Shares: 100 %."),
        (  # the last of twelve bars is all others
            {"type": "category", "most_frequent": "red", "counts": [2, *[1] * 10, 8]},
            "red 10 %",
            "Shares: 10 %, 5 %, 5 %, 5 %, 5 %, 5 %, 5 %, 5 %, 5 %, 5 %, 5 %, 40 %.",
        ),
    ],
)
def test_the_values_of_a_column_are_bars_with_words(row, text, label) -> None:
    content = synthetic(["a"], 1)
    content = replace(content, profile=[{"name": "a", "role": "feature", "missing": 0, **row}])
    page = Page(render_report(content))
    kept = page.tables["Kept features (1)"]
    assert kept[1][kept[0].index("Values")] == text
    (bars,) = (one for one in page.of("svg") if one.get("class") == "bars")
    assert bars["aria-label"] == label
    (path,) = (one["d"] for one in page.of("path") if str(one["d"]).startswith("M0 18V"))
    heights = [18 - int(top) for top in re.findall(r"V(\d+)h5", str(path))]
    assert [height / 18 for height in heights] == pytest.approx(
        [count / max(row["counts"]) for count in row["counts"]], abs=1 / 18
    )
    assert int(str(bars["width"])) == 6 * len(heights)


def test_a_run_of_an_earlier_release_has_no_bars_and_no_associations() -> None:
    content = synthetic(["a"], 1)
    profile = [{"name": "a", "role": "feature", "type": "number", "missing": 0, "minimum": 1.0}]
    (table, *_) = Page(render_report(replace(content, profile=profile))).tables.values()
    assert not {"Values", "Association"} & set(table[0])


@pytest.mark.parametrize("n", [1, 2, 101, 3000])
def test_the_page_stands_alone_at_every_size(n: int) -> None:
    page = render_report(synthetic(numbered(n), max(1, n // 4)))
    parsed = Page(page)
    assert parsed.open == []
    assert not {"link", "iframe", "object", "img"} & {tag for tag, _ in parsed.elements}
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "onload", "onclick"} & attributes.keys()
        for key, value in attributes.items():
            if key.endswith("href"):
                assert value is not None
                assert value.startswith(
                    ("#", "data:text/csv;base64,", "data:application/json;base64,")
                )
    assert b"://" not in page
    assert b"@import" not in page
    assert set(re.findall(rb"url\((.)", page)) <= {b"#"}


def test_the_policy_of_a_page_allows_its_one_script_and_nothing_else(page: Page) -> None:
    assert page.of("script") == [{}]
    source = render_report(synthetic(numbered(12), 4)).partition(b"<script>")[2]
    digest = b64encode(sha256(source.partition(b"</script>")[0]).digest()).decode()
    (policy,) = (one["content"] for one in page.of("meta") if "http-equiv" in one)
    allowed = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    assert policy == f"{allowed}{digest}'"


def test_references_inside_the_charts_are_unique_and_kept(page: Page) -> None:
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["xlink:href"] for a in page.of("use")} | {
        a["clip-path"] for a in page.of("path") if "clip-path" in a
    }
    assert targets
    assert {re.sub(r"url\(|[#)]", "", target or "") for target in targets} <= set(ids)


def test_the_page_is_accessible(page: Page) -> None:
    assert page.of("html") == [{"lang": "en"}]
    assert len(page.of("h1")) == 1
    assert len(page.of("table")) == len(page.of("caption"))
    for chart in page.of("svg"):
        assert chart["role"] == "img"
        assert chart["aria-label"]


def test_charts_take_their_colours_from_the_page() -> None:
    page = render_report(synthetic(numbered(12), 4)).decode()
    charts = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "var(--accent)" in charts
    assert not re.search(r"(fill|stroke): (#|white|black)", charts)


def test_thousands_of_features_make_a_small_page() -> None:
    names = [f"{i} ".ljust(100, "ä") for i in range(10_000)]
    content = explained(ranked(synthetic(names, 700)))
    page = render_report(content)
    assert len(page) < 1_200_000
    parsed = Page(page)
    for caption in ("Kept features (700)", "Dropped columns (9,301)"):
        assert len(parsed.tables[caption]) == 1 + MOST_ROWS
    assert "and 500 more; all are in report.json of a stored run" in parsed.text
    files = downloads(parsed)
    assert len(files["features.csv"].splitlines()) == 701
    assert "selection.json" not in files
    assert "too large for this page; it is selection.json of a stored run" in parsed.text


def test_long_tables_are_opened_on_demand_and_a_wide_profile_is_cut() -> None:
    short, just, wide = (Page(render_report(synthetic(numbered(n), 4))) for n in (12, 200, 1200))
    n_open = [sum("open" in one for one in page.of("details")) for page in (short, wide)]
    assert n_open[1] == n_open[0] - 1
    assert len(wide.tables["Columns of the table (1,200)"]) == 1 + MOST_ROWS
    assert "and 1,000 more; all are in profile.json of a stored run" in wide.text
    assert "profile.json" not in just.text


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert('x')</script>",
        "</td></table><img src=x onerror=y>",
        "\"><b a='",
        "{{ 7 * 7 }}{% raw %}",
        "&lt;already&gt;",
        "$\\frac{1}{2}$",
        "ü" * 300,
    ],
)
def test_hostile_names_come_out_as_they_are_and_run_nothing(name: str) -> None:
    content = synthetic([name, "b", "c"], 3)
    target = {**content.contract.to_dict()["target"], "name": name, "classes": [name]}
    hostile = with_contract(content, target=target, loss=name)
    hostile = explained(replace(hostile, run=name, source=name, warnings=[name]))
    page = Page(render_report(hostile))
    assert page.open == []
    assert not {"b", "img"} & {tag for tag, _ in page.elements}
    assert len(page.of("script")) == 1  # of the tables
    assert name in [row[0] for row in page.tables["Kept features (3)"]]
    assert page.texts.count(name) >= 5  # run, target, classes, feature, warning
    title = f"{name}: features that predict {name}"
    assert page.texts.count(title) == 2  # title, heading


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40))
def test_any_name_comes_out_as_it_is(name: str) -> None:
    tables = Page(render_report(synthetic([name], 1))).tables
    assert tables["Kept features (1)"][1][0] == name


def test_control_characters_are_shown_instead_of_lost() -> None:
    tables = Page(render_report(synthetic(["a\x00b\r\nc\x7f"], 1))).tables
    assert tables["Kept features (1)"][1][0] == "a␀b␍␊c␡"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.97012, 0.9, 0.5), ["0.9701", "0.9000", "0.5000"]),
        ((0.098464, 0.1015, 0.66034), ["0.0985", "0.1015", "0.6603"]),
        ((0.0, 12.3456), ["0.00", "12.35"]),
        ((-0.00213, 0.9992), ["-0.0021", "0.9992"]),
        ((0.00013124, 0.5), ["0.0001312", "0.5"]),  # few digits would be left
        ((48_213.4, 0.9), ["48,213", "0.9"]),
    ],
)
def test_numbers_of_one_unit_have_as_many_decimals_each(values, shown) -> None:
    assert numbers_alike(*values) == shown


@pytest.mark.parametrize(
    ("share", "shown"), [(0.020046, "2.01 %"), (0.02, "2 %"), (0.857803, "85.79 %"), (-0.1, "0 %")]
)
def test_a_bound_is_rounded_up_and_never_below_zero(share, shown) -> None:
    assert bound_of_share(share) == shown


def test_the_bound_of_a_verdict_is_rounded_up_too() -> None:
    assert "at most 2.01% of" in share_in_words(0.020046, 0.02)
