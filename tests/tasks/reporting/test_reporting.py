"""The report: what it shows, that it stands alone, and that nothing in a table can break it."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.storage.files import to_json
from chaffinch.tasks.reporting import render_report
from chaffinch.tasks.reporting.section import MOST_ROWS
from chaffinch.tasks.reporting.text import NOTHING, bound_of_share, numbers_alike, summarise_verdict
from chaffinch.tasks.statistics.verdict import share_in_words
from tests.tasks.reporting.synthetic_report import (
    Page,
    explained,
    numbered,
    ranked,
    synthetic,
    with_contract,
)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_report(synthetic(numbered(12), 4)))


def test_every_figure_of_the_contract_is_on_the_page(page: Page) -> None:
    for figure in (
        *("breast_cancer-3b1f09ac", "diagnosis", "classification", "benign, bad"),
        *("1,234,567", "555,555", "370,370", "123,457", "185,185"),
        *("0.01234", "0.0321", "0.1021", "0.0987", "0.0826", "-0.0161"),
        *("[-0.0312, -0.00101]", "95%", "4 of 12", "0.1302", "0.0771", "0.0772"),
        *("num_leaves = 15, learning_rate = 0.05", "0.2718", "0.1618"),
        *("3 duplicate rows", "class 'bad' has <1 % of the rows", "98,765"),
        *("4711", "4.6.99", "3b1f" * 16, "median", "12.35", "13.35", "method.kind"),
        *("customer_id", "identifier: every value is different.", "The sentence of the verdict"),
    ):
        assert figure in page.text, figure


def test_the_reader_meets_verdict_then_curve_then_tables(page: Page) -> None:
    assert page.headings == [
        *("Verdict", "How sure the verdict is", "Features", "The elimination curve", "Losses"),
        *("How the size was chosen", "Warnings about the data", "The data", "Tuning"),
        *("How to repeat it", "Time"),
    ]
    assert page.text.index("The sentence of") < page.text.index("Features kept 4 of 12")


def test_the_contents_link_to_every_heading_after_them(page: Page) -> None:
    ids = {attributes["id"] for attributes in page.of("h2")}
    links = [a["href"] or "" for a in page.of("a") if (a["href"] or "").startswith("#")]
    assert {link.removeprefix("#") for link in links} == ids - {"verdict"}


def test_the_title_is_for_people_and_the_name_of_the_run_is_there_as_well() -> None:
    content = with_contract(
        synthetic(numbered(12), 4), settings_file={"name": "nightly.toml", "sha256": "0" * 64}
    )
    content = replace(content, source="tumours.v2.csv.gz", created="2026-11-26T02:45:01.5+00:00")
    page = Page(render_report(content))
    assert page.texts.count("tumours.v2: features that predict diagnosis") == 2  # title, heading
    assert (
        "26 November 2026, 02:45 UTC; 1,234,567 rows of tumours.v2.csv.gz; method gbmo, model "
        "lightgbm; settings from nightly.toml. Run breast_cancer-3b1f09ac"
    ) in page.text


def test_the_first_screen_has_the_metrics_people_know_besides_the_loss() -> None:
    content = synthetic(numbered(12), 4)
    metrics = {
        name: {"all_features": 0.91, "selected": 0.93, "constant": 0.5, "difference": 0.02}
        for name in ("accuracy", "balanced_accuracy", "roc_auc")
    }
    page = Page(render_report(with_contract(content, metrics=metrics)))
    assert (
        "Features kept 4 of 12 Accuracy 0.9300 0.9100 with all ROC AUC 0.9300 0.9100 with all "
        "Log loss 0.08260 0.09870 with all Figures of the test rows"
    ) in page.text
    assert "one split of the rows" in page.text


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


@pytest.mark.parametrize(
    ("verdict", "n_kept", "words"),
    [
        ("better", 4, "Better with 4 of 12 features: log loss 0.0826 against 0.0987"),
        ("cannot tell", 4, "Cannot tell: 4 of 12 features, log loss 0.1001 against 0.0987"),
        ("cannot tell", 12, "Kept 12 of 12 features"),
    ],
)
def test_the_verdict_in_brief_has_the_number_of_features_and_both_losses(
    verdict, n_kept, words
) -> None:
    assert summarise_verdict(synthetic(numbered(12), n_kept, verdict).contract).startswith(words)


def test_the_verdict_in_brief_begins_with_a_constant_that_nothing_beats() -> None:
    beaten = {"over_constant": [-0.1, 0.2], "all_features_over_constant": [-0.2, 0.1]}
    for n_kept in (4, 12):
        content = synthetic(numbered(12), n_kept, "cannot tell")
        comparison = content.contract.to_dict()["comparison"] | beaten
        words = summarise_verdict(with_contract(content, comparison=comparison).contract)
        nothing = "Nothing to select from: no model is shown to beat a constant"
        assert words == f"{nothing}; kept {n_kept} of 12 features"


@pytest.mark.parametrize(
    ("per_cost", "words"),
    [
        (0.25, "with a budget of 20: +0.25 loss per unit of cost saved."),
        (None, "with a budget of 20."),
    ],
)
def test_costs_are_shown_with_the_loss_that_a_unit_saved_costs(per_cost, words) -> None:
    content = synthetic(numbered(12), 4)
    costs = {"kept": 12.5, "all": 50.0, "loss_per_cost_saved": per_cost}
    settings = {**content.contract.settings, "constraints": {"budget": 20.0, "groups": []}}
    page = Page(render_report(with_contract(content, costs=costs, settings=settings)))
    assert f"The kept features cost 12.5 of 50, {words}" in page.text


def test_losses_stand_with_their_rows_and_differences(page: Page) -> None:
    rows = page.tables["Losses of the two final models (log loss)"]
    assert rows[0] == ["Part", "Rows", "All features", "Selected", "Difference", "Used for"]
    assert [row[0] for row in rows[1:]] == ["train", "mask validation", "model validation", "test"]
    assert rows[4][:5] == ["test", "185,185", "0.09870", "0.08260", "-0.0161"]
    assert "read once, after the choice was made, and never used for choosing" in page.text


def test_kept_features_come_with_the_most_needed_first(page: Page) -> None:
    rows = page.tables["Kept features (4)"]
    headings = ["Feature", "Why", "Rank", "Loss once masked", "Values", "Type", "Missing"]
    assert rows[0] == [*headings, "Baseline"]
    assert rows[1] == [
        *("feature 11", "Rank 1 of 12; the first 4 are kept.", "1", NOTHING),
        *("-1.5 to 300,000", "number", NOTHING, "3.142"),
    ]
    assert [rows[2][0], *rows[2][2:4], rows[2][5]] == ["feature 10", "2", "1", "number"]
    assert [row[0] for row in rows[3:]] == ["feature 9", "feature 8"]


def test_dropped_columns_come_with_the_nearest_miss_first(page: Page) -> None:
    rows = page.tables["Dropped columns (9)"]
    masked = "It was masked at step 8 of the search, as what cost least: the loss was then 0.325."
    assert rows[1] == ["feature 7", masked, "5", "0.325", "-1.5 to 300,000", "number", NOTHING]
    assert [rows[8][0], rows[8][2]] == ["feature 0", "12"]
    left_out = "Left out before the search: identifier: every value is different."
    assert rows[9][:4] == ["customer_id", left_out, NOTHING, NOTHING]


def test_features_that_no_step_tells_apart_share_their_ranks() -> None:
    content = synthetic(numbered(12), 4)
    features = [{**one, "step": None} for one in content.contract.to_dict()["features"]]
    rows = Page(render_report(with_contract(content, features=features))).tables
    assert {row[2] for row in rows["Kept features (4)"][1:]} == {"1 to 4"}
    assert rows["Dropped columns (9)"][1][::2][:2] == ["feature 7", "5"]


def test_the_winning_size_and_parameters_are_marked(page: Page) -> None:
    sizes = page.tables["Candidate sizes"]
    assert sizes[1:] == [["4", "0.001, 0.01", "0.0771", "chosen"], ["12", "0", "0.0772", ""]]
    tried = page.tables["Hyper-parameters tried"]
    assert [row[-1] for row in tried[1:]] == ["", "chosen"]


def test_sizes_asked_for_are_shown_as_numbers_or_shares() -> None:
    page = Page(render_report(synthetic(numbered(12), 4, method="flbmo")))
    sizes = page.tables["Candidate sizes"]
    assert [row[1] for row in sizes] == ["Size asked for", "16.67 %", "4"]
    assert "Slack" not in page.text
    assert "Size is the number of features at which elimination stops" in page.text


@pytest.mark.parametrize(
    ("verdict", "meaning", "dropped"),
    [
        ("better", "8 of 12 features may be dropped: without them the model is better",
         "May be dropped"),
        ("as good with fewer columns", "8 of 12 features may be dropped", "May be dropped"),
        ("worse", "Keep all 12 features: without the 8 dropped ones the model is worse", "Dropped"),
        ("cannot tell", "It is open whether 8 of 12 features may be dropped", "Dropped"),
    ],
)  # fmt: skip
def test_each_verdict_says_first_what_may_be_dropped(verdict, meaning, dropped) -> None:
    content = synthetic(numbered(12), 4, verdict)
    page = Page(render_report(content))
    assert f"Verdict {verdict} {meaning}" in page.text
    assert f"The sentence of the verdict {verdict}." in page.text
    names = {one["name"] for one in content.contract.to_dict()["dropped"] if "step" in one}
    first_screen = page.text[: page.text.index("Downloads")]
    assert f"{dropped} , closest to being kept first" in first_screen  # a link, and what follows
    assert all(name in first_screen for name in names)
    sections = [attributes["class"] for attributes in page.of("section")]
    assert sections == [f"verdict {verdict.replace(' ', '-')}"]


@pytest.mark.parametrize(
    ("over_constant", "meaning"),
    [
        ([-0.02, 0.01], "these rows neither show nor rule out that the model is better"),
        ([0.0, 0.01], "the mean loss of a constant, which always predicts the same, is as low or"),
    ],
)
def test_not_shown_better_than_a_constant_is_told_from_shown_no_better(
    over_constant, meaning
) -> None:
    content = synthetic(numbered(12), 4, "cannot tell")
    both = dict.fromkeys(("over_constant", "all_features_over_constant"), over_constant)
    comparison = {**content.contract.to_dict()["comparison"], **both}
    page = Page(render_report(with_contract(content, comparison=comparison)))
    assert meaning in page.text
    assert "The interval holds zero" not in page.text
    assert "sign test" not in page.text  # a run from before there were any


def test_an_unknown_verdict_is_refused() -> None:
    content = synthetic(numbered(3), 1)
    comparison = {**content.contract.to_dict()["comparison"], "verdict": "shines"}
    with pytest.raises(
        ValueError,
        match="one of better, as good with fewer columns, worse, cannot tell but is 'shines'",
    ):
        render_report(with_contract(content, comparison=comparison))


def test_a_selection_that_keeps_everything_says_so() -> None:
    page = Page(render_report(synthetic(numbered(12), 12, "cannot tell")))
    assert "Every feature was kept, so both models are the same" in page.text
    assert "The smaller one" not in page.text


def test_a_feature_kept_on_request_is_told_from_one_that_outlasts_the_path() -> None:
    content = synthetic(numbered(12), 4)
    settings = content.contract.settings
    columns = {**settings["columns"], "keep": ["feature 11"]}
    asked = with_contract(content, settings={**settings, "columns": columns})
    assert Page(render_report(asked)).tables["Kept features (4)"][4][2] == "kept as asked"


def test_categories_show_their_number_and_their_baseline() -> None:
    content = synthetic(numbered(2), 1)
    feature = {"name": "colour", "type": "category", "baseline": "blue", "step": None}
    feature["categories"] = ["blue", "red"]
    candidates = ["colour", "feature 0"]
    found = with_contract(content, features=[feature], candidates=candidates)
    column = {"name": "colour", "role": "feature", "type": "category", "distinct": 2}
    found = replace(found, profile=[{**column, "rows": 8, "missing": 1}])
    rows = Page(render_report(found)).tables
    assert rows["Kept features (1)"][1][4:] == ["category (2 values)", "12.5 %", "blue"]


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


def test_equal_content_gives_equal_bytes() -> None:
    assert render_report(synthetic(numbered(12), 4)) == render_report(synthetic(numbered(12), 4))


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


def test_one_feature_alone_has_no_curve() -> None:
    page = Page(render_report(synthetic(["only"], 1, "cannot tell")))
    assert "There was nothing that could be removed" in page.text
    assert "mask-validation rows is 0.1302" in page.text
    assert "Both models are the same, so there is no difference" in page.text
    assert not page.figures


def test_a_ranking_shows_scores_and_no_curve_of_losses() -> None:
    page = Page(render_report(ranked(synthetic(numbered(12), 4, method="flbmo"))))
    assert page.open == []
    assert "The ranking" in page.headings
    assert "The elimination curve" not in page.headings
    assert "Score is the F statistic of the feature against the target. Higher" in page.text
    assert "Nothing was masked, so there is no curve of losses" in page.text
    assert len(page.figures) == 2  # the interval and the scores
    assert not {"Loss once masked", "Mask", "Slack"} & set(page.texts)
    kept, dropped = page.tables["Kept features (4)"], page.tables["Dropped columns (9)"]
    headings = ["Feature", "Why", "Rank", "Score", "Values", "Type", "Missing"]
    assert kept[0] == [*headings, "Baseline"]
    first = "Rank 1 of 12 by score; the first 4 are kept."
    assert kept[1][:4] == ["feature 11", first, "1", "111.5"]
    assert [kept[2][0], *kept[2][2:4]] == ["feature 10", "2", "110.5"]
    assert dropped[0] == ["Column", *headings[1:]]
    assert [dropped[1][0], *dropped[1][2:4]] == ["feature 7", "5", "107.5"]
    assert dropped[9][2:4] == [NOTHING, NOTHING]
    assert page.tables["Candidate sizes"][0][1] == "Size asked for"


def test_a_place_in_an_order_is_shown_as_a_rank_and_not_as_a_score() -> None:
    page = Page(render_report(ranked(synthetic(numbered(12), 4), "mrmr")))
    assert len(page.figures) == 1  # the interval
    kept = page.tables["Kept features (4)"]
    assert kept[0] == ["Feature", "Why", "Rank", "Values", "Type", "Missing", "Baseline"]
    assert [row[2] for row in kept[1:]] == ["1", "2", "3", "4"]
    assert "Rank is the place in a greedy choice" in page.text
    assert "Score" not in page.texts


def test_only_a_ranking_with_several_sizes_says_that_models_chose_the_size() -> None:
    several = ranked(synthetic(numbered(12), 4, method="flbmo"))
    one = replace(several, candidates=several.candidates[:1])
    assert "Models fitted at each size" in Page(render_report(several)).text
    page = Page(render_report(one))
    assert "fitted at each size" not in page.text
    assert "Nothing was to be chosen, as one size was asked for." in page.text


@pytest.mark.parametrize(
    ("method", "train", "mask_validation"),
    [
        ("mrmr", "tuning, fitting, the ranking", "fitting, the ranking"),
        ("select_from_model", "tuning, fitting, the ranking", "fitting, the ranking"),
        ("permutation", "tuning, fitting", "the ranking; then fitting"),
        ("tree_shap", "tuning, fitting", "the ranking; then fitting"),
    ],
)
def test_a_ranking_says_which_rows_it_is_of(method, train, mask_validation) -> None:
    page = Page(render_report(ranked(synthetic(numbered(12), 4), method)))
    rows = page.tables["Losses of the two final models (log loss)"]
    assert [rows[1][-1], rows[2][-1]] == [train, mask_validation]
    assert rows[4][-1] == "the verdict; nothing is chosen by it"


def test_a_lowest_score_is_called_that_and_not_a_size() -> None:
    content = ranked(synthetic(numbered(12), 4, method="flbmo"))
    method = {"kind": "anova_f", "n_features": None, "min_score": 107.5}
    settings = {**content.contract.settings, "method": method}
    html = render_report(
        replace(
            with_contract(content, settings=settings),
            candidates=[{"n_features": 4, "settings": [107.5], "model_validation_loss": 0.08}],
        )
    )
    page = Page(html)
    assert page.tables["Candidate sizes"] == [
        ["Features", "Lowest score", "Model-validation loss", "Choice"],
        ["4", "107.5", "0.08", "chosen"],
    ]
    assert b"at least the lowest score asked for, 107.5, are kept" in html
    assert b"<dt>Size</dt>" not in html
    losses = page.tables["Losses of the two final models (log loss)"]
    assert losses[3][-1] == "nothing: the lowest score set the size"


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


def test_a_report_of_a_thousand_columns_is_below_a_megabyte() -> None:
    names = [f"{i} ".ljust(60, "x") for i in range(1000)]
    page = render_report(explained(ranked(synthetic(names, 500))))
    assert page.count(b'class="bars"') == 2 * MOST_ROWS
    assert len(page) < 1_000_000


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


def test_a_run_without_a_test_part_is_judged_on_out_of_fold_rows() -> None:
    curve = [
        {"n_features": n, "loss": 0.1 + 0.1 / n, "difference": 0.0, "standard_error": 0.01}
        for n in (12, 4)
    ]
    content = replace(ranked(synthetic(numbered(12), 4), "auto"), candidates=[], sizes=curve)
    contract = content.contract.to_dict()
    rows = {"train": 1049382, "out_of_fold": 185185}
    losses = {"train": contract["losses"]["train"], "out_of_fold": contract["losses"]["test"]}
    content = with_contract(
        content,
        judged_on="out_of_fold",
        losses=losses,
        dataset={**contract["dataset"], "rows_by_part": rows},
    )
    page = Page(render_report(content))
    assert "Log loss 0.08260 0.09870 with all Figures of the out-of-fold rows" in page.text
    assert "Difference of the out-of-fold losses (log loss" in page.text
    assert "by a paired bootstrap over 185,185 rows." in page.text
    table = page.tables["Losses of the final models and those of the folds (log loss)"]
    assert [row[0] for row in table[1:]] == ["train", "out-of-fold"]
    assert table[2][-1] == "the verdict; each row judges a choice made without it"
    assert "test part" not in page.text
    assert "test loss" not in page.text


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
