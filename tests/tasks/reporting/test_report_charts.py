"""The report's charts and words: drawn the same everywhere, readable at every size."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import chaffinch
from chaffinch.tasks.pipeline.report import overlap_image
from chaffinch.tasks.reporting import charts
from chaffinch.tasks.reporting.charts import (
    elimination_chart,
    highest_shown,
    interval_chart,
    overlap_chart,
    score_chart,
    standing_alone,
)
from chaffinch.tasks.reporting.text import NOTHING, flattened, number, plain, share
from tests.synthetic import good_table
from tests.tasks.synthetic_runs import LINEAR


def shown(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_importing_the_report_is_light_and_another_process_draws_the_same_bytes() -> None:
    # the hash seed differs, and with it the order of sets
    code = "import sys, chaffinch.tasks.reporting; "
    code += "print([m for m in ('matplotlib', 'jinja2', 'pandas', 'sklearn') if m in sys.modules]);"
    code += "from chaffinch.tasks.reporting.charts import interval_chart as c; "
    code += "sys.stdout.write(c(-0.01, (-0.02, 0.01), 0.95))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded, _, drawn = done.stdout.decode().partition("\n")
    assert loaded == "[]"
    assert drawn == interval_chart(-0.01, (-0.02, 0.01), 0.95)


def test_the_user_s_own_matplotlib_style_changes_nothing() -> None:
    from matplotlib import rc_context

    drawn = interval_chart(-0.01, (-0.02, 0.01), 0.95)
    with rc_context({"font.size": 30, "svg.fonttype": "path"}):
        assert interval_chart(-0.01, (-0.02, 0.01), 0.95) == drawn


def test_a_steep_end_of_the_curve_does_not_flatten_the_rest() -> None:
    losses = np.array([1.0, 0.9, 1.1, 50.0])
    assert highest_shown(losses, [1.0, 0.9]) == pytest.approx(0.9 + 4 * 0.1)
    assert highest_shown(losses[:3], [1.0, 0.9]) is None
    assert highest_shown(np.array([-0.9, -0.95, -0.5]), [-0.9]) == pytest.approx(-0.75)
    assert highest_shown(np.array([1.0, 1.0]), [1.0]) is None
    assert highest_shown(np.array([np.nan, np.inf]), [np.inf]) is None
    drawn = elimination_chart(
        [4, 3, 2, 1], [float(x) for x in losses], candidates=[3], chosen=3, loss_name="log loss"
    )
    assert "up to 50" in drawn


def test_a_steep_end_leaves_no_room_below_the_curve() -> None:
    losses = [0.0098, 0.0094, 0.0092, 5.2]
    drawn = elimination_chart([4, 3, 2, 1], losses, candidates=[2], chosen=2, loss_name="loss")
    ticks = re.findall(r">(-?0\.?\d*)</text>", drawn)
    assert ticks
    assert all(0.009 < float(tick) < 0.013 for tick in ticks)


@pytest.mark.parametrize("n", [2, 100, 101, 5000])
def test_the_size_axis_is_ticked_in_whole_features(n: int) -> None:
    sizes = list(range(n, 0, -1))
    drawn = elimination_chart(
        sizes, [1.0 + 1 / s for s in sizes], candidates=[n, 1], chosen=n, loss_name="squared error"
    )
    ticks = shown(drawn.partition(">features left")[0])
    whole = [int(tick.replace(",", "")) for tick in ticks]
    assert all(1 <= tick <= n for tick in whole)
    assert min(n, 3) <= len(set(whole)) == len(whole) <= 14
    assert ("logarithmic" in drawn) == (n > 100)


def test_a_narrow_range_of_many_features_is_ticked_as_well() -> None:
    sizes = list(range(190, 110, -1))
    drawn = elimination_chart(
        sizes, [1.0] * 80, candidates=[120], chosen=120, loss_name="squared error"
    )
    ticks = re.findall(r"<text[^>]*>(1[1-9][0-9])</text>", drawn.partition(">features left")[0])
    assert len(ticks) >= 4
    assert "logarithmic" not in drawn


@pytest.mark.parametrize("ends", [(0.0, 0.0), (-1e-12, 1e-12), (-5e6, 2e7)])
def test_an_interval_of_any_width_is_drawn(ends: tuple[float, float]) -> None:
    drawn = interval_chart(sum(ends) / 2, ends, 0.9)
    assert "90% interval" in drawn
    assert ">0</text>" in drawn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING),
        (0, "0"),
        (0.0, "0"),
        (12, "12"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (-0.00001234567, "-1.235e-05"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (98765.4321, "98,765"),
        (1.5e20, "1.5e+20"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_have_four_digits_and_thousands_separated(value: float | None, text: str) -> None:
    assert number(value) == text


def test_settings_are_flattened_into_dotted_names() -> None:
    nested = {"a": {"b": {"c": (1, 2.5)}, "empty": {}}, "d": None, "e": True, "f": []}
    assert dict(flattened(nested)) == {
        "a.b.c": "1, 2.5",
        "a.empty": "none",
        "d": NOTHING,
        "e": "yes",
        "f": "none",
    }


def test_long_lists_are_cut_and_shares_are_per_cent() -> None:
    assert plain([str(i) for i in range(1031)]).endswith("28, 29 and 1,001 more")
    assert share(1 / 6) == "16.67 %"
    assert share(0.07) == "7 %"


def test_an_image_is_a_chart_of_the_report_in_its_light_colours_and_small() -> None:
    random = np.random.default_rng(0)
    n = 5000
    losses = (1 + random.normal(scale=0.01, size=n)).tolist()
    drawn = elimination_chart(
        list(range(n, 0, -1)), losses, candidates=[9], chosen=9, loss_name="a < b & c"
    )
    image = standing_alone(drawn)
    assert len(image) < 75_000  # in base64 below 100 kB
    root = ElementTree.fromstring(image)  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.get("width", "0")) > 600
    assert b"var(" not in image
    style = (Path(charts.__file__).parent / "templates" / "style.html").read_text()
    light, dark = re.findall(r"--accent: (#\w+)", style)
    assert light.encode() in image
    assert dark.encode() not in image
    assert "a < b & c" in "".join(root.itertext())


def test_the_overlap_has_a_row_for_each_set_and_what_most_have_first() -> None:
    drawn = overlap_chart({"chosen": ["b", "a", "d"], "promoted": ["a", "c", "b"]})
    assert 'aria-label="Features of 2 sets (chosen 3, promoted 3): 4 different ones, 2 of' in drawn
    texts = shown(drawn)
    assert texts[:4] == ["b", "a", "d", "c"]
    assert {"chosen, 3 features", "promoted, 3 features"} < set(texts)


def test_of_many_or_long_names_the_overlap_shows_what_can_be_read() -> None:
    many = overlap_chart({"chosen": [f"f{i}" for i in range(300)], "1": ["f7", "g"]})
    assert "301 features, 1 of them in every set" in many
    assert ">f7<" not in many
    assert len(many) < 10_000
    long = overlap_chart({"chosen": ["x" * 200], "1": ["y"]})
    assert f">{'x' * 27}\N{HORIZONTAL ELLIPSIS}<" in long


def test_one_set_overlaps_with_nothing() -> None:
    assert overlap_image({"chosen": ["a"]}) is None
    assert overlap_image({"chosen": [], "promoted": []}) is None


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
    result = chaffinch.select(good_table(), "churned", method=method, model=LINEAR)
    (tmp_path / "report.html").symlink_to("behind a link.html")
    assert result.report(tmp_path / "report.html") == tmp_path / "report.html"
    page = (tmp_path / "behind a link.html").read_text()
    assert ("The score of each feature" in page) == is_drawn
