"""The report, terminal and contract of a cross-fitted selection: its curve, and its stability."""

from __future__ import annotations

import re

import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.flows.cli.output import show
from chaffinch.tasks.reporting.charts import elimination_chart
from chaffinch.tasks.reporting.search import sizes_of_the_curve
from chaffinch.tasks.reporting.text import NOTHING, stability_in_words
from tests.tasks.methods.test_auto import table_of
from tests.tasks.reporting.synthetic_report import Page

LINEAR = ModelSettings(name="linear", tuning="none")


@pytest.fixture(scope="module")
def result() -> chaffinch.SelectionResult:
    return chaffinch.select(table_of(), "y", model=LINEAR)


def page_of(result, folder) -> Page:
    return Page(result.report(folder / "report.html").read_bytes())


@pytest.fixture(scope="module")
def page(result, tmp_path_factory) -> Page:
    return page_of(result, tmp_path_factory.mktemp("folds"))


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
