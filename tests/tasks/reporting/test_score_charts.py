"""Scores drawn: which features a chart names, and which pixels a picture marks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib import image

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.tasks.reporting.score_chart import score_chart
from tests.made_up import good_table

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


def test_a_picture_has_a_square_for_each_pixel_row_by_row(tmp_path) -> None:
    scores = np.array([0.0, 1.0, 0.0, 0.0, 0.0, np.nan])
    kept = np.array([True, False, False, False, False, False])
    (tmp_path / "scores.png").symlink_to("behind a link.png")
    path = chaffinch.draw_scores(scores, tmp_path / "scores.png", shape=(2, 3), kept=kept)
    assert path == tmp_path / "scores.png"
    assert path.is_symlink()
    drawn = (image.imread(path)[..., :3] * 255).round().astype(int)
    is_scale = [(drawn == colour).all(axis=-1) for colour in (DARK, LIGHT)]
    top, left = (np.flatnonzero(is_scale[0].any(axis=axis)).min() for axis in (1, 0))
    side = is_scale[1][:, : drawn.shape[1] * 3 // 4].any(axis=0).sum()
    at = [
        tuple(drawn[top + side // 4 + row * side, left + side // 4 + column * side])
        for row in range(2)
        for column in range(3)
    ]
    assert at == [DARK, LIGHT, DARK, DARK, DARK, (255, 255, 255)]
    assert tuple(drawn[top + side // 2, left + side // 2]) == (200, 16, 46)  # the mark


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_scores_give_the_same_bytes(tmp_path, ending) -> None:
    first, second = (
        chaffinch.draw_scores(range(6), tmp_path / f"{name}.{ending}", shape=(2, 3))
        for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shape": (2, 2)}, r"scores must have shape \(4,\), one for each of 2 x 2 pixels"),
        ({"kept": [True]}, r"kept must have shape \(6,\)"),
        (
            {"scores": np.ma.masked_equal(range(6), 4)},
            "scores must have no masked .* scores.fill",
        ),
        ({"kept": np.ma.masked_equal([1] * 6, 1)}, "kept must have no masked values, .* but has 6"),
        ({"path": "scores.jpg"}, "a picture must end in .png, .svg, .pdf but is scores.jpg"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, given, said) -> None:
    asked = {"path": "scores.png", "shape": (2, 3), **given}
    path = tmp_path / asked.pop("path")
    with pytest.raises(InputError, match=said):
        chaffinch.draw_scores(asked.pop("scores", range(6)), path, **asked)
    assert not path.exists()
