"""The report, terminal and contract of a cross-fitted selection: its curve, and its stability."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.flows.cli.output import show
from chaffinch.tasks.reporting.charts import elimination_chart
from chaffinch.tasks.reporting.search import sizes_of_the_curve
from chaffinch.tasks.reporting.text import NOTHING, stability_in_words
from tests.tasks.methods.test_auto import table_of
from tests.tasks.reporting.synthetic_report import Page, numbered, synthetic, with_contract

LINEAR = ModelSettings(name="linear", tuning="none")
SECTION = "How the number of features was chosen"
LITTLE = "The folds agree little: other rows would have led to another set."
LOSSES = "Losses of the final models and those of the folds (squared error)"


@pytest.fixture(scope="module")
def result() -> chaffinch.SelectionResult:
    return chaffinch.select(table_of(), "y", model=LINEAR)


@pytest.fixture(scope="module")
def held_out() -> chaffinch.SelectionResult:
    method = {"kind": "auto", "validation": "holdout"}
    return chaffinch.select(table_of(), "y", model=LINEAR, method=method)


def page_of(result, folder) -> Page:
    return Page(result.report(folder / "report.html").read_bytes())


@pytest.fixture(scope="module")
def page(result, tmp_path_factory) -> Page:
    return page_of(result, tmp_path_factory.mktemp("folds"))


@pytest.fixture(scope="module")
def page_with_test(held_out, tmp_path_factory) -> Page:
    return page_of(held_out, tmp_path_factory.mktemp("holdout"))


def test_the_reader_meets_the_choice_of_the_number_once_and_no_candidates(
    page, page_with_test
) -> None:
    for one in (page, page_with_test):
        assert one.open == []
        assert one.headings[2:7] == [
            *("Features", "Importance of the kept features", "Features that stand for others"),
            *(SECTION, "Losses"),
        ]
        assert "How the size was chosen" not in one.headings
        assert "Candidate sizes" not in one.tables
        drawn = [str(one["aria-label"]).partition(" ")[0] for one in one.figures]
        assert drawn == ["Difference", "Rise", "Trade-off", "True"]


def test_where_test_rows_judge_the_verdict_is_not_that_of_the_folds(tmp_path) -> None:
    table = table_of()
    table = table.assign(day=range(len(table)))
    page = page_of(chaffinch.select(table, "y", model=LINEAR, time="day"), tmp_path)
    assert "The verdict is of the test rows, which took no part in the choice" in page.text
    assert "folds’ own choices" not in page.text


def test_the_curve_shows_all_sizes_and_marks_the_chosen_one(page, result) -> None:
    heading, *rows = page.tables["Price of each number of features"]
    assert heading[:5] == [
        "Features",
        "Mean loss",
        "Less that of all",
        "Explains less by",
        "At most",
    ]
    sizes = [int(row[0]) for row in rows]
    assert (sizes[0], sizes[-1]) == (8, 1)
    assert rows[0][2:5] == ["0", "0 %", "0 %"]
    assert [int(row[0]) for row in rows if row[5] == "chosen"] == [len(result.features)]
    price = result.curve.set_index("n_features")["share_lost_at_most"]
    for n_features, bound in zip(sizes, (row[4] for row in rows), strict=True):
        assert float(bound.split()[0]) == pytest.approx(100 * price[n_features], abs=0.01)
    curve = page.figures[2]["aria-label"]
    assert curve.startswith("Trade-off curve: squared error, held-out rows against the number")
    assert f"{len(result.features)} were chosen" in curve


def test_a_number_that_was_asked_for_was_chosen_by_no_rule(tmp_path) -> None:
    method = {"kind": "auto", "n_features": 2, "exactly": True}
    result = chaffinch.select(table_of(), "y", model=LINEAR, method=method)
    text = page_of(result, tmp_path).text
    assert "Exactly 2 were asked for." in text
    assert "A size passes" not in text
    assert "folds chose" not in text


def test_a_number_that_loses_nothing_is_within_the_tolerance() -> None:
    size = {"loss": 1.0, "difference": 0.0, "share_lost": 0.0, "share_lost_at_most": 0.0}
    worse = size | {"share_lost_at_most": 0.03}
    unknown = size | {"share_lost": None, "share_lost_at_most": None}
    shown = [size | {"n_features": 4}, size | {"n_features": 3}]
    shown += [worse | {"n_features": 2}, unknown | {"n_features": 1}]
    table = sizes_of_the_curve(shown, 2, 0.02)
    assert [row[-1] for row in table.rows] == ["within 2 %", "within 2 %", "chosen", ""]
    assert table.rows[-1][3:5] == (NOTHING, NOTHING)
    assert table.marked == 2


def test_a_band_is_drawn_around_the_losses() -> None:
    def drawn(margins: list[float] | None) -> str:
        sizes, losses = [3, 2, 1], [1.0, 1.1, 1.5]
        return elimination_chart(
            sizes, losses, candidates=[], chosen=2, loss_name="loss", margins=margins
        )

    def highest_tick(chart: str) -> float:
        return max(
            map(float, re.findall(r">(\d\.?\d*)</text>", chart.partition(">features left")[2]))
        )

    assert "loss on the way down" in drawn(None)
    narrow, wide = drawn([0.0, 0.1, 0.1]), drawn([0.0, 2.0, 0.1])
    assert "mean loss" in narrow
    assert "opacity: 0.15" in narrow
    assert highest_tick(narrow) < 2 < 3 <= highest_tick(wide)


def test_the_choices_of_the_folds_and_their_stability_are_on_the_page(page, result) -> None:
    index = f"{result.stability['index']:.2f}".rstrip("0").rstrip(".")
    assert re.search(r"The 5 folds chose (\d+, ){3}\d+ and \d+ features\.", page.text)
    assert f"Stability {index} (Nogueira's index: 1 if all 5 folds keep the same" in page.text


def test_each_feature_comes_with_the_folds_that_keep_it(page, result) -> None:
    kept = page.tables[f"Kept features ({len(result.features)})"]
    dropped = page.tables[f"Dropped columns ({8 - len(result.features)})"]
    assert kept[0][:5] == ["Feature", "Why", "Price", "Rank", "Folds"]
    assert dropped[0][:4] == ["Column", "Why", "Rank", "Folds"]
    shown = {row[0]: row[4] for row in kept[1:]} | {row[0]: row[3] for row in dropped[1:]}
    shares = result.stability["share_of_folds"]
    assert shown == {name: f"{5 * share:.0f} of 5" for name, share in shares.items()}
    assert shown["a"] == "5 of 5"


def test_without_a_test_part_no_note_speaks_of_one(page) -> None:
    rows = {row[0]: row for row in page.tables[LOSSES][1:]}
    assert set(rows) == {"train", "out-of-fold"}
    assert rows["out-of-fold"][-1] == "the verdict; each row judges a choice made without it"
    assert "test part" not in page.text
    assert "mask-validation" not in page.text
    assert "Out-of-fold losses are of models that had not seen the row" in page.text
    assert "fitted on all rows, so their losses on the train part flatter them" in page.text


def test_with_a_test_part_it_judges_and_no_fold_chose_alone(
    page_with_test, held_out, capsys
) -> None:
    assert held_out.stability is None
    rows = page_with_test.tables["Losses of the two final models (squared error)"][1:]
    assert [row[0] for row in rows] == ["train", "test"]
    assert "The test part was read once" in page_with_test.text
    assert "Both final models were fitted on all other rows" in page_with_test.text
    assert "One fold of the training rows was held out." in page_with_test.text
    show(held_out, as_json=False)
    for shown in (page_with_test.text, capsys.readouterr().out):
        assert "Stability" not in shown
        assert "folds chose" not in shown
    kept = page_with_test.tables[f"Kept features ({len(held_out.features)})"]
    headings = ["Feature", "Why", "Price", "Rank", "Association", "Values", "Type"]
    assert kept[0] == [*headings, "Missing", "Baseline"]


def test_stages_have_the_titles_that_progress_has(page) -> None:
    stages = [row[0] for row in page.tables["Seconds per stage"][1:]]
    assert stages == [
        *("check the columns", "split the rows", "tune and train the model"),
        *("search for features", "choose the features", "retrain the model"),
        *("evaluate the selection", "all of these"),
    ]


def test_the_terminal_shows_verdict_features_metrics_and_stability_first(result, capsys) -> None:
    show(result, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{result.run}: features that predict y"
    assert lines[1] == result.verdict
    by_rank = sorted(result.features, key=result.ranks.__getitem__)
    assert lines[2] == f"Kept {len(by_rank)} of 8: {', '.join(by_rank)}"
    at = lines.index(str(stability_in_words(result.contract)))
    (metrics,) = [place for place, line in enumerate(lines) if "metric, out-of-fold" in line]
    (losses,) = [place for place, line in enumerate(lines) if "squared error, all 8" in line]
    assert metrics < at < losses


def test_copies_of_noise_are_kept_by_chance_and_the_report_says_so(tmp_path) -> None:
    indices = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = np.repeat(random.normal(size=(80, 6)), 4, axis=1)
        X += 0.1 * random.normal(size=X.shape)
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(24)])
        noise = table.assign(y=random.normal(size=80))
        result = chaffinch.select(noise, "y", model=LINEAR, n_features=6)
        said = str(stability_in_words(result.contract))
        assert (LITTLE in said) == (result.stability["index"] < 0.4)
        indices.append(result.stability["index"])
    assert np.mean(indices) < 0.4
    assert said in page_of(result, tmp_path).text


def test_an_index_that_is_not_defined_is_not_shown() -> None:
    content = synthetic(numbered(4), 2)
    assert stability_in_words(content.contract) is None
    found = {"index": None, "n_folds": 5, "share_of_folds": {"a": 1.0}}
    assert stability_in_words(with_contract(content, stability=found).contract) is None
