"""Scores drawn: which features a chart names, and which pixels a picture marks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.reporting.charts import score_chart
from tests.synthetic import good_table

DARK, LIGHT = (0, 34, 77), (253, 231, 55)  # the ends of the scale


def shown(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_few_features_are_named_from_the_highest_on_whatever_their_names_hold() -> None:
    scores = {"low": 0.5, "a <b> & $x_1$": 3.0, "endless": np.inf, "none": np.nan}
    drawn = score_chart(scores, ["a <b> & $x_1$"], "score")
    names = [text for text in shown(drawn) if text in ("low", "a &lt;b&gt; &amp; $x_1$")]
    assert names == ["a &lt;b&gt; &amp; $x_1$", "low"]
    assert "Score of 2 features, highest first; 1 of them are kept" in drawn
    assert "endless" not in drawn


def test_long_names_leave_room_for_the_chart() -> None:
    drawn = score_chart({"x" * 300: 1.0, "two\nlines": 2.0}, [], "score")  # warnings are errors
    assert [f"{'x' * 50}..."] == [text for text in shown(drawn) if "xx" in text]
    assert r"two\nlines" in shown(drawn)


@pytest.mark.parametrize("n_features", [3, 40])
def test_the_largest_float_which_anova_gives_for_what_tells_all_is_drawn(n_features) -> None:
    scores = {f"feature {i}": float(i) for i in range(n_features)} | {"all": np.finfo(float).max}
    assert "of them are kept" in score_chart(scores, ["all"], "F")  # warnings are errors


def test_many_are_a_curve_without_names() -> None:
    drawn = score_chart({f"feature {i}": float(i) for i in range(200)}, ["feature 199"], "score")
    assert not [text for text in shown(drawn) if text.startswith("feature ")]
    assert "features by their score, highest first (logarithmic)" in shown(drawn)
    assert {"kept", "left out"} <= set(shown(drawn))


@pytest.mark.parametrize(
    ("method", "is_drawn"), [("anova_f", True), ("rfe", False), ("gbmo", False)]
)
def test_a_report_has_the_chart_where_scores_say_more_than_the_order(method, is_drawn, tmp_path):
    model = ModelSettings(name="linear", tuning="none")
    result = chaffinch.select(good_table(), "churned", method=method, model=model)
    (tmp_path / "report.html").symlink_to("behind a link.html")
    assert result.report(tmp_path / "report.html") == tmp_path / "report.html"
    page = (tmp_path / "behind a link.html").read_text()
    assert ("The score of each feature" in page) == is_drawn
